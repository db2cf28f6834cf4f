"""Who could certainly talk to whom, when: the realised faults as a graph per interval of time.

Built from ``Converged`` and ``NodeProcess`` events. Between the start of a change and its confirmed effect nothing that
it changes is certain; what it does not change stays what it was. A host that did not confirm is uncertain as a whole
until it does. Clock skew cuts nothing, but a change of it touches its host. While its agent is lost (``Noise`` of kind
``agent-lost``: from its last sign of life) nothing of a host is certain, and from the moment at which its faults may
have lapsed (``rules-lost``, ``dead-man``) none of them is, until its next confirmed state.

While the members in force are not, or not everywhere, the plan's voters, while a fault removes a node or has it added
(``dethrone.checkers.members``), and while a fault has asked the system to hand leadership over and nothing came of it
yet (``dethrone.checkers.asked``), no interval is settled: no leader is owed then.

Guarantees: an interval has one adjacency; integers and bit masks only (voter i is bit i), witness sets computed once a
distinct adjacency. Out of scope: what a protocol makes of a graph: that is ``dethrone.checkers.liveness_windows`` and
the promise's tiers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from dethrone.checkers.asked import under_way
from dethrone.checkers.members import changed, configurations, removing
from dethrone.harness.core.clock import Ns, Span
from dethrone.harness.core.events import Converged, Mark, NodeProcess, Noise
from dethrone.harness.core.history import History, per_history
from dethrone.harness.core.hoststate import HEALTHY, HostState
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Promise, Tier
from dethrone.harness.core.views import last_ns

UNKNOWN = "?"
AGENT_LOST = "agent-lost"
LAPSED = frozenset({"rules-lost", "dead-man"})
"""Kinds of ``Noise``: the faults of that host may no longer be in force, since ``span.lo``."""
CLIENT = "client"
Aspect = tuple[str, ...]
"""("link", src, dst) · ("frozen", host) · ("sick", host) · ("clock", host) · ("process", host)."""


@dataclass(frozen=True, slots=True)
class Adjacency:
    """Certainties of one interval, as masks of voters.

    ``alive``: runs, not frozen; ``healthy``: also no disk, cpu or unmodelled trouble; ``dead``: down or frozen.
    ``open[i]`` and ``cut[i]``: to whom packets of i certainly pass and certainly do not, by the links alone;
    ``clean[i]``: open without any loss or delay.
    """

    voters: tuple[str, ...]
    alive: int
    healthy: int
    dead: int
    open: tuple[int, ...]
    cut: tuple[int, ...]
    clean: tuple[int, ...]

    def two_way(self, who: int | None = None) -> tuple[int, ...]:
        """For each voter the healthy voters that it certainly has a two-way link to, without itself."""
        size = len(self.voters)
        good = self.healthy if who is None else self.healthy & who
        out = []
        for i in range(size):
            mask = 0
            if good >> i & 1:
                for j in range(size):
                    if j != i and good >> j & 1 and self.open[i] >> j & 1 and self.open[j] >> i & 1:
                        mask |= 1 << j
            out.append(mask)
        return tuple(out)

    def hears(self, node: int) -> tuple[int, int]:
        """(voters that this one certainly cannot hear, voters that it certainly can)."""
        deaf = heard = 0
        for i in range(len(self.voters)):
            if i == node:
                continue
            if self.cut[i] >> node & 1 or self.dead >> i & 1:
                deaf |= 1 << i
            elif self.open[i] >> node & 1 and self.alive >> i & 1:
                heard |= 1 << i
        return deaf, heard


@dataclass(frozen=True, slots=True)
class Interval:
    """A stretch of time with one adjacency. ``clocks``: per voter what its clock is set to; ``client_cut``: some host
    certainly or possibly does not hear the clients."""

    lo: Ns
    hi: Ns
    adjacency: Adjacency
    clocks: tuple[str, ...]
    client_cut: bool
    settled: bool = True
    """The members in force are the plan's voters, and no request of a fault is under way."""


@dataclass(frozen=True, slots=True)
class Witness:
    """A set of voters to whom a leader is owed, by which tier."""

    tier: Tier
    mask: int


@dataclass(frozen=True)
class Timeline:
    """All intervals of a run, in order, without gaps. ``voters`` fixes the bits."""

    voters: tuple[str, ...]
    intervals: tuple[Interval, ...]
    alone: bool = False
    """Some configuration had one voter only: it leads without hearing any node."""

    def at(self, t: Ns) -> Interval | None:
        """The interval that holds this moment."""
        return next((interval for interval in self.intervals if interval.lo <= t < interval.hi), None)

    def names(self, mask: int) -> tuple[str, ...]:
        """The voters of a mask."""
        return tuple(voter for bit, voter in enumerate(self.voters) if mask >> bit & 1)

    def mask(self, names: Sequence[str] | frozenset[str]) -> int:
        """The mask of these voters; others are dropped."""
        return sum(1 << bit for bit, voter in enumerate(self.voters) if voter in names)

    def clique_since(self, mask: int, until: Ns) -> Ns | None:
        """Since when, without a break up to ``until``, these voters are a clique of healthy nodes over clean links,
        their clocks untouched. None if they are not at ``until``."""
        since: Ns | None = None
        for interval in reversed(self.intervals):
            if interval.lo > until:
                continue
            if not interval.settled or not _clean_clique(interval, mask):
                break
            since = interval.lo
        return since


