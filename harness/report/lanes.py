"""Each node's role and the faults of its host as intervals: the lanes of the space-time view.

Guarantees: intervals of one kind on one lane never overlap and never leave the history; between two sightings further
apart than ``GAP_NS`` (or than three polls) the lane is empty. Events come one after another and intervals leave as they
end, so that memory does not grow with the history. ``marks`` draws single events.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from dethrone.harness.core.clock import MS, SECOND, Ns
from dethrone.harness.core.events import Converged, NodeProcess, Observed, Traced
from dethrone.harness.report.words import troubles

GAP_NS: Ns = 1_000 * MS
"""A role is drawn on over a silence of at most this long, or of three polls where polls are rarer."""

LATE_NS: Ns = 30 * SECOND
"""In a long history, a sighting that is written down later than this is not drawn."""

SIGHTINGS_MAX = 100_000
"""Sightings that wait for earlier ones that are still to come; beyond, a history is long."""


class RoleSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A node said (or did) nothing else than this in between. ``leads`` None: if its role is one that leads."""

    lo: Ns
    hi: Ns
    role: str
    leads: bool | None
    term: int
    incarnation: int


class TroubleSpan(msgspec.Struct, frozen=True, kw_only=True):
    """Something was wrong with the host.

    ``kind``: cut, down, frozen, clock, link, disk, cpu, or a fault kind of its own. ``text``: what.
    """

    lo: Ns
    hi: Ns
    kind: str
    text: str
    confirmed: bool


class _Sighting(msgspec.Struct, frozen=True, gc=False):
    t: Ns
    order: int
    asked: Ns
    role: str
    leads: bool | None
    term: int
    incarnation: int

    @property
    def traced(self) -> bool:
        return self.leads is None

    def same(self, other: _Sighting) -> bool:
        return (self.role, self.term, self.incarnation) == (other.role, other.term, other.incarnation)


def _by_time(seen: _Sighting) -> tuple[Ns, int]:
    return seen.t, seen.order


class RoleFold:
    """The roles and terms of nodes over time; ``out`` takes each node's spans in their order."""

    def __init__(self, nodes: Sequence[str], out: Callable[[str, RoleSpan], None], *, poll_ns: Ns = 100 * MS) -> None:
        gap = max(GAP_NS, 3 * poll_ns)
        self._nodes = {node: _Roles(node, out, gap) for node in nodes}
        self._waiting: dict[str, list[_Sighting]] = defaultdict(list)
        self._count = 0
        self._most = SIGHTINGS_MAX
        """Sightings that may wait; where many are too young to be drawn, more of them."""

    @property
    def late(self) -> int:
        """Sightings that came too late to be drawn."""
        return sum(node.late for node in self._nodes.values())

    def add(self, event: Any) -> None:
        """One event more."""
        kind = type(event)
        if kind is Observed:
            if event.span.hi - event.span.lo > GAP_NS:  # some moment of a long time: that says too little
                return
            middle = (event.span.lo + event.span.hi) // 2
            seen = _Sighting(middle, event.seq, event.span.lo, event.role, event.leads, event.term, event.incarnation)
        elif kind is Traced and event.role:
            t = event.span.hi
            seen = _Sighting(t, event.seq, t, event.role, None, event.term, event.incarnation)
        else:
            if kind is NodeProcess and event.phase == "exited" and event.node in self._nodes:
                insort(self._nodes[event.node].deaths, event.span.lo)
            return
        if event.node in self._nodes:
            self._waiting[event.node].append(seen)
            self._count += 1
            if self._count > self._most:
                self.advance(event.t)

    def advance(self, now: Ns) -> None:
        """Draw what is older than ``LATE_NS``."""
        self._count = 0
        for node, waiting in self._waiting.items():
            waiting.sort(key=_by_time)
            ripe = bisect_right(waiting, now - LATE_NS, key=lambda seen: seen.t)
            self._nodes[node].take(waiting[:ripe])
            del waiting[:ripe]
            self._count += len(waiting)
        self._most = self._count + SIGHTINGS_MAX

    def finish(self, end: Ns) -> None:
        """There is no more: the history ends at ``end``."""
        for name, node in self._nodes.items():
            node.end = end
            node.take(sorted(self._waiting[name], key=_by_time))
            node.close()


