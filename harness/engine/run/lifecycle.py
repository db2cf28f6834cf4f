"""The course of every run, wherever its nodes live: what is stored, how it is judged, what the result is.

Guarantees: the verdict is of the file, not of what is in memory; a file that cannot be written is trouble and stops
nothing. ``runner`` and ``virtual_run`` have the cluster and the loop.
"""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from dethrone.harness.core import store
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.errors import HistoryError
from dethrone.harness.core.events import AnyEvent, FaultEvent, Mark
from dethrone.harness.core.history_files import read_history, seal
from dethrone.harness.core.interfaces import Checker
from dethrone.harness.core.known_findings import read as read_known
from dethrone.harness.core.plan import Plan, presentable
from dethrone.harness.core.secrets import hidden
from dethrone.harness.engine.run.code_names import limited
from dethrone.harness.engine.run.continuation import unmet_by
from dethrone.harness.engine.run.director import Director
from dethrone.harness.engine.run.exit_status import exit_code
from dethrone.harness.engine.run.judge import acknowledged, judge, watching, write_verdict
from dethrone.harness.engine.run.judgement import Judgement, RunResult
from dethrone.harness.engine.run.listener import Listener
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import Draft
from dethrone.harness.engine.run.trigger_figures import trigger_figures

WORTH_A_LINE = frozenset({Mark, FaultEvent})
"""The events that a live view of a run shows one by one."""


@dataclass(eq=False)
class Course:
    """The state of one run that its steps share."""

    options: RunOptions
    draft: Draft
    run_dir: Path
    listener: Listener
    run_id: str
    checkers: Mapping[str, Checker]
    """Those that watch and judge it."""
    interrupted: threading.Event = field(default_factory=threading.Event)
    trouble: list[str] = field(default_factory=list)
    judgement: Judgement | None = None
    figures: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.known = () if self.options.known is None else read_known(self.options.known)
        self.plan: Plan = self.draft.plan

    def director(self) -> Director:
        """The director of this run, with those checkers that watch it as it goes."""
        director = Director(self.draft, watchers=watching(self.checkers, self.plan))
        director.on_warm = self._warmed
        director.assess = unmet_by(self.checkers)
        return director

    def directed(self, director: Director) -> None:
        """The run is over, for any reason: what the director knows of it."""
        realised = director.realised()
        self.trouble += director.trouble
        self.store(store.REALISED, realised)
        self.figures.update(elections=director.elections, **director.counts)
        self.figures["faults"] = sum(fault.outcome == "installed" for fault in realised.faults)
        self.figures["triggers"] = trigger_figures(realised)

    def judge(self) -> None:
        """Judge the history."""
        history = read_history(self.run_dir / store.HISTORY)
        self.figures["events"] = len(history)
        judgement = judge(history, self.plan, self.checkers, limited=limited(self.options.checkers))
        self.judgement = acknowledged(judgement, self.known, system=self.plan.system, day=today())
        write_verdict(self.run_dir, self.judgement, system=self.plan.system, seed=self.plan.seed)

    def seal(self) -> None:
        """The rest of the history as columns; where that fails, its lines stay."""
        try:
            seal(self.run_dir / store.HISTORY, ended=True)
        except HistoryError as error:
            self.trouble.append(str(error))

    def result(self, started_ns: int) -> RunResult:
        """The result; also stored. ``started_ns``: of the process' monotonic clock."""
        self.figures["elapsed_s"] = round((time.monotonic_ns() - started_ns) / SECOND, 1)
        result = RunResult(
            run_dir=self.run_dir,
            seed=self.plan.seed,
            plan=presentable(self.plan),
            judgement=self.judgement,
            trouble=tuple(dict.fromkeys(self.trouble)),
            interrupted=self.interrupted.is_set(),
            exit_code=exit_code(
                outcome=self.judgement.outcome if self.judgement else None,
                trouble=bool(self.trouble),
                interrupted=self.interrupted.is_set(),
                fail_on=self.options.fail_on,
                excused=self.judgement.excused if self.judgement else 0,
            ),
            figures=self.figures,
        )
        self._store_run(result)
        return result

    def store(self, name: str, value: Any) -> None:
        """A file whose loss is trouble, but no reason to stop."""
        try:
            store.write_json(self.run_dir / name, value)
        except HistoryError as error:
            self.trouble.append(str(error))

    def tell(self, events: list[AnyEvent]) -> None:
        """Show live views the events that are worth a line."""
        if WORTH_A_LINE.isdisjoint(map(type, events)):  # as in most batches of a simulated run
            return
        for event in events:
            if type(event) in WORTH_A_LINE:
                self.listener.event(event)

    def _warmed(self, plan: Plan) -> None:
        """The bounds are fixed now, before the first fault; or a step was added."""
        if plan.schedule is not self.plan.schedule:
            self.store(store.PLANNED, plan.schedule)
        self.plan = plan
        self.store(store.PLAN, presentable(plan))

    def _presentable_options(self) -> RunOptions:
        return msgspec.structs.replace(self.options, settings=hidden(self.options.settings, self.plan.secrets))

    def _store_run(self, result: RunResult) -> None:
        record = {
            "schema": 1,
            "run_id": self.run_id,
            "seed": result.seed,
            "versions": {**versions(), **({"system": self.plan.system_version} if self.plan.system_version else {})},
            "started_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - self.figures["elapsed_s"])),
            "options": msgspec.to_builtins(self._presentable_options(), enc_hook=str),
            "exit_code": result.exit_code,
            "interrupted": result.interrupted,
            "trouble": list(result.trouble),
            "figures": self.figures,
        }
        with contextlib.suppress(HistoryError):
            store.write_json(self.run_dir / store.RUN, record)


@contextlib.contextmanager
def signals(on_signal: Callable[[str], None]) -> Iterator[None]:
    """SIGINT and SIGTERM become a request to stop; only in the main thread, where Python delivers them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handler(number: int, _frame: FrameType | None) -> None:
        on_signal(signal.Signals(number).name)

    old = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, previous in old.items():
            signal.signal(number, previous)


def today() -> str:
    """The date that ``until`` of a known finding is compared with."""
    return time.strftime("%Y-%m-%d", time.gmtime())


def default_dir(plan: Plan) -> Path:
    """The directory of a run for which the user named none."""
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    return Path("runs") / f"{stamp}-{plan.system}-{plan.seed}-{os.getpid()}"


def versions() -> dict[str, str]:
    """Versions of what a run depends on."""
    return {"dethrone": version("dethrone"), "python": platform.python_version(), "kernel": platform.release()}
