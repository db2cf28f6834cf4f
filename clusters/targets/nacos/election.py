"""The election task, the campaign, the vote and its count.

Guarantees: the task, ``sendVote``, ``receivedVote`` and ``decideLeader`` take the original's steps in their order, with
its faults: a refusal carries the responder's old ``voteFor`` and is counted like a grant, answers of earlier rounds
count, a node can promote itself while FOLLOWER. ``elected`` is noted only when the node's own record becomes LEADER by
its own count.

Out of scope: any comparison of data; it does not exist. Handlers here run one after another, so the original's race
between ``sendVote`` and ``receivedVote`` (NA-B11) cannot happen.

Source: docs/sources.md, nacos.
"""

from __future__ import annotations

from dethrone.clusters.targets.nacos.knobs import TICK_PERIOD_MS
from dethrone.clusters.targets.nacos.messages import CallError, RaftPeer, VoteAnswer, VoteRequest
from dethrone.clusters.targets.nacos.state import STOPPED, NodeState


def on_election_tick(node: NodeState) -> None:
    """One run of the election task."""
    if not node.rules.works(stop_work=node.stop_work, ready=node.peers.ready):
        return
    local = node.local
    local.leader_due_ms -= TICK_PERIOD_MS
    if not node.rules.is_due(local.leader_due_ms) or not node.rules.may_campaign(leader=node.peers.leader_ip):
        return
    if not node.rules.campaigns_as(local.state):
        return
    node.trace("leader_due", leader=node.peers.leader_ip)
    if not node.rules.resets_before_campaign:
        send_vote(node)
    node.reset_leader_due()
    node.reset_heartbeat_due()
    if node.rules.resets_before_campaign:
        send_vote(node)


def send_vote(node: NodeState) -> None:
    """Open a round: forget all support, raise the term, vote for oneself, ask all others."""
    local = node.local
    node.peers.reset(votes=node.rules.clears_votes)
    node.set_term(local.term + 1, "campaign")
    local.vote_for = node.me if node.rules.votes_for_itself else None
    node.set_state("CANDIDATE", "campaign")
    snapshot = node.record()
    node.persist_vote()
    node.counters["campaigns"] += 1
    node.trace("campaign", vote_for=local.vote_for)
    node.send_others(VoteRequest(snapshot))


def received_vote(node: NodeState, src: str, candidate: RaftPeer) -> None:
    """Answer a campaign: the larger term wins, nothing else is compared."""
    local = node.local
    own_term = local.term
    if node.stop_work:
        _decided(node, candidate, own_term, "error")
        node.answer_peer(src, CallError("vote", "illegal state", STOPPED))
        return
    if not node.rules.knows_candidate(known=node.peers.contains(candidate.ip)):
        _decided(node, candidate, own_term, "error")
        node.answer_peer(src, CallError("vote", "illegal state", f"can not find peer: {candidate.ip}"))
        return
    if not node.rules.grants(candidate_term=candidate.term, own_term=own_term, own_items=len(node.items)):
        if not local.vote_for:
            node.relabel(node.me, "refusal")
            node.persist_vote()
        if node.rules.refusal_resets_due():
            node.reset_leader_due()
        _decided(node, candidate, own_term, "refuse")
        node.answer_peer(src, VoteAnswer(node.record()))
        return
    if node.rules.grant_resets_due:
        node.reset_leader_due()
    node.set_state("FOLLOWER", "vote")
    local.vote_for = candidate.ip
    if node.rules.adopts_term:
        node.set_term(candidate.term, "vote")
    node.persist_vote()
    _decided(node, candidate, own_term, "grant")
    node.answer_peer(src, VoteAnswer(node.record()))


def _decided(node: NodeState, candidate: RaftPeer, own_term: int, action: str) -> None:
    node.trace(
        "vote_decision",
        candidate=candidate.ip,
        candidate_term=candidate.term,
        own_term=own_term,
        action=action,
        vote_for=node.local.vote_for,
    )


def received_vote_answer(node: NodeState, answer: RaftPeer) -> None:
    """Take in an answer of any round, granted or not, and count all records."""
    if node.stop_work:
        return
    rules, own_term, peers = node.rules, node.local.term, len(node.peers.peers)
    decision = node.peers.decide_leader(
        answer,
        counts=lambda term: rules.counts(term, own_term=own_term),
        wins=lambda best, counted: rules.wins(best, peers=peers, counted=counted),
    )
    node.trace(
        "vote_answer",
        peer=answer.ip,
        peer_term=answer.term,
        vote_for=answer.vote_for,
        counted_for=answer.vote_for if answer.ip in decision.counted else None,
    )
    node.trace(
        "tally",
        counts=dict(sorted(decision.counts.items())),
        best=decision.best,
        majority=decision.majority,
        winner=decision.winner,
        terms=decision.counted,
    )
    if decision.winner is None:
        return
    if decision.winner == node.me and decision.winner_was is not None and decision.winner_was != "LEADER":
        node.announce_state(decision.winner_was, "decide")
        voters = [ip for ip in decision.counted if node.peers.peers[ip].vote_for == node.me]
        node.trace(
            "elected",
            voters=voters,
            terms={ip: decision.counted[ip] for ip in voters},
            counts=dict(sorted(decision.counts.items())),
            majority=decision.majority,
        )
    if node.rules.announces(changed=decision.leader_changed):
        node.trace("leader_set", leader=decision.winner, cause="decide", own_term=node.local.term)


def vote_call_failed(node: NodeState, peer: str, error: str | CallError) -> None:
    """Not OK, or no answer: logged and ignored."""
    text = error.text if isinstance(error, CallError) else error
    node.trace("vote_answer", peer=peer, peer_term=None, vote_for=None, counted_for=None, error=text)
    if node.rules.counts_failed_call:
        received_vote_answer(node, RaftPeer(peer, node.me, node.local.term))
