"""What a kind of fault declares about itself, apart from its methods: one value, from which everything else is derived.

Who judges, draws, permits or reports faults asks the declaration (``declared``) and keeps no list of kinds: coverage
obligations, what a promise bears, who is taken out, how long a fault lasts. ``docs/new-fault.md`` asks the questions
that a new kind answers. Guarantees: pure; a kind that is not installed here, as in a history from elsewhere, has the
cautious declaration that nothing is known of. Out of scope: the methods of a kind (``.nemesis.Fault``), and what its
victims suffer (``dethrone.harness.core.hoststate``).
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from dethrone.harness.core import registry
from dethrone.harness.core.errors import ConfigError

Who = Literal["leader", "follower", "anybody"]
Part = Literal[
    "cuts",
    "links",
    "killed",
    "stopped",
    "power",
    "frozen",
    "clock",
    "disk",
    "cpu",
    "memory",
    "descriptors",
    "version",
]

AS_PROCESS_FAULT = ("kill",)
AS_NETWORK_FAULT = ("partition",)
AS_CLOCK_FAULT = ("clock",)
AS_DISK_FAULT = ("disk",)
"""Usual answers to ``FaultTraits.borne_as``."""


class Shown(msgspec.Struct, frozen=True):
    """A coverage obligation: a fault of the kind that hit ``who``, in a cluster of ``nodes_min`` nodes or more.

    ``remedy``: what to do if no run showed it, after "give the run more time, or"; "" for what ``coverage`` reads from
    the graph of links and explains itself.
    """

    name: str
    who: Who
    remedy: str = ""
    nodes_min: int = 1


class FaultTraits(msgspec.Struct, frozen=True, kw_only=True):
    """What is special about a kind of fault. The defaults claim nothing.

    ``harms``: the class of its victims' trouble; a ``process`` fault ends or stops the node processes that it names and
    no others. ``lasts``: as long as it is held; it ends at once (a hold is refused); or for good, as its victims do not
    recover and nothing should come after it. ``ends_process``: the node process is started again afterwards.
    ``takes_out``: its victims take no part meanwhile, so a leader among them is lost. ``cuts``: links between nodes are
    cut, so the graph of who hears whom says whom it took out. ``leaves_majority``: held, it may leave a majority that
    hears no other node. ``mild``: its victims run on, so it may share a step with any other fault.

    ``owes``: what a schedule with this kind must show; ``shows``: what a fault of it shows besides. ``borne_as``: a
    promise that does not name this kind bears it, in the smallest of their numbers, if it bears all of these; none:
    only a promise that names the kind bears it. ``touches``: the parts of a host's state that it changes, which owners
    of machines may refuse. ``nodes_min``: the smallest cluster that it makes sense in. ``asks``: the operation that it
    asks the system for (``Requesting``) instead of doing something to hosts; every promise bears what the system does
    at its own users' request. ``removes``: meanwhile its victims are no members of the cluster; they
    return as new ones.
    """

    harms: Literal["process", "network", "clock", "disk", "host"] = "host"
    lasts: Literal["held", "at-once", "for-good"] = "held"
    ends_process: bool = False
    takes_out: bool = False
    cuts: bool = False
    leaves_majority: bool = False
    mild: bool = False
    owes: tuple[Shown, ...] = ()
    shows: tuple[Shown, ...] = ()
    borne_as: tuple[str, ...] = ()
    touches: frozenset[Part] = frozenset()
    nodes_min: int = 1
    asks: str = ""
    removes: bool = False

    @property
    def showing(self) -> tuple[Shown, ...]:
        """All that a fault of this kind may show."""
        return (*self.owes, *self.shows)

    @property
    def brief(self) -> bool:
        """Whether a fault of this kind may end as soon as it is in force, because its victim starts again."""
        return self.ends_process and self.lasts != "at-once"

    @property
    def unseats(self) -> bool:
        """Whether it takes a leader away and gives it back."""
        return self.takes_out and self.lasts != "for-good"


UNDECLARED = FaultTraits()


def traits_of(fault: Any) -> FaultTraits:
    """What this kind declares; a plug-in without a declaration claims nothing."""
    traits = getattr(fault, "traits", UNDECLARED)
    return traits if isinstance(traits, FaultTraits) else UNDECLARED


def declared(kind: str) -> FaultTraits:
    """What the kind of this name declares; the cautious default if it is not installed."""
    filed = registry.plugged(registry.FAULTS)
    if kind not in filed and ":" in kind:
        return _declared_of_process(kind)
    return traits_of(filed[kind]) if kind in filed else declarations().get(kind, UNDECLARED)


@functools.lru_cache(maxsize=64)
def _declared_of_process(kind: str) -> FaultTraits:
    """Of ``kill:sentinel``; asked for each event, as below."""
    try:
        return traits_of(registry.load(registry.FAULTS, kind))
    except ConfigError:
        return UNDECLARED


def declarations() -> Mapping[str, FaultTraits]:
    """Kind → declaration, of all that are installed, sorted by name."""
    return _declarations(tuple(sys.path))


@functools.lru_cache(maxsize=64)
def _declarations(_places: tuple[str, ...]) -> Mapping[str, FaultTraits]:
    """Read once per search path: checkers ask for each event. A kind that cannot be imported has the cautious one."""
    out = {}
    for kind in registry.names(registry.FAULTS):
        try:
            out[kind] = traits_of(registry.load(registry.FAULTS, kind))
        except ConfigError:  # it is named where it is asked for; other kinds are judged as ever
            out[kind] = UNDECLARED
    return out
