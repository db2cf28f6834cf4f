"""What one partition group reports about itself.

Guarantees: no side effect; nothing that a crash at this moment could undo: while metadata is being written, the group
reports the term and vote on disk, as a follower without a leader. Out of scope: the fields of the record that the shell
adds.

Source: docs/sources.md, joyqueue: ``RaftLeaderElection``.
"""

from __future__ import annotations

from dethrone.clusters.targets.joyqueue.group import FOLLOWER, Group
from dethrone.clusters.targets.joyqueue.node import FAR
from dethrone.clusters.targets.kit.core import status_of
from dethrone.harness.core.clock import MS, Clocks
from dethrone.harness.core.machine import CoreStatus, Glance


def group_status(g: Group, now: Clocks) -> CoreStatus:
    """The group's share of the observer record as of ``now``."""
    return status_of(
        glance_of(g),
        group=g.label,
        timers=_timers(g, now),
        counters=dict(g.counters),
        extra={
            "vote_granted": dict(g.flags),
            "stored": {"term": g.durable.term, "voted_for": g.durable.voted_for},
            "pending_tasks": [
                {"kind": task.kind, "peer": task.peer, "ms_left": (at - now.mono) // MS}
                for at, _, task in sorted(g.node.later, key=lambda one: one[:2])
                if task.group is g
            ],
            "store": "online" if g.online else "offline",
            "learners": list(g.learners),
            "replicas": {peer: {"match": r.match, "next": r.next} for peer, r in g.replicas.items()},
        },
    )


def glance_of(g: Group) -> Glance:
    """The same of role, term, leader, vote, log end and commit."""
    log = g.log
    if g.writing > 0:
        return FOLLOWER, g.durable.term, None, g.durable.voted_for, (log.last_term, log.end), g.commit
    return g.role, g.term, g.leader, g.voted_for, (log.last_term, log.end), g.commit


def _timers(g: Group, now: Clocks) -> dict[str, int]:
    timers = {}
    if g.reset_at is not None:
        at = g.deadline if g.deadline is not None else g.reset_at + g.timeout_min
        timers["election"] = (at - (now.wall if g.wall_clock else now.mono)) // MS
    if g.vote_at != FAR:
        timers["vote"] = (g.vote_at - now.mono) // MS
    if g.heartbeat_at != FAR:
        timers["heartbeat"] = (g.heartbeat_at - now.mono) // MS
    return timers
