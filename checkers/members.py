"""Who the members are, as far as the stored logs show it: configurations of one group, and when they were changing.

Sources: ``config`` events of the shell, in each node's own order, with what its log lost again; and faults that removed
a node and had it added again. Without any, the plan's voters are the members all the time. Guarantees: a node's
configuration is the last one in its stored log; one that its core says to have appended, and that is not stored yet, is
kept next to it. Out of scope: commits and whose votes count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dethrone.checkers.excuses import in_force
from dethrone.checkers.traces import named
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.events import FaultEvent, Traced
from dethrone.harness.core.history import History, per_history
from dethrone.harness.core.interfaces import declared
from dethrone.harness.core.plan import Plan

CONFIG = "config"
CONFIGS = named(CONFIG)

CHANGES = frozenset((CONFIG, "log_append", "log_truncate"))
"""Names of the events that may change what a node's stored log says of the members."""


@dataclass(frozen=True, slots=True)
class Config:
    """The members from the log entry (``index``, ``term``) on; ``seq`` is 0 for those at the start."""

    index: int
    term: int
    voters: frozenset[str]
    seq: int = 0


def initial(plan: Plan) -> Config:
    """The members that every node is started with."""
    return Config(0, 0, frozenset(plan.voters))


def config(event: Traced) -> Config | None:
    """The configuration that this event reports; None if it is none, or malformed."""
    if event.name != CONFIG:
        return None
    data: Mapping[str, Any] = event.data
    index, voters = data.get("index"), data.get("voters")
    if not isinstance(index, int) or isinstance(index, bool) or index < 1 or not isinstance(voters, list | tuple):
        return None
    names = frozenset(name for name in voters if isinstance(name, str))
    return Config(index, event.term, names, event.seq) if names else None


@per_history
def configurations(history: History) -> dict[str, list[Config]]:
    """Group → every configuration that any node was witnessed to store."""
    found: dict[str, list[Config]] = {}
    for event in CONFIGS(history):
        if event.source == "shell" and (one := config(event)) is not None:
            found.setdefault(event.group, []).append(one)
    return found


class Membership:
    """The configurations in one node's stored log, event by event in the node's own order."""

    def __init__(self, start: Config) -> None:
        self._start = start
        self._stored: dict[int, Config] = {}
        self._appended: dict[int, Config] = {}

    def feed(self, event: Traced) -> None:
        """Take one event of this node into account."""
        if event.source == "core":
            if event.name == CONFIG and event.data.get("what") == "appended" and (one := config(event)) is not None:
                self._appended[one.index] = one
            return
        if event.name in ("log_truncate", "log_append"):
            start = event.data.get("from")
            if isinstance(start, int):
                for index in [index for index in self._stored if index >= start]:
                    del self._stored[index]
        elif event.name == CONFIG and (one := config(event)) is not None:
            self._stored[one.index] = one
            self._appended.pop(one.index, None)

    def restarted(self) -> None:
        """A new incarnation: what was not stored is gone."""
        self._appended.clear()

    @property
    def last(self) -> Config:
        """The one in force: the last that is stored."""
        return self._stored[max(self._stored)] if self._stored else self._start

    def possible(self) -> list[Config]:
        """The last one stored, and those that were appended after it and are still on their way to the disk."""
        last = self.last
        return [last, *(one for index, one in self._appended.items() if index > last.index)]

    def all(self) -> list[Config]:
        """Everything in the stored log, the start included, in order."""
        return [self._start, *(self._stored[index] for index in sorted(self._stored))]


def count_under(configs: Iterable[Config], index: int) -> list[Config]:
    """The configurations under which an entry may have been counted: none that a later one replaced before it."""
    row = sorted(configs, key=lambda one: one.index)
    return [one for k, one in enumerate(row) if k + 1 == len(row) or row[k + 1].index > index]


@per_history
def changed(history: History, plan: Plan) -> list[tuple[Ns, Ns | None]]:
    """Stretches in which the members are not, or not everywhere, the plan's voters. None: to the end."""
    found: list[tuple[Ns, Ns | None]] = []
    everyone = frozenset(plan.voters)
    told: dict[tuple[str, str], bool] = {}
    since: Ns | None = None
    rows = CONFIGS(history) if configurations(history) else ()
    for event in sorted(rows, key=lambda row: (row.span.lo, row.seq)):
        one = config(event)
        if one is None:
            continue
        told[event.group, event.node] = one.voters == everyone
        if since is None and one.voters != everyone:
            since = event.span.lo
        elif since is not None and all(told.values()):
            found.append((since, event.span.hi))
            since = None
    if since is not None:
        found.append((since, None))
    return found


@per_history
def removals(history: History) -> list[FaultEvent]:
    """The begins of faults that removed a node from the members, or may have."""
    return [event for event in history.of(FaultEvent) if in_force(event) and declared(event.kind).removes]


def removing(history: History) -> list[tuple[Ns, Ns | None]]:
    """When such a fault had a node removed or added; all of its time where one of both is in doubt. None: to the end.

    In between the members are fewer by one of an odd number: a majority of them is as large as one of all, and the node
    itself is down. A removal that was asked for and not seen until the end, when the others were asked again, is in no
    log of a leader.
    """
    ends = {event.fault: event for event in history.of(FaultEvent) if event.phase == "end"}
    out: list[tuple[Ns, Ns | None]] = []
    for begin in removals(history):
        end = ends.get(begin.fault)
        if end is None or end.outcome == "heal_failed":
            out.append((begin.span.lo, None))
        elif (begin.outcome, end.outcome) == ("installed", "healed"):
            out += [(one.span.lo, one.span.hi) for one in (begin, end)]
        else:
            out.append((begin.span.lo, end.span.hi))
    return out


def returned(history: History, node: str, lo: Ns, hi: Ns) -> bool:
    """Whether this node was removed within [lo, hi]: it comes back as a new member, that need not remember anything."""
    return any(node in one.victims and one.span.lo <= hi and lo <= one.span.hi for one in removals(history))
