"""How far failing schedules shrink, over drawn ones of 20 steps and more, of many bugs and protocols.

    python -m acceptance.shrinks (from tests/)      all cases, a line each, resumable

A case: the first seed whose drawn schedule has at least 20 steps and fails a checker named for the bug, and does not
fail without any fault, for then there is nothing to shrink. It is shrunk by the function that ``dethrone shrink`` uses,
the small schedule is written as a scenario, read back, and run again: on the build with the bug it must fail, on the
build without it must not.
"""

from __future__ import annotations

import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import msgspec

from dethrone.harness.core import registry
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.planted import Examinable, Planted
from dethrone.harness.core.scenario import Expected, Scenario, parse_scenario
from dethrone.harness.core.scenario_text import scenario_toml
from dethrone.harness.core.schedule import Schedule
from dethrone.harness.engine.exam.exam import Task, options_of
from dethrone.harness.engine.replay.failure_check import StillFails, run_until_failure
from dethrone.harness.engine.replay.shrinker import shrink
from dethrone.harness.engine.run.judge import load_checkers
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import draft
from dethrone.harness.engine.run.rehearsal import Rehearsed

STEPS_MIN = 20
LEFT_MEDIAN_MAX = 5
CERTIFICATE_MAX = 12
TRIES_MAX = 300
SEEDS = 60
TIME_LIMIT_NS = 180 * SECOND

LEADERS = "one-leader-per-term"

CASES: Sequence[tuple[str, str]] = (
    ("raft", "01-vote-not-written"),
    ("raft", "12-grant-without-log-check"),
    ("raft", "45-acks-after-local-append"),
    ("raft", "42-follower-commit-unchecked"),
    ("raft", "28-never-steps-down"),
    ("raft", "10-resumes-leadership"),
    ("zk-ephemeral", "05-tree-not-synced"),
    ("kraft", "plain-votes-twice"),
    ("raft", "07-unreadable-means-fresh"),
    ("raft", "05-vote-not-synced"),
    ("raft", "plain-never-truncates"),
    ("kraft", "40-commits-old-epochs"),
    ("raft", "46-acks-before-sync"),
    ("zk-ephemeral", "44-truncates-always"),
    ("dledger", "01-vote-not-written"),
    ("joyqueue", "01-vote-not-written"),
    ("paxos", "01-acceptance-not-written"),
    ("kraft", "17-counts-higher-epoch"),
    ("zk-ephemeral", "plain-epoch-not-raised"),
)

TWO_LEADERS = frozenset({("kraft", "17-counts-higher-epoch"), ("zk-ephemeral", "plain-epoch-not-raised")})
"""Of these only two leaders in one term count, whatever else fails."""


class Shrunken(msgspec.Struct, frozen=True, kw_only=True):
    """One case. ``steps`` and ``left``; ``events`` of the shortest certificate of each checker that failed."""

    system: str
    bug: str
    seed: int
    checkers: tuple[str, ...]
    steps: int
    left: int
    faults: int
    tries: int
    exhausted: bool
    events: dict[str, int]
    clean_passes: bool
    core_s: float
    scenario: str


def measure(system: str, bug: str) -> Shrunken | None:
    """The case; None: no seed has a schedule that is long enough and fails as wanted."""
    loaded = registry.load(registry.SYSTEMS, system)
    assert isinstance(loaded, Examinable)
    planted = loaded.planted()[bug]
    known = load_checkers()
    wanted_of = (LEADERS,) if (system, bug) in TWO_LEADERS else planted.caught_by
    named = {name: known[name] for name in wanted_of if name in known}
    for seed in range(SEEDS):
        options = _options(system, planted, seed)
        drafted = draft(options, seed=seed)
        schedule = drafted.plan.schedule
        if len(schedule.steps) < STEPS_MIN:
            continue
        found = run_until_failure(drafted, named)
        if not found.failing():
            continue
        wanted = tuple(sorted(found.failing()))
        began = time.process_time()
        fails = StillFails(options, wanted)
        if fails(msgspec.structs.replace(schedule, steps=(), obligations=())):
            continue
        small = shrink(schedule, fails, tries_max=TRIES_MAX)
        lasting = fails.options(small.schedule)
        text = written(lasting, drafted.plan.nodes, small.schedule, wanted, bug)
        again = parse_scenario(tomllib.loads(text), name="shrunk", where="shrunk").schedule
        done = fails.run(msgspec.structs.replace(again, seed=seed))
        honest = StillFails(msgspec.structs.replace(options, variant=None), wanted).run(small.schedule)
        assert done.failing(), "the scenario that was written does not fail"
        return Shrunken(
            system=system,
            bug=bug,
            seed=seed,
            checkers=wanted,
            steps=len(schedule.steps),
            left=len(small.schedule.steps),
            faults=sum(len(step.faults) for step in small.schedule.steps),
            tries=small.tries,
            exhausted=small.exhausted,
            events=_events(done),
            clean_passes=not honest.failing(),
            core_s=round(time.process_time() - began, 1),
            scenario=text,
        )
    return None


