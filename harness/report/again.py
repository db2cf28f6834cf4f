"""Runs made from stored runs, on a screen: replays, and shrunk schedules that still fail.

Promises: the schedule that was run lies in the new run's directory, and the command that runs it again is printed; a
schedule counts as failing only if a checker fails that failed in the stored run. Leaves out the search (``shrinking``).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec
from rich.table import Table

from harness.core import store
from harness.core.duration import show_duration
from harness.core.errors import ConfigError
from harness.core.schedule import OnEvent, Schedule
from harness.engine.judge import check_path, load_checkers
from harness.engine.model import EXIT_PASS, EXIT_UNKNOWN, EXIT_VIOLATION, RunOptions
from harness.engine.planning import draft
from harness.engine.rehearsal import rehearse_draft, with_schedule
from harness.engine.replaying import How, read_stored, schedule_of
from harness.engine.shrinking import Shrunk, shrink
from harness.report.session import Done, run_and_report
from harness.report.terminal import Screen

SIM = "sim"


def replay(screen: Screen, run_dir: Path, *, backend: str | None, how: How | None, out: Path | None) -> Done:
    """The stored run once more, on that backend (None: its own)."""
    stored = read_stored(run_dir)
    target = backend or stored.options.backend
    chosen: How = how or "triggers"  # between worlds roles mean more than names, and events more than times
    schedule = schedule_of(stored, chosen)
    screen.say(f"replaying {run_dir} as {chosen} on {target}: {len(schedule.steps)} steps")
    options = msgspec.structs.replace(
        stored.options, backend=target, out=out, settings=_settings(stored.options, target)
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, store.PLANNED)
        store.write_json(file, schedule)
        return run_and_report(msgspec.structs.replace(options, schedule=file), screen)


def _settings(options: RunOptions, backend: str) -> dict[str, str]:
    """Settings of another backend stay behind."""
    if backend == options.backend:
        return dict(options.settings)
    return {name: word for name, word in options.settings.items() if not name.startswith(f"{options.backend}.")}


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A shrunk run."""

    checkers: tuple[str, ...]
    shrunk: Shrunk
    steps_before: int
    done: Done
    rate: tuple[int, int]
    """How often the shrunk schedule failed, of how many runs."""


def shrink_run(screen: Screen, run_dir: Path, *, backend: str | None, tries: int, of: int, out: Path | None) -> Outcome:
    """Shrink the stored run's schedule. ConfigError if the run did not fail, or does not fail again."""
    stored = read_stored(run_dir)
    judgement, _, _ = check_path(run_dir)
    wanted = tuple(sorted(v.checker for v in judgement.verdicts if v.outcome == "fail"))
    if not wanted:
        raise ConfigError("this run did not fail, so there is nothing to shrink", where=str(run_dir))
    target = backend or stored.options.backend
    options = msgspec.structs.replace(stored.options, backend=target, settings=_settings(stored.options, target))
    fails = _simulated(options, wanted) if target == SIM else _real(screen, options, wanted, of=of)
    start = next((s for s in (stored.planned, schedule_of(stored, "times")) if fails(s)), None)
    if start is None:
        raise ConfigError(
            f"the run does not fail again on {target}: neither its planned schedule nor its realised one does",
            where=str(run_dir),
            next_step="raise --of, or shrink it where it failed",
        )
    screen.say(f"shrinking {len(start.steps)} steps that fail {', '.join(wanted)} on {target}, at most {tries} tries")
    shrunk = shrink(start, fails, tries_max=tries)
    rate = (1, 1) if target == SIM else (sum(fails(shrunk.schedule) for _ in range(of)), of)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, store.PLANNED)
        store.write_json(file, shrunk.schedule)
        done = run_and_report(msgspec.structs.replace(options, schedule=file, out=out), screen)
    return Outcome(checkers=wanted, shrunk=shrunk, steps_before=len(start.steps), done=done, rate=rate)


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
            when = f"on {fault.when.event}" if isinstance(fault.when, OnEvent) else "at the step's begin"
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


def _simulated(options: RunOptions, wanted: tuple[str, ...]) -> Callable[[Schedule], bool]:
    """One run decides: the same schedule gives the same history."""
    drafted = draft(options, seed=options.seed or 0)
    checkers = {name: checker for name, checker in load_checkers().items() if name in wanted}

    def fails(schedule: Schedule) -> bool:
        return bool(rehearse_draft(with_schedule(drafted, schedule), checkers).failing())

    return fails


def _real(screen: Screen, options: RunOptions, wanted: tuple[str, ...], *, of: int) -> Callable[[Schedule], bool]:
    """One failing run of ``of`` is enough; the first ends the asking."""
    from harness.engine.model import Silence
    from harness.engine.runner import run

    def fails(schedule: Schedule) -> bool:
        with tempfile.TemporaryDirectory() as folder:
            for number in range(of):
                file = Path(folder, f"{number}.json")
                store.write_json(file, schedule)
                result = run(
                    msgspec.structs.replace(options, schedule=file, out=Path(folder, f"run-{number}")), Silence()
                )
                judgement = result.judgement
                failing = {v.checker for v in judgement.verdicts if v.outcome == "fail"} if judgement else set()
                if failing & set(wanted):
                    screen.say(f"  {len(schedule.steps)} steps: fails")
                    return True
        screen.say(f"  {len(schedule.steps)} steps: does not fail")
        return False

    return fails
