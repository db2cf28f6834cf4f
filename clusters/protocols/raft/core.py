"""The Raft core: boots from a disk, hands each event to its handler, puts the write of term and vote in its place.

Promises: deterministic; dispatch by type, so that a steady heartbeat costs a lookup and its handler (`hear`, `ring`);
after ``Halt`` nothing happens any more. Leaves out every rule (`rules`) and the handlers (one module a concern).

Source: Raft paper, figure 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clusters.protocols.kit.files import Unreadable, file_of
from clusters.protocols.raft import storage
from clusters.protocols.raft.acks import on_append_reply
from clusters.protocols.raft.client import on_request
from clusters.protocols.raft.commit import advance
from clusters.protocols.raft.deadline import on_election_timer, on_retry_timer
from clusters.protocols.raft.election import become_leader, on_own_vote, on_request_vote, on_vote_reply
from clusters.protocols.raft.following import on_append
from clusters.protocols.raft.knobs import RaftKnobs
from clusters.protocols.raft.messages import (
    AppendEntries,
    AppendReply,
    PreVote,
    PreVoteReply,
    RequestVote,
    TimeoutNow,
    VoteReply,
)
from clusters.protocols.raft.node import CANDIDATE, ELECTION, HEARTBEAT, RETRY, TRANSFER, Node
from clusters.protocols.raft.prevote import on_pre_vote, on_pre_vote_reply
from clusters.protocols.raft.quorum_check import on_heartbeat_timer, tick
from clusters.protocols.raft.rules import Rules
from clusters.protocols.raft.status import glance, status
from clusters.protocols.raft.storage import HardState
from clusters.protocols.raft.transfer import on_deadline as on_transfer_deadline
from clusters.protocols.raft.transfer import on_timeout_now
from harness.core.clock import Clocks, Ns
from harness.core.machine import (
    Await,
    CoreEvent,
    CoreStatus,
    DiskDone,
    DiskImage,
    DiskOp,
    Effect,
    Fired,
    Fsync,
    Glance,
    Halt,
    Message,
    Request,
)
from harness.core.rng import Rng

_BODIES: dict[type, Callable[[Node, str, Any], None]] = {
    AppendEntries: on_append,
    AppendReply: on_append_reply,
    RequestVote: on_request_vote,
    VoteReply: on_vote_reply,
    PreVote: on_pre_vote,
    PreVoteReply: on_pre_vote_reply,
    TimeoutNow: on_timeout_now,
}

_TIMERS: dict[str, Callable[[Node], None]] = {
    ELECTION: on_election_timer,
    HEARTBEAT: on_heartbeat_timer,
    RETRY: on_retry_timer,
    TRANSFER: on_transfer_deadline,
}


class RaftCore:
    """One node. ``members``: the voters at the start, in force until a configuration entry says otherwise."""

    __slots__ = ("node",)

    def __init__(self, node: str, members: tuple[str, ...], knobs: RaftKnobs, rules: Rules) -> None:
        self.node = Node(node, members, knobs, rules)

    def boot(self, disk: DiskImage, now: Clocks, rng: Rng, out: list[Effect]) -> None:
        """Start from what the disk holds; an unreadable file halts the node."""
        n = self.node
        n.mono, n.wall, n.rng, n.out = now.mono, now.wall, rng, out
        n.booted_at = now.mono
        try:
            state = _load(n, disk)
        except Unreadable as error:
            n.halted = True
            out.append(Halt(f"unreadable: {error}"))
            return
        _make_durable(n, disk)
        n.note(
            "start",
            {
                "profile": n.knobs.profile,
                "term": n.term,
                "voted_for": n.voted_for,
                "log": n.own_log(),
                "voters": list(n.config.voters),
                "learners": list(n.config.learners),
            },
        )
        n.reset_deadline()
        if n.rules.resumes_leadership(node=n.me, state=state, last_log_term=n.log.last_term):
            become_leader(n, why="resumed")
        if n.vote_mark >= 0:
            n.write_vote()

    def hear(self, src: str, body: Any, mono: Ns, wall: Ns, out: list[Effect]) -> None:
        """Handle a peer's message."""
        n = self.node
        if n.halted:
            return
        n.mono = mono
        n.wall = wall
        n.out = out
        if mono >= n.overdue_at:
            tick(n, late=True)  # before queued messages: they prove nothing about the time of the pause
        handler = _BODIES.get(type(body))
        if handler is None:
            n.note("violation", {"what": "unknown message", "from": src})
        else:
            handler(n, src, body)
        if n.vote_mark >= 0:
            _write_vote(n)

    def ring(self, timer: str, mono: Ns, wall: Ns, out: list[Effect]) -> None:
        """Handle a timer that is due."""
        n = self.node
        if n.halted:
            return
        n.mono = mono
        n.wall = wall
        n.out = out
        if mono >= n.overdue_at and timer != HEARTBEAT:
            tick(n, late=True)
        on_timer = _TIMERS.get(timer)
        if on_timer is not None:
            on_timer(n)
        if n.vote_mark >= 0:
            _write_vote(n)

    def handle(self, event: CoreEvent, now: Clocks, rng: Rng, out: list[Effect]) -> None:
        """Handle one event."""
        n = self.node
        n.rng = rng
        if type(event) is Message:
            self.hear(event.src, event.body, now.mono, now.wall, out)
            return
        if type(event) is Fired:
            self.ring(event.timer, now.mono, now.wall, out)
            return
        if n.halted:
            return
        n.mono, n.wall, n.out = now.mono, now.wall, out
        if n.mono >= n.overdue_at:
            tick(n, late=True)
        if isinstance(event, DiskDone):
            _disk_done(n, event)
        elif isinstance(event, Request):
            on_request(n, event.id, event.body)
        # SendFailed: nothing; every loss is handled by time alone
        if n.vote_mark >= 0:
            _write_vote(n)

    def status(self, now: Clocks) -> CoreStatus:
        """The observer record."""
        return status(self.node, now)

    def glance(self) -> Glance:
        """The main fields of it, at less cost."""
        n = self.node
        if n.votes_in_flight:
            return glance(n)
        log = n.log
        return n.role, n.term, n.leader, n.voted_for, (log.last_term, log.last_index), n.commit