@per_history
def timeline(history: History, promise: Promise, plan: Plan) -> Timeline:
    """The timeline of this run."""
    found = _build(history, promise, plan)
    unsettled = sorted([*changed(history, plan), *removing(history), *under_way(history)], key=_since)
    if not unsettled:
        return found
    alone = any(len(one.voters) == 1 for rows in configurations(history).values() for one in rows)
    return Timeline(found.voters, tuple(_split(found.intervals, unsettled)), alone)


def _since(stretch: tuple[Ns, Ns | None]) -> Ns:
    return stretch[0]


def _split(intervals: Sequence[Interval], unsettled: Sequence[tuple[Ns, Ns | None]]) -> Iterator[Interval]:
    """The same intervals, cut where the members began or ceased to change."""
    for interval in intervals:
        at = interval.lo
        for since, until in unsettled:
            lo, hi = max(since, at), min(interval.hi if until is None else until, interval.hi)
            if lo >= hi:
                continue
            if at < lo:
                yield replace(interval, lo=at, hi=lo)
            yield replace(interval, lo=lo, hi=hi, settled=False)
            at = hi
        if at < interval.hi:
            yield replace(interval, lo=at)


def end_of_run(history: History) -> Ns:
    """When the run stopped to be what was planned: the mark ``stop``, else the end record, else the last event."""
    stop = next((mark.t for mark in history.of(Mark) if mark.name == "stop"), None)
    if stop is not None:
        return stop
    return last_ns(history)


# --- what is certain when ---------------------------------------------------------------------------------------


def _build(history: History, promise: Promise, plan: Plan) -> Timeline:
    voters = tuple(plan.voters)
    values: dict[Aspect, str] = {}
    for dst in voters:
        values.update(_aspects(dst, HEALTHY, voters, promise))
        values["process", dst] = "down"
    end = end_of_run(history)
    updates = sorted(_updates(history, promise, voters), key=lambda update: update[0])
    silent = _uncertain(history, voters, end)
    edges = sorted({edge for lo, hi, *_ in silent for edge in (lo, hi)})
    intervals: list[Interval] = []
    known: dict[tuple[tuple[Aspect, str], ...], tuple[Adjacency, tuple[str, ...], bool]] = {}
    at: Ns = 0
    position = 0
    while at < end:
        while position < len(updates) and updates[position][0] <= at:
            _, aspect, value = updates[position]
            values[aspect] = value
            position += 1
        until = min(updates[position][0], end) if position < len(updates) else end
        until = min(until, next((edge for edge in edges if edge > at), end))
        now = values
        for lo, hi, host, whole in silent:
            if lo <= at < hi:
                now = {**now, **_nothing_certain(host, voters, whole=whole)}
        key = tuple(sorted(now.items()))
        if key not in known:
            known[key] = _picture(now, voters)
        adjacency, clocks, client_cut = known[key]
        last = intervals[-1] if intervals else None
        if last is not None and (last.adjacency, last.clocks, last.client_cut) == known[key]:
            intervals[-1] = Interval(last.lo, until, adjacency, clocks, client_cut)
        else:
            intervals.append(Interval(at, until, adjacency, clocks, client_cut))
        at = until
    return Timeline(voters, tuple(intervals))


def _uncertain(history: History, voters: tuple[str, ...], end: Ns) -> list[tuple[Ns, Ns, str, bool]]:
    """(from, to, host, whether its process is uncertain, too), of hosts of which something is missing."""
    confirmed: dict[str, list[Span]] = defaultdict(list)
    for event in history.of(Converged):
        if event.confirmed:
            confirmed[event.host].append(event.span)
    out = []
    for noise in history.of(Noise):
        if noise.host not in voters:
            continue
        if noise.kind == AGENT_LOST:
            back = noise.detail.get("back") is not False
            out.append((noise.span.lo, noise.span.hi if back else end, noise.host, True))
        elif noise.kind in LAPSED:
            # What was confirmed within the span may have lapsed after that: only a later probe settles it.
            settled = min((span.hi for span in confirmed[noise.host] if span.hi >= noise.span.hi), default=end)
            out.append((noise.span.lo, settled, noise.host, noise.kind == "dead-man"))
    return out


