"""The short way of a steady cluster: heartbeats, their answers and timers that ring too early, without effects.

Guarantees: it does what `on_append`, `on_append_reply`, `on_election_timer` and `on_heartbeat_timer` would do, where
these change nothing but moments and append no entry, write or note; where they would do more, it does nothing, and they
are asked. What a peer says again and again is worked out once and then only compared. So this holds no rule of its own,
and none that a planted bug overrides. Out of scope: when a shell may take this way (``machine.Steady``).
"""

from __future__ import annotations

from typing import Any

from dethrone.clusters.targets.raft.messages import AppendEntries, AppendReply
from dethrone.clusters.targets.raft.node import ELECTION, HEARTBEAT, Node
from dethrone.clusters.targets.raft.quorum_check import quorum_age
from dethrone.clusters.targets.raft.replication import next_round
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.machine import NOTHING, Renewed


class SteadyCore:
    """See ``dethrone.harness.core.machine.Steady``."""

    node: Node

    def answer(self, src: str, body: Any, mono: Ns, wall: Ns) -> Any:
        """Of a heartbeat by the known leader to a log that holds nothing else, and of the answer to one."""
        n = self.node
        expected = n.expected.get(src)
        if expected is None:
            expected = _expect(n, src, mono)
            if expected is None:
                return None
            n.expected[src] = expected
        if type(body) is AppendEntries:
            last = body.prev_log_index
            if (body.term, last, body.prev_log_term, body.leader_commit, body.entries) != expected:
                return None
            n.mono = n.contact = n.reset_at = mono
            n.wall = wall
            n.deadline = None
            return AppendReply(body.term, True, last, 0, body.seq)
        if type(body) is AppendReply and n.leading is not None and mono < n.overdue_at:
            lead, p, term, match = expected
            if body.match_index != match or body.term != term or not body.success:
                return None
            n.mono = mono
            n.wall = wall
            seq = body.seq
            if seq > p.acked_seq:
                p.acked_seq = seq
                sent = lead.rounds.get(seq)
                if sent is not None:
                    p.acked_at = sent
            return NOTHING
        return None

    def renew(self, timer: str, mono: Ns, wall: Ns) -> Renewed | None:
        """Of a follower that heard its leader since the timer was set, and of a leader that has nothing to commit."""
        n = self.node
        lead = n.leading
        if n.halted:
            return None
        if timer == ELECTION:
            at = n.reset_at + n.timeout_min
            if lead is not None or n.deadline is not None or n.election_wall or mono >= at:
                return None
            n.mono = mono
            n.wall = wall
            n.armed = at
            return at, ()
        if timer != HEARTBEAT or lead is None or mono < lead.tick_due:
            return None
        if n.commit < n.log.end or n.disk_pending or n.config_index or lead.stuck or lead.reads:
            return None
        n.mono = mono  # the age counts from now; the handler that may be asked instead begins with the same
        if n.knobs.reads == "lease" or n.rules.steps_down(quorum_age(n, lead)):
            return None
        n.wall = wall
        n.overdue_at = lead.tick_due = at = mono + n.rules.heartbeat_interval()
        return at, next_round(n, lead)


def _expect(n: Node, src: str, mono: Ns) -> Any:
    """What ``answer`` compares with what this peer says, until anything else happens here."""
    lead, log = n.leading, n.log
    if n.halted:
        return None
    if lead is None:
        steady = n.leader == src and n.round is None and log.durable >= log.end and n.armed <= mono + n.timeout_min
        return (n.term, log.end, log.last_term, n.commit, ()) if steady and not n.election_wall else None
    p = lead.progress.get(src)
    if p is None or p.next <= log.end or p.next <= p.match or lead.reads or n.lease_wall:
        return None
    return lead, p, n.term, p.match
