"""Runs made from stored runs, on a screen: replays, and shrunk schedules that still fail.

Promises: the schedule that was run lies in the new run's directory, and the command that runs it again is printed; a
schedule counts as failing only if a checker fails that failed in the stored run. Leaves out the search (``shrinking``).
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.table import Table

from harness.core import store
from harness.core.duration import show_duration
from harness.core.errors import ConfigError
from harness.core.scenario import Expected, Scenario
from harness.core.scenario_text import scenario_toml
from harness.core.schedule import OnEvent, Schedule
from harness.core.timescale import schedule_at
from harness.engine.entering import enter
from harness.engine.judge import check_path
from harness.engine.model import EXIT_PASS, EXIT_UNKNOWN, EXIT_VIOLATION, RunOptions
from harness.engine.refailing import StillFails
from harness.engine.replaying import How, Stored, read_stored, schedule_of
from harness.engine.shrinking import Shrunk, shrink
from harness.engine.trials import Rate, confirmed, failing, fails_often, room_for, seed_of
from harness.report.session import Done, run_and_report
from harness.report.terminal import Screen

SIM = "sim"


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a stored run is run again: on which backend (None: its own), on whose hosts (None and empty: its own)."""

    backend: str | None = None
    hosts: Path | None = None
    host: tuple[str, ...] = ()
    trust: bool = False
    """Whether what the run directory names may be executed."""

    def given(self) -> bool:
        """Whether the user names hosts."""
        return self.hosts is not None or bool(self.host)


def _stored(run_dir: Path, place: Place) -> Stored:
    return read_stored(run_dir, trust=place.trust, backend=place.backend, hosts_given=place.given())


def backend_of(run_dir: Path, place: Place) -> str:
    """Where the run is run again."""
    return place.backend or _stored(run_dir, place).options.backend


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """A stored run, run again. ``checkers``: those that failed in it; ``done``: the first run that failed one of them,
    else the last; ``rate``: how many did."""

    checkers: tuple[str, ...]
    done: Done
    rate: Rate

    @property
    def exit_code(self) -> int:
        """The run's own; 1 if any run reproduced it."""
        code = self.done.result.exit_code
        return EXIT_VIOLATION if code == EXIT_PASS and self.rate.failed else code

    def told(self) -> dict[str, Any]:
        """For the JSON object."""
        rate = self.rate
        return {"checkers": list(self.checkers), "failed": rate.failed, "of": rate.of, "troubled": rate.troubled}


def replay(
    screen: Screen, run_dir: Path, *, place: Place, how: How | None, out: Path | None, repeat: int = 1
) -> Replayed:
    """The stored run once more, at that place; ``repeat`` times, to see how often it fails."""
    stored = _stored(run_dir, place)
    wanted = _failed(run_dir)
    target = place.backend or stored.options.backend
    enter(target)
    chosen: How = how or "triggers"  # between worlds roles mean more than names, and events more than times
    schedule = schedule_of(stored, chosen)
    options = _options(stored, target, place)
    screen.say(f"replaying {run_dir} as {chosen} on {target}: {len(schedule.steps)} steps")
    kept: Done | None = None
    rate = Rate(0, 0)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, store.PLANNED)
        store.write_json(file, schedule)
        for number in range(repeat):
            directory = out if out is None or repeat == 1 else out / str(number + 1)
            again = msgspec.structs.replace(options, schedule=file, out=directory, seed=seed_of(options, number))
            done = run_and_report(again, screen)
            hit = bool(failing(done.result) & set(wanted))
            rate = Rate(rate.failed + hit, rate.of + 1, rate.troubled + (bool(done.result.trouble) and not hit))
            if kept is None or rate.failed == 0 or (hit and rate.failed == 1):
                kept = done
            if wanted:
                screen.say(f"reproduced    {rate}: {', '.join(wanted)}", level=-1)
            if done.result.interrupted:
                break
    if kept is None:
        raise ConfigError(f"{repeat} runs", next_step="give --repeat 1 or more")
    return Replayed(checkers=wanted, done=kept, rate=rate)


def _failed(run_dir: Path) -> tuple[str, ...]:
    """The checkers that fail the stored run."""
    judgement, _, _ = check_path(run_dir)
    return tuple(sorted(v.checker for v in judgement.verdicts if v.outcome == "fail"))


def _options(stored: Stored, backend: str, place: Place) -> RunOptions:
    """The stored run's options on that backend. A scenario's schedule is among what is stored."""
    old = stored.options
    hosts, host = (old.hosts, old.host) if backend == old.backend else (None, ())
    if place.hosts is not None or place.host:
        hosts, host = place.hosts, place.host
    settings = _settings(old, backend)
    return msgspec.structs.replace(
        old, backend=backend, out=None, scenario=None, settings=settings, hosts=hosts, host=host
    )


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
    rate: Rate
    """How often the shrunk schedule failed."""
    text: str
    """The shrunk run as a scenario that reads back, to be committed as a regression test."""


def shrink_run(
    screen: Screen, run_dir: Path, *, place: Place, tries: int, need: int, of: int, out: Path | None
) -> Outcome:
    """Shrink the stored run's schedule. ConfigError if the run did not fail, or does not fail again.

    ``need``, ``of``: how often a schedule must fail of how many real runs to count as failing.
    """
    if not 1 <= need <= of:
        raise ConfigError(f"{need} of {of} runs must fail", next_step="choose --need between 1 and --of")
    stored = _stored(run_dir, place)
    wanted = _failed(run_dir)
    if not wanted:
        raise ConfigError("this run did not fail; there is nothing to shrink", where=str(run_dir))
    target = place.backend or stored.options.backend
    enter(target)
    options = _options(stored, target, place)
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


def _scenario(options: RunOptions, stored: Stored, schedule: Schedule, fails: Sequence[str]) -> Scenario:
    """The shrunk run by what it is made of."""
    plan = stored.plan
    return Scenario(
        name="shrunk",
        source=f"seed {plan.seed}",
        title=f"fails {', '.join(fails)}",
        text=f"Shrunk from a run of seed {plan.seed}.",
        system=plan.system,
        profile=options.profile,
        variant=options.variant,
        nodes=len(plan.nodes),
        settings=dict(options.settings),
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
