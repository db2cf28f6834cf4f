"""The DLedger core: boots from a disk and passes each event to its handler.

Guarantees: deterministic; dispatch by type; after ``Halt`` the core does nothing. Out of scope: every rule (`rules`)
and the handlers (one module per concern).

Source: DLedger 0.2.7, ``DLedgerServer``.
"""

from __future__ import annotations

from typing import ClassVar

from dethrone.clusters.targets.dledger import append, election, follow, heartbeat, push, status, storage
from dethrone.clusters.targets.dledger.client import on_request
from dethrone.clusters.targets.dledger.follow import LIFE_BITS
from dethrone.clusters.targets.dledger.knobs import DledgerKnobs
from dethrone.clusters.targets.dledger.messages import (
    HeartBeatRequest,
    HeartBeatResponse,
    PushEntryRequest,
    PushEntryResponse,
    VoteRequest,
    VoteResponse,
)
from dethrone.clusters.targets.dledger.node import ACKS, CHECK, CHECKPOINT, FLUSH, LOOP, WAIT, Node, shown
from dethrone.clusters.targets.dledger.rules import LEADER, Rules
from dethrone.clusters.targets.dledger.softbarrier import SoftBarrier
from dethrone.clusters.targets.dledger.storage import TermState
from dethrone.clusters.targets.dledger.tally import Campaign
from dethrone.clusters.targets.kit.core import KitCore
from dethrone.clusters.targets.kit.files import file_of
from dethrone.harness.core.machine import Await, DiskDone, DiskImage, DiskOp, Effect, Fsync, SendFailed, SetTimer


class DledgerCore(KitCore[Node]):
    """One node of a static group."""

    MESSAGES: ClassVar = {
        VoteRequest: election.on_vote_request,
        VoteResponse: election.on_vote_response,
        HeartBeatRequest: heartbeat.on_heartbeat,
        HeartBeatResponse: heartbeat.on_heartbeat_response,
        PushEntryRequest: follow.on_push,
        PushEntryResponse: push.on_response,
    }
    REQUESTS = (on_request,)
    SHOWN = (status.glance, status.shown)

    def __init__(self, node: str, members: tuple[str, ...], knobs: DledgerKnobs, rules: Rules) -> None:
        self.node = Node(node, members, knobs, rules)
        self.node.on_role = _on_role
        self.soft = SoftBarrier() if knobs.persist_mode == "upstream" else None
        self._released: list[Effect] = []

    def load(self, disk: DiskImage) -> None:
        """Start from what the disk holds, as a candidate that campaigns at once."""
        n = self.node
        n.loop_base = n.mono
        n.opaque = n.rng.below(1 << 30) << LIFE_BITS
        _load(n, disk)
        n.note("start", {"term": n.term + 1, "vote": n.voted_for, "log_end": [shown(n.end_term), shown(n.log.last)]})
        append.apply(n)
        n.schedule()

    def rings(self, timer: str) -> None:
        """Hand a timer to its handler."""
        _fired(self.node, timer)

    def send_failed(self, event: SendFailed) -> None:
        """A remote call failed at once."""
        _failed(self.node, event)

    def disk_done(self, done: DiskDone) -> None:
        """A batch succeeded or failed."""
        if self.soft is not None:
            self._released = self.soft.done(done.token)
        _disk_done(self.node, done)

    def settle(self) -> None:
        """persist_mode=upstream: what follows a write of the term file waits for it."""
        if self.soft is None:
            return
        n = self.node
        self.soft.hold(n.out, n.soft_mark)
        n.soft_mark = None
        n.out[:0] = self._released
        self._released = []


# --- start --------------------------------------------------------------------------------------------------------


def _load(n: Node, disk: DiskImage) -> None:
    """Read term, log and checkpoint; `Unreadable` if this node must not start from them."""
    content = file_of(disk, storage.LOG)
    if content is not None:
        n.log.load(storage.read_log(content))
    n.end_term = n.log.last_term
    if n.knobs.persist_mode != "none":
        raw = disk.get(storage.TERM)
        state = n.rules.load_state(raw, node=n.me)
        n.term, n.voted_for = state.term, state.voted_for
        n.term_file = raw if isinstance(raw, bytes) else None
    checkpoint = storage.read_checkpoint(disk)
    n.committed = n.checkpointed = min(checkpoint.committed, n.log.last)
    cut = n.log.waits()
    _make_durable(n, disk)
    n.note("recovered", {"end": n.log.last + 1, "cut": cut, "checkpoint": checkpoint.committed + 1})


