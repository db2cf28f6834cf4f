"""What a Raft node reports about itself.

Guarantees: no side effect; nothing that a crash at this moment could undo: while a term or vote is still being written,
the node reports the ones on disk, as a follower without a leader. Out of scope: the fields of the observer record that
the shell adds (node name, start time, the file on disk).

Source: Raft paper, figure 2, for the fields.
"""

from __future__ import annotations

from typing import Any

from dethrone.clusters.targets.raft.leading import NEVER
from dethrone.clusters.targets.raft.node import ELECTION, FOLLOWER, HEARTBEAT, TRANSFER, Node
from dethrone.clusters.targets.raft.quorum_check import quorum_age
from dethrone.clusters.targets.raft.reads import lease_end
from dethrone.harness.core.clock import MS
from dethrone.harness.core.machine import Glance


def shown(n: Node) -> dict[str, Any]:
    """The other fields of the observer record."""
    return {"timers": _timers(n), "extra": _extra(n)}


def glance(n: Node) -> Glance:
    """Its main fields."""
    end = (n.log.last_term, n.log.end)
    if n.votes_in_flight > 0:
        return FOLLOWER, n.durable.term, None, n.durable.voted_for, end, n.commit
    return n.role, n.term, n.leader, n.voted_for, end, n.commit


def _timers(n: Node) -> dict[str, int]:
    lead = n.leading
    if lead is None:
        at = n.deadline if n.deadline is not None else n.reset_at + n.timeout_min
        return {ELECTION: (at - n.election_now()) // MS}
    timers = {HEARTBEAT: (lead.tick_due - n.mono) // MS}
    if lead.handover is not None:
        timers[TRANSFER] = (lead.handover.deadline - n.mono) // MS
    return timers


def _extra(n: Node) -> dict[str, Any]:
    lead = n.leading
    extra: dict[str, Any] = {
        "profile": n.knobs.profile,
        "last_applied": n.applied,
        "round": None if n.round is None else {"reqTerm": n.round.req_term, "no": n.round.no},
        "preVotes": [] if n.round is None else sorted(n.round.granted),
        "votes": sorted(n.votes),
        "leader_contact_ms": None if n.contact == NEVER else (n.mono - n.contact) // MS,
        "heard": n.leads_or_hears(),
        "config": {
            "index": n.config_index,
            "committed": n.config_index <= n.commit,
            "voters": list(n.config.voters),
            "learners": list(n.config.learners),
        },
    }
    if lead is None:
        return extra
    end = lease_end(n, lead)
    lease_now = n.wall if n.lease_wall else n.mono
    extra.update(
        quorum_ack_age_ms=quorum_age(n, lead) // MS,
        lease_left_ms=None if end == NEVER or lead.lease_disabled else (end - lease_now) // MS,
        lease_disabled=lead.lease_disabled,
        own_term_committed=lead.own_term_committed,
        reads_pending=len(lead.reads),
        writes_pending=len(lead.writes),
        transfer_to=None if lead.handover is None else lead.handover.target,
        matchIndex={peer: p.match for peer, p in lead.progress.items()},
        nextIndex={peer: p.next for peer, p in lead.progress.items()},
    )
    return extra
