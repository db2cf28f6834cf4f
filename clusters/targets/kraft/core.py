"""The KRaft core: boots from a disk, passes each event to its handler, places the write of ``quorum-state``.

Guarantees: deterministic; dispatch by type, so that a steady fetch costs a lookup and its handler; after ``Halt`` the
core does nothing. ``Fired("shutdown")`` announces a graceful stop: a leader resigns, and the node campaigns no more.
Out of scope: every rule (`rules`) and the handlers (one module per concern).

Source: Apache Kafka 3.3.1, KafkaRaftClient (initialize, poll) and QuorumState (initialize).
"""

from __future__ import annotations

from typing import ClassVar

from dethrone.clusters.targets.kit.core import FAR, KitCore
from dethrone.clusters.targets.kit.files import Unreadable, file_of
from dethrone.clusters.targets.kraft import storage
from dethrone.clusters.targets.kraft.client import on_request
from dethrone.clusters.targets.kraft.fetching import on_fetch, on_parked_timer
from dethrone.clusters.targets.kraft.following import on_fetch_answer
from dethrone.clusters.targets.kraft.hearing import on_begin_answer, on_begin_epoch, on_end_answer, on_end_epoch
from dethrone.clusters.targets.kraft.knobs import KraftKnobs
from dethrone.clusters.targets.kraft.leader import become_leader, on_linger_timer, on_log_written, on_quorum_timer
from dethrone.clusters.targets.kraft.leading import Resigning
from dethrone.clusters.targets.kraft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    VoteRequest,
    VoteResponse,
)
from dethrone.clusters.targets.kraft.node import (
    BACKOFF,
    ELECTION,
    FETCH,
    LINGER,
    PARKED,
    QUORUM,
    REQUESTS,
    IllegalTransition,
    Node,
)
from dethrone.clusters.targets.kraft.requests import drive, on_requests_timer, on_send_failed
from dethrone.clusters.targets.kraft.rules import CANDIDATE, FOLLOWER, LEADER, RESIGNED, UNATTACHED, VOTED, Rules, Start
from dethrone.clusters.targets.kraft.status import glance, shown
from dethrone.clusters.targets.kraft.storage import QuorumState
from dethrone.clusters.targets.kraft.transitions import become_resigned
from dethrone.clusters.targets.kraft.voting import (
    campaign,
    on_backoff_timer,
    on_election_timer,
    on_fetch_timer,
    on_vote_answer,
    on_vote_request,
)
from dethrone.harness.core.machine import SHUTDOWN, Await, DiskDone, DiskImage, DiskOp, Fsync, SendFailed, Unlink


def on_shutdown(n: Node) -> None:
    """The process is about to end: a leader announces it, so that another node can lead."""
    n.shutting_down = True
    n.note("shutdown", {})
    if n.leading is not None:
        become_resigned(n, "shutdown")


class KraftCore(KitCore[Node]):
    """One node; its knobs say which of the members are observers."""

    graceful = True

    MESSAGES: ClassVar = {
        FetchRequest: on_fetch,
        FetchResponse: on_fetch_answer,
        VoteRequest: on_vote_request,
        VoteResponse: on_vote_answer,
        BeginQuorumEpochRequest: on_begin_epoch,
        BeginQuorumEpochResponse: on_begin_answer,
        EndQuorumEpochRequest: on_end_epoch,
        EndQuorumEpochResponse: on_end_answer,
    }
    TIMERS: ClassVar = {
        ELECTION: on_election_timer,
        FETCH: on_fetch_timer,
        BACKOFF: on_backoff_timer,
        QUORUM: on_quorum_timer,
        REQUESTS: on_requests_timer,
        PARKED: on_parked_timer,
        LINGER: on_linger_timer,
        SHUTDOWN: on_shutdown,
    }
    REQUESTS = (on_request,)
    SHOWN = (glance, shown)
    ILLEGAL = (IllegalTransition,)

    def __init__(self, node: str, members: tuple[str, ...], knobs: KraftKnobs, rules: Rules) -> None:
        self.node = Node(node, members, knobs, rules)

    def load(self, disk: DiskImage) -> None:
        """Start from what the disk holds. A damaged log, or another voter set than the stored one, halts the node."""
        n = self.node
        n.correlation = n.rng.below(1 << 31)  # answers to an earlier life's requests must not fit this one's
        content = file_of(disk, storage.LOG)
        if content is not None:
            n.log.load(storage.read_log(content))
        stored, damage = _load(n, disk)
        if stored.current_voters and set(stored.voters) != set(n.voters):
            n.halt(f"quorum-state names the voters {sorted(stored.voters)}, the configuration {sorted(n.voters)}")
            return
        start = n.rules.start(stored, me=n.me, log_epoch=n.log.last_term, voter=not n.observer)
        n.state, n.epoch, n.leader, n.voted = start.state, start.epoch, start.leader, start.voted
        n.durable = stored
        _make_durable(n, disk, stored)
        if damage:
            n.note("quorum_state_deleted", {"why": damage})
        n.note("start", {**n.file_words(stored), "rule": start.row, "state": start.state, "log": n.position()})
        _begin(n, start)

    def rings(self, timer: str) -> None:
        """A handler looks at the deadline itself; one that has moved is set again."""
        n = self.node
        n.armed.pop(timer, None)
        super().rings(timer)
        now = n.now()
        if timer == ELECTION and now < n.election_at < FAR:
            n.arm(ELECTION, n.election_at)
        elif timer == FETCH and now < n.fetch_at < FAR:
            n.arm(FETCH, n.fetch_at)
        elif timer == BACKOFF and n.backing_off and now < n.backoff_at:
            n.arm(BACKOFF, n.backoff_at)
        elif timer == QUORUM and n.leading is not None and now < n.leading.quorum_at < FAR:
            n.arm(QUORUM, n.leading.quorum_at)

    def send_failed(self, event: SendFailed) -> None:
        """A connection is lost."""
        on_send_failed(self.node, event.to, getattr(event.body, "correlation_id", None))

    def disk_done(self, done: DiskDone) -> None:
        """A batch succeeded or failed."""
        _disk_done(self.node, done)

    def settle(self) -> None:
        """The state changed: the one write of it."""
        if self.node.mark >= 0:
            self.node.write_state()


