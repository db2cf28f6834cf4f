"""What clients do: operations drawn by a generator, checked against what a system can do."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.events import Return
from dethrone.harness.core.interfaces.nemesis import ClusterView
from dethrone.harness.core.rng import Rng


class OpPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One operation to do: ``target`` is the node to ask first."""

    f: str
    value: Any
    target: str


class Generator(Protocol):
    """Pure source of operations; the engine asks when a client process is free."""

    def next(self, process: int, now: Ns, view: ClusterView) -> OpPlan | Ns | None:
        """An op for this free process; a moment (ns) to ask again; or None: no more of this phase."""

    def returned(self, process: int, op: OpPlan, result: Return) -> None:
        """How it ended (for values that must not be reused, last known leaders …)."""


class Workload(Protocol):
    """What clients do during a run, and after it.

    One whose ``read`` shows all of a list or set that grows may say so with ``shows`` (``"list"``, ``"set"``): then the
    history holds only what each read shows that is new. One whose keys retire says so with ``keys_retire``: its
    ``final`` takes one argument more, ``used``: the keys that the main phase asked for.
    """

    name: str

    def needs(self) -> frozenset[str]:
        """Op names that the system's clients must serve; empty: none."""

    def processes(self, nodes: int) -> int:
        """How many client processes by default."""

    def rate_per_s(self) -> int:
        """Ops a second over all processes by default."""

    def main(self, rng: Rng, *, nodes: tuple[str, ...], processes: int, rate_per_s: int) -> Generator:
        """Operations of the main phase."""

    def final(self, rng: Rng, *, nodes: tuple[str, ...], processes: int) -> Generator:
        """Operations after everything healed (final reads); ends by itself."""
