"""The leader's dispatchers, one per peer: COMPARE finds the last equal entry, TRUNCATE cuts the peer's log there,
APPEND pushes entries in a pipeline, COMMIT sends the committed index when nothing else is due.

Guarantees: a new leadership, an error and an inconsistency begin with COMPARE; only what the leader's own disk holds is
compared or pushed; answers to calls of an earlier phase are ignored. Out of scope: the effects of a mark (`append`).

Source: DLedger 0.2.7, ``DLedgerEntryPusher.EntryDispatcher``. The numbering of phases is ours: upstream relies on the
order of one connection.
"""

from __future__ import annotations

from dethrone.clusters.targets.dledger import append
from dethrone.clusters.targets.dledger import messages as m
from dethrone.clusters.targets.dledger.leading import Leading, Pusher
from dethrone.clusters.targets.dledger.messages import Entry, PushEntryRequest, PushEntryResponse, PushType
from dethrone.clusters.targets.dledger.node import Node
from dethrone.clusters.targets.dledger.rules import NEVER
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.machine import SetTimer

COMPARE: PushType = "COMPARE"
TRUNCATE: PushType = "TRUNCATE"
APPEND: PushType = "APPEND"
COMMIT: PushType = "COMMIT"


def start(n: Node, p: Pusher) -> None:
    """Begin with COMPARE at the own end."""
    _to(n, p, COMPARE, -1)
    p.compare = -1
    p.retry_at = NEVER
    step(n, p)


def feed(n: Node, lead: Leading) -> None:
    """There is more to push, or something to compare at last."""
    for p in lead.pushers.values():
        step(n, p)


def tell_commit(n: Node, p: Pusher) -> None:
    """Send the committed index now."""
    if p.state == APPEND:
        _commit(n, p)
        _arm(n, p)


def step(n: Node, p: Pusher) -> None:
    """Do what is due for this peer, and arm its timer for what is due next."""
    now = n.mono
    if p.retry_at > now:
        _arm(n, p)
        return
    if p.asked and now - p.asked_at >= n.knobs.compare_time_out:
        _start_over(n, p)
    elif p.state == APPEND:
        _append(n, p)
    elif not p.asked:
        end = end_of(n)
        if p.state == TRUNCATE:
            _ask(n, p, TRUNCATE, p.truncate)
        elif end >= 0:
            if p.compare < 0 or p.compare > end:
                p.compare = end
            _ask(n, p, COMPARE, p.compare)
    _arm(n, p)


def end_of(n: Node) -> int:
    """Up to where entries are compared and pushed."""
    return min(n.rules.push_end(stored=n.log.stored, in_memory=n.log.last), n.log.last)


def _append(n: Node, p: Pusher) -> None:
    """Push new entries; else push the first unanswered entry again; else send the committed index."""
    now = n.mono
    entries, in_flight = n.log.entries, p.in_flight
    end = end_of(n)
    while p.write <= end and len(in_flight) < n.knobs.max_in_flight:
        _push(n, p, APPEND, entries[p.write])
        in_flight[p.write] = now
        p.write += 1
    lead = n.leading
    if lead is None:
        return
    first = lead.marks[p.peer] + 1
    sent = in_flight.get(first)
    if sent is not None and now - sent >= n.rules.resend_after():
        _push(n, p, APPEND, entries[first])
        in_flight[first] = now
    if p.write > end and now - p.commit_sent_at >= n.rules.commit_interval():
        _commit(n, p)


def _commit(n: Node, p: Pusher) -> None:
    p.commit_sent_at = n.mono
    _push(n, p, COMMIT, None)


def _ask(n: Node, p: Pusher, kind: PushType, index: int) -> None:
    p.asked_at = n.mono
    p.asked = _push(n, p, kind, n.log.entries[index])
    n.note("compare" if kind == COMPARE else "truncate", {"peer": p.peer, "index": index + 1})


def _push(n: Node, p: Pusher, kind: PushType, entry: Entry | None) -> int:
    number = n.call()
    n.send(
        p.peer,
        PushEntryRequest(
            group="",
            local_id=n.me,
            remote_id=p.peer,
            leader_id=n.me,
            term=n.term,
            opaque=number,
            type=kind,
            entry=entry,
            commit_index=n.committed,
        ),
    )
    return number


def _to(n: Node, p: Pusher, state: PushType, index: int) -> None:
    before, p.state = p.state, state
    p.asked = 0
    p.in_flight.clear()
    p.since = n.opaque
    if before != state:
        n.note("push_state", {"peer": p.peer, "from": before, "to": state, "index": index + 1})


