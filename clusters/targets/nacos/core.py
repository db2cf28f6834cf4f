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

from typing import Any

from dethrone.clusters.targets.nacos import beat, data, election, storage
from dethrone.clusters.targets.nacos.knobs import Knobs
from dethrone.clusters.targets.nacos.messages import (
    BeatAnswer,
    BeatRequest,
    CallError,
    DatumDelete,
    DatumFetch,
    DatumPublish,
    DeleteAck,
    FetchAnswer,
    Forward,
    ForwardAnswer,
    NacosMessage,
    PeerAnswer,
    PeerRequest,
    PublishAck,
    VoteAnswer,
    VoteRequest,
)
from dethrone.clusters.targets.nacos.rules import Rules
from dethrone.clusters.targets.nacos.state import NodeState
from dethrone.harness.core.clock import Clocks
from dethrone.harness.core.machine import (
    CoreEvent,
    CoreStatus,
    DiskDone,
    DiskImage,
    Effect,
    Fired,
    Glance,
    Halt,
    LogEnd,
    Message,
    Request,
    SendFailed,
)
from dethrone.harness.core.rng import Rng

ELECTION_TIMER = "election"
BEAT_TIMER = "beat"
SWITCH_TIMER = "version_switch"


class NacosCore:
    """One node. ``state`` may be looked at by tests; everything else goes through the contract of cores."""

    def __init__(self, *, node: str, members: tuple[str, ...], knobs: Knobs, rules: Rules) -> None:
        self.state = NodeState(node=node, members=members, knobs=knobs, rules=rules)
        self.writes = data.Writes()
        self._tick = knobs.ns(rules.tick_ms())
        self._election_at = 0
        self._switch_at: int | None = None
        self._halted = False

    def boot(self, disk: DiskImage, now: Clocks, rng: Rng, out: list[Effect]) -> None:
        """Load data items, then the term; then run both tasks at once."""
        node = self._at(now, rng, out)
        knobs = node.knobs
        try:
            loaded = storage.load(
                disk, knobs.namespace, meta=lambda: node.rules.loads_meta(lambda: storage.load_meta(disk))
            )
        except storage.Damaged as damage:
            self._halt(str(damage))
            return
        for datum in loaded.datums:
            node.items.put(datum)
        term = node.rules.start_term(loaded.meta.term)
        node.peers.local_term = term
        node.meta = node.stored = loaded.meta
        local = node.local
        local.leader_due_ms = node.rules.first_leader_due_ms(rng)
        local.heartbeat_due_ms = node.rules.first_heartbeat_due_ms(rng)
        if knobs.restart_term == "loaded":
            local.term = term
        if knobs.persist_vote:
            local.vote_for = loaded.meta.vote_for
        local.state = node.rules.start_state(loaded.meta, me=node.me)
        # Answers to an earlier life of this node must not pass for answers to this one.
        node.next_number = rng.below(1 << 30) << 20
        node.note("start", loaded_term=term, items=len(node.items), voted_for=local.vote_for)
        self._election_at = node.time
        node.set_timer(ELECTION_TIMER, node.time)
        node.set_timer(BEAT_TIMER, node.time)
        if knobs.version_switch_ms:
            self._switch_at = node.time + knobs.ns(knobs.version_switch_ms)
            node.set_timer(SWITCH_TIMER, self._switch_at)

    def handle(self, event: CoreEvent, now: Clocks, rng: Rng, out: list[Effect]) -> None:
        """Apply the rule of that event."""
        if self._halted:
            return
        node = self._at(now, rng, out)
        if type(event) is Fired:  # by far the most frequent: two ticks each half second
            self._fired(node, event.timer)
            return
        match event:
            case Message(src=src, body=body, id=message):
                self._message(node, src, body, message)
            case Request(id=request, body=body):
                data.on_request(node, self.writes, request, body)
            case DiskDone(token=token, error=None):
                node.disk_done(token)
            case DiskDone(error=error):
                node.note("persist_failed", error=error)
                if node.rules.on_persist_error() == "halt":
                    self._halt(f"the disk failed: {error}")
            case SendFailed(to=to, body=body, error=text):
                self._send_failed(node, to, body, text)

    def status(self, now: Clocks) -> CoreStatus:  # noqa: ARG002 - dues are counted in ticks, not read off a clock
        """The share of the common observer record."""
        node = self.state
        local = node.local
        knobs = node.knobs
        return CoreStatus(
            role=local.state,
            term=local.term,
            leader=node.peers.leader_ip,
            voted_for=local.vote_for,
            log_end=LogEnd(term=0, index=len(node.items)),
            commit=node.items.acked_count,
            timers={
                "leader_due": knobs.ms_left(max(0, local.leader_due_ms)),
                "heartbeat_due": knobs.ms_left(max(0, local.heartbeat_due_ms)),
            },
            counters=dict(node.counters),
            extra={
                "peers": {ip: _show(peer.record()) for ip, peer in sorted(node.peers.peers.items())},
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
        node = self.state
        local, items = node.local, node.items
        return local.state, local.term, node.peers.leader_ip, local.vote_for, (0, len(items)), items.acked_count

    # --- events -------------------------------------------------------------------------------------------------

    def _at(self, now: Clocks, rng: Rng, out: list[Effect]) -> NodeState:
        node = self.state
        node.now, node.rng, node.out = now, rng, out
        return node

    def _halt(self, reason: str) -> None:
        self._halted = True
        self.state.out.append(Halt(reason))

    def _fired(self, node: NodeState, timer: str) -> None:
        if timer == data.TIMER:
            data.on_deadlines(node, self.writes)
        elif timer == SWITCH_TIMER:
            self._switch_version(node)
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

    def _message(self, node: NodeState, src: str, body: NacosMessage, message: int | None) -> None:
        match body:
            case VoteRequest(vote=candidate):
                election.received_vote(node, src, message, candidate)
            case BeatRequest(peer=sender, datums=stamps):
                beat.received_beat(node, src, message, sender, stamps)
            case VoteAnswer(peer=answer):
                election.received_vote_answer(node, answer)
            case BeatAnswer(peer=answer):
                beat.received_beat_answer(node, answer)
            case DatumPublish():
                data.received_publish(node, src, message, body)
            case PublishAck(number=number):
                data.received_publish_ack(node, self.writes, src, number)
            case PeerRequest():
                beat.received_peer_request(node, src, message)
            case PeerAnswer(peer=answer):
                beat.received_peer_answer(node, answer)
            case DatumFetch():
                data.received_fetch(node, src, message, body)
            case FetchAnswer():
                data.received_fetched(node, src, body)
            case DatumDelete():
                data.received_delete(node, src, message, body)
            case DeleteAck():
                data.received_delete_ack(node)
            case Forward():
                data.received_forward(node, self.writes, src, message, body)
            case ForwardAnswer():
                data.received_forward_answer(node, self.writes, body)
            case CallError():
                self._call_refused(node, src, body)

    def _call_refused(self, node: NodeState, src: str, error: CallError) -> None:
        # A refused publish, delete or fetch is logged in the original and has no effect; the publish waits on.
        if error.call == "vote":
            election.vote_call_failed(node, src, error)
        elif error.call == "beat":
            beat.beat_call_failed(node)
        elif error.call == "peer":
            beat.peer_call_refused(node, src)
        elif error.call == "forward":
            data.forward_failed(node, self.writes, error.number, error.text)

    def _send_failed(self, node: NodeState, to: str, body: NacosMessage, error: str) -> None:
        if isinstance(body, VoteRequest):
            election.vote_call_failed(node, to, error)
        elif isinstance(body, BeatRequest):
            beat.beat_call_failed(node)
        elif isinstance(body, Forward):
            data.forward_failed(node, self.writes, body.number, error)

    def _switch_version(self, node: NodeState) -> None:
        """All members run the new version: stop for good, forget everything, remove the stored files."""
        if not node.rules.stops_at_switch():
            return
        node.stop_work = True
        node.set_timer(ELECTION_TIMER, None)
        node.set_timer(BEAT_TIMER, None)
        data.abandon_writes(node, self.writes)
        ops = [op for key in node.items.keys() for op in storage.delete_datum(node.knobs.namespace, key)]  # noqa: SIM118
        node.items.clear()
        node.peers.shutdown()
        node.store((*ops, *storage.delete_meta()), with_term=False)
        node.stored = node.meta = storage.Meta()
        node.note("state_change", was="work", to="stop_work", cause="version_switch")


def _show(peer: Any) -> dict[str, Any]:
    return {
        "vote_for": peer.vote_for,
        "term": peer.term,
        "state": peer.state,
        "leader_due_ms": peer.leader_due_ms,
        "heartbeat_due_ms": peer.heartbeat_due_ms,
    }
