"""Each node's role and the faults of its host as intervals: the lanes of the space-time view.

Guarantees: pure; intervals of one kind on one lane never overlap and never leave the history; between two sightings
further apart than ``GAP_NS`` (or than three polls) the lane is empty. ``marks`` draws single events.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence

import msgspec

from dethrone.harness.core.clock import MS, Ns
from dethrone.harness.core.events import Converged, NodeProcess, Observed, Traced
from dethrone.harness.core.history import History
from dethrone.harness.report.marks import leading_roles
from dethrone.harness.report.words import troubles

GAP_NS: Ns = 1_000 * MS
"""A role is drawn on over a silence of at most this long, or of three polls where polls are rarer."""


class RoleSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A node said (or did) nothing else than this in between."""

    lo: Ns
    hi: Ns
    role: str
    leads: bool
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
    asked: Ns
    order: int
    role: str
    leads: bool
    term: int
    incarnation: int
    traced: bool


def role_spans(history: History, nodes: Sequence[str], *, poll_ns: Ns = 100 * MS) -> dict[str, list[RoleSpan]]:
    """Node → its role and term over time."""
    sightings = _sightings(history)
    gap = max(GAP_NS, 3 * poll_ns)
    end = history.events[-1].t
    return {node: _merge(sightings.get(node, []), _deaths(history, node), gap=gap, end=end) for node in nodes}


def _sightings(history: History) -> dict[str, list[_Sighting]]:
    leads = leading_roles(history)
    out: dict[str, list[_Sighting]] = defaultdict(list)
    for seen in history.of(Observed):
        if seen.span.hi - seen.span.lo > GAP_NS:  # it says something about some moment of a long time: too little
            continue
        middle = (seen.span.lo + seen.span.hi) // 2
        out[seen.node].append(
            _Sighting(middle, seen.span.lo, seen.seq, seen.role, seen.leads, seen.term, seen.incarnation, traced=False)
        )
    for did in history.of(Traced):
        if did.role:
            t = did.span.hi
            out[did.node].append(
                _Sighting(t, t, did.seq, did.role, did.role in leads, did.term, did.incarnation, traced=True)
            )
    for sightings in out.values():
        sightings.sort(key=lambda s: (s.t, s.order))
    return out


def _deaths(history: History, node: str) -> list[Ns]:
    return sorted(event.span.lo for event in history.of(NodeProcess) if event.node == node and event.phase == "exited")


def _merge(sightings: list[_Sighting], deaths: list[Ns], *, gap: Ns, end: Ns) -> list[RoleSpan]:
    out: list[RoleSpan] = []
    lo = hi = 0
    current: _Sighting | None = None
    since = -1
    """When a trace line last changed the state: a poll sent before that may still report the old one."""

    def close(until: Ns) -> None:
        if current is not None:
            out.append(
                RoleSpan(
                    lo=lo,
                    hi=max(lo, min(until, end)),
                    role=current.role,
                    leads=current.leads,
                    term=current.term,
                    incarnation=current.incarnation,
                )
            )

    def last_breath(seen: Ns) -> Ns:
        died = _next(deaths, seen)
        return died if died is not None and died <= seen + gap else seen

    for sighting in sightings:
        if current is not None:
            same = (sighting.role, sighting.term, sighting.incarnation) == (
                current.role,
                current.term,
                current.incarnation,
            )
            if not same and not sighting.traced and sighting.asked <= since:
                continue
            died = _next(deaths, hi)
            broken = sighting.t - hi > gap or (died is not None and died <= sighting.t)
            if same and not broken:
                hi = sighting.t
                continue
            if broken:
                close(min(last_breath(hi), sighting.t))
            else:
                close(sighting.t)
        current, lo, hi = sighting, sighting.t, sighting.t
        if sighting.traced:
            since = sighting.t
    if current is not None:
        close(last_breath(hi))
    return [span for span in out if span.hi > span.lo or span.leads]


def _next(times: list[Ns], after: Ns) -> Ns | None:
    index = bisect_right(times, after)
    return times[index] if index < len(times) else None


def trouble_spans(history: History, nodes: Sequence[str]) -> dict[str, list[TroubleSpan]]:
    """Host → what was wrong with it over time, by what the agents confirmed, and its process being gone."""
    end = history.events[-1].t
    out: dict[str, list[TroubleSpan]] = {node: [] for node in nodes}
    changes: dict[str, list[Converged]] = defaultdict(list)
    for event in history.of(Converged):
        changes[event.host].append(event)
    for host, events in changes.items():
        for index, event in enumerate(events):
            until = events[index + 1].span.hi if index + 1 < len(events) else end
            for kind, text in troubles(event.after):
                if kind == "down":  # what became of the process says it better
                    continue
                span = TroubleSpan(
                    lo=event.span.lo, hi=max(event.span.lo, until), kind=kind, text=text, confirmed=event.confirmed
                )
                _extend(out.setdefault(host, []), span)
    return {
        node: sorted([*spans, *_gone(history, node, end)], key=lambda span: (span.lo, span.kind))
        for node, spans in out.items()
    }


def _extend(spans: list[TroubleSpan], span: TroubleSpan) -> None:
    """Two neighbours that say the same are one."""
    for index in range(len(spans) - 1, -1, -1):
        last = spans[index]
        if last.kind != span.kind:
            continue
        if last.hi >= span.lo:
            same = last.text == span.text and last.confirmed == span.confirmed
            spans[index] = msgspec.structs.replace(last, hi=max(last.hi, span.hi) if same else min(last.hi, span.lo))
            if same:
                return
        break
    spans.append(span)


def _gone(history: History, node: str, end: Ns) -> list[TroubleSpan]:
    """From a process' exit to its next start; whether it was asked to."""
    out = []
    since: NodeProcess | None = None
    for event in history.of(NodeProcess):
        if event.node != node:
            continue
        if event.phase == "exited":
            since = since or event
        elif since is not None:
            out.append(_down(since, event.span.hi))
            since = None
    if since is not None:
        out.append(_down(since, end))
    return out


def _down(event: NodeProcess, until: Ns) -> TroubleSpan:
    code = event.code
    how = "" if code is None else f" (signal {-code})" if code < 0 else f" (exit code {code})"
    text = f"process down{how}{'' if event.asked else ', UNASKED'}"
    return TroubleSpan(lo=event.span.lo, hi=max(event.span.lo, until), kind="down", text=text, confirmed=True)
