"""A stored run's schedule, shrunk on a screen while it still fails.

Guarantees: the schedule that was run lies in the new run's directory, and the command that runs it again is printed; a
schedule counts as failing only if the checker fails that heads the stored run's verdict, or one that the user named.
Out of scope: the search (``dethrone.harness.engine.replay.shrinker``).
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.table import Table

from dethrone.harness.commands.run import Done, run_and_report
from dethrone.harness.core import registry, store
from dethrone.harness.core.duration import show_duration
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.scenario import Expected, Scenario
from dethrone.harness.core.scenario_text import scenario_toml
from dethrone.harness.core.schedule import OnEvent, Schedule
from dethrone.harness.core.secrets import shown
from dethrone.harness.core.timescale import schedule_at
from dethrone.harness.engine.host.namespace_entry import enter
from dethrone.harness.engine.replay.failure_check import StillFails
from dethrone.harness.engine.replay.failure_rate import Rate, confirmed, failing, fails_often, room_for
from dethrone.harness.engine.replay.place import Place, failed_in, options_at, stored_at
from dethrone.harness.engine.replay.shrinker import Shrunk, shrink
from dethrone.harness.engine.replay.stored_run import Stored, schedule_of
from dethrone.harness.engine.run.exit_status import EXIT_PASS, EXIT_UNKNOWN, EXIT_VIOLATION
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.report.terminal import Screen

SIM = "sim"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A shrunk run."""

    checkers: tuple[str, ...]
    shrunk: Shrunk
    steps_before: int
    done: Done
    rate: Rate
    """How often the shrunk schedule failed."""
    text: str
    """The shrunk run as a scenario that reads back, to be committed as a regression test."""


def shrink_run(
    screen: Screen,
    run_dir: Path,
    *,
    place: Place,
    tries: int,
    need: int,
    of: int,
    out: Path | None,
    checkers: Sequence[str] = (),
) -> Outcome:
    """Shrink the stored run's schedule. ConfigError if the run did not fail, or does not fail again.

    ``need``, ``of``: how often a schedule must fail of how many real runs to count as failing. ``checkers``: one of
    them must fail [the one that heads the verdict].
    """
    if not 1 <= need <= of:
        raise ConfigError(f"{need} of {of} runs must fail", next_step="choose --need between 1 and --of")
    stored = stored_at(run_dir, place)
    failed = failed_in(run_dir, stored.options.checkers)
    if not failed:
        raise ConfigError("this run did not fail; there is nothing to shrink", where=str(run_dir))
    wanted = _wanted(failed, checkers, where=str(run_dir))
    target = place.backend or stored.options.backend
    enter(target)
    options = options_at(stored, target, place)
    limit_ns = stored.plan.usual_limit_ns
    real = _Real(screen, options, wanted, need=need, of=of, limit_ns=limit_ns)
    fails: StillFails | _Real = StillFails(options, wanted) if target == SIM else real
    start = next((s for s in (stored.planned, schedule_of(stored, "times")) if fails(s)), None)
    if start is None:
        raise ConfigError(
            f"the run does not fail again on {target}: neither its planned schedule nor its realised one does",
            where=str(run_dir),
            next_step="raise --of, or shrink it on the backend where it failed",
        )
    screen.say(f"shrinking {len(start.steps)} steps that fail {', '.join(wanted)} on {target}, limit {tries} tries")
    shrunk = shrink(start, fails, tries_max=tries)
    rate = Rate(1, 1)
    if target != SIM:
        schedule, rate = confirmed(real.accepted, real.rate, need=need)
        shrunk = msgspec.structs.replace(shrunk, schedule=schedule)
    options = fails.options(shrunk.schedule)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, store.PLANNED)
        store.write_json(file, shrunk.schedule)
        done = run_and_report(msgspec.structs.replace(options, schedule=file, out=out), screen)
    text = scenario_toml(
        _scenario(options, stored, shrunk.schedule, sorted(failing(done.result)) or wanted),
        comment=f"shrunk from {len(start.steps)} steps; run it with --seed {stored.plan.seed}",
    )
    return Outcome(checkers=wanted, shrunk=shrunk, steps_before=len(start.steps), done=done, rate=rate, text=text)


def _wanted(failed: Sequence[str], named: Sequence[str], *, where: str) -> tuple[str, ...]:
    """The checkers of which one must fail again: a schedule that fails another one shows another failure."""
    strange = [name for name in named if name not in failed]
    if strange:
        raise ConfigError(
            f"the checker {strange[0]} did not fail in this run",
            where=where,
            next_step=f"name one that did with --checker: {', '.join(failed)}",
        )
    return tuple(sorted(set(named))) or tuple(failed[:1])


