"""A leader's tick: checks whether a majority still answers, then starts a round of heartbeats.

Guarantees: contact counts from the SENDING time of the newest round that a voter answered, so that answers buffered
while the process was stopped do not count as fresh; after a late tick, the check precedes queued messages (the core
calls `tick` first); a new leader has one window, never a lease. A leader whose own disk hangs for longer than
electionTimeoutMax sends nothing, so that others replace it. Out of scope: the answers on stepping down (`node`).

Source: thesis 6.2 (a leader steps down without a majority).
"""

from __future__ import annotations

from operator import attrgetter

from dethrone.clusters.targets.raft import commit, membership, reads
from dethrone.clusters.targets.raft.leading import NEVER, Leading
from dethrone.clusters.targets.raft.node import HEARTBEAT, Node
from dethrone.clusters.targets.raft.replication import broadcast, feed, new_round, send_empty
from dethrone.harness.core.clock import MS, Ns
from dethrone.harness.core.machine import SetTimer

_ACKED_AT = attrgetter("acked_at")


def quorum_age(n: Node, lead: Leading) -> Ns:
    """How long ago the newest round was sent that a majority of the voters answered."""
    since = lead.since
    if not n.config_index and n.me in n.voters:  # every peer that gets rounds votes: the members of the start
        others = list(map(_ACKED_AT, lead.progress.values()))
        need = n.rules.quorum_size(len(n.voters))
        if need < 2:
            return 0
        others.sort()
        newest = others[1 - need]
        return n.mono - (newest if newest > since else since)  # noqa: FURB136 - a call less, twenty times a second
    contact = []
    for voter in n.voters:
        if voter == n.me:
            contact.append(n.mono)
        else:
            p = lead.progress.get(voter)
            contact.append(since if p is None or p.acked_at < since else p.acked_at)
    contact.sort(reverse=True)
    return n.mono - contact[n.rules.quorum_size(len(contact)) - 1]


def start_ticking(n: Node, lead: Leading) -> None:
    """The first round of a leadership, without a check."""
    _schedule(n, lead)
    if lead.seq == 0:  # else the blank entry just went to all peers
        broadcast(n, lead)


def _schedule(n: Node, lead: Leading) -> None:
    n.overdue_at = lead.tick_due = n.mono + n.rules.heartbeat_interval()
    n.out.append(SetTimer(HEARTBEAT, lead.tick_due))


def on_heartbeat_timer(n: Node) -> None:
    """The timer rang; the tick may have been made already, before a queued message."""
    lead = n.leading
    if lead is not None and n.mono >= lead.tick_due:
        tick(n, late=n.mono - lead.tick_due > n.knobs.heartbeat_interval)


def tick(n: Node, *, late: bool = False) -> None:
    """Check the quorum, then send a round. ``late``: made up for, after a pause or before a message."""
    lead = n.leading
    if lead is None:
        return
    if n.rules.steps_down(quorum_age(n, lead)):
        ages = {
            voter: (n.mono - p.acked_at) // MS if p.acked_at != NEVER else None
            for voter, p in sorted(lead.progress.items())
            if voter in n.voters
        }
        n.note("check_quorum_failed", {"age_ms": ages})
        n.count("check_quorum_failed")
        n.stop_leading("check_quorum")
        return
    _schedule(n, lead)
    _look_at_disk(n, lead)
    if n.knobs.reads == "lease":
        reads.look_at_lease(n, lead, late=late)
    if n.commit < n.log.end:
        commit.advance(n)
    if n.config_index:
        membership.on_tick(n, lead)
    if not lead.stuck:
        seq = broadcast(n, lead)
        if lead.reads:
            reads.join_round(lead, seq)
    elif n.rules.heartbeats_while_stuck():
        seq = new_round(n, lead)
        for peer, p in lead.progress.items():
            send_empty(n, peer, p, seq)


def _look_at_disk(n: Node, lead: Leading) -> None:
    """Whether the oldest batch hangs for longer than an election timeout."""
    pending = n.disk_pending
    if not pending:
        lead.stuck = False
        return
    _, since = next(iter(pending.values()))
    stuck = n.mono - since > n.knobs.election_timeout_max
    if lead.stuck and not stuck:
        lead.stuck = False
        feed(n, lead)
    lead.stuck = stuck
