"""The receiver's side: vote requests, pre-vote requests, appends and heartbeats.

Guarantees: the original's steps in their order. A pre-vote is granted by the log alone, regardless of leader and vote
(JQ-B4); an append of the own term turns any leader or candidate into a follower. Out of scope: what an append does to
the log (`replication`).

Source: docs/sources.md, joyqueue: ``RaftLeaderElection``, whose function names are kept.
"""

from __future__ import annotations

from dethrone.clusters.targets.joyqueue.group import FOLLOWER, Group
from dethrone.clusters.targets.joyqueue.messages import (
    AppendEntriesRequest,
    AppendEntriesResponse,
    NullAnswer,
    VoteRequest,
    VoteResponse,
)
from dethrone.clusters.targets.joyqueue.replication import append_entries, learn_commit
from dethrone.clusters.targets.joyqueue.rules import Position


def _takes_part(g: Group, src: str, m: VoteRequest) -> bool:
    """Row 1: a request of an unknown candidate, or before the start, is refused."""
    if not g.started or m.candidate_id not in g.flags:
        g.note("request_refused", {"from": src, "why": "unknown candidate" if g.started else "not started"})
        g.send(src, NullAnswer(g.name, m.id))
        return False
    if g.rules.resets_timer("asked"):
        g.reset_election_timer()
    return True


def _note_decision(g: Group, name: str, m: VoteRequest, own: Position, *, granted: bool) -> None:
    log = (m.last_log_term, m.last_log_pos)
    asked = {"candidate": m.candidate_id, "term": m.term, "log": log}
    g.note(name, {**asked, "own_log": own, "own_vote": g.voted_for, "granted": granted})


def handle_vote_request(g: Group, src: str, m: VoteRequest) -> None:
    """``handleVoteRequest``: rows 1-5."""
    candidate = m.candidate_id
    own = g.own_log()
    if not _takes_part(g, src, m):
        return
    granted = False
    if g.term <= m.term:
        if g.term < m.term:
            g.step_down(m.term, "vote_request")
        up_to_date = g.rules.log_up_to_date((m.last_log_term, m.last_log_pos), own)
        if up_to_date and g.rules.may_vote_for(candidate, g.voted_for):
            g.voted_for = candidate
            g.persist("grant")
            g.count("votes_granted")
            granted = True
            g.step_down(m.term, "vote_granted")
    _note_decision(g, "vote_decision", m, own, granted=granted)
    g.send(src, VoteResponse(g.name, g.term, candidate, g.me, granted, m.id))


def handle_pre_vote_request(g: Group, src: str, m: VoteRequest) -> None:
    """``handlePreVoteRequest``: rows 1 and 2, then the log decides. Nothing of this node changes."""
    candidate = m.candidate_id
    own = g.own_log()
    if not _takes_part(g, src, m):
        return
    granted = g.term <= m.term and g.rules.log_up_to_date((m.last_log_term, m.last_log_pos), own)
    _note_decision(g, "prevote_decision", m, own, granted=granted)
    if g.term > m.term and not g.rules.answers_lower_term():
        return
    g.send(src, VoteResponse(g.name, g.term, candidate, g.me, granted, m.id))


def handle_append_entries(g: Group, src: str, m: AppendEntriesRequest) -> None:
    """``handleAppendEntriesRequest``: an append, or without entries a heartbeat."""
    leader = m.leader_id
    if not g.started or leader not in g.flags:
        g.note("request_refused", {"from": src, "why": "unknown leader" if g.started else "not started"})
        g.send(src, NullAnswer(g.name, m.id))
        return
    if m.term != g.term or g.leader != leader or g.role != FOLLOWER:
        lower = g.rules.refuses_append(m.term, g.term)
        if lower or not g.rules.accepts_leader(m.term, g.campaigned_term):
            g.note("append_refused", {"leader": leader, "term": m.term, "why": "lower_term" if lower else "campaigned"})
            g.send(src, _answer(g, m, success=False, goes_on_at=m.start_position))
            return
        check_step_down(g, m.term, leader)
    g.reset_election_timer()
    if g.rules.notes_heartbeats():
        g.note("hb_received", {"leader": leader, "term": m.term})
    if m.entries:
        success, goes_on_at = append_entries(g, m)
        g.send(src, _answer(g, m, success=success, goes_on_at=goes_on_at))
        return
    learn_commit(g, m.commit_position, matched=g.log.end)
    g.send(src, _answer(g, m, success=True, goes_on_at=g.log.end))


def _answer(g: Group, m: AppendEntriesRequest, *, success: bool, goes_on_at: int) -> AppendEntriesResponse:
    return AppendEntriesResponse(g.name, g.term, success, goes_on_at, g.log.end, g.me, m.entries_term, m.id)


def check_step_down(g: Group, term: int, leader: str) -> None:
    """``checkStepDown``: rows (a)-(d), then follow the sender as leader."""
    if g.term < term:
        g.step_down(term, "append_higher_term")
    elif g.role != FOLLOWER:
        g.step_down(term, "append_same_term")
    elif g.leader is None:
        g.step_down(term, "append_new_leader")
    elif g.leader != leader:
        g.leader = leader
        g.note("leader_seen", {"leader": leader, "why": "another leader of this term"})
    if g.leader is None:
        become_follower(g, leader, term)


def become_follower(g: Group, leader: str, term: int) -> None:
    """``becomeFollower``: follow this leader in its term."""
    g.leader = leader
    g.term = term
    for name in g.flags:
        g.flags[name] = False
    g.persist("other")
    g.become(FOLLOWER, "leader_found")
    g.go_offline(term)
    g.note("become_follower", {"leader": leader, "term": term})
    g.note("leader_seen", {"leader": leader})
    g.cancel_heartbeat_timer()