def _start_over(n: Node, p: Pusher) -> None:
    """After an error: pause, then start with COMPARE again."""
    _to(n, p, COMPARE, -1)
    p.compare = -1
    p.retry_at = n.mono + n.knobs.push_retry


def _arm(n: Node, p: Pusher) -> None:
    """The timer moves only if it would ring too late."""
    due = _due(n, p)
    if due is None or (p.armed is not None and n.mono < p.armed <= due):
        return
    p.armed = due
    n.out.append(SetTimer(p.timer, due))


def _due(n: Node, p: Pusher) -> Ns | None:
    if p.retry_at > n.mono:
        return p.retry_at
    if p.asked:
        return p.asked_at + n.knobs.compare_time_out
    if p.state != APPEND:
        return None
    due: Ns | None = None
    if p.write > end_of(n):
        due = p.commit_sent_at + n.rules.commit_interval()
    lead = n.leading
    sent = p.in_flight.get(lead.marks[p.peer] + 1) if lead is not None else None
    if sent is not None:
        again = sent + n.rules.resend_after()
        due = again if due is None else min(due, again)
    return None if due is None else max(due, n.mono + 1)


# --- timers and answers -------------------------------------------------------------------------------------------


def on_timer(n: Node, peer: str) -> None:
    """Something may be due for this peer."""
    lead = append.leads(n)
    if lead is None:
        return
    p = lead.pushers[peer]
    p.armed = None
    step(n, p)


def on_failed(n: Node, to: str, body: PushEntryRequest) -> None:
    """A push that certainly got no answer."""
    lead = append.leads(n)
    p = None if lead is None else lead.pushers.get(to)
    if p is not None and p.asked == body.opaque:
        _start_over(n, p)
        _arm(n, p)


def on_response(n: Node, src: str, answer: PushEntryResponse) -> None:
    """An answer to a push of this leadership."""
    lead = append.leads(n)
    if lead is None or answer.term != n.term:
        return
    p = lead.pushers.get(src)
    if p is None or answer.opaque <= p.since:
        return
    if p.state == APPEND:
        _appended(n, lead, p, answer)
    elif answer.opaque == p.asked:
        p.asked = 0
        if p.state == COMPARE:
            _compared(n, lead, p, answer)
        elif answer.code == m.SUCCESS:
            _equal_at(n, lead, p, p.truncate)
        elif answer.code in (m.INCONSISTENT_TERM, m.INCONSISTENT_LEADER):
            _start_over(n, p)
        else:
            _to(n, p, COMPARE, -1)
            p.compare = -1
    else:
        return
    if append.leads(n) is lead:
        step(n, p)


def _appended(n: Node, lead: Leading, p: Pusher, answer: PushEntryResponse) -> None:
    if answer.index < 0:
        return  # COMMIT
    if answer.code == m.SUCCESS:
        in_flight = p.in_flight
        in_flight.pop(answer.index, None)
        append.mark(n, lead, p.peer, answer.index)
        stored = lead.marks[p.peer]  # entries are stored in order: answers to earlier ones may be lost
        while in_flight and (first := next(iter(in_flight))) <= stored:
            del in_flight[first]
    elif answer.code == m.INCONSISTENT_STATE:
        _to(n, p, COMPARE, -1)
        p.compare = -1


def _compared(n: Node, lead: Leading, p: Pusher, answer: PushEntryResponse) -> None:
    log = n.log
    at, end = p.compare, answer.end_index
    if answer.code == m.SUCCESS:
        if end == at:
            _equal_at(n, lead, p, at)
        else:
            _truncate_at(n, p, at)
    elif answer.code != m.INCONSISTENT_STATE:
        _start_over(n, p)
    elif end < log.begin or answer.begin_index > log.last or at < answer.begin_index:
        _truncate_at(n, p, log.begin)
    else:
        p.compare = end if at > end else at - 1
        if p.compare < log.begin:
            _truncate_at(n, p, log.begin)


def _truncate_at(n: Node, p: Pusher, index: int) -> None:
    p.truncate = index
    _to(n, p, TRUNCATE, index)


def _equal_at(n: Node, lead: Leading, p: Pusher, index: int) -> None:
    """The logs are equal up to ``index``, and the peer's ends there."""
    p.write = index + 1
    _to(n, p, APPEND, p.write)
    append.mark(n, lead, p.peer, index)
