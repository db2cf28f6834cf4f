"""Planted bugs as the harness' exam meets them: which mistake, who must name it, and under which settings it can show.

Guarantees: pure data and one interface. Out of scope: the mistakes themselves, which belong to the protocol cores, and
the exam (``dethrone.harness.engine.exam.exam``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import msgspec

from dethrone.harness.core.clock import SECOND, Ns


class Planted(msgspec.Struct, frozen=True, kw_only=True):
    """One deliberately changed build of a system.

    ``caught_by``: checkers of which any one counts as having found it; none: the build is harmless, and no checker may
    fail. ``settings``: knobs without which it cannot show, or shows late. ``nodes_min``: the smallest cluster in which
    it can show. ``weak``: checkers that the honest build fails by its specification under these ``settings``, besides
    those of the plan: that is no alarm.
    """

    name: str
    says: str
    caught_by: tuple[str, ...] = ()
    settings: Mapping[str, str] = {}
    nodes_min: int = 3
    weak: tuple[str, ...] = ()

    @property
    def harmless(self) -> bool:
        """Whether nothing may find it."""
        return not self.caught_by


class ExamPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How a system is examined: one set-up for all its bugs. Run number k takes the k-th of each tuple, in turn.

    ``intervals_ns``: nemesis intervals; one below the promise's bound tests safety, one above it liveness. ``faults``:
    those that the simulator cannot do, or that are not installed, are an error. ``rates_per_s``: operations of all
    clients; None: the workload's own rate. ``settings``: knobs for every run, over the system's defaults and under
    those of a bug; ``in_turn``: more of them, each for some runs. ``weak``: checkers that the honest build itself fails
    by its specification under these settings: their failure is no alarm, and they find nothing.
    """

    workloads: tuple[str, ...]
    faults: tuple[str, ...]
    intervals_ns: tuple[Ns, ...]
    nodes: tuple[int, ...] = (3, 5)
    rates_per_s: tuple[int | None, ...] = (None,)
    time_limit_ns: Ns = 60 * SECOND
    settings: Mapping[str, str] = {}
    in_turn: tuple[Mapping[str, str], ...] = ({},)
    weak: tuple[str, ...] = ()
    profile: str | None = None


@runtime_checkable
class Examinable(Protocol):
    """A system that knows planted bugs of itself."""

    def exam(self) -> ExamPlan:
        """How it is examined."""

    def planted(self) -> Mapping[str, Planted]:
        """Name of the variant → what the exam needs to know of it."""
