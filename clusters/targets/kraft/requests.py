"""Requests to peers: what each state asks of which peer, one request per peer at a time, repeated until answered.

Guarantees: `drive` sends all that the present state still needs from peers without a pending request; a request without
an answer fails after the request time-out, a failed one is repeated after the retry back-off. A new state forgets
pending requests; their late answers are still judged by their epoch. Out of scope: what the answers do.

Source: Apache Kafka 3.3.1, RequestManager and the poll methods of KafkaRaftClient.
"""

from __future__ import annotations

from dethrone.clusters.targets.kraft.leading import FAR
from dethrone.clusters.targets.kraft.messages import (
    NOBODY,
    PARTITION,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    VoteRequest,
)
from dethrone.clusters.targets.kraft.node import REQUESTS, Connection, Node
from dethrone.clusters.targets.kraft.rules import CANDIDATE, FOLLOWER, LEADER, RESIGNED, UNATTACHED
from dethrone.harness.core.machine import Send

_INT31 = (1 << 31) - 1


def drive(n: Node) -> None:
    """Send what the present state wants."""
    state = n.state
    if state == FOLLOWER:
        if n.observer and n.now() >= n.fetch_at:
            _fetch_from_any(n)
        else:
            fetch(n, n.leader)
    elif state == CANDIDATE:
        if not n.backing_off and still_possible(n):
            _ask_for_votes(n)
    elif state == LEADER:
        _announce(n)
    elif state == RESIGNED:
        _resign(n)
    elif state == UNATTACHED and n.observer:
        _fetch_from_any(n)


def still_possible(n: Node) -> bool:
    """Whether the voters that have not refused are enough for a majority."""
    refused = sum(not granted for granted in n.votes.values())
    return len(n.electorate) - refused >= n.rules.majority(len(n.voters))


def fetch(n: Node, peer: int) -> None:
    """Ask ``peer`` for what follows the own log, once that is durable."""
    connection = _free(n, peer)
    if connection is None:
        return
    log = n.log
    if log.durable < log.end or log.ops:
        n.await_log()
    _under_way(n, connection)
    n.out.append(
        Send(
            n.names[peer],
            FetchRequest(
                n.correlation,
                n.me,
                n.knobs.cluster_id,
                n.rules.fetch_wait_ms(),
                n.epoch,
                n.rules.fetch_offset(log.end),
                log.last_term,
            ),
        )
    )


def _fetch_from_any(n: Node) -> None:
    """An observer that does not know or does not hear the leader asks voters, one at a time, in random order."""
    if any(connection.awaits for connection in n.connections.values()):
        return
    ready = [peer for peer in n.others if _is_free(n, peer)]
    if ready:
        fetch(n, n.rng.choice(ready))


def _ask_for_votes(n: Node) -> None:
    epoch, end = n.rules.last_position(n.log.last_term, n.log.end, n.epoch)
    for peer in n.electorate:
        if peer not in n.votes and _begins(n, peer):
            request = VoteRequest(n.correlation, n.knobs.cluster_id, PARTITION, n.epoch, n.me, epoch, end)
            n.note("vote_request_sent", {"to": n.names[peer], "epoch": n.epoch, "log": (epoch, end)})
            n.send(n.names[peer], request)


def _announce(n: Node) -> None:
    lead = n.leading
    if lead is None:
        return
    for peer in n.rules.notified(n.others):
        if not lead.voters[peer].acknowledged and _begins(n, peer):
            n.note("begin_epoch_sent", {"to": n.names[peer], "epoch": n.epoch})
            n.send(n.names[peer], BeginQuorumEpochRequest(n.correlation, n.me, n.epoch))


def _resign(n: Node) -> None:
    resigning = n.resigning
    if resigning is None:
        return
    for peer in n.others:
        if peer not in resigning.acknowledged and _begins(n, peer):
            n.note(
                "end_epoch_sent",
                {"to": n.names[peer], "epoch": n.epoch, "successors": [n.names[peer] for peer in resigning.successors]},
            )
            n.send(n.names[peer], EndQuorumEpochRequest(n.correlation, n.me, n.epoch, resigning.successors))


# --- connections ----------------------------------------------------------------------------------------------------


def _is_free(n: Node, peer: int) -> bool:
    connection = n.connections.get(peer)
    return connection is None or (not connection.awaits and connection.due <= n.mono)


def _free(n: Node, peer: int) -> Connection | None:
    """The connection to this peer, if nothing is under way on it and no retry is waited for."""
    if peer in (NOBODY, n.me):
        return None
    connection = n.connections.get(peer)
    if connection is None:
        connection = n.connections[peer] = Connection()
    elif connection.awaits or connection.due > n.mono:
        return None
    return connection


def _begins(n: Node, peer: int) -> bool:
    """Whether a request to this peer may leave now: then it is the one under way."""
    connection = _free(n, peer)
    if connection is not None:
        _under_way(n, connection)
    return connection is not None


def _under_way(n: Node, connection: Connection) -> None:
    n.correlation = correlation = n.correlation % _INT31 + 1
    connection.awaits = correlation
    connection.due = due = n.mono + n.request_ns
    if n.armed.get(REQUESTS, FAR) > due:
        n.arm(REQUESTS, due)


def answered(n: Node, src: str, correlation: int) -> bool:
    """The answer ``correlation`` of ``src`` came: whether it was awaited. The connection is free again if so."""
    connection = n.connections.get(n.ids.get(src, NOBODY))
    if connection is None or connection.awaits != correlation:
        return False
    connection.awaits = 0
    connection.due = 0
    return True


def failed(n: Node, peer: int) -> None:
    """The request to this peer failed, or was refused: the next one waits."""
    connection = n.connections.get(peer)
    if connection is None:
        connection = n.connections[peer] = Connection()
    connection.awaits = 0
    connection.due = n.mono + n.knobs.ns(n.rules.retry_backoff_ms())
    n.arm(REQUESTS, connection.due)


def on_requests_timer(n: Node) -> None:
    """Requests timed out, or retries are due."""
    for peer, connection in list(n.connections.items()):
        if connection.awaits and connection.due <= n.mono:
            n.count("requests_timed_out")
            failed(n, peer)
    drive(n)
    due = min((c.due for c in n.connections.values() if c.due > n.mono), default=FAR)
    if due != FAR:
        n.arm(REQUESTS, due)


def on_send_failed(n: Node, to: str, correlation: int | None) -> None:
    """The transport says that a request will not be answered."""
    peer = n.ids.get(to, NOBODY)
    connection = n.connections.get(peer)
    if connection is not None and connection.awaits and connection.awaits == correlation:
        failed(n, peer)
