"""The pace of a drawn schedule: how long its faults hold and its gaps last, how many steps fit into the time limit.

The interval given is the time from fault to fault. A liveness window is exercised only if it lasts the promise's bound
B; an interval below B is therefore taken as haste: health is not awaited between steps, and only the quiet end of the
run tests liveness. Guarantees: pure; a step in haste with ``k`` faults lasts at most ``4 k / 3`` intervals.

Out of scope: which faults there are.
"""

from __future__ import annotations

import msgspec

from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.duration import show_duration
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.rng import Rng

WARMUP_NS = 5 * SECOND
"""At the start of each run nothing is broken for so long (bounds are measured)."""

STEPS_MAX = 20_000


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """``least_ns``: the shortest step of one fault; ``budget_ns``: what the time limit leaves for steps."""

    interval_ns: Ns
    gap_ns_max: Ns | None = None
    hasty: bool
    least_ns: Ns
    budget_ns: Ns

    def slots(self, more_ns: Ns = 0) -> int:
        """How many steps of one fault fit at most, at least one; one of them is longer by ``more_ns``."""
        return min(max(1, (self.budget_ns - more_ns) // self.least_ns), STEPS_MAX)

    def more_ns(self, hold_ns: Ns) -> Ns:
        """What a step that is to hold for so long takes beyond the shortest; in haste no step waits."""
        return 0 if self.hasty else max(0, hold_ns - self.interval_ns)

    @property
    def health_bound_ns(self) -> Ns | None:
        """For the schedule: in haste health is not awaited."""
        return 0 if self.hasty else None

    @property
    def gap_ns(self) -> Ns:
        """The shortest gap of a step that is not in haste."""
        return self.interval_ns if self.gap_ns_max is None else min(self.interval_ns, self.gap_ns_max)

    def times(self, rng: Rng, slack_ns: Ns, *, faults: int = 1, more_ns: Ns = 0) -> tuple[Ns, Ns]:
        """Hold and gap of a step with this number of faults in a row.

        In haste hold is 2/3 to 1 interval a fault and the gap up to 1/3; else each is the interval plus up to 60 % of
        it, and the hold at least ``more_ns`` longer than the interval, as long as there is slack.
        """
        if self.hasty:
            third = self.interval_ns * faults // 3
            return 2 * third + rng.between(0, third), rng.between(0, third)
        most = self.interval_ns * 3 // 5
        slack_ns = max(0, slack_ns)
        hold = max(rng.between(0, min(most, slack_ns)), min(more_ns, slack_ns))
        gap = rng.between(0, min(most, slack_ns - hold))
        if self.gap_ns_max is not None:
            gap = min(gap, self.gap_ns_max - self.gap_ns)
        return self.interval_ns + hold, self.gap_ns + gap

    def cost(self, hold_ns: Ns, gap_ns: Ns) -> Ns:
        """What a step takes off the budget."""
        return hold_ns + gap_ns + (0 if self.hasty else self.least_ns - self.interval_ns - self.gap_ns)


def pace_of(*, time_limit_ns: Ns, interval_ns: Ns, promise: Promise, gap_ns_max: Ns | None = None) -> Pace:
    """The pace; ConfigError if the time limit is shorter than one fault. ``gap_ns_max``: of steps not in haste."""
    if interval_ns < 1:
        raise ConfigError("the nemesis interval must be above 0", next_step="give --nemesis-interval 5s")
    hasty = interval_ns < promise.leader_bound_ns
    # hold, gap, and what effects, heals and the return of health usually take between them
    gap_ns = interval_ns if gap_ns_max is None else min(interval_ns, gap_ns_max)
    unhurried = interval_ns + gap_ns + max(interval_ns // 5, promise.leader_bound_ns // 4)
    least_ns = interval_ns * 4 // 3 if hasty else unhurried
    pace = Pace(
        interval_ns=interval_ns,
        gap_ns_max=gap_ns_max,
        hasty=hasty,
        least_ns=max(1, least_ns),
        budget_ns=time_limit_ns - WARMUP_NS,
    )
    if pace.budget_ns < pace.least_ns:
        raise ConfigError(
            f"the time limit {show_duration(time_limit_ns)} is shorter than one fault",
            cause=f"{show_duration(WARMUP_NS)} of warm-up, then a fault, its heal and a gap of "
            f"{show_duration(interval_ns)} each need {show_duration(WARMUP_NS + least_ns)}",
            next_step=f"give --time-limit {-(-(WARMUP_NS + least_ns) // SECOND)}s or a shorter --nemesis-interval",
        )
    return pace