def _options(system: str, planted: Planted, seed: int) -> RunOptions:
    """As the exam draws them, at its hasty pace, for longer."""
    plan = registry.load(registry.SYSTEMS, system).exam()
    plan = msgspec.structs.replace(plan, time_limit_ns=TIME_LIMIT_NS, intervals_ns=plan.intervals_ns[:1])
    task = Task(system=system, plan=plan, strategy="triggered", planted=planted)
    return options_of(task, seed, variant=planted.name)


def written(options: RunOptions, nodes: Sequence[str], schedule: Schedule, wanted: Sequence[str], bug: str) -> str:
    """The scenario of a schedule that shows this bug to these checkers."""
    scenario = Scenario(
        name="shrunk",
        source=bug,
        title=f"shrunk: {', '.join(wanted)}",
        text=f"Shrunk from a drawn schedule of seed {options.seed}.",
        system=options.system,
        profile=options.profile,
        variant=options.variant,
        nodes=len(nodes),
        settings=options.settings,
        workload=options.workload,
        rate_per_s=options.rate_per_s,
        time_limit_ns=options.time_limit_ns or TIME_LIMIT_NS,
        schedule=schedule,
        expected=Expected(verdict="fail", fails=tuple(wanted)),
    )
    return scenario_toml(scenario, comment=f"--seed {options.seed}")


def _events(done: Rehearsed) -> dict[str, int]:
    return {
        verdict.checker: min(len(finding.certificate) for finding in verdict.findings if finding.excused is None)
        for verdict in done.judgement.verdicts
        if verdict.outcome == "fail"
    }


def rows_of(out: Path, *, on_row: Callable[[Shrunken | None, str], None]) -> list[Shrunken]:
    """All cases, those without a row now. ``on_row``: each new one, and its name."""
    out.mkdir(parents=True, exist_ok=True)
    rows = []
    for system, bug in CASES:
        file = out / f"{system}-{bug}.json"
        if file.exists():
            row = msgspec.json.decode(file.read_bytes(), type=Shrunken | None)
        else:
            row = measure(system, bug)
            file.write_bytes(msgspec.json.encode(row))
            on_row(row, f"{system} {bug}")
        rows += [row] if row is not None else []
    return rows


def told(rows: Sequence[Shrunken]) -> tuple[bool, list[str]]:
    """Whether the figures hold, and a line a case with the summary last."""
    lines = []
    for row in rows:
        certificate = ", ".join(f"{name} {count}" for name, count in sorted(row.events.items()))
        lines.append(
            f"{row.system:12} {row.bug:28} {row.steps:3} steps -> {row.left} ({row.faults} faults), {row.tries:3} tries"
            f"{' (ran out)' if row.exhausted else ''}, {row.core_s:6.1f} s; certificate events: {certificate}"
            f"{'' if row.clean_passes else '; FAILS WITHOUT THE BUG, TOO'}"
        )
    left = median(row.left for row in rows) if rows else None
    leaders = [row.events[LEADERS] for row in rows if LEADERS in row.events]
    held = (
        len(rows) >= 10
        and left is not None
        and left <= LEFT_MEDIAN_MAX
        and bool(leaders)
        and max(leaders) <= CERTIFICATE_MAX
        and all(row.clean_passes for row in rows)
    )
    lines.append(
        f"{len(rows)} cases of {STEPS_MIN} steps and more: median {left} left; two leaders in one term are proven by at"
        f" most {max(leaders, default=None)} events"
    )
    return held, lines


def main() -> int:
    """Measure and print."""
    out = Path(__file__).resolve().parents[2] / "runs" / "accept" / "shrink"
    held, lines = told(rows_of(out, on_row=lambda row, name: print(f"  {name}: {row and row.left}", file=sys.stderr)))
    print("\n".join(lines))
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
