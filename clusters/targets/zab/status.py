"""What a ZAB node reports about itself.

Guarantees: no side effect; nothing that a crash at this moment could undo: while acceptedEpoch is being written the
node reports the epoch on disk, as LOOKING. ``term`` is acceptedEpoch, for currentEpoch lags; the leader is named once
its epoch is known to be won. Places in the log stand for zxids: ``log_end`` is (epoch, place).
"""

from __future__ import annotations

from dethrone.clusters.targets.kit.core import status_of
from dethrone.clusters.targets.zab.node import Node
from dethrone.clusters.targets.zab.rules import LOOKING
from dethrone.harness.core.machine import CoreStatus, Glance


def glance(n: Node) -> Glance:
    """The main fields."""
    end = (n.log.last >> 32, n.log.end)
    if n.epochs_in_flight:
        return LOOKING, n.durable_accepted, None, None, end, n.commit
    return n.shown_role(), n.accepted, n.leader, n.voted[1], end, n.commit


def status(n: Node) -> CoreStatus:
    """The observer record."""
    lead = n.lead
    extra = {
        "phase": n.phase,
        "currentEpoch": n.current,
        "round": n.round,
        "vote": [n.vote.leader, n.vote.zxid, n.vote.peer_epoch],
        "zxid": n.log.last,
        "established": lead is not None and lead.established,
    }
    if lead is not None:
        extra["infoFrom"] = sorted(lead.info_from)
        extra["epochAcks"] = sorted(lead.epoch_acks)
        extra["newLeaderAcks"] = sorted(lead.leader_acks)
        extra["forwarding"] = sorted(sid for sid, peer in lead.peers.items() if peer.forwarding)
    return status_of(glance(n), hw=n.commit, extra=extra)
