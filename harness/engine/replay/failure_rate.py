"""One schedule, run several times: how often does it fail as it did? On real hosts that is a rate, not an answer.

Guarantees: a run counts as reproducing only if one of the wanted checkers fails; a run in harness trouble does not
count, and is reported; real runs differ by chance alone, simulated ones by their seeds (the same seed gives the same
run), the first of which is the stored run's. Where schedules come from is out of scope.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import msgspec

from dethrone.harness.core import registry, store
from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.schedule import OnEvent, Schedule, Step, When
from dethrone.harness.core.world import VirtualBackend
from dethrone.harness.engine.run.code_names import chosen_checkers
from dethrone.harness.engine.run.judgement import RunResult
from dethrone.harness.engine.run.listener import Silence
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import WARMUP_NS
from dethrone.harness.engine.run.runner import run

BACK_MAX = 6

LIMIT_MIN_NS = 3 * SECOND
"""The minimum for a schedule, however short it is."""


class Rate(msgspec.Struct, frozen=True):
    """``failed`` of ``of`` runs failed as wanted; ``troubled`` of them had harness trouble and say nothing."""

    failed: int
    of: int
    troubled: int = 0

    def __str__(self) -> str:
        """In words."""
        return f"{self.failed} of {self.of}" + (f" ({self.troubled} in trouble)" if self.troubled else "")


def failing(result: RunResult) -> frozenset[str]:
    """The checkers that failed."""
    judgement = result.judgement
    return frozenset(v.checker for v in judgement.verdicts if v.outcome == "fail") if judgement else frozenset()


def seed_of(options: RunOptions, number: int) -> int:
    """The seed of the ``number``-th run of one schedule."""
    virtual = isinstance(registry.load(registry.BACKENDS, options.backend), VirtualBackend)
    return (options.seed or 0) + (number if virtual else 0)


def fails_often(
    options: RunOptions,
    schedule: Schedule,
    wanted: Collection[str],
    *,
    need: int,
    of: int,
    all_of_them: bool = False,
) -> tuple[bool, Rate]:
    """Whether at least ``need`` of ``of`` runs fail one of ``wanted``; asks no more often than it has to.

    ``all_of_them``: runs that cannot change the answer are run, too, for the rate. Only those checkers judge, and a run
    ends with their first certain finding.
    """
    checkers = {name: checker for name, checker in chosen_checkers(options.checkers).items() if name in wanted}
    rate = Rate(0, 0)
    with tempfile.TemporaryDirectory(prefix="dethrone-trials-") as folder:
        file = Path(folder, store.PLANNED)
        store.write_json(file, schedule)
        for number in range(of):
            result = run(
                msgspec.structs.replace(
                    options,
                    schedule=file,
                    seed=seed_of(options, number),
                    out=Path(folder, f"run-{number}"),
                    stop_at_first_failure=True,
                ),
                Silence(),
                checkers=checkers,
            )
            if result.interrupted:
                raise KeyboardInterrupt
            hit = bool(failing(result) & set(wanted))
            rate = Rate(rate.failed + hit, rate.of + 1, rate.troubled + (bool(result.trouble) and not hit))
            decided = rate.failed >= need or rate.failed + of - rate.of < need
            if decided and not all_of_them:
                break
    return rate.failed >= need, rate


def confirmed(accepted: Sequence[Schedule], rate_of: Callable[[Schedule], Rate], *, need: int) -> tuple[Schedule, Rate]:
    """The last of ``accepted`` that fails ``need`` times in runs that had no part in choosing it.

    Of many schedules that are asked about, one that seldom fails is lucky sooner or later: it is asked again, and those
    before it in turn, at most ``BACK_MAX`` of them, then the first one of all, whose rate stands as it is.
    """
    *rest, last = accepted
    for schedule in (last, *reversed(rest[1:][-BACK_MAX:])):
        rate = rate_of(schedule)
        if rate.failed >= need:
            return schedule, rate
    return accepted[0], rate_of(accepted[0])


def room_for(schedule: Schedule, *, at_most: Ns) -> Ns:
    """A time limit for a run that is over when its schedule is: a short schedule need not last as long as a long one.

    An estimate from its own times: what a run takes beyond it, it gets (twice this, then it is cut short).
    """
    return min(at_most, WARMUP_NS + max(LIMIT_MIN_NS, sum(_step_ns(step) for step in schedule.steps)))


def _step_ns(step: Step) -> Ns:
    """The length if every trigger comes as late as it may."""
    begun: dict[str, Ns] = {}
    last = 0
    for fault in step.faults:
        begins = begun.get(fault.needs_fault, 0) + fault.delay_ns + _awaited_ns(fault.when)
        begun[fault.name] = begins
        last = max(last, begins + fault.hold_ns)
    return _awaited_ns(step.when) + last + step.gap_ns


def _awaited_ns(when: When) -> Ns:
    return when.within_ns if isinstance(when, OnEvent) else 0
