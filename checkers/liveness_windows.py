"""Liveness windows: the longest stretches with one witness set and no fault touching it.

Guarantees: a window ends at any change of a member, of a link to or between members, or of an outsider that can reach
them. Out of scope: whether a window is long enough, and what had to happen in it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dethrone.checkers.base import votes_needed
from dethrone.checkers.excuses import in_force
from dethrone.checkers.graph import Adjacency, Interval, Timeline, Witness, bits, end_of_run, timeline, witness
from dethrone.checkers.traces import named
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.events import FaultEvent, NodeProcess
from dethrone.harness.core.history import History, per_history
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Promise, Tier

HALTS = named("halt")


@dataclass(frozen=True, slots=True)
class Window:
    """[lo, hi) with one witness set. ``client_cut``: some host does not certainly hear the clients."""

    lo: Ns
    hi: Ns
    tier: Tier
    members: tuple[str, ...]
    dead: tuple[str, ...]
    """Voters that are certainly down or frozen all the time."""
    client_cut: bool
    adjacency: Adjacency

    @property
    def length(self) -> Ns:
        """In ns."""
        return self.hi - self.lo


@per_history
def windows(history: History, promise: Promise, plan: Plan) -> list[Window]:
    """All windows of this run, in order."""
    return _windows(timeline(history, promise, plan), promise)


def owed_windows(history: History, promise: Promise, plan: Plan) -> list[Window]:
    """The windows in which a leader may be owed: all, or of the first tier the parts in which nothing is broken."""
    found = windows(history, promise, plan)
    if not promise.owed_in_calm:
        return found
    calm = _calm(history, plan)
    return [
        replace(window, lo=max(window.lo, lo), hi=min(window.hi, hi))
        for window in found
        if window.tier == "T1"
        for lo, hi in calm
        if max(window.lo, lo) < min(window.hi, hi)
    ]


@dataclass(frozen=True, slots=True)
class Broken:
    """A fault was, or may have been, in force from ``lo``; its end began at ``ending`` and was over at ``over``."""

    lo: Ns
    ending: Ns | None
    over: Ns | None

    def at(self, t: Ns) -> bool:
        """Whether it had begun by this moment, and its end had not."""
        return self.lo <= t and (self.ending is None or self.ending > t)


def broken(history: History) -> list[Broken]:
    """All faults that were, or may have been, in force, as they began."""
    events = history.of(FaultEvent)
    ends = {event.fault: event.span for event in events if event.phase == "end"}
    spans = [(event.span.lo, ends.get(event.fault)) for event in events if in_force(event)]
    rows = [Broken(lo, None, None) if end is None else Broken(lo, end.lo, end.hi) for lo, end in spans]
    return sorted(rows, key=lambda one: one.lo)


def _calm(history: History, plan: Plan) -> list[tuple[Ns, Ns]]:
    """When no fault was in force on any node, until one that does not vote ended by itself."""
    last = outsider_ended(history, plan)
    end = end_of_run(history) if last is None else last
    out: list[tuple[Ns, Ns]] = []
    at: Ns = 0
    for one in broken(history):
        lo = min(one.lo, end)
        if at < lo:
            out.append((at, lo))
        at = max(at, end if one.over is None else one.over)
    return [*out, (at, end)] if at < end else out


def outsider_ended(history: History, plan: Plan) -> Ns | None:
    """When the first node that does not vote ended by itself, if one did: a coordination service, an observer.

    It may report that itself, as the project's own nodes do, or its process just be gone.
    """
    halts = [(event.node, event.span.lo) for event in HALTS(history) if event.source == "shell"]
    exits = [
        (event.node, event.span.lo) for event in history.of(NodeProcess) if event.phase == "exited" and not event.asked
    ]
    return min((at for node, at in (*halts, *exits) if node not in plan.voters), default=None)


def _windows(line: Timeline, promise: Promise) -> list[Window]:
    quorum = votes_needed(promise, len(line.voters))
    known: dict[Adjacency, Witness | None] = {}
    out: list[Window] = []
    last: tuple[object, ...] | None = None
    for interval in line.intervals:
        if interval.adjacency not in known:
            known[interval.adjacency] = witness(interval.adjacency, quorum)
        best = known[interval.adjacency]
        if best is None or not interval.settled:
            last = None
            continue
        signature = _signature(interval, best)
        dead = line.names(interval.adjacency.dead)
        if last == signature and out[-1].hi == interval.lo:
            old = out[-1]
            out[-1] = Window(
                old.lo,
                interval.hi,
                old.tier,
                old.members,
                tuple(name for name in old.dead if name in dead),
                old.client_cut or interval.client_cut,
                old.adjacency,
            )
        else:
            members = line.names(best.mask)
            out.append(
                Window(interval.lo, interval.hi, best.tier, members, dead, interval.client_cut, interval.adjacency)
            )
        last = signature
    return out


def _signature(interval: Interval, best: Witness) -> tuple[object, ...]:
    """Everything that touches the witness set, as one comparable value."""
    adjacency, inside = interval.adjacency, best.mask
    size = len(adjacency.voters)
    links = tuple(
        (adjacency.open[i], adjacency.cut[i], adjacency.clean[i])
        if inside >> i & 1
        else (adjacency.open[i] & inside, adjacency.cut[i] & inside, adjacency.clean[i] & inside)
        for i in range(size)
    )
    reached = 0
    for i in range(size):
        if not inside >> i & 1 and any(
            not adjacency.cut[i] >> j & 1 or not adjacency.cut[j] >> i & 1 for j in bits(inside)
        ):
            reached |= 1 << i
    clocks = tuple(interval.clocks[i] for i in bits(inside))
    return best.tier, inside, links, adjacency.alive & reached, adjacency.dead & reached, clocks