def _load(n: Node, disk: DiskImage) -> tuple[QuorumState, str]:
    """The stored state, and what was wrong with the file: then it counts as absent."""
    if not n.rules.uses_stored():
        return QuorumState(), ""
    try:
        content = file_of(disk, storage.STATE)
        return (QuorumState() if content is None else storage.read_state(content)), ""
    except Unreadable as error:
        return QuorumState(), str(error)


def _make_durable(n: Node, disk: DiskImage, stored: QuorumState) -> None:
    """Nothing leaves before what was read is certainly durable: the last life may have died before its fsync."""
    ops: list[DiskOp] = list(n.log.take_ops())
    if storage.LOG in disk and n.rules.syncs("log") and not ops:
        ops.append(Fsync(storage.LOG))
    if storage.STATE in disk:
        if stored == QuorumState():
            ops.append(Unlink(storage.STATE))
        elif n.rules.syncs("state"):
            ops.append(Fsync(storage.STATE))
    if ops:
        n.out.append(Await(n.start_batch(tuple(ops), stored)))
    if n.state != RESIGNED and n.quorum_state() != stored:
        n.touch()


def _begin(n: Node, start: Start) -> None:
    """The start state's timers and requests. A quorum of one elects itself at once."""
    if start.state == LEADER:
        become_leader(n, [n.me], cause="resumed")
    elif start.state == CANDIDATE:
        n.retries = 1
        n.votes = {n.me: True}
        n.note("election_started", {"term": n.epoch, "log": n.position(), "retries": 1})
    if n.voters == (n.me,) and start.state != LEADER:
        if start.state == CANDIDATE:
            become_leader(n, [n.me])
        else:
            campaign(n, "only_voter")
        return
    if start.state == RESIGNED:
        n.resigning = Resigning(())
    if start.state == FOLLOWER:
        n.start_fetch_timer()
    elif start.state in (UNATTACHED, VOTED, CANDIDATE, RESIGNED) and not n.observer:
        n.start_election_timer()
    drive(n)


def _disk_done(n: Node, done: DiskDone) -> None:
    """A batch succeeded, or failed: then the node stops, as it would forget what it is about to send."""
    what = n.disk_pending.pop(done.token, None)
    if what is None:
        return
    is_state = isinstance(what, QuorumState)
    if is_state:
        n.states_in_flight -= 1
    else:
        n.log_batches -= 1
    if done.error is not None:
        n.note("persist_failed", {"file": storage.STATE if is_state else storage.LOG, "error": done.error})
        if n.rules.on_persist_error("state" if is_state else "log") == "halt":
            n.halt(f"{storage.STATE if is_state else storage.LOG}: {done.error}")
            return
    if isinstance(what, QuorumState):
        n.durable = what
        return
    n.log.durable = max(n.log.durable, what)
    if not n.log_batches and n.log.waits():
        n.write_log()
    if n.leading is not None:
        on_log_written(n)
