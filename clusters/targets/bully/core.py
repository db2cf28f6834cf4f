"""One node of the bully target: heartbeats, roles, and what both forms of election are asked.

Guarantees: everything about the election is volatile; the log is not. A node whose disk fails, or whose log cannot be
read, stops. Out of scope: the two elections (``classic``, ``mongo``), log and requests of clients (``replication``).

Source: docs/sources.md, bully (rows 6 and 7 of MongoDB's election are ``tick`` and ``rival`` here).
"""

from __future__ import annotations

from typing import Any, ClassVar

from dethrone.clusters.targets.bully import messages as m
from dethrone.clusters.targets.bully.replication import Replication
from dethrone.clusters.targets.bully.rules import Rules
from dethrone.clusters.targets.kit.core import KitCore
from dethrone.harness.core.clock import MS, Ns
from dethrone.harness.core.machine import DiskImage, Glance

TICK, WAIT = "tick", "wait"


class BullyCore(Replication, KitCore["BullyCore"]):
    """See the module. A form of election gives the methods that raise here."""

    idle: str
    """The role of a node that follows."""
    lease: tuple[str, int] | None = None

    def __init__(self, node: str, members: tuple[str, ...], rules: Rules) -> None:
        super().__init__(node, members, rules)
        self.node = self
        self.role = self.idle
        self.round = 0
        self.led_at: Ns = 0
        """When the coordinator was last heard, or the node last had a reason to wait for one."""
        self.heard: dict[str, tuple[Ns, m.Heartbeat]] = {}

    def load(self, disk: DiskImage) -> None:
        """Read the log, and begin."""
        ops = self.log.start(disk)
        if ops:
            self.batches[self.batch(ops)] = self.log.end
        self.show_durable()
        self.note("start", {"round": self.round})
        self.led_at = self.mono
        self.start()
        self.tick()

    # --- what a form of election gives ----------------------------------------------------------------------------

    def start(self) -> None:
        """The node is up."""

    def look(self) -> None:
        """The time of a heartbeat came."""
        raise NotImplementedError

    def rival(self, src: str, reign: int) -> None:
        """Another node says that it leads."""
        raise NotImplementedError

    # --- which nodes are there ------------------------------------------------------------------------------------

    def up(self, node: str) -> bool:
        """Whether a peer was heard lately."""
        return node in self.heard and not self.rules.unheard(self.mono - self.heard[node][0])

    def visible(self) -> list[str]:
        """The peers that were heard lately."""
        return [node for node in self.peers if self.up(node)]

    def sees_majority(self) -> bool:
        """Whether they and this node are more than half."""
        return 2 * (len(self.visible()) + 1) > len(self.members)

    def primaries(self) -> list[str]:
        """The visible peers that say they lead."""
        return [node for node in self.visible() if self.heard[node][1].reign]

    def tick(self) -> None:
        """Look around, and let the others hear from this node."""
        self.timer(TICK, self.on.heartbeat)
        if self.leads and self.on.step_down and not self.sees_majority():
            self.stop_leading("no majority")
        self.look()
        self.beat()
        if self.leads:
            self.push(always=True)

    def beat(self) -> None:
        """A heartbeat to all."""
        told = self.leads and self.on.announce
        reign, term = (self.reign, self.term) if told else (0, 0)
        body = m.Heartbeat(self.role, self.coordinator, self.optime, reign, term)
        for peer in self.peers:
            self.send(peer, body)

    def heartbeat(self, src: str, body: m.Heartbeat) -> None:
        """A peer is there."""
        self.heard[src] = (self.mono, body)
        if body.reign:
            self.rival(src, body.reign)
            if src == self.coordinator:
                self.led_at = self.mono

    MESSAGES: ClassVar = {m.Heartbeat: heartbeat, m.Entries: Replication.entries, m.Stored: Replication.stored}
    TIMERS: ClassVar = {TICK: tick}

    # --- leading and following ------------------------------------------------------------------------------------

    def next_round(self, why: str) -> None:
        """An election of this node's own begins. ``local_term`` shows its round, which means nothing to other nodes."""
        self.round += 1
        self.term = self.round if self.on.local_term else 0
        self.note("election_started", {"round": self.round, "why": why})

    def lead(self, role: str, voters: list[str]) -> None:
        """This node leads from now on."""
        self.timer(WAIT, None)
        self.begin(role, self.me, max(1, self.wall))
        self.note("elected", {"voters": voters, "round": self.round})

    def follow(self, leader: str, reign: int) -> None:
        """That node leads, since ``reign``."""
        self.led_at = self.mono
        if (self.coordinator, self.reign) == (leader, reign) and self.role == self.idle:
            return
        if self.leads:
            self.note("step_down", {"why": "follows", "leader": leader})
        self.timer(WAIT, None)
        self.begin(self.idle, leader, reign)
        self.note("leader_seen", {"leader": leader})

    def leaderless(self, role: str) -> None:
        """No node leads, as far as this one knows."""
        self.led_at = self.mono
        self.begin(role, None, 0)

    def stop_leading(self, why: str) -> None:
        """This node leads no more."""
        self.leaderless(self.idle)
        self.note("step_down", {"why": why})

    # --- what is said ---------------------------------------------------------------------------------------------

    def main(self) -> Glance:
        """The main fields of the observer record."""
        voted_for = self.lease and self.lease[0]
        return self.role, self.term, self.coordinator, voted_for, (self.optime, self.log.end), self.commit

    def extra(self) -> dict[str, Any]:
        """Its other fields."""
        return {"round": self.round, "peers_up": self.visible(), "silence_ms": (self.mono - self.led_at) // MS}

    SHOWN = (main, lambda node: {"extra": node.extra()})