def _load(n: Node, disk: DiskImage) -> HardState:
    """Read vote and log; `Unreadable` if this node must not go on from them."""
    if not n.knobs.persist:
        return HardState()
    content = file_of(disk, storage.LOG)
    if content is not None:
        n.log.load(storage.read_log(content))
        n.use_loaded_config()
    state = n.rules.load_state(disk.get(storage.VOTE), node=n.me, last_log_term=n.log.last_term)
    n.term, n.voted_for = state.term, state.voted_for
    return state


def _make_durable(n: Node, disk: DiskImage) -> None:
    """Nothing is said before what was read is certainly durable: the last life may have died before its fsync.

    A torn tail is cut in the same batch. Until then ``status`` knows no term.
    """
    state = HardState(n.term, n.voted_for)
    if not n.knobs.persist:
        n.durable = state
        return
    ops: list[DiskOp] = list(n.log.take_ops())
    ops += [Fsync(path) for path in (storage.LOG, storage.VOTE) if path in disk and n.rules.syncs(path)]
    if ops:
        n.votes_in_flight += 1
        n.out.append(Await(n.start_batch(tuple(ops), state)))


def _write_vote(n: Node) -> None:
    n.write_vote()
    if not n.knobs.persist and n.role == CANDIDATE and n.me not in n.votes:
        on_own_vote(n)


def _disk_done(n: Node, done: DiskDone) -> None:
    """A batch was carried out, or failed: then the node stops, for it would forget what it is about to say."""
    batch = n.disk_pending.pop(done.token, None)
    if batch is None:
        return
    what, _ = batch
    is_vote = isinstance(what, HardState)
    if is_vote:
        n.votes_in_flight -= 1
    if done.error is not None:
        file = storage.VOTE if is_vote else storage.LOG
        n.note("persist_failed", {"file": file, "error": done.error})
        if n.rules.on_persist_error(file) == "halt":
            n.halted = True
            n.out.append(Halt(f"{file} file: {done.error}"))
            return
    if isinstance(what, HardState):
        n.durable = what
        if done.token == n.self_vote_token and n.role == CANDIDATE and what.term == n.term:
            on_own_vote(n)
        return
    n.log.durable = max(n.log.durable, what)
    if n.log.records or n.log.ops:
        n.write_log()
    if n.leading is not None:
        advance(n)
