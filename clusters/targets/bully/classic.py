"""The classic election: the highest id that answers leads, and bullies any lower one that does.

Guarantees: the rows of the textbook form, by number. No majority (but for the knob ``majority_to_stand``): each
connected part elects. Out of scope: partitions and pauses, which the paper assumes away.

Source: docs/sources.md, bully: Garcia-Molina 1982, in the textbook form ELECTION, OK, COORDINATOR.
"""

from __future__ import annotations

from typing import ClassVar

from dethrone.clusters.targets.bully import messages as m
from dethrone.clusters.targets.bully.core import WAIT, BullyCore

FOLLOWER, ELECTING, WAITING, COORDINATOR = "FOLLOWER", "ELECTING", "WAITING", "COORDINATOR"


class Classic(BullyCore):
    """One node; the election stores nothing."""

    idle = FOLLOWER

    def start(self) -> None:
        """Row 1."""
        if self.on.elect_at_start:
            self.stand("start")

    def look(self) -> None:
        """Row 1, where no coordinator is heard."""
        if self.role == FOLLOWER and self.rules.unheard(self.mono - self.led_at):
            self.stand("coordinator unheard")

    def stand(self, why: str) -> None:
        """Row 1: ask all higher ids."""
        if self.on.majority_to_stand and not self.sees_majority():
            self.leaderless(FOLLOWER)
            self.timer(WAIT, self.on.coord_timeout)
            return
        self.leaderless(ELECTING)
        self.next_round(why)
        asked = [peer for peer in self.peers if self.rules.asks(higher=self.higher(peer))]
        for peer in asked:
            self.send(peer, m.Election(self.round))
        if asked:
            self.timer(WAIT, self.on.ok_timeout)
        else:
            self.coordinate()

    def higher(self, peer: str) -> bool:
        """Whether its id is higher than the own one."""
        return self.ids[peer] > self.ids[self.me]

    def coordinate(self) -> None:
        """Row 3: lead, and announce it."""
        if not self.leads:
            self.lead(COORDINATOR, [])
        if self.on.announce:
            for peer in self.peers:
                self.send(peer, m.Coordinator(self.round, self.reign))
            self.note("coordinator_sent", {"round": self.round})
        self.beat()

    def _waited(self) -> None:
        """Rows 3 and 5, and a node that waits for a majority."""
        if self.role == ELECTING and self.rules.takes_lead:
            self.coordinate()
        elif self.role == WAITING:
            self.stand("no announcement")
        elif self.role == FOLLOWER and self.coordinator is None:
            self.stand("no majority before")

    def _election(self, src: str, body: m.Election) -> None:
        """Row 2."""
        if not self.rules.answers(higher=self.higher(src)):
            return
        self.send(src, m.Okay(body.round))
        self.note("ok_sent", {"to": src, "round": body.round})
        self._insist("election of a lower id")

    def _okay(self, src: str, body: m.Okay) -> None:
        """Row 4."""
        if self.role == ELECTING and body.round == self.round:
            self.note("ok_received", {"source": src, "round": body.round})
            self.role = WAITING
            self.timer(WAIT, self.on.coord_timeout)

    MESSAGES: ClassVar = {
        **BullyCore.MESSAGES,
        m.Election: _election,
        m.Okay: _okay,
        m.Coordinator: lambda node, src, body: node.rival(src, body.reign, announced=True),
    }
    TIMERS: ClassVar = {**BullyCore.TIMERS, WAIT: _waited}

    def _insist(self, why: str) -> None:
        """A lower id would lead."""
        if self.leads:
            self.coordinate()
        elif self.role == FOLLOWER:
            self.stand(why)

    def rival(self, src: str, reign: int, *, announced: bool = False) -> None:
        """Rows 6, 7 and 8: another node says that it leads."""
        lower = not self.higher(src)
        if lower and self.on.bully_back:
            self.note("bullied", {"node": src})
            self._insist("a lower id leads")
        elif self.leads:
            if self.on.yields and not lower:
                self.follow(src, reign)
        elif announced or self._better(src):
            self.follow(src, reign)

    def _better(self, src: str) -> bool:
        """Whether a heartbeat of this leader says more than what is known."""
        known = self.coordinator
        if known is None or known == src or self.rules.unheard(self.mono - self.led_at):
            return True
        return self.ids[src] > self.ids[known]
