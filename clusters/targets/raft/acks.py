"""The leader's handling of AppendEntries answers.

Guarantees: an answer of the leader's own term, success or not, proves contact as of the round that it echoes; a steady
heartbeat's answer costs a few comparisons and no effect. A failure older than the newest answer is ignored; a newer one
counts even below the matched index: the follower may have lost its disk. Out of scope: sending (`replication`).

Source: Raft paper, 5.3 (the conflict hint included); thesis 6.2.
"""

from __future__ import annotations

from dethrone.clusters.targets.raft import commit, membership, reads, transfer
from dethrone.clusters.targets.raft.leading import NEVER, Leading, Progress
from dethrone.clusters.targets.raft.messages import AppendReply
from dethrone.clusters.targets.raft.node import Node
from dethrone.clusters.targets.raft.replication import new_round, send_entries


def on_append_reply(n: Node, src: str, m: AppendReply) -> None:
    """An answer to a round."""
    if m.term != n.term:
        if n.rules.adopts_term(n.term, m.term):
            n.adopt(n.rules.next_term(n.term, m.term), "append_refused")
        return
    lead = n.leading
    if lead is None:
        return
    p = lead.progress.get(src)
    if p is None:
        return
    newest = m.seq > p.acked_seq
    if newest:
        p.acked_seq = m.seq
        sent = lead.rounds.get(m.seq)
        if sent is not None:
            p.acked_at = sent
            if n.lease_wall:
                p.acked_lease = lead.rounds_lease[m.seq]
    if m.success:
        match = m.match_index
        if match > p.match:
            _matched(n, lead, src, p, match)
            if n.leading is not lead:
                return
        elif p.next <= match:
            p.next = match + 1
    elif newest:
        _mismatched(p, m)
    if p.next <= n.log.end and p.inflight_at == NEVER and not lead.stuck and src in lead.progress:
        send_entries(n, lead, src, p, new_round(n, lead))
    if lead.reads:
        reads.confirm(n, lead)


def _matched(n: Node, lead: Leading, src: str, p: Progress, match: int) -> None:
    """The follower stores more than was known."""
    p.match = match
    if match >= p.next:
        p.next = match + 1
    if match >= p.inflight_to:
        p.inflight_at = NEVER
    if match > n.commit:
        commit.advance(n)
    if n.leading is lead and lead.handover is not None:
        transfer.on_match(n, lead)
    if n.leading is lead and lead.change is not None:
        membership.on_match(n, lead, src, p)


def _mismatched(p: Progress, m: AppendReply) -> None:
    """The follower's log differs before ``next``: go back, by its hint or one by one."""
    back = p.next - 1
    if 0 < m.conflict_index < back:
        back = m.conflict_index
    p.next = max(1, back)
    p.match = min(p.match, p.next - 1)
    p.inflight_at = NEVER
