"""The changes of state: what each one sets, writes and sends, and which waiting requests it ends.

Guarantees: every change but the one to Resigned is written before it shows; an impossible one raises
`IllegalTransition`. A leader that steps down answers what waits for it: parked fetches with NOT_LEADER_OR_FOLLOWER,
clients with what is certain. Out of scope: when to change (`voting`, `leader`, `fetching`, `hearing`).

Source: Apache Kafka 3.3.1, QuorumState.
"""

from __future__ import annotations

from dethrone.clusters.targets.client_api import Failed, Get, Unknown
from dethrone.clusters.targets.kraft.leading import Leading, Resigning
from dethrone.clusters.targets.kraft.messages import NOBODY, CurrentLeader, ErrorCode, FetchResponse
from dethrone.clusters.targets.kraft.node import IllegalTransition, Node
from dethrone.clusters.targets.kraft.requests import drive
from dethrone.clusters.targets.kraft.rules import CANDIDATE, FOLLOWER, LEADER, RESIGNED, UNATTACHED, VOTED


def become_unattached(n: Node, epoch: int, cause: str) -> None:
    """A higher epoch without a leader was seen. A node that was waiting to campaign keeps its remaining wait."""
    if epoch == n.epoch or n.rules.is_stale(epoch, n.epoch):
        raise IllegalTransition(f"{n.state} in epoch {n.epoch} to {UNATTACHED} in epoch {epoch}")
    left = max(0, n.election_at - n.now()) if n.state in (UNATTACHED, VOTED, CANDIDATE) else None
    _enter(n, UNATTACHED, epoch, cause)
    if not n.observer:
        n.start_election_timer(left)
    drive(n)


def become_voted(n: Node, candidate: int, cause: str) -> None:
    """The vote was given to another node."""
    if candidate == n.me or n.state not in (UNATTACHED, VOTED):
        raise IllegalTransition(f"{n.state} in epoch {n.epoch} votes for {n.who(candidate)}")
    _enter(n, VOTED, n.epoch, cause, voted=candidate)
    n.start_election_timer()


def become_follower(n: Node, epoch: int, leader: int, cause: str) -> None:
    """Another node is known to lead this epoch."""
    if leader == n.me or (epoch == n.epoch and n.leader not in (NOBODY, leader)):
        raise IllegalTransition(f"{n.state} in epoch {n.epoch} to {FOLLOWER} of {n.who(leader)} in epoch {epoch}")
    _enter(n, FOLLOWER, epoch, cause, leader=leader)
    n.note("leader_seen", {"leader": n.names.get(leader)})
    n.start_fetch_timer()
    drive(n)


def become_candidate(n: Node, cause: str) -> None:
    """Campaign in a new epoch; the own vote is cast first."""
    if n.state == LEADER or n.observer:
        raise IllegalTransition(f"{n.state} in epoch {n.epoch} to {CANDIDATE}")
    retries = n.retries + 1 if n.state == CANDIDATE else 1
    _enter(n, CANDIDATE, n.rules.campaign_epoch(n.epoch), cause, voted=n.me)
    n.retries = retries
    n.votes = {n.me: True}
    n.count("elections")
    n.note("election_started", {"term": n.epoch, "log": n.position(), "retries": retries})
    n.start_election_timer()


def become_resigned(n: Node, cause: str) -> None:
    """The leader of this epoch no longer acts as one. Nothing is written: the file names it already."""
    lead = n.leading
    if lead is None:
        raise IllegalTransition(f"{n.state} in epoch {n.epoch} to {RESIGNED}")
    ends = sorted(n.others, key=lambda peer: (-lead.voters[peer].end, peer))
    _enter(n, RESIGNED, n.epoch, cause, leader=n.me)
    n.resigning = Resigning(tuple(ends))
    n.start_election_timer()
    drive(n)


def _enter(n: Node, state: str, epoch: int, cause: str, *, leader: int = NOBODY, voted: int = NOBODY) -> None:
    """What all changes have in common."""
    before, old_epoch, lead = n.state, n.epoch, n.leading
    n.stop_timers()
    n.connections.clear()
    n.backing_off = False
    n.leading = None
    n.resigning = None
    n.state, n.epoch, n.leader, n.voted = state, epoch, leader, voted
    if state != RESIGNED:
        n.touch()
    say(n, before, old_epoch, cause)
    if lead is not None:
        _leave(n, lead, cause)


def say(n: Node, before: str, old_epoch: int, cause: str) -> None:
    """The trace of a change of state."""
    n.note("transition", {"from": before, "to": n.state, "epoch": n.epoch, "cause": cause})
    if n.epoch != old_epoch:
        n.note("term_change", {"from": old_epoch, "to": n.epoch, "why": cause})
    if n.state != before:
        n.note("role_change", {"from": before, "to": n.state, "term": n.epoch, "why": cause})


def _leave(n: Node, lead: Leading, cause: str) -> None:
    """Stop leading: writes that were appended may still be committed, all others certainly not."""
    n.count("step_downs")
    n.note(
        "step_down",
        {"why": cause, "pending_writes": len(lead.waiting) + len(lead.unappended), "pending_reads": len(lead.reads)},
    )
    for parked in lead.parked.values():
        n.send(parked.src, fetch_error(n, parked.request.correlation_id, "NOT_LEADER_OR_FOLLOWER"))
    for offset, request in lead.waiting.items():
        if type(n.log.entries[offset].command) is Get:
            n.reply(request, Failed("stopped leading before the read was committed"))
        else:
            n.reply(request, Unknown("stopped leading before the commit"))
    for request, _ in lead.unappended:
        n.reply(request, Failed("stopped leading before the write was appended"))
    for request, _ in lead.reads:
        n.reply(request, Failed("stopped leading before the read was served"))


def fetch_error(n: Node, correlation: int, code: ErrorCode) -> FetchResponse:
    """A refusal that names the leader that this node knows."""
    return FetchResponse(correlation, code, -1, 0, CurrentLeader(n.leader, n.epoch))
