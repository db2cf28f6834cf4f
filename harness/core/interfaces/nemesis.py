"""Faults, the events they wait for, and the strategies that draw schedules of both.

Guarantees: all of them are pure and compute values. Out of scope: bringing hosts into states (``.backend``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import msgspec

from dethrone.harness.core.clock import Ns, Span
from dethrone.harness.core.events import Event, Invoke, Observed
from dethrone.harness.core.hoststate import ClusterState, HostState
from dethrone.harness.core.interfaces.availability import Available
from dethrone.harness.core.interfaces.faults import FaultTraits, Who
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import OnEvent, PlannedFault, Schedule
from dethrone.harness.core.version_limits import VersionLimits


class Occurrence(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a trigger waited for happened, once. ``span``: when, as far as known.

    ``roles``: which node did what in it: always ``actor`` (the node of the event), and ``candidate``, ``voter`` … where
    they make sense. ``key``: equal for two events that report the same occurrence, which counts once.
    """

    event: str
    span: Span
    key: tuple[Any, ...]
    roles: Mapping[str, tuple[str, ...]]
    term: int = 0
    group: str = ""

    @property
    def actor(self) -> str:
        """The node of the event; several are joined by commas."""
        return ",".join(self.roles.get("actor", ()))


class ClusterView(msgspec.Struct, frozen=True, kw_only=True):
    """What the harness believes of the nodes at this moment, from the last observations; for selectors.

    ``leader``: the node that leads in the highest term and answered so within the last second, else None.
    ``occurrence``: what triggered the fault that is being resolved, if something did. ``hit``: named faults of the run
    so far → whom they hit. ``voters``: who counts for quorums and may follow, in the order of ``nodes``; empty: all.
    ``zones``: node → its zone, where nodes have zones. ``versions``: those at hand, from the oldest to the newest, and
    ``version_of``: node → the one as which its process was started last; both empty where there is one only.
    ``version_limits``: which of them may run side by side.
    """

    nodes: tuple[str, ...]
    leader: str | None
    roles: Mapping[str, str]
    terms: Mapping[str, int]
    state: ClusterState
    occurrence: Occurrence | None = None
    hit: Mapping[str, tuple[str, ...]] = {}
    voters: tuple[str, ...] = ()
    zones: Mapping[str, str] = {}
    versions: tuple[str, ...] = ()
    version_of: Mapping[str, str] = {}
    version_limits: VersionLimits = VersionLimits()


class Fault(Protocol):
    """One kind of fault. Pure: it computes desired states and touches nothing."""

    kind: str

    @property
    def traits(self) -> FaultTraits:
        """What it declares about itself."""

    def summary(self) -> str:
        """One line for ``list faults``."""

    def check(self, fault: PlannedFault, *, nodes: int) -> None:
        """Raise ConfigError for bad params, an unknown selector or more victims than nodes."""

    def draw(self, rng: Rng, *, nodes: int, hold_ns: Ns, knobs: Mapping[str, Any]) -> PlannedFault:
        """One planned fault of this kind."""

    def resolve(
        self, fault: PlannedFault, view: ClusterView, rng: Rng
    ) -> tuple[tuple[str, ...], Mapping[str, Any]] | str:
        """Victims and concrete params (for a partition: the directed cuts); or why it cannot be done now (skipped)."""

    def apply(
        self, state: ClusterState, victims: tuple[str, ...], params: Mapping[str, Any]
    ) -> Mapping[str, HostState]:
        """``state`` with this fault in force."""

    def needs(self) -> frozenset[str]:
        """Capabilities of hosts that it needs: ``iptables``, ``signals``, ``files`` …; see ``BackendTraits``."""


@runtime_checkable
class Obliging(Protocol):
    """A kind that shows what it owes by another fault than a draw with fixed victims."""

    def oblige(self, who: Who, rng: Rng, *, nodes: int, hold_ns: Ns, company: int) -> PlannedFault:
        """A planned fault that hits ``who``. ``company``: how many other hard faults share its step."""


@runtime_checkable
class Changing(Protocol):
    """A kind that changes the version of a node."""

    def possible(self, versions: tuple[str, ...], *, begins_with: str, limits: VersionLimits) -> Available:
        """Whether a run whose nodes begin with this version can have it before any other change of a version."""

    def check_versions(self, fault: PlannedFault, versions: tuple[str, ...]) -> None:
        """Raise ConfigError for a version that it names and that is not at hand."""


class Condition(Protocol):
    """One thing that a trigger can wait for. Pure: it looks at one event at a time and keeps nothing."""

    name: str

    def summary(self) -> str:
        """One line for ``list triggers``."""

    def roles(self) -> tuple[str, ...]:
        """The roles that its occurrences name, ``actor`` first."""

    def channels(self) -> frozenset[str]:
        """Channels of ``Plan.observable``, one of which is enough to see it; empty: it needs none."""

    def hears(self) -> tuple[type[Event], ...]:
        """The types of events that ``match`` has to be asked about."""

    def check(self, trigger: OnEvent, *, nodes: int) -> None:
        """Raise ConfigError for fields it does not have, or a ``by`` that selects by chance."""

    def match(self, event: Any, trigger: OnEvent, before: Invoke | Observed | None) -> Occurrence | None:
        """The occurrence that ``event`` reports, if any.

        ``before``: for a Return the operation that it answers, for an Observed what that node said the last time.
        """

    def concerns(self, trigger: OnEvent, occurrence: Occurrence, view: ClusterView) -> bool:
        """Whether a node that ``trigger.by`` selects did it. Called only where that is not ``anybody``."""


class Strategy(Protocol):
    """Draws whole schedules from a seed. Obligations are met by construction."""

    def draw(
        self, rng: Rng, *, faults: Mapping[str, Fault], nodes: int, time_limit_ns: Ns, interval_ns: Ns, promise: Promise
    ) -> Schedule:
        """A schedule; ConfigError if the time limit is shorter than one fault."""


@runtime_checkable
class Informed(Protocol):
    """A strategy that wants to know what can be seen of the system, to draw no trigger that can never hit."""

    def informed(self, *, observable: frozenset[str], operations: frozenset[str], outsiders: int = 0) -> Strategy:
        """The strategy for that system.

        ``observable``: as in ``Plan``; ``operations``: what the workload does; ``outsiders``: nodes that do not vote.
        """


@runtime_checkable
class Enumerating(Protocol):
    """A strategy that plays a list in parts, one a run, instead of drawing: what it plays depends on the seed only by
    the part. Its runs owe nothing besides, and end with the schedule."""

    kinds: frozenset[str]
    """The kinds of faults in its list."""

    def part(self, number: int) -> Strategy:
        """The strategy for the run of this seed: parts follow each other, and come again after the last one."""


@runtime_checkable
class Zoning(Protocol):
    """A strategy that draws faults of whole zones, where nodes have zones."""

    def zoned(self, zones: Mapping[str, str]) -> Strategy:
        """The strategy for nodes in these zones. ``zones``: node → label."""


@runtime_checkable
class Thorough(Protocol):
    """A strategy that can put having each fault kind at least once before everything else."""

    def thorough(self) -> Strategy:
        """The strategy that does."""


@runtime_checkable
class Brisk(Protocol):
    """A strategy that can keep the gaps between faults short even where faults have to last long."""

    def brisk(self, gap_most_ns: Ns) -> Strategy:
        """The strategy that leaves at most this from health to the next fault."""
