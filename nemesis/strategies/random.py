"""The strategy ``random``: whole schedules from a seed, whose first steps meet every coverage obligation they can.

A step is hold, heal, health (awaited by whoever carries it out), gap. The interval given is the least hold and the
least gap; both are drawn from [interval, 1.6 interval] as far as the time limit allows. A liveness window is exercised
only if it lasts the promise's bound B. An interval below B is therefore taken as haste: a fault begins about once an
interval (hold 2/3 to 1 of it, gap up to 1/3), health is not awaited, and only the quiet end of the run tests liveness.

Promises: the same seed and arguments give the same schedule; each named sub-stream moves alone; no step takes more than
a minority out of action by kills and pauses; what could not be fitted into the time limit is not in ``obligations``.
Leaves out resolving selectors and carrying anything out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from harness.core.clock import SECOND, Ns
from harness.core.duration import show_duration
from harness.core.errors import ConfigError
from harness.core.promise import Promise
from harness.core.protocols import Fault
from harness.core.rng import Rng
from harness.core.schedule import PlannedFault, Schedule, Step
from nemesis.obligations import Demand, demands, faults_for, fit
from nemesis.strategies.packing import pack, pack_most

WARMUP_NS = 5 * SECOND
"""At the start of each run nothing is broken for so long (bounds are measured)."""

STEPS_MAX = 20_000


class RandomStrategy:
    """See ``harness.core.protocols.Strategy``."""

    def draw(
        self, rng: Rng, *, faults: Mapping[str, Fault], nodes: int, time_limit_ns: Ns, interval_ns: Ns, promise: Promise
    ) -> Schedule:
        """A schedule of these fault kinds; ConfigError if the time limit is shorter than one fault."""
        if not faults:
            return Schedule(seed=rng.seed, strategy="random", steps=())
        if interval_ns < 1:
            raise ConfigError("the nemesis interval must be above 0", next_step="give --nemesis-interval 5s")
        hasty = interval_ns < promise.leader_bound_ns
        least_ns = interval_ns * 4 // 3 if hasty else _least_step(interval_ns, promise)
        budget_ns = time_limit_ns - WARMUP_NS
        slots = min(budget_ns // least_ns, STEPS_MAX)
        if slots < 1:
            raise ConfigError(
                f"the time limit {show_duration(time_limit_ns)} is shorter than one fault",
                cause=f"{show_duration(WARMUP_NS)} of warm-up, then a fault, its heal and a gap of "
                f"{show_duration(interval_ns)} each need {show_duration(WARMUP_NS + least_ns)}",
                next_step=f"give --time-limit {-(-(WARMUP_NS + least_ns) // SECOND)}s or a shorter --nemesis-interval",
            )
        fits = partial(fit, nodes=nodes)
        owed = _ranked(rng.stream("order"), demands(faults, nodes=nodes))
        if len(pack_most(owed, slots, fits)[1]) < len(owed):  # what shows most, then: elections follow it
            owed = _ranked(rng.stream("order"), demands(faults, nodes=nodes), leader_first=True)
        groups = _groups(rng.stream("groups"), owed, slots=slots, nodes=nodes)
        met = {demand.obligation for group in groups for demand in group}
        steps: list[Step] = []
        while budget_ns >= least_ns and len(steps) < STEPS_MAX:
            number = len(steps)
            stream = rng.stream(f"step-{number}")
            waiting = max(0, len(groups) - number - 1)
            times, slack_ns = rng.stream(f"times-{number}"), budget_ns - (waiting + 1) * least_ns
            hold_ns, gap_ns = _hasty(times, interval_ns) if hasty else _times(times, interval_ns, slack_ns)
            group = groups[number] if number < len(groups) else _extra(stream, owed, nodes=nodes)
            planned: tuple[PlannedFault, ...]
            if group is None:
                kind = stream.choice(sorted(faults))
                planned = (faults[kind].draw(stream.stream(kind), nodes=nodes, hold_ns=hold_ns, knobs={}),)
            else:
                planned = faults_for(group, stream, kinds=faults, nodes=nodes, hold_ns=hold_ns)
            steps.append(Step(faults=planned, gap_ns=gap_ns))
            budget_ns -= hold_ns + gap_ns + (0 if hasty else least_ns - 2 * interval_ns)
        return Schedule(
            seed=rng.seed,
            strategy="random",
            steps=tuple(steps),
            obligations=tuple(sorted(name for name in met if name)),
            health_bound_ns=0 if hasty else None,
        )


def _least_step(interval_ns: Ns, promise: Promise) -> Ns:
    """Hold, gap, and what effects, heals and the return of health usually take between them."""
    return 2 * interval_ns + max(interval_ns // 5, promise.leader_bound_ns // 4)


def _ranked(rng: Rng, owed: Sequence[Sequence[Demand]], *, leader_first: bool = False) -> list[Demand]:
    """All demands in drawn order, but each kind's first before any kind's second: a short run shows one of each.

    What no obligation asks for comes last. ``leader_first``: within a kind, what hits the leader.
    """
    per_kind = [rng.shuffle(kind) for kind in rng.shuffle(owed)]
    if leader_first:
        per_kind = [sorted(kind, key=lambda demand: demand.who != "leader") for kind in per_kind]
    longest = max(len(kind) for kind in per_kind)
    ranked = [kind[rank] for rank in range(longest) for kind in per_kind if rank < len(kind)]
    return sorted(ranked, key=lambda demand: not demand.obligation)


def _groups(rng: Rng, owed: Sequence[Demand], *, slots: int, nodes: int) -> list[list[Demand]]:
    """The demands in groups, one a step: as many as fit into ``slots``, sometimes a step fewer than there is room."""
    fits = partial(fit, nodes=nodes)
    groups, kept = pack_most(owed, slots, fits)
    if len(groups) == slots and slots > 1 and rng.chance(1, 2):
        denser = pack(kept, slots - 1, fits)
        groups = groups if denser is None else denser
    return rng.shuffle(groups)


def _extra(rng: Rng, owed: Sequence[Demand], *, nodes: int) -> list[Demand] | None:
    """Two faults that overlap, one time in three; None: a single free draw."""
    if len(owed) < 2 or not rng.chance(1, 3):
        return None
    pair = rng.sample(owed, 2)
    return pair if fit(pair, nodes=nodes) else None


def _times(rng: Rng, interval_ns: Ns, slack_ns: Ns) -> tuple[Ns, Ns]:
    """Hold and gap: the interval each, plus up to 60 % of it as long as there is slack."""
    most = interval_ns * 3 // 5
    hold = rng.between(0, min(most, max(0, slack_ns)))
    gap = rng.between(0, min(most, max(0, slack_ns - hold)))
    return interval_ns + hold, interval_ns + gap


def _hasty(rng: Rng, interval_ns: Ns) -> tuple[Ns, Ns]:
    """Hold and gap of a schedule in haste: at most 4/3 of the interval together."""
    third = interval_ns // 3
    return 2 * third + rng.between(0, third), rng.between(0, third)


STRATEGY = RandomStrategy()
