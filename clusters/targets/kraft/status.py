"""What a KRaft node reports about itself.

Guarantees: no side effect; nothing that a crash at this moment could undo: while ``quorum-state`` is being written, the
node reports the epoch and vote on disk, as Unattached. ``log_end.index`` and ``commit`` are exclusive offsets, which
count records from 1; ``hw`` is None for a leader that does not know its high watermark yet. Out of scope: the fields of
the observer record that the shell adds.

Source: Apache Kafka 3.3.1, QuorumState and LeaderState, for the fields.
"""

from __future__ import annotations

from typing import Any

from dethrone.clusters.targets.kraft.leading import FAR, NEVER, Replica
from dethrone.clusters.targets.kraft.messages import UNKNOWN_OFFSET
from dethrone.clusters.targets.kraft.node import BACKOFF, ELECTION, FETCH, QUORUM, Node
from dethrone.clusters.targets.kraft.rules import UNATTACHED
from dethrone.harness.core.clock import MS
from dethrone.harness.core.machine import Glance


def glance(n: Node) -> Glance:
    """The main fields, without building the whole record."""
    end = (n.log.last_term, n.log.end)
    if n.states_in_flight > 0:
        return UNATTACHED, n.durable.leader_epoch, None, n.who(n.durable.voted_id), end, n.commit
    return n.state, n.epoch, n.who(n.leader), n.who(n.voted), end, n.commit


def shown(n: Node) -> dict[str, Any]:
    """The other fields of the observer record."""
    lead = n.leading
    hw = n.commit if lead is None else (None if lead.hw == UNKNOWN_OFFSET else lead.hw)
    return {"hw": hw, "timers": _timers(n), "extra": _extra(n)}


def _timers(n: Node) -> dict[str, int]:
    lead = n.leading
    deadlines = {
        ELECTION: n.election_at,
        FETCH: n.fetch_at,
        BACKOFF: n.backoff_at if n.backing_off else FAR,
        QUORUM: FAR if lead is None else lead.quorum_at,
    }
    now = n.now()
    return {name: (at - now) // MS for name, at in deadlines.items() if at != FAR}


def _extra(n: Node) -> dict[str, Any]:
    lead = n.leading
    extra: dict[str, Any] = {
        "profile": n.knobs.profile,
        "observer": n.observer,
        "voters": [n.names[voter] for voter in n.voters],
        "leaderId": n.leader,
        "votedId": n.voted,
        "last_applied": n.applied,
        "durable_end": n.log.durable,
        "quorum_state": n.file_words(n.durable),
        "votes": {n.names[voter]: granted for voter, granted in n.votes.items()},
        "retries": n.retries,
        "backing_off": n.backing_off,
    }
    if lead is None:
        return extra
    extra.update(
        epochStartOffset=lead.epoch_start,
        highWatermark=lead.hw,
        voterStates={n.names[voter]: _replica(n, replica) for voter, replica in lead.voters.items()},
        observerStates={n.names.get(node, str(node)): _replica(n, replica) for node, replica in lead.observers.items()},
        announced=lead.announced,
        writes_pending=len(lead.waiting) + len(lead.unappended),
        reads_pending=len(lead.reads),
    )
    return extra


def _replica(n: Node, replica: Replica) -> dict[str, Any]:
    return {
        "endOffset": None if replica.end == UNKNOWN_OFFSET else replica.end,
        "lastFetchMsAgo": None if replica.last_fetch == NEVER else (n.mono - replica.last_fetch) // MS,
        "hasAcknowledgedLeader": replica.acknowledged,
    }