def _nothing_certain(host: str, voters: tuple[str, ...], *, whole: bool) -> dict[Aspect, str]:
    """Every aspect of this host as unknown; ``whole``: its process, too."""
    aspects: list[Aspect] = [("link", src, host) for src in (*voters, CLIENT) if src != host]
    aspects += [("frozen", host), ("sick", host), ("clock", host), *([("process", host)] if whole else [])]
    return dict.fromkeys(aspects, UNKNOWN)


def _aspects(host: str, state: HostState, voters: tuple[str, ...], promise: Promise) -> dict[Aspect, str]:
    """What this host's state means, apart from its process."""
    out: dict[Aspect, str] = {}
    unmodelled, state = state.unmodelled, state.suffered
    quality = {link.src: link for link in state.links}
    for src in (*voters, CLIENT):
        if src == host:
            continue
        link = quality.get(src)
        value = "open"
        if src in state.cuts:
            value = "cut"
        elif src in (state.refuses or ()):
            value = "bad"  # what has a connection hears it, and no promise says who has one
        elif link is not None and (
            link.hold
            or link.rate_kbit_per_s  # no promise says how much a system needs
            or link.loss_percent + (link.corrupt_percent or 0) > promise.loss_percent_max
            or link.delay_ns + link.jitter_ns + link.reorder_ns > promise.delay_max_ns
        ):
            value = "bad"
        elif link is not None and (
            link.loss_percent
            or link.delay_ns
            or link.jitter_ns
            or link.duplicate_percent
            or link.reorder_percent
            or link.corrupt_percent
        ):
            value = "fair"
        out["link", src, host] = value
    out["frozen", host] = "yes" if state.frozen else "no"
    slow = state.disk is not None and state.disk.kind == "slow" and state.disk.latency_ns <= promise.delay_max_ns
    well = (state.disk is None or slow) and state.cpu_percent is None and not unmodelled
    out["sick", host] = "no" if well else "yes"
    out["clock", host] = "" if state.clock is None else repr(state.clock)
    return out


def _updates(history: History, promise: Promise, voters: tuple[str, ...]) -> Iterator[tuple[Ns, Aspect, str]]:
    """(from when, aspect, value) in no particular order."""
    told: dict[str, dict[Aspect, str]] = {}
    for event in history.of(Converged):
        host = event.host
        if host not in voters:
            continue
        now = told.setdefault(host, _aspects(host, HEALTHY, voters, promise))
        was, wanted = event.before.suffered, event.after.suffered
        before = _aspects(host, event.before, voters, promise)
        after = _aspects(host, event.after, voters, promise)
        for aspect, value in after.items():
            if event.confirmed and now[aspect] == before[aspect] == value:
                continue
            yield event.span.lo, aspect, UNKNOWN
            now[aspect] = UNKNOWN
            if event.confirmed:
                yield event.span.hi, aspect, value
                now[aspect] = value
        if wanted.down is not None or was.down is not None or not event.confirmed:
            if was.down is None or wanted.down is None:
                yield event.span.lo, ("process", host), UNKNOWN
            if wanted.down is not None and event.confirmed:
                yield event.span.hi, ("process", host), "down"
    ready = {(event.node, event.incarnation) for event in history.of(NodeProcess) if event.phase == "ready"}
    ended = {
        (event.node, event.incarnation): event.span.lo for event in history.of(NodeProcess) if event.phase == "exited"
    }
    for process in history.of(NodeProcess):
        if process.node not in voters:
            continue
        aspect = ("process", process.node)
        if process.phase == "started":
            yield process.span.lo, aspect, UNKNOWN
            up = process.span.hi + promise.leader_bound_ns  # at the latest, if it is not gone by then
            if (process.node, process.incarnation) not in ready and ended.get(
                (process.node, process.incarnation), up + 1
            ) > up:
                yield up, aspect, "up"
        elif process.phase == "ready":
            yield process.span.hi, aspect, "up"
        else:
            yield process.span.lo, aspect, UNKNOWN
            yield process.span.hi, aspect, "down"


def _picture(values: Mapping[Aspect, str], voters: tuple[str, ...]) -> tuple[Adjacency, tuple[str, ...], bool]:
    alive = healthy = dead = 0
    for bit, voter in enumerate(voters):
        process, frozen = values["process", voter], values["frozen", voter]
        if process == "down" or (frozen == "yes" and process != UNKNOWN):
            dead |= 1 << bit
        elif process == "up" and frozen == "no":
            alive |= 1 << bit
            if values["sick", voter] == "no":
                healthy |= 1 << bit
    masks: dict[str, list[int]] = {word: [0] * len(voters) for word in ("open", "fair", "cut")}
    for i, src in enumerate(voters):
        for j, dst in enumerate(voters):
            if i != j and (value := values["link", src, dst]) in masks:
                masks[value][i] |= 1 << j
    adjacency = Adjacency(
        voters=voters,
        alive=alive,
        healthy=healthy,
        dead=dead,
        open=tuple(a | b for a, b in zip(masks["open"], masks["fair"], strict=True)),
        cut=tuple(masks["cut"]),
        clean=tuple(masks["open"]),
    )
    clocks = tuple(values["clock", voter] for voter in voters)
    client_cut = any(values["link", CLIENT, voter] != "open" for voter in voters)
    return adjacency, clocks, client_cut