def _make_durable(n: Node, disk: DiskImage) -> None:
    """Nothing leaves before what was read is certainly durable: the last life may have died before its sync."""
    n.durable = TermState(n.term, n.voted_for)
    ops: list[DiskOp] = list(n.log.take_ops()) if n.log.waits() else []
    if n.log.sync and storage.LOG in disk and not ops:
        ops.append(Fsync(storage.LOG))
    if n.knobs.persist_mode == "atomic" and storage.TERM in disk:
        ops.append(Fsync(storage.TERM))
    if ops:
        n.votes_in_flight += 1
        n.out.append(Await(n.start_batch(tuple(ops), n.durable)))
    if n.knobs.persist_mode != "none" and storage.TERM not in disk:
        n.persist()  # a node may follow and acknowledge in term 0 without a vote: its disk must record that, too


# --- timers -------------------------------------------------------------------------------------------------------


def _fired(n: Node, timer: str) -> None:
    if timer == LOOP:
        _pass(n)
    elif timer == WAIT:
        waits = n.waits
        if waits is not None and n.mono >= waits.deadline:
            if isinstance(waits, Campaign):
                election.decide(n, waits)
            else:
                heartbeat.decide(n, waits)
    elif timer == ACKS:
        append.on_acks_timer(n)
    elif timer == CHECK:
        follow.on_check(n)
    elif timer == FLUSH:
        n.start_batch((Fsync(storage.LOG),), "flush")
    elif timer == CHECKPOINT:
        n.checkpoint_armed = False
        if n.committed != n.checkpointed:
            n.checkpointed = n.committed
            n.start_batch(storage.checkpoint_ops(n.log.last, n.committed), "checkpoint")
    elif timer.startswith("push/"):
        push.on_timer(n, timer[5:])


def _pass(n: Node) -> None:
    """One pass of the maintenance loop: exactly one handler, chosen by role."""
    n.armed = None
    if n.waits is not None:
        return
    n.loop_base = n.mono
    role = n.role
    if n.rules.still_candidate(role):
        election.candidate_pass(n)
    elif role == LEADER:
        if n.rules.leads(role):
            heartbeat.leader_pass(n)
    else:
        heartbeat.follower_pass(n)
    n.schedule()


def _on_role(n: Node, before: str, why: str) -> None:
    """The role or the leader changed."""
    del why
    if before == LEADER and n.role != LEADER:
        append.stop_leading(n)
    elif n.role == LEADER and before != LEADER:
        append.start_leading(n)
    n.buffer.clear()


# --- disk and transport -------------------------------------------------------------------------------------------


def _disk_done(n: Node, done: DiskDone) -> None:
    """A batch succeeded, or failed: then the node stops, as it would forget what it is about to send."""
    what = n.disk_pending.pop(done.token, None)
    if what is None:
        return
    is_term = isinstance(what, TermState)
    if is_term:
        n.votes_in_flight -= 1
    if done.error is not None:
        n.note("persist_failed", {"file": "term" if is_term else str(what), "error": done.error})
        if what != "checkpoint" and n.rules.on_persist_error("term" if is_term else "log") == "halt":
            n.halt(f"{'term file' if is_term else 'log'}: {done.error}")
            return
    if isinstance(what, TermState):
        n.durable = what
        if n.log.target is not None and not any(item == "log" for item in n.disk_pending.values()):
            _log_done(n)  # the cut of a start travels with the term, and entries may wait for it already
        return
    if what == "log":
        _log_done(n)


def _log_done(n: Node) -> None:
    """The disk stored the last batch: write what arrived meanwhile, and release what waited for the batch."""
    n.log.done()
    n.write_log()
    if n.knobs.fsync == "async":
        n.out.append(SetTimer(FLUSH, n.mono + n.knobs.flush_interval))
    follow.on_stored(n)
    append.mark_own(n)
    lead = append.leads(n)
    if lead is not None:
        push.feed(n, lead)


def _failed(n: Node, event: SendFailed) -> None:
    body = event.body
    if type(body) is VoteRequest:
        election.on_vote_failed(n, event.to, body.opaque)
    elif type(body) is HeartBeatRequest:
        heartbeat.on_heartbeat_failed(n, event.to, body.opaque)
    elif type(body) is PushEntryRequest:
        push.on_failed(n, event.to, body)