def _named(system: str) -> str:
    """A system as a scenario names it: the path of a description from here, where it lies below."""
    if not registry.is_file(system):
        return system
    path = Path(system).resolve()
    return f"./{path.relative_to(Path.cwd())}" if path.is_relative_to(Path.cwd()) else str(path)


def _scenario(options: RunOptions, stored: Stored, schedule: Schedule, fails: Sequence[str]) -> Scenario:
    """The shrunk run by its parts; values that are secret are left to ``--set``."""
    plan = stored.plan
    settings = {name: value for name, value in options.settings.items() if shown(name, value, plan.secrets) == value}
    return Scenario(
        name="shrunk",
        source=f"seed {plan.seed}",
        title=f"fails {', '.join(fails)}",
        text=f"Shrunk from a run of seed {plan.seed}.",
        system=_named(options.system),
        profile=options.profile,
        variant=options.variant,
        nodes=len(plan.nodes),
        settings=settings,
        workload=options.workload,
        rate_per_s=options.rate_per_s,
        processes=options.processes,
        time_limit_ns=options.time_limit_ns if options.time_limit_ns is not None else plan.usual_limit_ns,
        schedule=schedule_at(schedule, 1),
        expected=Expected(verdict="fail", fails=tuple(fails)),
    )


def exit_code(outcome: Outcome) -> int:
    """1: the shrunk run failed as wanted; 2: it did not this time."""
    judgement = outcome.done.result.judgement
    failing = {v.checker for v in judgement.verdicts if v.outcome == "fail"} if judgement else set()
    if failing & set(outcome.checkers):
        return EXIT_VIOLATION
    return EXIT_UNKNOWN if outcome.done.result.exit_code == EXIT_PASS else outcome.done.result.exit_code


def scenario(schedule: Schedule) -> Table:
    """The schedule to read, a row a fault."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("step", "fault", "victims", "when", "held for", "parameters"):
        table.add_column(name, overflow="fold")
    for number, step in enumerate(schedule.steps):
        for index, fault in enumerate(step.faults):
            when = f"on {fault.when.event}" if isinstance(fault.when, OnEvent) else "at the start of the step"
            if fault.needs_fault:
                when += f", after {fault.needs_fault}"
            if fault.delay_ns:
                when += f" + {show_duration(fault.delay_ns)}"
            table.add_row(
                str(number) if index == 0 else "",
                fault.kind + (f" ({fault.name})" if fault.name else ""),
                fault.victims,
                when,
                show_duration(fault.hold_ns),
                ", ".join(f"{key} {value}" for key, value in fault.params.items()),
            )
    return table


class _Real:
    """Asks real runs whether a schedule fails."""

    def __init__(
        self, screen: Screen, options: RunOptions, wanted: tuple[str, ...], *, need: int, of: int, limit_ns: int
    ) -> None:
        self._screen = screen
        self._options = options
        self._wanted = wanted
        self._need = need
        self._of = of
        self._limit_ns = limit_ns
        self.accepted: list[Schedule] = []
        """Schedules that failed often enough, the first one first: each is made of the one before it."""

    def __call__(self, schedule: Schedule) -> bool:
        """At least ``need`` of ``of``; the asking ends when that is decided."""
        verdict, rate = fails_often(self.options(schedule), schedule, self._wanted, need=self._need, of=self._of)
        word = "fails" if verdict else "does not fail often enough" if rate.failed else "does not fail"
        self._screen.say(f"  {_size(schedule)}: {word}, {rate}")
        if verdict:
            self.accepted.append(schedule)
        return verdict

    def rate(self, schedule: Schedule) -> Rate:
        """How often it fails of all ``of`` runs."""
        _, rate = fails_often(self.options(schedule), schedule, self._wanted, need=1, of=self._of, all_of_them=True)
        self._screen.say(f"  {_size(schedule)}, repeated: fails {rate}")
        return rate

    def options(self, schedule: Schedule) -> RunOptions:
        """A run that lasts as long as this schedule."""
        return msgspec.structs.replace(self._options, time_limit_ns=room_for(schedule, at_most=self._limit_ns))


def _size(schedule: Schedule) -> str:
    faults = sum(len(step.faults) for step in schedule.steps)
    return f"{len(schedule.steps)} steps, {faults} faults"
