"""One node of the naming Raft as a pure core: the start, the two tasks, and which rule handles which event.

Guarantees: the start loads the data items, then the term, and only then runs the tasks, both at once and then every 500
protocol ms: the election task at a fixed rate, the beat task with a fixed delay. A disk error, or an unreadable file at
the start, stops the node. Once the cluster runs the new version the protocol stops for good.

Out of scope: the notifier of data listeners (no client listens here). Ticks that a starved process missed are skipped,
which delays its election; ``late_ticks=burst`` catches up on them, as the fixed-rate timer of the original's platform
does.

Source: docs/sources.md, nacos: ``RaftCore``.
"""

from __future__ import annotations

from typing import Any, ClassVar

from dethrone.clusters.targets.kit.core import KitCore, status_of
from dethrone.clusters.targets.nacos import beat, data, election, storage
from dethrone.clusters.targets.nacos import messages as m
from dethrone.clusters.targets.nacos.knobs import HEARTBEAT_INTERVAL_MS, Knobs
from dethrone.clusters.targets.nacos.rules import Rules
from dethrone.clusters.targets.nacos.state import NodeState
from dethrone.clusters.targets.nacos.writes import TIMER as PUBLISH_TIMER
from dethrone.harness.core.clock import Clocks, Ns
from dethrone.harness.core.machine import (
    CoreEvent,
    CoreStatus,
    DiskDone,
    DiskImage,
    Effect,
    Glance,
    Message,
    SendFailed,
)
from dethrone.harness.core.rng import Rng

ELECTION_TIMER = "election"
BEAT_TIMER = "beat"
SWITCH_TIMER = "version_switch"


def _call_refused(node: NodeState, src: str, error: m.CallError) -> None:
    # A refused publish, delete or fetch is logged in the original and has no effect; the publish waits on.
    if error.call == "vote":
        election.vote_call_failed(node, src, error)
    elif error.call == "beat":
        node.count("beat_failures")
    elif error.call == "peer":
        beat.peer_call_refused(node, src)
    elif error.call == "forward":
        data.forward_failed(node, error.number, error.text)