def _clean_clique(interval: Interval, mask: int) -> bool:
    adjacency = interval.adjacency
    if mask & ~adjacency.healthy:
        return False
    return not any(interval.clocks[bit] or mask & ~(1 << bit) & ~adjacency.clean[bit] for bit in bits(mask))


# --- to whom a leader is owed -----------------------------------------------------------------------------------


def bits(mask: int) -> Iterator[int]:
    """The positions of the ones."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def cliques(neighbours: Sequence[int], among: int, least: int) -> list[int]:
    """All maximal cliques of at least ``least`` members within ``among`` (Bron and Kerbosch, with a pivot)."""
    out: list[int] = []

    def extend(clique: int, candidates: int, done: int) -> None:
        if not candidates and not done:
            if clique.bit_count() >= least:
                out.append(clique)
            return
        if clique.bit_count() + candidates.bit_count() < least:
            return
        pivot = max(bits(candidates | done), key=lambda bit: (candidates & neighbours[bit]).bit_count())
        for bit in bits(candidates & ~neighbours[pivot]):
            one = 1 << bit
            extend(clique | one, candidates & neighbours[bit], done & neighbours[bit])
            candidates ^= one
            done |= one

    extend(0, among, 0)
    return out


def boundary(adjacency: Adjacency, inside: int) -> Literal["closed", "two-way", "half-open", "uncertain"]:
    """How this set is connected to the other voters."""
    worst: Literal["closed", "two-way", "half-open"] = "closed"
    outside = ((1 << len(adjacency.voters)) - 1) & ~inside
    for other in bits(outside & ~adjacency.dead):
        for one in bits(inside):
            away, back = _passes(adjacency, one, other), _passes(adjacency, other, one)
            if away is None or back is None:
                return "uncertain"
            if away != back:
                worst = "half-open"
            elif away and worst == "closed":
                worst = "two-way"
    return worst


def _passes(adjacency: Adjacency, src: int, dst: int) -> bool | None:
    """Whether packets pass from src to dst; None: not certain, or badly."""
    if adjacency.cut[src] >> dst & 1:
        return False
    if adjacency.open[src] >> dst & 1 and adjacency.alive >> src & 1 and adjacency.alive >> dst & 1:
        return True
    return None


_TIER: Mapping[str, Tier] = {"closed": "T2", "two-way": "T3", "half-open": "T5"}
_RANK: Mapping[Tier, int] = {"T1": 0, "T2": 1, "T3": 2, "T5": 3, "T4": 4}


def witness(adjacency: Adjacency, quorum: int) -> Witness | None:
    """The set to whom a leader is most surely owed in this graph; None if to none, or nothing is certain."""
    size = len(adjacency.voters)
    everyone = (1 << size) - 1
    neighbours = adjacency.two_way()
    found: list[Witness] = []
    whole = cliques(neighbours, adjacency.healthy, quorum)
    for mask in whole:
        if mask == everyone:
            return Witness("T1", mask)
        kind = boundary(adjacency, mask)
        if kind != "uncertain":
            found.append(Witness(_TIER[kind], mask))
    if not whole:
        for bit in bits(adjacency.healthy):
            mask = neighbours[bit] | 1 << bit
            if mask.bit_count() >= quorum and boundary(adjacency, mask) != "uncertain":
                found.append(Witness("T4", mask))
    if not found:
        return None
    return min(found, key=lambda one: (_RANK[one.tier], -one.mask.bit_count(), one.mask))


def explain(adjacency: Adjacency) -> dict[str, Any]:
    """This graph for people: nodes not certainly well, links not certainly two-way, and the maximal cliques."""
    import networkx as nx  # on use: it takes longer than judging a short run

    graph: Any = nx.Graph()
    voters = adjacency.voters
    graph.add_nodes_from(voters[bit] for bit in bits(adjacency.healthy))
    neighbours = adjacency.two_way()
    for i in bits(adjacency.healthy):
        graph.add_edges_from((voters[i], voters[j]) for j in bits(neighbours[i]))
    missing = nx.complement(graph)
    return {
        "not_well": sorted(voter for bit, voter in enumerate(voters) if not adjacency.healthy >> bit & 1),
        "no_two_way_link": sorted(sorted(edge) for edge in missing.edges),
        "cliques": sorted(sorted(clique) for clique in nx.find_cliques(graph)),
    }
