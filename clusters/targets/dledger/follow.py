"""The follower's side of replication: entries in order, out-of-order ones buffered, comparisons, cuts, commits.

Guarantees: an answer that reports "stored" leaves only after the disk holds its entry, and never if that entry was cut
off meanwhile; a push overtaken by a later COMPARE or TRUNCATE from the same life of its leader is dropped. Out of
scope: the leader's side (`push`).

Source: DLedger 0.2.7, ``DLedgerEntryPusher.EntryHandler``. Dropping overtaken pushes is ours: upstream relies on the
order of one connection.
"""

from __future__ import annotations

from dethrone.clusters.targets.dledger import append
from dethrone.clusters.targets.dledger import messages as m
from dethrone.clusters.targets.dledger.messages import Entry, PushEntryRequest, PushEntryResponse
from dethrone.clusters.targets.dledger.node import CHECK, Node
from dethrone.clusters.targets.dledger.rules import FOLLOWER
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.machine import SetTimer

LIFE_BITS = 20
"""The lower bits of a call's number count within one life of its sender; the upper ones name that life."""


def on_push(n: Node, src: str, push: PushEntryRequest) -> None:
    """A push: refuse it, or do what it says."""
    kind = push.type
    code = n.rules.accepts_push(
        kind, follower=n.role == FOLLOWER, term=push.term, own_term=n.term, from_leader=src == n.leader
    )
    if code != m.SUCCESS:
        _answer(n, push, code)
        return
    if (push.term, src) != n.follow:
        n.follow = (push.term, src)
        n.push_floor = -1
        n.leader_commit = -1
        n.buffer.clear()
    if _came_late(n, push):
        n.count("late_pushes")
        return
    if kind == "COMMIT":
        if n.knobs.push_checks_leader or push.term >= n.term:
            _commit(n, push.commit_index)
        _answer(n, push, m.SUCCESS)
    elif push.entry is None:
        _answer(n, push, m.INCONSISTENT_STATE)
    elif kind == "APPEND":
        _append(n, push, push.entry)
    elif kind == "COMPARE":
        n.push_floor = push.opaque
        n.buffer.clear()
        _answer(n, push, m.SUCCESS if _holds(n, push.entry) else m.INCONSISTENT_STATE)
    else:
        n.push_floor = push.opaque
        n.buffer.clear()
        _truncate(n, push, push.entry)


def _came_late(n: Node, push: PushEntryRequest) -> bool:
    floor = n.push_floor
    if floor < 0 or push.opaque >> LIFE_BITS != floor >> LIFE_BITS:
        # Nothing compared yet, or with another life of this leader: then only a comparison may lead to a cut.
        return push.type == "TRUNCATE"
    return push.opaque <= floor


def _holds(n: Node, entry: Entry) -> bool:
    return entry.index <= n.log.last and n.rules.entries_equal(n.log.entries[entry.index], entry)


# --- APPEND -------------------------------------------------------------------------------------------------------


def _append(n: Node, push: PushEntryRequest, entry: Entry) -> None:
    index = entry.index
    if index in n.buffer:
        _answer(n, push, m.REPEATED_PUSH)
        return
    if index <= n.log.last and n.rules.cuts_on_append():
        _cut(n, index - 1)
    if index == n.log.last + 1:
        _store(n, push, entry)
        while (waiting := n.buffer.pop(n.log.last + 1, None)) is not None:
            if waiting[0].entry is not None:
                _store(n, waiting[0], waiting[0].entry)
        return
    n.buffer[index] = (push, n.mono)
    if len(n.buffer) == 1:
        _arm(n)


def _store(n: Node, push: PushEntryRequest, entry: Entry) -> None:
    n.log.append(entry)
    n.end_term = n.rules.ledger_end_term(entry.term, n.term)
    n.note("stored", {"index": entry.index + 1, "term": entry.term + 1, "from": push.local_id})
    _answer(n, push, m.SUCCESS)
    n.write_log()


