"""Elections: a campaign, granting and counting votes, the start of a leadership.

Guarantees: a candidate's own vote counts once it is on disk; one vote per term; the log decides only between equal
terms. Out of scope: the rules that decide, and the planted bugs that break them (`rules`: `grants_vote`,
`log_up_to_date`), when to campaign (`deadline`) and pre-votes (`prevote`).

Source: Raft paper, 5.2, 5.4.1; thesis 4.2.3 (ignoring vote requests while a leader is heard).
"""

from __future__ import annotations

from dethrone.clusters.targets.raft import commit
from dethrone.clusters.targets.raft.leading import FAR, Leading, Progress
from dethrone.clusters.targets.raft.messages import Config, Noop, RequestVote, VoteReply
from dethrone.clusters.targets.raft.node import CANDIDATE, ELECTION, LEADER, RETRY, Node
from dethrone.clusters.targets.raft.quorum_check import start_ticking
from dethrone.harness.core.machine import SetTimer

# --- a campaign -------------------------------------------------------------------------------------------------


def start_election(n: Node, *, why: str, force: bool = False) -> None:
    """A new term, the own vote, requests to all other voters once both are on disk."""
    kept = set() if n.rules.clears_votes("campaign") else set(n.votes)
    before = n.term
    n.term += 1
    n.voted_for = n.me
    n.touch_vote()
    n.leader = None
    n.campaigned_term = n.term
    n.votes = kept
    n.answered = set()
    n.force = force
    n.count("elections")
    n.note("term_change", {"from": before, "to": n.term, "why": why})
    n.become(CANDIDATE, why)
    n.note("election_started", {"term": n.term, "log": n.own_log()})
    n.reset_deadline()
    ask_for_votes(n)


def ask_for_votes(n: Node) -> None:
    """Send RequestVote to every voter that has not answered, and again after rpcTimeout."""
    last_term, last_index = n.last_log()
    request = RequestVote(n.term, n.me, last_index, last_term, n.force)
    waiting = False
    for peer in n.electorate:
        if peer != n.me and peer not in n.answered:
            n.send(peer, request)
            waiting = True
    if waiting:
        n.out.append(SetTimer(RETRY, n.mono + n.knobs.rpc_timeout))


def on_own_vote(n: Node) -> None:
    """The own vote is on disk: it counts, if this node votes at all."""
    if n.me in n.voters:
        n.votes.add(n.me)
    n.answered.add(n.me)
    tally(n)


def on_vote_reply(n: Node, src: str, m: VoteReply) -> None:
    """An answer to a RequestVote."""
    candidate, own_term = n.role == CANDIDATE, n.term
    if n.rules.adopts_term(n.term, m.term):
        n.adopt(n.rules.next_term(n.term, m.term), "vote_refused")
    counted = n.rules.counts_vote(m, own_term=own_term, candidate=candidate, from_voter=src in n.electorate)
    n.note("vote_answer", {"peer": src, "term": m.term, "granted": m.vote_granted, "counted": counted})
    if candidate and m.term == own_term:
        n.answered.add(src)
    if counted:
        n.votes.add(src)
        n.answered.add(src)
        tally(n)


def tally(n: Node) -> None:
    """Lead if the votes suffice."""
    if n.leading is None and n.rules.is_quorum(n.votes, n.voters, n.answered):
        become_leader(n, why="elected")


# --- a vote -----------------------------------------------------------------------------------------------------


def on_request_vote(n: Node, src: str, m: RequestVote) -> None:
    """A candidate requests this node's vote: rows 1-4 of the table, stickiness between row 1 and the term rule."""
    log = (m.last_log_term, m.last_log_index)
    if n.rules.resets_deadline("asked"):
        n.reset_deadline()
    if m.term < n.term:
        _decide(n, src, m, rule=1)
        n.send(src, VoteReply(n.term, False, "lower_term"))
        return
    if n.holds_off() or n.rules.is_sticky(leads_or_hears=n.leads_or_hears(), force=m.force):
        n.note("vote_ignored", {"candidate": src, "term": m.term, "sticky": not n.holds_off()})
        if n.rules.answers_sticky():
            n.send(src, VoteReply(n.term, False, "sticky"))
        return
    if n.rules.adopts_term(n.term, m.term):
        n.adopt(n.rules.next_term(n.term, m.term), "request_vote")
    rule = n.rules.grants_vote(
        voted_for=n.voted_for, candidate=src, up_to_date=n.rules.log_up_to_date(log, n.own_log())
    )
    if rule != 4:
        _decide(n, src, m, rule=rule)
        n.send(src, VoteReply(n.term, False, "voted" if rule == 2 else "log"))
        return
    if n.voted_for != src:
        n.voted_for = src
        n.touch_vote()
    if n.rules.resets_deadline("granted"):
        n.reset_deadline()
    n.close_round("closed")
    n.count("votes_granted")
    _decide(n, src, m, rule=4)
    n.send(src, VoteReply(n.term, True))


def _decide(n: Node, src: str, m: RequestVote, *, rule: int) -> None:
    n.note(
        "vote_decision",
        {
            "candidate": src,
            "term": m.term,
            "log": (m.last_log_term, m.last_log_index),
            "rule": rule,
            "granted": rule == 4,
        },
    )


# --- a leadership -----------------------------------------------------------------------------------------------


def become_leader(n: Node, *, why: str) -> None:
    """Lead the current term: fresh progress of every peer, a blank entry, heartbeats at once."""
    n.close_round("closed")
    n.become(LEADER, why)
    n.out.append(SetTimer(ELECTION, None))
    n.armed = FAR
    n.deadline = None
    n.leader = n.me
    n.count("elected")
    n.note(
        "elected",
        {
            "term": n.term,
            "voters": sorted(n.votes),
            "config": {
                "index": n.config_index,
                "voters": list(n.config.voters),
                "learners": list(n.config.learners),
            },
        },
    )
    last = n.log.end
    lead = n.leading = Leading(n.mono, last + 1)
    lead.progress = {peer: Progress(last + 1) for peer in n.peers}
    if n.rules.appends_noop():
        n.note("noop", {"index": last + 1})
        commit.submit(n, lead, Noop())
    if n.rules.proposes_again():
        for entry in n.log.entries[n.commit : last]:
            if not isinstance(entry.command, Noop | Config):
                commit.submit(n, lead, entry.command)
    if n.leading is lead:
        start_ticking(n, lead)
