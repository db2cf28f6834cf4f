"""Elections: campaigns, granting and counting votes, back-off.

Guarantees: the rows of the table of vote requests are judged in their order; a higher epoch is adopted regardless of
the logs, so a candidate that cannot win still ends a leadership (no pre-vote). Out of scope: leading (`leader`).

Source: Apache Kafka 3.3.1, KafkaRaftClient (handleVoteRequest, handleVoteResponse, pollCandidate), CandidateState.
"""

from __future__ import annotations

from dethrone.clusters.targets.kraft.hearing import common
from dethrone.clusters.targets.kraft.leader import become_leader
from dethrone.clusters.targets.kraft.messages import NOBODY, ErrorCode, VotePartition, VoteRequest, VoteResponse
from dethrone.clusters.targets.kraft.node import BACKOFF, Node, waits_to_campaign
from dethrone.clusters.targets.kraft.requests import answered, drive, failed, still_possible
from dethrone.clusters.targets.kraft.rules import CANDIDATE, FOLLOWER, UNATTACHED
from dethrone.clusters.targets.kraft.transitions import become_candidate, become_unattached, become_voted

# --- a campaign -----------------------------------------------------------------------------------------------------


def campaign(n: Node, cause: str) -> None:
    """Campaign in a new epoch; alone in the quorum, that is an election won."""
    become_candidate(n, cause)
    if n.rules.has_majority([n.me], [n.me], n.voters) and len(n.voters) == 1:
        n.write_state()  # vote and leadership are two states of the file, even without a peer to ask
        become_leader(n, [n.me])
        return
    drive(n)


def on_election_timer(n: Node) -> None:
    """The election timer of Unattached, Voted, Candidate or Resigned."""
    if n.now() < n.election_at:
        return
    if n.state == CANDIDATE:
        if not n.backing_off:
            back_off(n)
    elif waits_to_campaign(n.state) and not n.observer and not n.shutting_down:
        campaign(n, "election_timeout")


def on_fetch_timer(n: Node) -> None:
    """A follower without a successful answer to its fetches: a voter campaigns, an observer asks another node."""
    if n.state != FOLLOWER or n.now() < n.fetch_at:
        return
    if n.observer:
        drive(n)
    elif not n.shutting_down:
        campaign(n, "fetch_timeout")


def on_backoff_timer(n: Node) -> None:
    """The next round."""
    if n.state == CANDIDATE and n.backing_off and n.now() >= n.backoff_at and not n.shutting_down:
        campaign(n, "backoff_over")


def back_off(n: Node) -> None:
    """This round is lost, or took too long: wait a random time, which ends dead-locked elections."""
    wait_ms = n.rules.backoff_ms(n.rng, n.retries)
    n.backing_off = True
    n.backoff_at = n.now() + n.knobs.ns(wait_ms)
    n.note("backoff", {"ms": wait_ms, "retries": n.retries})
    n.count("backoffs")
    n.arm(BACKOFF, n.backoff_at)


def on_vote_answer(n: Node, src: str, m: VoteResponse) -> None:
    """An answer to a vote request."""
    answered(n, src, m.correlation_id)
    peer = n.ids.get(src, NOBODY)
    partition = m.partition
    if m.error_code != "NONE" or partition is None:
        n.note("vote_answer", {"peer": src, "term": n.epoch, "granted": False, "counted": False, "code": m.error_code})
        failed(n, peer)
        return
    own_epoch, candidate = n.epoch, n.state == CANDIDATE
    usable = common(n, partition.error_code, partition.leader_epoch, partition.leader_id, "vote_refused")
    granted = n.rules.counts_vote(
        granted=partition.vote_granted,
        epoch=partition.leader_epoch,
        own_epoch=own_epoch,
        candidate=candidate,
        from_voter=peer in n.electorate,
    )
    n.note(
        "vote_answer",
        {
            "peer": src,
            "term": partition.leader_epoch,
            "granted": partition.vote_granted,
            "counted": granted,
            "code": partition.error_code,
        },
    )
    if granted:
        n.votes[peer] = True
    elif usable and n.state == CANDIDATE and peer in n.electorate:
        n.votes.setdefault(peer, False)
    elif n.state == CANDIDATE:
        connection = n.connections.get(peer)
        if connection is not None and not connection.awaits and partition.error_code != "NONE":
            failed(n, peer)
    _tally(n)


def _tally(n: Node) -> None:
    """Lead, or see that this round is lost."""
    if not n.rules.may_lead_from(n.state) or n.leading is not None:
        return
    granted = [peer for peer, yes in n.votes.items() if yes]
    if n.rules.has_majority(granted, n.votes, n.voters):
        become_leader(n, granted)
    elif n.state == CANDIDATE:
        if not still_possible(n) and not n.backing_off:
            back_off(n)
        drive(n)


# --- a vote ---------------------------------------------------------------------------------------------------------


def on_vote_request(n: Node, src: str, m: VoteRequest) -> None:
    """A candidate requests this node's vote: rows 1 to 8 of the table."""
    log = (m.last_offset_epoch, m.last_offset)
    if n.rules.restarts_on_request():
        _restart_timers(n)
    row, code = _refusal(n, m)
    granted = False
    if not row:
        if m.candidate_epoch != n.epoch:
            become_unattached(n, m.candidate_epoch, "vote_request")
        granted = n.rules.grants(
            n.state, voted=n.voted, candidate=m.candidate_id, up_to_date=n.rules.log_up_to_date(log, n.position())
        )
        row = 7
        if granted:
            n.count("votes_granted")
            if n.rules.remembers_vote() and (n.state == UNATTACHED or n.voted != m.candidate_id):
                row = 8
                become_voted(n, m.candidate_id, "vote_granted")
    n.note(
        "vote_decision",
        {
            "candidate": n.who(m.candidate_id),
            "term": m.candidate_epoch,
            "log": log,
            "own": n.position(),
            "rule": row,
            "granted": granted,
            "code": code,
        },
    )
    if row == 1:
        n.send(src, VoteResponse(m.correlation_id, code))
    else:
        n.send(src, VoteResponse(m.correlation_id, "NONE", VotePartition(code, n.leader, n.epoch, granted)))


def _refusal(n: Node, m: VoteRequest) -> tuple[int, ErrorCode]:
    """The row that refuses before the vote is looked at; 0: none does."""
    if m.cluster_id != n.knobs.cluster_id:
        return 1, "INCONSISTENT_CLUSTER_ID"
    if m.last_offset < 0 or m.last_offset_epoch < 0 or m.last_offset_epoch >= m.candidate_epoch:
        return 2, "INVALID_REQUEST"
    if n.rules.is_stale(m.candidate_epoch, n.epoch):
        return 3, "FENCED_LEADER_EPOCH"
    if m.candidate_id < 0:
        return 4, "INVALID_REQUEST"
    if n.observer or m.candidate_id not in n.electorate:
        return 5, "INCONSISTENT_VOTER_SET"
    return 0, "NONE"


def _restart_timers(n: Node) -> None:
    """Only by a planted bug: nodes that wait to campaign start their wait again."""
    if waits_to_campaign(n.state) and not n.observer:
        n.start_election_timer()
    elif n.state == FOLLOWER:
        n.start_fetch_timer()
