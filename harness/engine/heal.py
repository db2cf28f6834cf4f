"""Undo what a run left behind when its harness was killed: from the ledgers on disk and the labels on hosts.

Promises: live runs (their lock is held) are not disturbed; nothing without our label is touched; healing twice,
or on half-removed clusters, is fine. Leaves out judging the run: ``dethrone check`` reads its history.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from harness.core import registry
from harness.core.errors import HarnessError
from harness.core.ledger import StaleRun, forget, is_live, stale_runs, state_dir
from harness.core.protocols import Backend, No


class HealReport(msgspec.Struct, frozen=True, kw_only=True):
    """Run ids and things: healed; skipped because their harness lives, or because they were kept on purpose; left."""

    healed: tuple[str, ...] = ()
    skipped_live: tuple[str, ...] = ()
    skipped_kept: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def heal(*, dry_run: bool = False, kept: bool = False, progress: Callable[[str], None]) -> HealReport:
    """Remove all leftovers of runs whose harness is gone. ``kept``: also clusters kept with ``--keep-cluster``."""
    root = state_dir()
    stale = {run.run_id: run for run in stale_runs(root)}
    healed: list[str] = []
    live: list[str] = []
    spared: list[str] = []
    left: list[str] = []
    for backend in _usable_backends(left if stale else None):
        owned = backend.leftovers()
        runs = {thing.run_id: thing.state_dir for thing in owned}
        runs |= {run.run_id: str(run.directory) for run in stale.values() if _used(run, backend.name)}
        for run_id, directory in sorted(runs.items()):
            if is_live(Path(directory)):
                live.append(run_id)
                continue
            if run_id in stale and _was_kept(stale[run_id]) and not kept:
                spared.append(run_id)
                continue
            things = [f"{thing.kind} {thing.name}" for thing in owned if thing.run_id == run_id]
            progress(f"{run_id}: {', '.join(things) or 'ledger only'}")
            if dry_run:
                left.append(run_id)
                continue
            try:
                backend.destroy(run_id)
            except HarnessError as error:
                left.append(f"{run_id}: {error}")
                continue
            healed.append(run_id)
            if run_id in stale:
                forget(stale[run_id])
    return HealReport(
        healed=tuple(healed), skipped_live=tuple(live), skipped_kept=tuple(spared), left=tuple(dict.fromkeys(left))
    )


def _usable_backends(left: list[str] | None) -> list[Backend]:
    out = []
    for name, backend in registry.load_all(registry.BACKENDS).items():
        available = backend.available()
        if isinstance(available, No):
            if left is not None:
                left.append(f"backend {name} could not be asked: {available.why}")
            continue
        out.append(backend)
    return out


def _used(run: StaleRun, backend: str) -> bool:
    return not run.lines or any(line.backend == backend for line in run.lines)


def _was_kept(run: StaleRun) -> bool:
    return bool(run.lines) and run.lines[-1].transition == "kept"
