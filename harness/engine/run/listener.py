"""What a run shows while it lasts, as data, and the interface of those that watch it.

Guarantees: a listener is called from the main thread only. Out of scope: drawing any of it
(``dethrone.harness.report``).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.events import AnyEvent
from dethrone.harness.core.plan import Plan


class Drawn(msgspec.Struct, frozen=True, kw_only=True):
    """The first lines of a run: everything that was decided before it began."""

    plan: Plan
    run_dir: Path
    versions: Mapping[str, str]


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the live view."""

    name: str
    role: str
    term: int
    leads: bool
    faults: tuple[str, ...]
    answers: bool
    commit: int | None


class LiveView(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown while a run lasts, about twice a second."""

    elapsed_ns: Ns
    limit_ns: Ns
    phase: str
    step: int
    steps: int
    nodes: tuple[NodeView, ...]
    ops_ok: int
    ops_fail: int
    ops_info: int
    ops_per_s: float
    elections: int
    active_faults: tuple[str, ...]


class Listener(Protocol):
    """Who watches a run. Called from the main thread; must return quickly and must not raise."""

    def drawn(self, drawn: Drawn) -> None:
        """Everything is decided; the cluster comes next."""

    def progress(self, message: str) -> None:
        """One line about slow set-up or tear-down work."""

    def live(self, view: LiveView) -> None:
        """A fresh picture."""

    def event(self, event: AnyEvent) -> None:
        """A fault or mark worth a line (not every event)."""


class Silence:
    """A listener that shows nothing."""

    def drawn(self, drawn: Drawn) -> None:
        """Nothing."""

    def progress(self, message: str) -> None:
        """Nothing."""

    def live(self, view: LiveView) -> None:
        """Nothing."""

    def event(self, event: AnyEvent) -> None:
        """Nothing."""
