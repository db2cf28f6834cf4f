"""The leader's own side of the log: appends, water marks, commits, and the answers to clients.

Guarantees: an entry is marked as stored here only once the leader's own disk has it; entries are applied in order; an
append without a majority in time is answered "unknown", because its entry stays. Out of scope: peers (`push`).

Source: DLedger 0.2.7, ``DLedgerServer.handleAppend``, ``DLedgerEntryPusher.QuorumAckChecker``.
"""

from __future__ import annotations

from dethrone.clusters.targets.client_api import Append, NotLeader, Ok, Refused, Unknown
from dethrone.clusters.targets.dledger import messages as m
from dethrone.clusters.targets.dledger import push
from dethrone.clusters.targets.dledger.leading import Leading, Pending
from dethrone.clusters.targets.dledger.messages import Command, Entry, Noop
from dethrone.clusters.targets.dledger.node import ACKS, CHECKPOINT, Node
from dethrone.clusters.targets.dledger.rules import LEADER
from dethrone.clusters.targets.kit.machine import Machine
from dethrone.harness.core.machine import SetTimer


def start_leading(n: Node) -> None:
    """Begin a leadership: marks of this term are kept from an earlier one, those of other terms dropped."""
    old = n.leading
    marks = old.marks if old is not None and old.term == n.term else dict.fromkeys(n.members, -1)
    n.leading = Leading(n.term, n.peers, marks, n.log.last)
    _fail_other_terms(n)
    mark_own(n)
    if n.knobs.noop_on_elect:
        store(n, Noop())
    if n.pending:
        arm_acks(n)
    for pusher in n.leading.pushers.values():
        push.start(n, pusher)


def stop_leading(n: Node) -> None:
    """End a leadership. Its marks are kept for the case that this node leads the same term again."""
    lead = n.leading
    if lead is None:
        return
    n.count("step_downs")
    n.note("step_down", {"pending": len(n.pending)})
    for pusher in lead.pushers.values():
        pusher.armed = None
        n.out.append(SetTimer(pusher.timer, None))
    if n.knobs.fail_pending_on_step_down:
        waiting, n.pending = n.pending, {}
        for index, item in waiting.items():
            _unknown(n, index, item, m.TERM_CHANGED)


def leads(n: Node) -> Leading | None:
    """The leadership, while there is one."""
    return n.leading if n.role == LEADER else None


def on_append(n: Node, request: int, command: Command) -> None:
    """A client's append. Answered when it is committed."""
    if leads(n) is None:
        n.note("append_refused", {"code": m.NOT_LEADER})
        n.reply(request, NotLeader(n.leader))
        return
    code = n.rules.may_append(pending=len(n.pending))
    if code != m.SUCCESS:
        n.note("append_refused", {"code": code})
        n.reply(request, Refused(m.words(code)))
        return
    index = n.log.last + 1
    if n.rules.acks_client(committed=False):
        n.reply(request, Ok(index + 1 if type(command) is Append else None, index + 1, n.term + 1))
    else:
        n.pending[index] = Pending(request, n.term, n.mono)
        if len(n.pending) == 1:
            arm_acks(n)
    store(n, command)


def store(n: Node, command: Command) -> None:
    """Append an entry of the own term."""
    index = n.log.last + 1
    n.log.append(Entry(index, n.term, command))
    n.end_term = n.rules.ledger_end_term(n.term, n.term)
    n.note("append", {"index": index + 1, "term": n.term + 1})
    n.write_log()
    lead = n.leading
    if lead is not None and push.end_of(n) >= index:
        push.feed(n, lead)


def mark_own(n: Node) -> None:
    """The own disk has more."""
    lead = leads(n)
    if lead is None:
        return
    marks = lead.marks
    if n.log.stored > marks[n.me]:
        marks[n.me] = n.log.stored
        n.note("mark", {"peer": n.me, "term": n.term + 1, "index": n.log.stored + 1})
        advance(n, lead)


def mark(n: Node, lead: Leading, peer: str, index: int) -> None:
    """A peer stores up to ``index``."""
    old = lead.marks[peer]
    new = n.rules.mark_index(old, index)
    if new == old:
        return
    lead.marks[peer] = new
    n.note("mark", {"peer": peer, "term": n.term + 1, "index": new + 1})
    advance(n, lead)


def advance(n: Node, lead: Leading) -> None:
    """Commit what a majority stores."""
    index = min(n.rules.quorum_index(sorted(lead.marks.values(), reverse=True)), n.log.last)
    if index > n.committed and n.rules.may_commit(n.log.entries[index].term, n.term):
        set_committed(n, index, marks={peer: mark + 1 for peer, mark in lead.marks.items()})
        if n.rules.notices_commit_eagerly():
            for pusher in lead.pushers.values():
                push.tell_commit(n, pusher)


def set_committed(n: Node, index: int, *, marks: dict[str, int] | None = None) -> None:
    """Move the committed index and apply what is new; also for followers."""
    old, n.committed = n.committed, index
    entry_term = n.log.entries[index].term if index <= n.log.last else -1
    data = {"old": old + 1, "new": index + 1, "entry_term": entry_term + 1}
    n.note("commit", data if marks is None else {**data, "marks": marks})
    apply(n)
    if not n.checkpoint_armed:
        n.checkpoint_armed = True
        n.out.append(SetTimer(CHECKPOINT, n.mono + n.knobs.check_point_interval))


def apply(n: Node) -> None:
    """Apply committed entries, and answer the clients that wait for them."""
    pending = n.pending
    for index in range(n.applied + 1, min(n.committed, n.log.last) + 1):
        entry = n.log.entries[index]
        result = n.machine.apply(index + 1, entry.command)
        n.applied = index
        item = pending.pop(index, None) if pending else None
        if item is None:
            continue
        if item.term != entry.term:
            _unknown(n, index, item, m.TERM_CHANGED)
        else:
            n.answer(item.request, result, index + 1, entry.term + 1)


def reapply(n: Node) -> None:
    """Rebuild the state machine after applied entries were cut off."""
    n.machine = Machine()
    n.applied = -1
    apply(n)


# --- appends that wait --------------------------------------------------------------------------------------------


def arm_acks(n: Node) -> None:
    """Look at the oldest append when its time is over."""
    oldest = next(iter(n.pending.values()))
    n.out.append(SetTimer(ACKS, oldest.since + n.knobs.max_wait_ack_time))


def on_acks_timer(n: Node) -> None:
    """Answer appends that found no majority in time. Only a leader looks."""
    if leads(n) is None:
        return
    limit = n.mono - n.knobs.max_wait_ack_time
    overdue = [index for index, item in n.pending.items() if item.since <= limit]
    for index in overdue:
        _unknown(n, index, n.pending.pop(index), m.WAIT_QUORUM_ACK_TIMEOUT)
    if n.pending:
        arm_acks(n)


def _fail_other_terms(n: Node) -> None:
    """Appends of an earlier term are answered once a newer one is led."""
    for index in [index for index, item in n.pending.items() if item.term != n.term]:
        _unknown(n, index, n.pending.pop(index), m.TERM_CHANGED)


def _unknown(n: Node, index: int, item: Pending, code: int) -> None:
    n.note("write_unknown", {"code": code, "index": index + 1, "term": item.term + 1})
    n.reply(item.request, Unknown(m.words(code)))
