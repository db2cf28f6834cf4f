"""The follower's side of replication: AppendEntries.

Guarantees: the answer leaves after the entries it acknowledges are on disk; an AppendEntries of a lower term is always
answered with the own term, so that a deposed leader steps down; contact is recorded before the answer, whether the log
matches or not. A steady heartbeat appends one effect and no notes: ``hb_received`` is noted only when leader or term
changes, because a line per heartbeat would cost more than it is worth. Out of scope: who leads (`election`).

Source: Raft paper, 5.3, figure 2.
"""

from __future__ import annotations

from dethrone.clusters.targets.raft.commit import set_commit
from dethrone.clusters.targets.raft.messages import AppendEntries, AppendReply
from dethrone.clusters.targets.raft.node import FOLLOWER, LEADER, Node
from dethrone.harness.core.machine import Send


def on_append(n: Node, src: str, m: AppendEntries) -> None:
    """Rows 1-5 of the table; the first test is the steady heartbeat's."""
    if (m.term != n.term or n.leader != src or n.round is not None) and not _accept(n, src, m):
        return
    n.contact = n.mono
    n.reset_deadline()
    prev = m.prev_log_index
    log = n.log
    own = log.last_term if prev == log.end else log.term_at(prev)
    if own != m.prev_log_term and not n.rules.matches_prev(own, m.prev_log_term):
        _refuse(n, src, m, own)
        return
    last_new = prev
    if m.entries:
        last_new += len(m.entries)
    if not (m.entries and _store(n, m)) and log.durable < last_new:
        n.await_log(last_new)
    if m.leader_commit != n.commit:
        commit = n.rules.follower_commit(leader_commit=m.leader_commit, last_new=last_new, commit=n.commit)
        if commit != n.commit:
            set_commit(n, commit)
    n.out.append(Send(src, AppendReply(n.term, True, last_new, 0, m.seq)))


def _accept(n: Node, src: str, m: AppendEntries) -> bool:
    """Terms and roles: whether the sender is the leader of the own term after this."""
    if m.term != n.term and n.leading is None:
        term = n.rules.next_term(n.term, m.term)
        if term != n.term:
            n.adopt(term, "append_entries")
    elif n.rules.adopts_term(n.term, m.term):
        n.adopt(n.rules.next_term(n.term, m.term), "append_entries")
    if m.term < n.term:
        n.note("append_refused", {"why": "lower_term", "leader": src, "term": m.term})
        n.send(src, AppendReply(n.term, False, 0, 0, m.seq))
        return False
    if n.role == LEADER:
        n.note("violation", {"what": "another leader of the own term", "leader": src})
        return False
    if not n.rules.accepts_leader(m.term, n.campaigned_term):
        n.note("append_refused", {"why": "campaigned", "leader": src, "term": m.term})
        n.send(src, AppendReply(n.term, False, 0, 0, m.seq))
        return False
    n.close_round("closed")
    n.become(FOLLOWER, "leader_seen")
    if n.leader != src:
        if n.leader is not None:
            n.note("violation", {"what": "a second leader of one term", "known": n.leader, "leader": src})
        n.leader = src
        n.note("leader_seen", {"leader": src})
        n.note("hb_received", {"leader": src, "term": m.term})
    return True


def _refuse(n: Node, src: str, m: AppendEntries, own: int) -> None:
    """There is no entry like the leader's at prevLogIndex: hint where to continue."""
    log = n.log
    conflict = log.end + 1 if own < 0 else log.first_of_term(m.prev_log_index)
    n.note("append_refused", {"why": "prev", "prev": (m.prev_log_term, m.prev_log_index), "own_term": own})
    n.send(src, AppendReply(n.term, False, 0, conflict, m.seq))


def _store(n: Node, m: AppendEntries) -> bool:
    """Remove what conflicts, append what is missing, start the write and wait for it; whether there was anything."""
    log = n.log
    entries = m.entries
    at = m.prev_log_index
    cut_from = 0
    removed: list[int] = []
    configs = len(log.configs)
    for skip, entry in enumerate(entries):
        at += 1
        if at > log.end:
            entries = entries[skip:]
            break
        if n.rules.truncates(log.term_at(at), entry.term):
            cut_from = at
            removed = n.cut_log(at)
            entries = entries[skip:]
            break
    else:
        return False
    reverted = len(log.configs) < configs
    for entry in entries:
        log.append(entry)
    n.await_log(log.end)
    if cut_from:
        n.note("truncate", {"from": cut_from, "old_terms": removed[:64], "removed": len(removed)})
    n.note("append", {"from": entries[0].index, "index": log.end, "term": log.last_term})
    if reverted:
        n.refresh_config("reverted")
    elif len(log.configs) != configs:
        n.refresh_config("adopted")
    if cut_from and cut_from <= n.commit:
        n.note("violation", {"what": "a committed entry was removed", "from": cut_from, "commit": n.commit})
    return True
