"""The shortest simulated schedules of planted bugs that disks and links show, replayed on this machine's containers.

Bugs of all protocol targets, in the order of a hash of their names: one is drawn if simulation finds it soon by faults
of disks, links and power alone, and its shortest schedule has such a fault. That schedule, with its triggers, is
replayed on Docker with one seed after another, until a checker named for the bug fails or the time is over; the build
without the bug must not fail that checker under it. Of 20 bugs at least 18 are found.

Promises: kept below ``runs/accept/exam-disks``, and not done again. Leaves out bugs that only a drift of monotonic time
shows: real hosts refuse it for programs that are not static Go, as our own nodes are.
"""

from __future__ import annotations

import hashlib
import itertools
import time
import tomllib
from collections.abc import Iterator
from typing import Any

import msgspec

from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.scenario import Expected, parse_scenario
from dethrone.harness.core.scenario_text import scenario_toml
from dethrone.harness.core.schedule import Schedule
from dethrone.harness.engine.exam.exam import Task, examine, options_of
from dethrone.harness.engine.exam.exam_tasks import examinable, tasks_for
from dethrone.harness.engine.replay.failure_check import StillFails
from dethrone.harness.engine.replay.shrinker import shrink
from dethrone.harness.engine.run.judge import load_checkers
from dethrone.harness.engine.run.planning import draft
from tests.acceptance import kept
from tests.acceptance.shrinks import written
from tests.acceptance.simulated import OUT, Item, Until

KEPT = OUT / "exam-disks"
FAULTS = ("disk", "hold", "link", "powerloss")
DRAWN, DRAWN_LEAST = 20, 18
BUDGET_S = 600
TRIES_MAX = 150
"""Schedules that shrinking may try: the runs of some targets take seconds."""
SHOWN_S = 5
"""CPU time in which simulation must find a bug by these faults alone for it to be drawn."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A planted bug. ``scenario``: the shortest schedule that shows it in simulation; "": none has such a fault.
    ``kinds``: of its faults; ``checkers``: those named for the bug."""

    system: str
    bug: str
    checkers: tuple[str, ...]
    kinds: tuple[str, ...] = ()
    scenario: str = ""

    @property
    def name(self) -> str:
        """Of what is kept of it."""
        return f"{self.system}-{self.bug}"


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """What replays of a case came to: how many, how long they took together, the checkers named for the bug that failed
    in the last of them, and of these those that fail without the bug, too."""

    case: Case
    runs: int
    took_s: float
    by: tuple[str, ...]
    alarms: tuple[str, ...]

    @property
    def good(self) -> bool:
        """Found in time, and by no false alarm."""
        return bool(self.by) and self.took_s <= BUDGET_S and not self.alarms

    def told(self) -> str:
        """A line."""
        case = self.case
        what = f"by {', '.join(self.by)} in {self.took_s:.0f} s" if self.by else f"NOT in {self.took_s:.0f} s"
        alarms = f", which fail without it, too: {', '.join(self.alarms)}" if self.alarms else ""
        return f"{case.system} {case.bug} ({', '.join(case.kinds)}) {what}, {self.runs} runs{alarms}"


def shortest(task: Task) -> Case:
    """The shortest schedule that shows the bug of this task in simulation."""
    case = Case(system=task.system, bug=task.planted.name, checkers=task.planted.caught_by)
    found = examine(task, load_checkers(), core_ns=time.process_time_ns)
    if not found.by or found.spent_ns > task.budget_ns:
        return case
    options = options_of(task, found.seed, variant=case.bug)
    drafted = draft(options, seed=found.seed)
    drawn_ones = durations(drafted.plan.schedule)
    fails = StillFails(options, (found.by,))

    def still(candidate: Schedule) -> bool:
        return durations(candidate) <= drawn_ones and fails(candidate)

    small = shrink(drafted.plan.schedule, still, tries_max=TRIES_MAX).schedule
    kinds = tuple(sorted({fault.kind for step in small.steps for fault in step.faults}))
    if not set(kinds) & set(FAULTS):
        return case
    settings = {name: word for name, word in options.settings.items() if not name.startswith("sim.")}
    lasting = msgspec.structs.replace(fails.options(small), settings=settings)
    text = written(lasting, drafted.plan.nodes, small, (found.by,), case.bug)
    return msgspec.structs.replace(case, kinds=kinds, scenario=text)


def durations(schedule: Schedule) -> frozenset[tuple[str, Ns, Ns]]:
    """How long faults are held and delayed. Those of the schedule that was drawn stay: a simulated fault begins at
    once, a real one takes its time to be in force, and what was shortened to that moment would miss it."""
    return frozenset((fault.kind, fault.hold_ns, fault.delay_ns) for step in schedule.steps for fault in step.faults)


def drawn() -> Iterator[Case]:
    """The bugs that are drawn, in their order."""
    tasks = tasks_for(examinable(), strategy="triggered", budget_ns=SHOWN_S * SECOND, faults=FAULTS)
    for task in sorted(tasks, key=lambda one: hashlib.sha256(f"{one.system}/{one.planted.name}".encode()).digest()):
        file = KEPT / "cases" / f"{task.system}-{task.planted.name}.json"
        if not file.is_file():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(msgspec.json.encode(shortest(task)))
        case = msgspec.json.decode(file.read_bytes(), type=Case)
        if case.scenario:
            yield case


def replay(case: Case, *, until: Until) -> Replayed:
    """Replay it until a checker named for the bug fails or the time is over, and once without the bug."""
    took_s, runs, by = 0.0, 0, ()
    while not by and took_s <= BUDGET_S:
        found = _run(case.scenario, f"{case.name}-{runs}", runs, until=until)
        took_s += found["figures"]["elapsed_s"]
        by = tuple(sorted(set(kept.of(found, "fail")) & set(case.checkers)))
        runs += 1
    alarms = ()
    if by:
        same = parse_scenario(tomllib.loads(case.scenario), name=case.name, where=case.name)
        honest = msgspec.structs.replace(same, variant=None, expected=Expected(verdict="pass"))
        without = _run(scenario_toml(honest), f"{case.name}-honest", runs - 1, until=until)
        alarms = tuple(sorted(set(kept.of(without, "fail")) & set(by)))
    return Replayed(case=case, runs=runs, took_s=took_s, by=by, alarms=alarms)


def _run(scenario: str, name: str, seed: int, *, until: Until) -> dict[str, Any]:
    """One replay of this scenario."""
    file = KEPT / f"{name}.toml"
    file.write_text(scenario, encoding="utf-8")
    return kept.run(KEPT / name, ["--scenario", file, "--on", "docker", "--seed", str(seed)], until=until)


def item(until: Until) -> tuple[bool, str]:
    """Of 20 planted bugs that disks and links show in simulation, at least 18 are found on Docker, ten minutes each."""
    rows = [replay(case, until=until) for case in itertools.islice(drawn(), DRAWN)]
    found = [row for row in rows if row.good]
    told = "; ".join(row.told() for row in rows)
    return len(found) >= DRAWN_LEAST, f"{len(found)} of {len(rows)} within {BUDGET_S} s each: {told}"


def items() -> dict[str, Item]:
    """By name."""
    return {"exam-disks": item}