class NacosCore(KitCore[NodeState]):
    """One node. ``node`` may be looked at by tests; everything else goes through the contract of cores."""

    MESSAGES: ClassVar = {
        m.VoteRequest: lambda node, src, body: election.received_vote(node, src, body.vote),
        m.VoteAnswer: lambda node, _, body: election.received_vote_answer(node, body.peer),
        m.BeatRequest: lambda node, src, body: beat.received_beat(node, src, body.peer, body.datums),
        m.BeatAnswer: lambda node, _, body: beat.received_beat_answer(node, body.peer),
        m.PeerRequest: lambda node, src, _: beat.received_peer_request(node, src),
        m.PeerAnswer: lambda node, _, body: beat.received_peer_answer(node, body.peer),
        m.DatumPublish: data.received_publish,
        m.PublishAck: lambda node, src, body: data.received_publish_ack(node, src, body.number),
        m.DatumFetch: data.received_fetch,
        m.FetchAnswer: data.received_fetched,
        m.DatumDelete: data.received_delete,
        m.DeleteAck: lambda node, _src, _body: data.received_delete_ack(node),
        m.Forward: data.received_forward,
        m.ForwardAnswer: lambda node, _, body: data.received_forward_answer(node, body),
        m.CallError: _call_refused,
    }

    def __init__(self, *, node: str, members: tuple[str, ...], knobs: Knobs, rules: Rules) -> None:
        self.node = NodeState(node=node, members=members, knobs=knobs, rules=rules)
        self._tick = knobs.ns(rules.tick_ms())
        self._election_at: Ns = 0

    def load(self, disk: DiskImage) -> None:
        """Load data items, then the term; then run both tasks at once."""
        node = self.node
        knobs = node.knobs
        for datum in storage.load_datums(disk, knobs.namespace):
            node.items.put(datum)
        meta = node.rules.loads_meta(lambda: storage.load_meta(disk))
        term = node.rules.start_term(meta.term)
        node.peers.local_term = term
        node.meta = node.stored = meta
        local = node.local
        local.leader_due_ms = node.rules.first_leader_due_ms(node.rng)
        local.heartbeat_due_ms = node.rng.below(HEARTBEAT_INTERVAL_MS)
        if knobs.restart_term == "loaded":
            local.term = term
        if knobs.persist_vote:
            local.vote_for = meta.vote_for
        local.state = node.rules.start_state(meta, me=node.me)
        # Answers to an earlier life of this node must not pass for answers to this one.
        node.next_number = node.rng.below(1 << 30) << 20
        node.trace("start", loaded_term=term, items=len(node.items), voted_for=local.vote_for)
        self._election_at = node.time
        node.set_timer(ELECTION_TIMER, node.time)
        node.set_timer(BEAT_TIMER, node.time)
        if knobs.version_switch_ms:
            node.set_timer(SWITCH_TIMER, node.time + knobs.ns(knobs.version_switch_ms))

    def handle(self, event: CoreEvent, now: Clocks, rng: Rng, out: list[Effect]) -> None:
        """Handle one event; an answer to a peer names the request."""
        self.node.message = event.id if type(event) is Message else None
        super().handle(event, now, rng, out)

    def on_request(self, request: int, body: Any) -> None:
        """A client's operation."""
        data.on_request(self.node, request, body)

    def disk_done(self, done: DiskDone) -> None:
        """A batch succeeded or failed."""
        node = self.node
        if done.error is None:
            node.disk_done(done.token)
            return
        node.trace("persist_failed", error=done.error)
        if node.rules.on_persist_error() == "halt":
            node.halt(f"the disk failed: {done.error}")

    def send_failed(self, event: SendFailed) -> None:
        """A call that got no answer."""
        node, body = self.node, event.body
        if isinstance(body, m.VoteRequest):
            election.vote_call_failed(node, event.to, event.error)
        elif isinstance(body, m.BeatRequest):
            node.count("beat_failures")
        elif isinstance(body, m.Forward):
            data.forward_failed(node, body.number, event.error)

    def rings(self, timer: str) -> None:
        """Hand a timer to its task."""
        node = self.node
        if timer == PUBLISH_TIMER:
            data.on_deadlines(node)
        elif timer == SWITCH_TIMER:
            _switch_version(node)
        elif node.stop_work:
            return
        elif timer == ELECTION_TIMER:
            election.on_election_tick(node)
            self._election_at += self._tick
            late = node.time - self._election_at
            if late >= 0 and node.knobs.late_ticks == "skip":
                self._election_at += (late // self._tick + 1) * self._tick
            node.set_timer(ELECTION_TIMER, self._election_at)
        elif timer == BEAT_TIMER:
            beat.on_beat_tick(node)
            node.set_timer(BEAT_TIMER, node.time + self._tick)

    def status(self, now: Clocks) -> CoreStatus:  # noqa: ARG002 - dues are counted in ticks, not read off a clock
        """The share of the common observer record."""
        node = self.node
        local = node.local
        knobs = node.knobs
        return status_of(
            self.glance(),
            timers={
                "leader_due": knobs.ms_left(max(0, local.leader_due_ms)),
                "heartbeat_due": knobs.ms_left(max(0, local.heartbeat_due_ms)),
            },
            counters=dict(node.counters),
            extra={
                "peers": {ip: peer.shown() for ip, peer in sorted(node.peers.peers.items())},
                "leader_due_ms": local.leader_due_ms,
                "heartbeat_due_ms": local.heartbeat_due_ms,
                "max_timestamp": node.items.newest,
                "stored_term": node.stored.term,
                "stored_vote_for": node.stored.vote_for,
                "local_term": node.peers.local_term,
                "stop_work": node.stop_work,
                "ready": node.peers.ready,
            },
        )

    def glance(self) -> Glance:
        """Its main fields."""
        node = self.node
        local, items = node.local, node.items
        return local.state, local.term, node.peers.leader_ip, local.vote_for, (0, len(items)), items.acked_count


def _switch_version(node: NodeState) -> None:
    """All members run the new version: stop for good, forget everything, remove the stored files."""
    if not node.rules.stops_at_switch:
        return
    node.stop_work = True
    node.set_timer(ELECTION_TIMER, None)
    node.set_timer(BEAT_TIMER, None)
    data.abandon_writes(node)
    ops = [op for key in node.items.keys() for op in storage.delete_datum(node.knobs.namespace, key)]  # noqa: SIM118
    node.items.clear()
    node.peers.shutdown()
    node.store((*ops, *storage.delete_meta()), with_term=False)
    node.stored = node.meta = storage.Meta()
    node.trace("state_change", was="work", to="stop_work", cause="version_switch")
