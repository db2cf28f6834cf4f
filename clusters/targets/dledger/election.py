"""Campaigns and votes.

Guarantees: the rows of the vote handler and the cases of the decision are tested in their order; a campaign ends as
soon as its outcome is clear, and later answers are ignored. Out of scope: heartbeats.

Source: DLedger 0.2.7, ``DLedgerLeaderElector.maintainAsCandidate`` and ``handleVote``.
"""

from __future__ import annotations

from dethrone.clusters.targets.dledger import messages as m
from dethrone.clusters.targets.dledger.messages import VoteRequest, VoteResponse
from dethrone.clusters.targets.dledger.node import Node, shown
from dethrone.clusters.targets.dledger.tally import (
    PASSED,
    REVOTE_IMMEDIATELY,
    WAIT_TO_REVOTE,
    WAIT_TO_VOTE_NEXT,
    Campaign,
)

_RESULT = {
    1: WAIT_TO_VOTE_NEXT,
    2: WAIT_TO_REVOTE,
    3: WAIT_TO_REVOTE,
    4: WAIT_TO_REVOTE,
    5: PASSED,
    6: REVOTE_IMMEDIATELY,
    7: WAIT_TO_VOTE_NEXT,
}


def candidate_pass(n: Node) -> None:
    """One pass as a candidate."""
    rules = n.rules
    flag = n.flag
    if n.now() < rules.campaign_at(n.next_vote, flag=flag):
        return
    before = n.term
    vote_next = n.last_result == WAIT_TO_VOTE_NEXT
    if rules.raises_term(vote_next=vote_next, flag=flag):
        n.next_term("flag" if flag else "case1" if n.known_max_term > before else "case7")
        n.last_result = WAIT_TO_REVOTE
    if flag:
        n.flag = False
        if rules.bump_only():
            n.next_vote = n.draw()
            return
    campaign(n, same_term=n.term == before)


def campaign(n: Node, *, same_term: bool) -> None:
    """Ask all members for a vote in the current term."""
    rules = n.rules
    wait = rules.vote_wait(rules.seed(n.rng))
    tally = Campaign(n.term, len(n.members), opaque=n.call(), deadline=n.mono + wait)
    n.campaigned_term = n.term
    end_term, end_index = rules.log_term(n.end_term, n.term), n.log.last
    n.count("campaigns")
    n.note(
        "campaign",
        {"term": n.term + 1, "same_term": same_term, "log_end": [end_term + 1, end_index + 1], "wait_ns": wait},
    )
    n.begin_wait(tally)
    for name in rules.asked(n.members, n.me):
        request = VoteRequest(
            group="",
            local_id=n.me,
            remote_id=name,
            leader_id=rules.candidate_of(n.me),
            term=tally.term,
            opaque=tally.opaque,
            ledger_end_index=end_index,
            ledger_end_term=end_term,
        )
        if name == n.me:
            result, term = judge(n, request, own=True)
            _count(n, tally, n.me, result, term)
        else:
            n.send(name, request)
    if n.waits is tally and rules.campaign_over(tally):
        decide(n, tally)


def on_vote_response(n: Node, src: str, answer: VoteResponse) -> None:
    """An answer to a campaign."""
    tally = n.waits
    if type(tally) is not Campaign or src in tally.answered or src not in n.peers:
        return
    if not n.rules.of_this_campaign(answer.opaque, tally.opaque):
        return
    _count(n, tally, src, answer.vote_result, answer.term)
    if n.rules.campaign_over(tally):
        decide(n, tally)


def on_vote_failed(n: Node, to: str, opaque: int) -> None:
    """A request that certainly got no answer."""
    tally = n.waits
    if type(tally) is Campaign and opaque == tally.opaque and to not in tally.answered:
        _count(n, tally, to, m.UNKNOWN, -1)
        if n.rules.campaign_over(tally):
            decide(n, tally)


def _count(n: Node, tally: Campaign, voter: str, result: str, term: int) -> None:
    tally.answered.add(voter)
    n.note("vote_answer", {"peer": voter, "code": result, "term": term + 1})
    n.rules.count_vote(tally, result, term, voter)