def _arm(n: Node) -> None:
    n.out.append(SetTimer(CHECK, max(n.mono, n.checked_at + n.knobs.max_push_time_out)))


def on_check(n: Node) -> None:
    """Look at buffered pushes: compare old entries, report a gap that stays."""
    if not n.buffer:
        return
    n.checked_at = n.mono
    limit: Ns = n.mono - n.knobs.max_push_time_out
    stuck: list[int] = []
    for index, (push, since) in list(n.buffer.items()):
        if index <= n.log.last:
            del n.buffer[index]
            equal = push.entry is not None and _holds(n, push.entry)
            _answer(n, push, m.SUCCESS if equal else m.INCONSISTENT_STATE)
        elif since < limit:
            stuck.append(index)
    if stuck:
        push, _ = n.buffer.pop(min(stuck))
        _answer(n, push, m.INCONSISTENT_STATE)
    if n.buffer:
        _arm(n)


# --- TRUNCATE and COMMIT ------------------------------------------------------------------------------------------


def _truncate(n: Node, push: PushEntryRequest, entry: Entry) -> None:
    at = entry.index
    if at > n.log.last + 1:
        _answer(n, push, m.INCONSISTENT_STATE)
        return
    if not _holds(n, entry):
        _cut(n, at - 1)
        n.log.append(entry)
        n.note("stored", {"index": at + 1, "term": entry.term + 1, "from": push.local_id})
    elif n.log.last > at:
        _cut(n, n.rules.truncates_to(at, n.log.last))
    n.end_term = n.rules.ledger_end_term(entry.term, n.term)
    _answer(n, push, m.SUCCESS)
    n.write_log()


def _cut(n: Node, keep: int) -> None:
    """Drop everything behind ``keep``; answers that speak of it are dropped, too."""
    keep = n.rules.truncates_to(keep, n.log.last)
    if keep >= n.log.last:
        return
    if keep < n.committed:
        n.note("violation", {"what": "a committed entry is cut off", "to": keep + 1, "committed": n.committed + 1})
    gone = n.log.cut(keep + 1)
    n.end_term = n.log.last_term
    n.answers = [item for item in n.answers if item[2].index <= keep or item[2].code != m.SUCCESS]
    n.note("truncate", {"to": keep + 1, "dropped": [[entry.index + 1, entry.term + 1] for entry in gone]})
    if n.applied > keep:
        n.committed = min(n.committed, keep)
        append.reapply(n)


def _commit(n: Node, told: int) -> None:
    n.leader_commit = max(n.leader_commit, told)
    index = n.rules.follower_commit(own_end=n.log.stored, leader_commit=n.leader_commit, committed=n.committed)
    if index != n.committed:
        append.set_committed(n, index)


# --- answers ------------------------------------------------------------------------------------------------------


def _answer(n: Node, push: PushEntryRequest, code: int) -> None:
    """Answer; if it says that something is stored, once the disk has it."""
    answer = PushEntryResponse(
        **m.echoed(push, n.me, push.term),
        code=code,
        index=-1 if push.entry is None else push.entry.index,
        count=0 if push.entry is None else 1,
        begin_index=n.log.begin,
        end_index=n.log.last,
    )
    batch = n.log.due_batch() if code == m.SUCCESS and push.entry is not None else None
    if batch is None:
        _give(n, push, answer)
    else:
        n.answers.append((batch, push, answer))


def on_stored(n: Node) -> None:
    """Send the answers whose log batch is done: answers for the batch under way keep waiting."""
    waiting = n.answers
    if not waiting:
        return
    done = n.log.batches_done
    n.answers = [item for item in waiting if item[0] > done]
    for batch, push, answer in waiting:
        if batch <= done:
            _give(n, push, answer)


def _give(n: Node, push: PushEntryRequest, answer: PushEntryResponse) -> None:
    n.send(push.local_id, answer)
    if answer.code == m.SUCCESS and push.type in ("APPEND", "TRUNCATE") and n.follow == (push.term, push.local_id):
        _commit(n, push.commit_index)
