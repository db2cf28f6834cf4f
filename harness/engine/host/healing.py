"""Undo what a run left behind when its harness was killed: from the ledgers on disk and the labels on hosts.

Guarantees: live runs (their lock is held) are not disturbed; only objects with our label are touched; healing twice, or
on half-removed clusters, is fine. Judging is out of scope: ``dethrone check`` reads the run's history.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from dethrone.harness.core import registry
from dethrone.harness.core.errors import HarnessError
from dethrone.harness.core.interfaces import (
    Backend,
    BackendTraits,
    No,
)
from dethrone.harness.core.ledger import StaleRun, forget, is_live, stale_runs, state_dir, sweep


class HealReport(msgspec.Struct, frozen=True, kw_only=True):
    """Run ids and things: healed; skipped because their harness lives, or because they were kept on purpose; left.

    ``asked``: the backends that were asked; ``ledgers``: how many ledgers of runs that ended badly were read.
    """

    healed: tuple[str, ...] = ()
    skipped_live: tuple[str, ...] = ()
    skipped_kept: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    ledgers: int = 0


Lenders = tuple[str | None, tuple[str, ...]]
"""A hosts file and additional hosts, as a run's ledger names them."""


def heal(
    *,
    dry_run: bool = False,
    kept: bool = False,
    hosts: Path | None = None,
    host: tuple[str, ...] = (),
    progress: Callable[[str], None],
) -> HealReport:
    """Remove all leftovers of runs whose harness is gone. ``kept``: also clusters kept with ``--keep-cluster``.

    ``hosts``, ``host``: lent hosts to inspect in addition to those that the ledgers name.
    """
    root = state_dir()
    stale = {run.run_id: run for run in stale_runs(root)}
    healed: list[str] = []
    live: list[str] = []
    spared: list[str] = []
    left: list[str] = []
    asked: Lenders = (None if hosts is None else str(hosts), host)
    usable = _usable_backends(stale.values(), asked, left)
    for backend, lenders in usable:
        try:
            owned = backend.leftovers()
        except HarnessError as error:  # one host out of reach: what the ledgers record of the others is still undone
            owned = ()
            left.append(f"{backend.name}: {error}")
        runs: dict[str, set[str]] = {}
        for thing in owned:
            runs.setdefault(thing.run_id, set()).add(thing.state_dir)
        for run in stale.values():
            if _used(run, backend.name, lenders):
                runs.setdefault(run.run_id, set()).add(str(run.directory))
        for run_id, directories in sorted(runs.items()):
            try:
                if any(is_live(Path(directory)) for directory in directories):
                    live.append(run_id)
                    continue
            except OSError as error:  # another user's: whether that run lives is not ours to know
                left.append(
                    f"{run_id}: skipped, its ledger in {', '.join(sorted(directories))} cannot be read "
                    f"({error.strerror}); run `dethrone heal` as the user who ran it"
                )
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
                if _anything_left(backend, run_id):
                    left.append(f"{run_id}: {error}")
                    continue
            healed.append(run_id)
            if run_id in stale:
                forget(stale[run_id])
    if not dry_run:
        sweep(root, now_s=time.time())
    return HealReport(
        healed=tuple(healed),
        skipped_live=tuple(live),
        skipped_kept=tuple(spared),
        left=tuple(dict.fromkeys(left)),
        asked=tuple(dict.fromkeys(backend.name for backend, _ in usable)),
        ledgers=len(stale),
    )


def _anything_left(backend: Backend, run_id: str) -> bool:
    """Whether a run that could not be removed is still there: another heal may have removed it meanwhile."""
    try:
        return any(thing.run_id == run_id for thing in backend.leftovers())
    except HarnessError:
        return True


def _usable_backends(
    stale: Iterable[StaleRun], asked: Lenders, left: list[str]
) -> list[tuple[Backend, Lenders | None]]:
    """The backends to ask; one with lent hosts once per lender, and not at all without a lender."""
    out: list[tuple[Backend, Lenders | None]] = []
    refused: list[str] = []
    runs = list(stale)
    for name, backend in registry.load_all(registry.BACKENDS).items():
        traits: BackendTraits = backend.traits
        if traits.lending is not None:
            named = [lenders for run in runs if _used(run, name) for lenders in _lenders(run)]
            for file, words in dict.fromkeys([*([asked] if asked != _NOBODY else []), *named]):
                try:
                    out.append((traits.lending.lent(None if file is None else Path(file), words), (file, words)))
                except HarnessError as error:
                    why = f"the hosts of {file or ', '.join(words)} could not be reached: {error}"
                    (left if (file, words) in named else refused).append(why)
            continue
        if traits.unsafe is not None:  # what was made without protection is taken away all the same
            backend = traits.unsafe()  # noqa: PLW2901 - the same backend
        available = backend.available()
        if not isinstance(available, No):
            out.append((backend, None))
        elif any(run.lines and _used(run, name) for run in runs):  # a run without a line has made nothing yet
            left.append(f"backend {name} could not be reached: {available.why}")
    if not any(lenders == asked for _, lenders in out):  # the words are meant for one kind of hosts, whichever it is
        left += refused
    return out


_NOBODY: Lenders = (None, ())


def _lenders(run: StaleRun) -> list[Lenders]:
    return [
        (line.data.get("hosts_file"), tuple(line.data.get("lent", ())))
        for line in run.lines
        if line.data.get("hosts_file") or line.data.get("lent")
    ]


def _used(run: StaleRun, backend: str, lenders: Lenders | None = None) -> bool:
    if not run.lines:
        return lenders is None
    mine = any(line.backend == backend for line in run.lines)
    return mine and (lenders is None or lenders in _lenders(run))


def _was_kept(run: StaleRun) -> bool:
    return bool(run.lines) and run.lines[-1].transition == "kept"