def decide(n: Node, tally: Campaign) -> None:
    """The campaign's result: the first case that matches."""
    rules = n.rules
    n.end_wait()
    case = case_of(n, tally)
    n.last_result = _RESULT[case]
    if rules.delays_after(case):
        n.next_vote = n.draw() + rules.extra_delay(case)
    n.note(
        "campaign_result",
        {
            "case": case,
            "result": n.last_result,
            "term": tally.term + 1,
            "valid": tally.valid,
            "accepted": tally.accepted,
            "bigger": tally.bigger,
            "not_ready": tally.not_ready,
            "has_leader": tally.has_leader,
            "max_term": tally.max_term + 1,
            "next_in_ns": max(0, n.next_vote - n.now()),
        },
    )
    if rules.wins(case):
        if n.term == tally.term:
            n.count("elections_won")
            n.note("elected", {"term": tally.term + 1, "voters": sorted(tally.voters)})
            n.to_leader(tally.term, f"case {case}")
    elif case == 1:
        n.to_candidate(tally.max_term, "case 1")
    n.schedule()


def case_of(n: Node, tally: Campaign) -> int:
    """The number of the first case that matches, 1 to 7."""
    rules = n.rules
    tests = (rules.case_1, rules.case_2, rules.case_3, rules.case_4, rules.case_5, rules.case_6)
    return next((number for number, test in enumerate(tests, 1) if test(tally)), 7)


# --- the receiver -------------------------------------------------------------------------------------------------


def on_vote_request(n: Node, src: str, request: VoteRequest) -> None:
    """Answer a candidate."""
    result, term = judge(n, request, own=False)
    n.send(src, VoteResponse(**m.echoed(request, n.me, term), vote_result=result))


def judge(n: Node, request: VoteRequest, *, own: bool) -> tuple[m.VoteResult, int]:
    """(verdict, term to answer with), and its side effects. ``own``: the copy that a candidate sends to itself."""
    before = n.term
    result = _rows(n, request, own=own)
    term = n.end_term if result == m.TERM_SMALL_THAN_LEDGER else before
    n.note(
        "vote_decision",
        {
            "candidate": request.leader_id,
            "term": request.term + 1,
            "log_end": [shown(request.ledger_end_term), shown(request.ledger_end_index)],
            "code": result,
            "own_term": before + 1,
        },
    )
    return result, term


def _rows(n: Node, request: VoteRequest, *, own: bool) -> m.VoteResult:
    rules = n.rules
    candidate, term = request.leader_id, request.term
    if rules.renews_on_request():
        n.last_beat = n.now()
        if not own:
            n.next_vote = n.draw()
    if not rules.is_member(candidate, n.members, "vote"):  # row 1
        return m.UNKNOWN_LEADER
    if not own and candidate == n.me:  # row 2
        return m.UNEXPECTED_LEADER
    log_first = rules.log_before_term()
    if log_first and (refusal := _log_rows(n, request)) is not None:  # rows 3 and 4
        return refusal
    if rules.vote_expired(term, n.term):  # row 5
        return m.EXPIRED_VOTE_TERM
    if term <= n.term:  # row 6
        if not rules.vote_left(n.voted_for, candidate):
            return m.ALREADY_VOTED if n.leader is None else m.ALREADY_HAS_LEADER
    else:  # row 7
        n.flag = rules.flags_higher_term("vote") or n.flag
        n.to_candidate(term, "vote request of a higher term")
        return m.TERM_NOT_READY
    if not log_first and (refusal := _log_rows(n, request)) is not None:
        return refusal
    if rules.below_ledger(term, n.end_term):  # row 8
        return m.TERM_SMALL_THAN_LEDGER
    if (  # row 9
        n.taking_leadership
        and not own
        and n.end_term == request.ledger_end_term
        and n.log.last >= request.ledger_end_index
    ):
        return m.TAKING_LEADERSHIP
    n.voted_for = candidate  # row 10
    n.persist()
    return m.ACCEPT


def _log_rows(n: Node, request: VoteRequest) -> m.VoteResult | None:
    """Rows 3 and 4."""
    own_term = n.rules.log_term(n.end_term, n.term)
    if n.rules.older_ledger_term(request.ledger_end_term, own_term):
        return m.EXPIRED_LEDGER_TERM
    if request.ledger_end_term == own_term and n.rules.shorter_ledger(request.ledger_end_index, n.log.last):
        return m.SMALL_LEDGER_END_INDEX
    return None
