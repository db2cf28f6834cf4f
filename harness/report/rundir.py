"""A run directory (or a history file alone) read back for its report, forgiving about what does not exist.

Guarantees: reads what can be read; lists the rest in ``missing``, never raises, except for the history itself.
Out of scope: judging: ``judge`` hands its judgement in where ``verdict.json`` is absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from dethrone.harness.core import store
from dethrone.harness.core.errors import HistoryError
from dethrone.harness.core.history import History
from dethrone.harness.core.history_files import history_at, named, read_history, run_of
from dethrone.harness.core.plan import Plan
from dethrone.harness.engine.run.judgement import Judgement, RunResult


class RunFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a report is drawn from. ``run``: ``run.json`` as it stands (versions, times; never in the history)."""

    directory: Path | None
    history: History
    plan: Plan | None
    judgement: Judgement | None
    run: Mapping[str, Any] = {}
    missing: tuple[str, ...] = ()

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes, in the plan's order; the history's without a plan."""
        return self.plan.nodes if self.plan is not None else self.history.begin.nodes


def read_run(path: Path, judgement: Judgement | None = None) -> RunFiles:
    """The run in ``path`` (a directory or a history file). HistoryError if there is no readable history."""
    path = named(path)
    directory = path if path.is_dir() else None
    found = history_at(path)
    history, beside = read_history(found), run_of(found)
    missing: list[str] = []
    plan = _optional(beside / store.PLAN, Plan, missing)
    run = _optional(beside / store.RUN, dict, missing) if directory else None
    if judgement is None:
        judgement = read_judgement(beside, missing)
    return RunFiles(
        directory=directory, history=history, plan=plan, judgement=judgement, run=run or {}, missing=tuple(missing)
    )


def read_judgement(directory: Path, missing: list[str] | None = None) -> Judgement | None:
    """The stored verdict, None where there is none (yet) or it is damaged."""
    stored = _optional(directory / store.VERDICT, dict, [] if missing is None else missing)
    if stored is None:
        return None
    try:
        return msgspec.convert(stored.get("judgement", stored), Judgement)
    except msgspec.ValidationError as error:
        if missing is not None:
            missing.append(f"{store.VERDICT} is damaged: {error}")
        return None


def shared_users(files: RunFiles | None) -> list[str]:
    """A sentence for all nodes that did not run as a user of their own, and why."""
    figures = files.run.get("figures") if files is not None else None
    told = figures.get("shared_users") if isinstance(figures, dict) else None
    return [
        f"{', '.join(map(str, names))} could touch the rules that cut them off: {why}"
        for why, names in (told.items() if isinstance(told, dict) else ())
        if isinstance(names, list)
    ]


def files_of(result: RunResult) -> RunFiles | None:
    """The files of a run that just ended; None if it never got as far as a history."""
    if result.run_dir is None:
        return None
    try:
        return read_run(result.run_dir, result.judgement)
    except HistoryError:
        return None


def _optional(path: Path, kind: Any, missing: list[str]) -> Any:
    if not path.exists():
        missing.append(f"{path.name} does not exist")
        return None
    try:
        return store.read_json(path, kind)
    except HistoryError as error:
        missing.append(error.what)
        return None
