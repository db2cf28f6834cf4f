"""The rule that every answer and every announcement of an epoch passes first, and the announcements themselves.

Guarantees: messages of older epochs change nothing; a newer epoch, or the leader of the current one, is adopted before
anything else is examined; a leader that contradicts the known one is reported as a violation and not followed. Out of
scope: votes and fetches.

Source: Apache Kafka 3.3.1, KafkaRaftClient (maybeHandleCommonResponse, maybeTransition, hasConsistentLeader,
handleBeginQuorumEpochRequest, handleEndQuorumEpochRequest, endEpochElectionBackoff).
"""

from __future__ import annotations

from dethrone.clusters.targets.kraft.messages import (
    NOBODY,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    ErrorCode,
)
from dethrone.clusters.targets.kraft.node import Node
from dethrone.clusters.targets.kraft.requests import answered, drive, failed
from dethrone.clusters.targets.kraft.rules import FOLLOWER, LEADER
from dethrone.clusters.targets.kraft.transitions import become_follower, become_unattached

# --- the common rule ------------------------------------------------------------------------------------------------


def is_consistent(n: Node, epoch: int, leader: int) -> bool:
    """Whether what a message says of leaders agrees with what is known here."""
    if leader == NOBODY:
        return True
    if leader == n.me:
        return epoch == n.epoch and n.leader == n.me  # also resigned: a former leader of the own epoch knows itself
    return epoch != n.epoch or n.leader in (NOBODY, leader)


def adopt(n: Node, epoch: int, leader: int, cause: str) -> bool:
    """Adopt an epoch that is not older, or its leader; False if that contradicts what is known (a violation)."""
    if not is_consistent(n, epoch, leader):
        n.note("inconsistent_leader", {"known": n.who(n.leader), "told": n.who(leader), "epoch": epoch})
        n.note("violation", {"what": "a message names another leader", "told": n.who(leader), "epoch": epoch})
        return False
    if leader == NOBODY:
        if epoch != n.epoch:
            become_unattached(n, epoch, cause)
    elif leader != n.me and n.rules.follows_announced(leader, n.me) and (epoch != n.epoch or n.leader == NOBODY):
        become_follower(n, epoch, leader, cause)
    return True


def common(n: Node, code: ErrorCode, epoch: int, leader: int, cause: str) -> bool:
    """The rule for every answer: whether it is to be processed further (its code is NONE then)."""
    if n.rules.is_stale(epoch, n.epoch) or code == "UNKNOWN_LEADER_EPOCH":
        return False
    if epoch != n.epoch or code in ("FENCED_LEADER_EPOCH", "NOT_LEADER_OR_FOLLOWER"):
        adopt(n, epoch, leader, cause)
        return False
    if leader not in (NOBODY, n.leader) and not adopt(n, epoch, leader, cause):
        return False
    return code == "NONE"


# --- announcements --------------------------------------------------------------------------------------------------


def on_begin_epoch(n: Node, src: str, m: BeginQuorumEpochRequest) -> None:
    """A node announces that it leads."""
    code = _announced(n, m.leader_id, m.leader_epoch, "begin_quorum_epoch")
    n.note("begin_epoch_received", {"from": src, "epoch": m.leader_epoch, "code": code})
    n.send(src, BeginQuorumEpochResponse(m.correlation_id, code, n.leader, n.epoch))


def on_end_epoch(n: Node, src: str, m: EndQuorumEpochRequest) -> None:
    """A leader resigned: campaign soon, the most advanced voter first."""
    code = _announced(n, m.leader_id, m.leader_epoch, "end_quorum_epoch")
    n.note("end_epoch_received", {"from": src, "epoch": m.leader_epoch, "code": code})
    n.send(src, EndQuorumEpochResponse(m.correlation_id, code, n.leader, n.epoch))
    if code == "NONE" and n.state == FOLLOWER and n.leader == m.leader_id and not n.observer:
        n.start_fetch_timer(n.knobs.ns(succession_ms(n, m.preferred_successors)))


def succession_ms(n: Node, successors: tuple[int, ...]) -> int:
    """How long this voter waits with its campaign: not at all as the first, or if it is not in the list."""
    if n.me not in successors:
        return 0
    place, most = successors.index(n.me), n.knobs.election_backoff_max_ms
    return 0 if place == 0 else min(most, (most >> (len(successors) - 1)) << (place - 1))


def _announced(n: Node, leader: int, epoch: int, cause: str) -> ErrorCode:
    if n.rules.is_stale(epoch, n.epoch):
        return "FENCED_LEADER_EPOCH"
    if n.observer or leader not in n.voters:
        return "INCONSISTENT_VOTER_SET"
    return "NONE" if adopt(n, epoch, leader, cause) else "UNKNOWN_SERVER_ERROR"


def on_begin_answer(n: Node, src: str, m: BeginQuorumEpochResponse) -> None:
    """A voter knows its leader."""
    answered(n, src, m.correlation_id)
    if common(n, m.error_code, m.leader_epoch, m.leader_id, "begin_quorum_epoch_refused"):
        lead = n.leading
        peer = n.ids.get(src, NOBODY)
        if n.state == LEADER and lead is not None and peer in lead.voters:
            lead.voters[peer].acknowledged = True
        return
    _retry(n, src, m.error_code)


def on_end_answer(n: Node, src: str, m: EndQuorumEpochResponse) -> None:
    """A voter knows that its leader resigned."""
    answered(n, src, m.correlation_id)
    if common(n, m.error_code, m.leader_epoch, m.leader_id, "end_quorum_epoch_refused"):
        if n.resigning is not None:
            n.resigning.acknowledged.add(n.ids.get(src, NOBODY))
        return
    _retry(n, src, m.error_code)


def _retry(n: Node, src: str, code: ErrorCode) -> None:
    """Ask again, after the back-off if it was an error."""
    peer = n.ids.get(src, NOBODY)
    connection = n.connections.get(peer)
    if connection is None or connection.awaits:
        return
    if code != "NONE":
        failed(n, peer)
    drive(n)
