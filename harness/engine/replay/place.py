"""Where a stored run is run again, and the options that it has there.

Guarantees: settings of another backend stay behind, and what a run directory names is executed only if the user trusts
it. Out of scope: running (``dethrone.harness.commands.replay``, ``dethrone.harness.commands.shrink``).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from dethrone.harness.core import registry
from dethrone.harness.core.interfaces import Backend
from dethrone.harness.core.plan import DataIn
from dethrone.harness.engine.replay.stored_run import Stored, read_stored
from dethrone.harness.engine.run.judge import check_path
from dethrone.harness.engine.run.options import RunOptions


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


def stored_at(run_dir: Path, place: Place) -> Stored:
    """The stored run, read for that place."""
    return read_stored(run_dir, trust=place.trust, backend=place.backend, hosts_given=place.given())


def backend_of(run_dir: Path, place: Place) -> str:
    """Where the run is run again."""
    return place.backend or stored_at(run_dir, place).options.backend


def failed_in(run_dir: Path, checkers: Sequence[str] = ()) -> tuple[str, ...]:
    """The checkers that fail the stored run. ``checkers``: those that it was judged by, if it is trusted."""
    judgement, _, _ = check_path(run_dir, checkers=checkers)
    return tuple(sorted(v.checker for v in judgement.verdicts if v.outcome == "fail"))


def options_at(stored: Stored, backend: str, place: Place) -> RunOptions:
    """The stored run's options on that backend. A scenario's schedule is among what is stored."""
    old = stored.options
    hosts, host = (old.hosts, old.host) if backend == old.backend else (None, ())
    if place.hosts is not None or place.host:
        hosts, host = place.hosts, place.host
    return msgspec.structs.replace(
        old,
        backend=backend,
        out=None,
        scenario=None,
        settings=_settings(old, backend),
        hosts=hosts,
        host=host,
        data_in=_data_in(old, backend),
    )


def _data_in(options: RunOptions, backend: str) -> DataIn | None:
    """Nodes keep their data in memory where the hosts of the other backend have a place for it."""
    if backend == options.backend or options.data_in != "memory":
        return options.data_in
    other: Backend = registry.load(registry.BACKENDS, backend)
    return "memory" if other.traits.memory_dir else None


def _settings(options: RunOptions, backend: str) -> dict[str, str]:
    """Settings of another backend stay behind."""
    if backend == options.backend:
        return dict(options.settings)
    return {name: word for name, word in options.settings.items() if not name.startswith(f"{options.backend}.")}
