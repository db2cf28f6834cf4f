"""Heartbeats: a leader's rounds, what their answers mean, what a receiver does, and when a follower gives up.

Guarantees: a steady heartbeat costs a few comparisons and no note: only the first of successive successful rounds is
noted, and only heartbeats that change something. Out of scope: campaigns.

Source: DLedger 0.2.7, ``DLedgerLeaderElector.maintainAsLeader``, ``sendHeartbeats``, ``handleHeartBeat`` and
``maintainAsFollower``.
"""

from __future__ import annotations

from dethrone.clusters.targets.dledger import messages as m
from dethrone.clusters.targets.dledger.messages import HeartBeatRequest, HeartBeatResponse
from dethrone.clusters.targets.dledger.node import Node
from dethrone.clusters.targets.dledger.rules import FOLLOWER, LEADER, NEVER
from dethrone.clusters.targets.dledger.tally import WAIT_TO_VOTE_NEXT, Round


def leader_pass(n: Node) -> None:
    """One pass as a leader: a round, if it is time."""
    if n.now() - n.last_sent <= n.rules.heartbeat_interval():
        return
    n.last_sent = n.now()
    tally = Round(n.term, len(n.members), opaque=n.call(), deadline=n.mono + n.knobs.heart_beat_interval)
    n.begin_wait(tally)
    for peer in n.peers:
        n.send(
            peer,
            HeartBeatRequest(
                group="", local_id=n.me, remote_id=peer, leader_id=n.me, term=tally.term, opaque=tally.opaque
            ),
        )
    success = n.rules.success_at(n.last_sent, n.now(), majority=False)
    if success is not None:
        n.last_success = success
    if _over(n, tally):
        decide(n, tally)


def on_heartbeat_response(n: Node, src: str, answer: HeartBeatResponse) -> None:
    """An answer to a round."""
    tally = n.waits
    if answer.code == m.EXPIRED_TERM and answer.term > n.term and n.role == LEADER and n.rules.checks_max_term_first():
        _deposed_by(n, answer.term)
        return
    if type(tally) is not Round or answer.opaque != tally.opaque or src in tally.answered or src not in n.peers:
        return
    tally.answered.add(src)
    if answer.code == m.SUCCESS:
        tally.succ += 1
    elif answer.code == m.EXPIRED_TERM:
        tally.max_term = max(tally.max_term, answer.term)
    elif answer.code == m.INCONSISTENT_LEADER:
        tally.inconsistent = True
    elif answer.code == m.NOT_READY:
        tally.not_ready += 1
    if _over(n, tally):
        decide(n, tally)


def on_heartbeat_failed(n: Node, to: str, opaque: int) -> None:
    """A heartbeat that certainly got no answer."""
    tally = n.waits
    if type(tally) is Round and opaque == tally.opaque:
        tally.answered.add(to)
        if _over(n, tally):
            decide(n, tally)


def _over(n: Node, tally: Round) -> bool:
    rules = n.rules
    return (
        rules.has_quorum(tally.succ, tally)
        or rules.has_quorum(tally.succ + tally.not_ready, tally)
        or len(tally.answered) >= tally.members - 1
    )


def _deposed_by(n: Node, term: int) -> None:
    """A larger term: the next campaign already uses it."""
    if type(n.waits) is Round:
        n.end_wait()
    n.to_candidate(term, "larger term")
    n.last_result = WAIT_TO_VOTE_NEXT
    n.schedule()


def decide(n: Node, tally: Round) -> None:
    """The round's result: the first row that matches."""
    n.end_wait()
    row = _decide(n, tally)
    if row or n.last_row or n.rules.notes_every_beat():
        n.note(
            "hb_round",
            {
                "term": tally.term + 1,
                "succ": tally.succ,
                "not_ready": tally.not_ready,
                "max_term": tally.max_term + 1,
                "inconsistent": tally.inconsistent,
                "decision": row,
            },
        )
    n.last_row = row
    n.schedule()


def _decide(n: Node, tally: Round) -> int:
    rules = n.rules
    term, now = tally.term, n.now()
    if rules.checks_max_term_first() and tally.max_term > term:
        _deposed_by(n, tally.max_term)
        return 2
    if rules.has_quorum(tally.succ, tally):
        n.last_success = now
        return 0
    if rules.beats_again(tally):
        n.last_sent = NEVER
        return 1
    if tally.max_term > term and rules.steps_down_on("max_term"):
        _deposed_by(n, tally.max_term)
        return 2
    if tally.inconsistent and rules.steps_down_on("inconsistent"):
        n.to_candidate(term, "a peer follows another leader")
        return 3
    if rules.leader_gives_up(now - n.last_success):
        n.to_candidate(term, "no majority for too long")
        return 4
    return 5


# --- the receiver -------------------------------------------------------------------------------------------------


def on_heartbeat(n: Node, src: str, request: HeartBeatRequest) -> None:
    """Answer a leader."""
    code = judge(n, request)
    n.send(src, HeartBeatResponse(**m.echoed(request, n.me, n.term), code=code))


def judge(n: Node, request: HeartBeatRequest) -> int:
    """The code of the answer, and its side effects."""
    rules = n.rules
    term, leader = request.term, request.leader_id
    if not rules.is_member(request.local_id, n.members, "heartbeat"):
        return _told(n, request, m.UNKNOWN_MEMBER)
    if rules.names_me(leader, n.me):
        return _told(n, request, m.UNEXPECTED_MEMBER)
    if rules.beat_expired(term, n.term):
        return _told(n, request, m.EXPIRED_TERM)
    if term <= n.term:
        if leader == n.leader:
            if rules.renews_on_beat():
                n.last_beat = n.now()
            return _told(n, request, m.SUCCESS) if rules.notes_every_beat() else m.SUCCESS
        campaigned = n.campaigned_term == term
        if n.leader is None and rules.follows_unknown(campaigned=campaigned):
            n.to_follower(n.term, leader, "heartbeat")
            n.note("leader_accepted", {"leader": leader, "term": term + 1})
            return _told(n, request, m.SUCCESS)
        if rules.accepts_other_leader():
            n.to_follower(n.term, leader, "heartbeat of another leader")
            return _told(n, request, m.SUCCESS)
        if n.leader is not None:
            n.note("violation", {"what": "two leaders of one term", "known": n.leader, "other": leader})
        return _told(n, request, m.INCONSISTENT_LEADER)
    n.flag = rules.flags_higher_term("heartbeat") or n.flag
    n.to_candidate(term, "heartbeat of a higher term")
    return _told(n, request, m.NOT_READY)


def _told(n: Node, request: HeartBeatRequest, code: int) -> int:
    n.note("hb_decision", {"from": request.local_id, "code": code, "term": request.term + 1})
    return code


# --- the follower -------------------------------------------------------------------------------------------------


def follower_pass(n: Node) -> None:
    """One pass as a follower: has the leader been silent for too long?"""
    silence = n.now() - n.last_beat
    rules = n.rules
    if silence > rules.follower_looks_after() and n.role == FOLLOWER and silence > rules.follower_gives_up_after():
        n.to_candidate(n.term, "leader silent")
