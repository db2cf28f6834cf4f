"""The leader's side of replication: fetches, which are heartbeats, acknowledgements and questions in one.

Guarantees: the rows of the table of fetches are judged in their order; a fetch from an offset on the leader's log
proves that its sender holds everything before it; an empty one is parked, one per replica, until a record arrives or
its time is over. A steady fetch costs a few comparisons and no note. Out of scope: snapshots (the log starts at 0) and
the follower's side (`following`).

Source: Apache Kafka 3.3.1, KafkaRaftClient (handleFetchRequest, tryCompleteFetchRequest), FetchPurgatory.
"""

from __future__ import annotations

from dethrone.clusters.targets.kraft.leader import advance, answer, restart_quorum_check
from dethrone.clusters.targets.kraft.leading import FAR, Leading, Parked, Replica
from dethrone.clusters.targets.kraft.messages import CurrentLeader, EpochEnd, ErrorCode, FetchRequest, FetchResponse
from dethrone.clusters.targets.kraft.node import PARKED, Node
from dethrone.clusters.targets.kraft.transitions import fetch_error


def on_fetch(n: Node, src: str, m: FetchRequest) -> None:
    """Rows 1 to 10 of the table."""
    lead = n.leading
    code = _refusal(n, m)
    if code != "NONE" or lead is None:
        n.note("fetch", {"replica": src, "offset": m.fetch_offset, "epoch": m.current_leader_epoch, "result": code})
        n.send(src, fetch_error(n, m.correlation_id, code))
        return
    replica = m.replica_id
    _heard(n, lead, replica)
    if m.fetch_offset:  # from the very beginning everything is valid
        own = n.log.end_of_term(m.last_fetched_epoch)
        if n.rules.diverges((m.last_fetched_epoch, m.fetch_offset), own):
            n.note("fetch", {"replica": src, "offset": m.fetch_offset, "epoch": m.last_fetched_epoch, "result": "cut"})
            n.note("diverging", {"replica": src, "epoch": own[0], "end": own[1]})
            end = EpochEnd(*own)
            leads = CurrentLeader(n.me, n.epoch)
            n.send(src, FetchResponse(m.correlation_id, "NONE", lead.hw, 0, leads, diverging_epoch=end))
            return
    _progress(n, lead, replica, src, m)
    if n.leading is not lead:
        return
    if m.fetch_offset >= n.log.end and m.max_wait_ms > 0:
        due = n.mono + n.knobs.ns(m.max_wait_ms)
        lead.parked[replica] = Parked(src, m, due)
        if n.armed.get(PARKED, FAR) > due:
            n.arm(PARKED, due)
    else:
        lead.parked.pop(replica, None)
        answer(n, lead, src, m)


def _refusal(n: Node, m: FetchRequest) -> ErrorCode:
    if m.cluster_id != n.knobs.cluster_id:
        return "INCONSISTENT_CLUSTER_ID"
    if m.max_wait_ms < 0 or m.fetch_offset < 0 or not 0 <= m.last_fetched_epoch <= m.current_leader_epoch:
        return "INVALID_REQUEST"
    epoch = m.current_leader_epoch
    if epoch != n.epoch:
        return "FENCED_LEADER_EPOCH" if epoch < n.epoch else "UNKNOWN_LEADER_EPOCH"
    if n.leading is None:
        return "NOT_LEADER_OR_FOLLOWER"
    return "BROKER_NOT_AVAILABLE" if n.shutting_down else "NONE"


def _heard(n: Node, lead: Leading, peer: int) -> None:
    """A voter fetched, with or without success: the leader is not cut off from it."""
    if peer in lead.voters and peer != n.me:
        lead.fetched.add(peer)
        if len(lead.fetched) >= len(n.voters) // 2:
            restart_quorum_check(n, lead)


def _progress(n: Node, lead: Leading, peer: int, src: str, m: FetchRequest) -> None:
    """The replica holds the log up to where it fetches from."""
    replica = lead.voters.get(peer)
    if replica is None:
        replica = lead.observers.get(peer)
        if replica is None:
            replica = lead.observers[peer] = Replica()
        replica.end, replica.last_fetch, replica.acknowledged = m.fetch_offset, n.mono, True
        return
    replica.last_fetch = n.mono
    replica.acknowledged = True
    if replica.end != m.fetch_offset:
        replica.end = m.fetch_offset
        n.note("fetch", {"replica": src, "offset": m.fetch_offset, "epoch": m.last_fetched_epoch, "result": "NONE"})
        advance(n, lead)


def on_parked_timer(n: Node) -> None:
    """Parked fetches whose time is over are answered empty: the answer is the leader's sign of life."""
    lead = n.leading
    if lead is None or not lead.parked:
        return
    next_due = FAR
    for peer, parked in list(lead.parked.items()):
        if parked.due <= n.mono:
            del lead.parked[peer]
            answer(n, lead, parked.src, parked.request)
        elif parked.due < next_due:
            next_due = parked.due
    if next_due != FAR:
        n.arm(PARKED, next_due)
