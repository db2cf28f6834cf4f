"""Pre-votes: ask whether a campaign could win before raising the term.

Guarantees: a round is not a role: the node stays FOLLOWER. Asking and granting change no term, vote, disk or deadline
of the granter. Answers are matched by the echoed (reqTerm, round), never by their term, so that a voter with a lower
term still helps. A node that asks with a lower term gets an answer, to catch up. Out of scope: the election itself.
Source: thesis 9.6; the pitfalls of terms in pre-votes: canonical/raft 279, etcd 8243.
"""

from __future__ import annotations

from dethrone.clusters.targets.raft.election import start_election
from dethrone.clusters.targets.raft.leading import PreRound
from dethrone.clusters.targets.raft.messages import PreVote, PreVoteReply
from dethrone.clusters.targets.raft.node import FOLLOWER, RETRY, Node
from dethrone.harness.core.machine import SetTimer


def open_round(n: Node) -> None:
    """A deadline passed: ask all other voters, with an empty set of pre-votes and a new deadline."""
    n.close_round("expired")
    n.become(FOLLOWER, "deadline")
    n.leader = None
    n.round_no += 1
    n.reset_deadline()
    opened = n.round = PreRound(n.term + 1, n.round_no)
    if n.rules.clears_votes("round"):
        n.votes = set()
    if n.me in n.voters:
        opened.granted.add(n.me)
    n.count("prevote_rounds")
    n.note("prevote_started", {"reqTerm": opened.req_term, "round": opened.no, "log": n.own_log()})
    if not _won(n, opened):
        ask_for_pre_votes(n, opened)


def ask_for_pre_votes(n: Node, opened: PreRound) -> None:
    """Send PreVote to every voter that has not answered, and again after a heartbeat interval."""
    last_term, last_index = n.last_log()
    request = PreVote(opened.req_term, n.me, last_index, last_term, opened.no)
    for peer in n.electorate:
        if peer != n.me and peer not in opened.granted and peer not in opened.refused:
            n.send(peer, request)
    n.out.append(SetTimer(RETRY, n.mono + n.rules.pre_vote_repeat_interval()))


def _won(n: Node, opened: PreRound) -> bool:
    """Whether the round is won; if so, the real election starts with an empty set of votes."""
    if not n.rules.is_quorum(opened.granted, n.voters, opened.granted | opened.refused):
        return False
    n.close_round("won")
    if not n.rules.clears_votes("campaign"):
        n.votes = set(opened.granted)
    start_election(n, why="prevote_won")
    return True


def on_pre_vote(n: Node, src: str, m: PreVote) -> None:
    """A node asks whether it could win: the rows of the table, in order."""
    own_log = n.own_log()
    if n.rules.resets_deadline("asked"):
        n.reset_deadline()
    row = n.rules.grants_pre_vote(
        req_term=m.req_term,
        own_term=n.term,
        leads_or_hears=n.leads_or_hears(),
        voted_for=n.voted_for,
        candidate=src,
        up_to_date=n.rules.log_up_to_date((m.last_log_term, m.last_log_index), own_log),
    )
    if row > 2 and n.holds_off():
        row = 2  # what was promised before the start is forgotten: as if a leader were heard
    n.note("prevote_decision", {"candidate": src, "reqTerm": m.req_term, "round": m.round, "row": row})
    if row == 1 and not n.rules.answers_lower_term():
        return
    n.send(src, PreVoteReply(n.term, m.req_term, m.round, row == 5, row))


def on_pre_vote_reply(n: Node, src: str, m: PreVoteReply) -> None:
    """An answer to a PreVote: the rows of the table, in order."""
    if not m.granted and n.rules.adopts_term(n.term, m.term):
        _note_answer(n, src, m, counted=False)
        n.adopt(n.rules.next_term(n.term, m.term), "prevote_refused")
        return
    opened = n.round
    if opened is None or (m.req_term, m.round) != (opened.req_term, opened.no) or src not in n.electorate:
        _note_answer(n, src, m, counted=False)
        return
    counted = n.rules.counts_pre_vote(granted=m.granted, answer_term=m.term, own_term=n.term, from_voter=True)
    _note_answer(n, src, m, counted=counted)
    if counted:
        opened.granted.add(src)
        _won(n, opened)
    elif not m.granted:
        opened.refused.add(src)
        possible = [voter for voter in n.voters if voter not in opened.refused]
        if len(possible) < n.rules.quorum_size(len(n.voters)):
            n.close_round("lost")


def _note_answer(n: Node, src: str, m: PreVoteReply, *, counted: bool) -> None:
    n.note("prevote_answer", {"peer": src, "term": m.term, "granted": m.granted, "counted": counted})
