"""The classic election: the highest id that answers leads, and bullies any lower one that does.

Guarantees: the rows of the textbook form, by number. No majority (but for the knob ``majority_to_stand``): each
connected part elects. Out of scope: partitions and pauses, which the paper assumes away.

Source: docs/sources.md, bully: Garcia-Molina 1982, in the textbook form ELECTION, OK, COORDINATOR.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dethrone.clusters.targets.bully import messages as m
from dethrone.harness.core.clock import Clocks
from dethrone.harness.core.machine import DiskImage

if TYPE_CHECKING:
    from dethrone.clusters.targets.bully.core import BullyCore

FOLLOWER, ELECTING, WAITING, COORDINATOR = "FOLLOWER", "ELECTING", "WAITING", "COORDINATOR"


class Classic:
    """The election of one node."""

    idle = FOLLOWER
    lease: tuple[str, int] | None = None

    def __init__(self, core: BullyCore) -> None:
        self.core = core

    def load(self, disk: DiskImage) -> None:
        """It stores nothing."""

    def start(self) -> None:
        """Row 1."""
        if self.core.on.elect_at_start:
            self.stand("start")

    def tick(self) -> None:
        """Row 1, where no coordinator is heard."""
        core = self.core
        if core.role == FOLLOWER and core.rules.unheard(core.now.mono - core.led_at):
            self.stand("coordinator unheard")

    def stand(self, why: str) -> None:
        """Row 1: ask all higher ids."""
        core = self.core
        if core.on.majority_to_stand and not core.sees_majority():
            core.leaderless(FOLLOWER)
            core.wait(core.on.coord_timeout)
            return
        core.round += 1
        core.leaderless(ELECTING)
        core.note("election_started", round=core.round, why=why)
        asked = [peer for peer in core.peers if core.rules.asks(higher=self.higher(peer))]
        for peer in asked:
            core.send(peer, m.Election(core.round))
        if asked:
            core.wait(core.on.ok_timeout)
        else:
            self.lead()

    def higher(self, peer: str) -> bool:
        """Whether its id is higher than the own one."""
        return self.core.members.index(peer) > self.core.place

    def lead(self) -> None:
        """Row 3: lead, and announce it."""
        core = self.core
        if not core.leads:
            core.lead(COORDINATOR, [])
        if core.on.announce:
            for peer in core.peers:
                core.send(peer, m.Coordinator(core.round, core.reign))
            core.note("coordinator_sent", round=core.round)
        core.beat()

    def waited(self) -> None:
        """Rows 3 and 5, and a node that waits for a majority."""
        core = self.core
        if core.role == ELECTING and core.rules.takes_lead(answered=False):
            self.lead()
        elif core.role == WAITING:
            self.stand("no announcement")
        elif core.role == FOLLOWER and core.coordinator is None:
            self.stand("no majority before")

    def message(self, src: str, body: Any) -> None:
        """Rows 2, 4 and 6."""
        core = self.core
        if isinstance(body, m.Election):
            if not core.rules.answers(higher=self.higher(src)):
                return
            core.send(src, m.Okay(body.round))
            core.note("ok_sent", to=src, round=body.round)
            if core.leads:
                self.lead()
            elif core.role == FOLLOWER:
                self.stand("election of a lower id")
        elif isinstance(body, m.Okay):
            if core.role == ELECTING and body.round == core.round:
                core.note("ok_received", source=src, round=body.round)
                core.role = WAITING
                core.wait(core.on.coord_timeout)
        elif isinstance(body, m.Coordinator):
            self.rival(src, body.reign, announced=True)

    def rival(self, src: str, reign: int, *, announced: bool = False) -> None:
        """Rows 6, 7 and 8: another node says that it leads."""
        core = self.core
        lower = not self.higher(src)
        if not core.rules.accepts(lower=lower):
            core.note("bullied", node=src)
            if core.leads:
                self.lead()
            elif core.role == FOLLOWER:
                self.stand("a lower id leads")
        elif core.leads:
            if core.on.yields and not lower:
                core.follow(src, reign)
        elif announced or self._better(src):
            core.follow(src, reign)

    def _better(self, src: str) -> bool:
        """Whether a heartbeat of this leader says more than what is known."""
        core = self.core
        known = core.coordinator
        if known in (None, src) or core.rules.unheard(core.now.mono - core.led_at):
            return True
        return core.members.index(src) > core.members.index(known)

    def shown(self, now: Clocks) -> dict[str, Any]:
        """Nothing more."""
        del now
        return {}
