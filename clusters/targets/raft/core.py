"""The Raft core: boots from a disk, passes each event to its handler, places the write of term and vote.

Guarantees: deterministic; dispatch by type, so that a steady heartbeat costs a lookup and its handler (`hear`, `ring`);
after ``Halt`` the core does nothing. Out of scope: every rule (`rules`) and the handlers (one module per concern).

Source: Raft paper, figure 2.
"""

from __future__ import annotations

from typing import ClassVar

from dethrone.clusters.targets.kit.core import KitCore
from dethrone.clusters.targets.kit.files import file_of
from dethrone.clusters.targets.raft import storage
from dethrone.clusters.targets.raft.acks import on_append_reply
from dethrone.clusters.targets.raft.client import on_request
from dethrone.clusters.targets.raft.commit import advance
from dethrone.clusters.targets.raft.deadline import on_election_timer, on_retry_timer
from dethrone.clusters.targets.raft.election import become_leader, on_own_vote, on_request_vote, on_vote_reply
from dethrone.clusters.targets.raft.following import on_append
from dethrone.clusters.targets.raft.knobs import RaftKnobs
from dethrone.clusters.targets.raft.messages import (
    AppendEntries,
    AppendReply,
    PreVote,
    PreVoteReply,
    RequestVote,
    TimeoutNow,
    VoteReply,
)
from dethrone.clusters.targets.raft.node import CANDIDATE, ELECTION, HEARTBEAT, RETRY, TRANSFER, Node
from dethrone.clusters.targets.raft.prevote import on_pre_vote, on_pre_vote_reply
from dethrone.clusters.targets.raft.quorum_check import on_heartbeat_timer, tick
from dethrone.clusters.targets.raft.rules import Rules
from dethrone.clusters.targets.raft.status import glance, shown
from dethrone.clusters.targets.raft.steady import SteadyCore
from dethrone.clusters.targets.raft.storage import HardState
from dethrone.clusters.targets.raft.transfer import on_deadline as on_transfer_deadline
from dethrone.clusters.targets.raft.transfer import on_timeout_now
from dethrone.harness.core.machine import Await, DiskDone, DiskImage, DiskOp, Fsync


class RaftCore(SteadyCore, KitCore[Node]):
    """One node. ``members``: the voters at the start, in force until a configuration entry says otherwise."""

    MESSAGES: ClassVar = {
        AppendEntries: on_append,
        AppendReply: on_append_reply,
        RequestVote: on_request_vote,
        VoteReply: on_vote_reply,
        PreVote: on_pre_vote,
        PreVoteReply: on_pre_vote_reply,
        TimeoutNow: on_timeout_now,
    }
    TIMERS: ClassVar = {
        ELECTION: on_election_timer,
        HEARTBEAT: on_heartbeat_timer,
        RETRY: on_retry_timer,
        TRANSFER: on_transfer_deadline,
    }
    REQUESTS = (on_request,)
    SHOWN = (glance, shown)

    def __init__(self, node: str, members: tuple[str, ...], knobs: RaftKnobs, rules: Rules) -> None:
        self.node = Node(node, members, knobs, rules)

    def load(self, disk: DiskImage) -> None:
        """Start from what the disk holds."""
        n = self.node
        n.booted_at = n.mono
        state = _load(n, disk)
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

    def late(self, timer: str) -> None:
        """A leader's tick comes before queued messages: they prove nothing about the time of a pause."""
        if timer != HEARTBEAT:
            tick(self.node, late=True)

    def disk_done(self, done: DiskDone) -> None:
        """A batch succeeded or failed."""
        _disk_done(self.node, done)

    def settle(self) -> None:
        """Term or vote changed: the one write of both."""
        n = self.node
        n.write_vote()
        if not n.knobs.persist and n.role == CANDIDATE and n.me not in n.votes:
            on_own_vote(n)


def _load(n: Node, disk: DiskImage) -> HardState:
    """Read vote and log; `Unreadable` if this node must not start from them."""
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
    """Nothing leaves before what was read is certainly durable: the last life may have died before its fsync.

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


def _disk_done(n: Node, done: DiskDone) -> None:
    """A batch succeeded, or failed: then the node stops, as it would forget what it is about to send."""
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
            n.halt(f"{file} file: {done.error}")
            return
    if isinstance(what, HardState):
        n.durable = what
        if done.token == n.self_vote_token and n.role == CANDIDATE and what.term == n.term:
            on_own_vote(n)
        return
    n.log.durable = max(n.log.durable, what)
    if n.log.waits():
        n.write_log()
    if n.leading is not None:
        advance(n)