class _Roles:
    """One node."""

    def __init__(self, node: str, out: Callable[[str, RoleSpan], None], gap: Ns) -> None:
        self.node, self.out, self.gap = node, out, gap
        self.deaths: list[Ns] = []
        self.end: Ns | None = None
        self.late = 0
        self.current: _Sighting | None = None
        self.lo = self.hi = 0
        self.since: Ns = -1
        """When a trace line last changed the state: a poll sent before that may still report the old one."""

    def take(self, sightings: Sequence[_Sighting]) -> None:
        for seen in sightings:
            self._take(seen)
        del self.deaths[: bisect_left(self.deaths, self.hi)]

    def _take(self, seen: _Sighting) -> None:
        if self.current is not None:
            if seen.t < self.hi:
                self.late += 1
                return
            same = self.current.same(seen)
            if not same and not seen.traced and seen.asked <= self.since:
                return
            died = _next(self.deaths, self.hi)
            broken = seen.t - self.hi > self.gap or (died is not None and died <= seen.t)
            if same and not broken:
                self.hi = seen.t
                return
            self._close(min(self._last_breath(), seen.t) if broken else seen.t)
        self.current, self.lo, self.hi = seen, seen.t, seen.t
        if seen.traced:
            self.since = seen.t

    def close(self) -> None:
        """The last span."""
        self._close(self._last_breath())

    def _close(self, until: Ns) -> None:
        seen = self.current
        if seen is None:
            return
        hi = max(self.lo, until if self.end is None else min(until, self.end))
        if hi > self.lo or seen.leads is not False:
            self.out(
                self.node,
                RoleSpan(
                    lo=self.lo, hi=hi, role=seen.role, leads=seen.leads, term=seen.term, incarnation=seen.incarnation
                ),
            )

    def _last_breath(self) -> Ns:
        died = _next(self.deaths, self.hi)
        return died if died is not None and died <= self.hi + self.gap else self.hi


def _next(times: list[Ns], after: Ns) -> Ns | None:
    index = bisect_right(times, after)
    return times[index] if index < len(times) else None


class TroubleFold:
    """What was wrong with hosts over time, by what the agents confirmed, and processes being gone. ``out`` takes spans
    as they end; those of one host and kind come in their order."""

    def __init__(self, out: Callable[[str, TroubleSpan], None]) -> None:
        self._out = out
        self._last: dict[str, Converged] = {}
        self._open: dict[str, dict[str, TroubleSpan]] = defaultdict(dict)
        """Host → kind → the last span, which the next one may still prolong or cut off."""
        self._gone: dict[str, NodeProcess] = {}

    def add(self, event: Any) -> None:
        """One event more."""
        if type(event) is Converged:
            if (last := self._last.get(event.host)) is not None:
                self._end(last, event.span.hi)
            self._last[event.host] = event
        elif type(event) is NodeProcess:
            if event.phase == "exited":
                self._gone.setdefault(event.node, event)
            elif (gone := self._gone.pop(event.node, None)) is not None:
                self._out(event.node, _down(gone, event.span.hi))

    def advance(self, now: Ns) -> None:
        """Give out what is over and older than ``LATE_NS``, without waiting for the next of its kind."""
        for host, spans in self._open.items():
            held = {kind for kind, _ in troubles(self._last[host].after)}
            for kind in [kind for kind, span in spans.items() if kind not in held and span.hi < now - LATE_NS]:
                self._out(host, spans.pop(kind))

    def finish(self, end: Ns) -> None:
        """There is no more: the history ends at ``end``."""
        for last in self._last.values():
            self._end(last, end)
        for host, spans in self._open.items():
            for span in spans.values():
                self._out(host, span)
        for node, gone in self._gone.items():
            self._out(node, _down(gone, end))

    def _end(self, event: Converged, until: Ns) -> None:
        """The state that this event set ended."""
        spans = self._open[event.host]
        for kind, text in troubles(event.after):
            if kind == "down":  # what became of the process says it better
                continue
            lo = event.span.lo
            span = TroubleSpan(lo=lo, hi=max(lo, until), kind=kind, text=text, confirmed=event.confirmed)
            last = spans.get(kind)
            if last is not None and last.hi >= lo:
                if (last.text, last.confirmed) == (text, event.confirmed):  # two neighbours that say the same are one
                    spans[kind] = msgspec.structs.replace(last, hi=max(last.hi, span.hi))
                    continue
                last = msgspec.structs.replace(last, hi=min(last.hi, lo))
            if last is not None:
                self._out(event.host, last)
            spans[kind] = span


def _down(event: NodeProcess, until: Ns) -> TroubleSpan:
    code = event.code
    how = "" if code is None else f" (signal {-code})" if code < 0 else f" (exit code {code})"
    text = f"process down{how}{'' if event.asked else ', UNASKED'}"
    return TroubleSpan(lo=event.span.lo, hi=max(event.span.lo, until), kind="down", text=text, confirmed=True)
