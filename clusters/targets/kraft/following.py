"""The follower's side of replication: answers to its fetches.

Guarantees: the next fetch leaves at once, but only after the records that it acknowledges are on disk; every successful
answer restarts the fetch timer; a log is cut where the leader's differs, and never below the known commit (that is
fatal). A steady answer costs a few comparisons and one effect. Out of scope: the leader's side (`fetching`).

Source: Apache Kafka 3.3.1, KafkaRaftClient (handleFetchResponse), ReplicatedLog (truncateToEndOffset).
"""

from __future__ import annotations

from dethrone.clusters.targets.kraft.hearing import common
from dethrone.clusters.targets.kraft.leader import set_commit
from dethrone.clusters.targets.kraft.messages import NOBODY, EpochEnd, FetchResponse, Record
from dethrone.clusters.targets.kraft.node import IllegalTransition, Node
from dethrone.clusters.targets.kraft.requests import answered, drive, failed, fetch
from dethrone.clusters.targets.kraft.rules import FOLLOWER


def on_fetch_answer(n: Node, src: str, m: FetchResponse) -> None:
    """An answer to a fetch."""
    awaited = answered(n, src, m.correlation_id)
    leads = m.current_leader
    peer = n.ids.get(src, NOBODY)
    steady = m.error_code == "NONE" and leads.leader_epoch == n.epoch and leads.leader_id == n.leader == peer
    if not steady:
        usable = common(n, m.error_code, leads.leader_epoch, leads.leader_id, "fetch_answer")
        if not usable:
            _retry(n, peer, awaited=awaited)
            return
    if not awaited:
        n.count("late_fetch_answers")
        return
    if n.state != FOLLOWER:
        return
    if m.diverging_epoch is not None:
        _truncate(n, m.diverging_epoch)
    elif m.records:
        _store(n, m.records)
    if m.high_watermark != n.commit and m.diverging_epoch is None:
        hw = n.rules.follower_hw(n.commit, n.log.end, m.high_watermark)
        if hw != n.commit:
            n.await_log()
            n.note("hw_advance", {"old": n.commit, "new": hw})
            set_commit(n, hw)
    n.start_fetch_timer()
    if not steady:
        n.connections.clear()  # becoming a follower sent a fetch that this answer has made old
    fetch(n, n.leader)


def _retry(n: Node, peer: int, *, awaited: bool) -> None:
    """A refusal that changed no state: ask again after the back-off."""
    connection = n.connections.get(peer)
    if awaited and connection is not None and not connection.awaits:
        failed(n, peer)
    drive(n)


def _store(n: Node, records: tuple[Record, ...]) -> None:
    """Append what follows the own log."""
    log = n.log
    first = records[0].offset
    if first != log.end:
        n.note("violation", {"what": "records that do not follow the log", "offset": first, "end": log.end})
        return
    for record in records:
        log.append(record)
    n.await_log()
    n.note("append", {"offset": records[-1].offset, "epoch": log.last_term, "records": len(records)})


def _truncate(n: Node, leaders: EpochEnd) -> None:
    """Cut the log where the leader's log of that epoch ends, or where the largest own epoch below it does."""
    log = n.log
    epoch, end = log.end_of_term(leaders.epoch)
    to = min(end, leaders.end_offset) if epoch == leaders.epoch else end
    if to < n.commit:
        n.note("violation", {"what": "a committed record would be cut", "to": to, "commit": n.commit})
        raise IllegalTransition(f"the leader asks to cut the log at {to}, below the high watermark {n.commit}")
    if to < log.end:
        old = log.end
        n.cut_log(to)
        n.await_log()
        n.note("truncate", {"from": old, "to": to})
