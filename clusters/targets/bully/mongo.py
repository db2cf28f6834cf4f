"""MongoDB's election before 3.2 in its meaning: freshness, vetoes, votes bound by a volatile lease, no terms.

Guarantees: the rows of the profile ``mongo``, by number. Its safety rests on time alone: a restart of a voter, a step
of its clock, or late votes break it. Out of scope: arbiters, hidden members, and more or less than one vote per node.

Source: docs/sources.md, bully: MongoDB's protocol version 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from dethrone.clusters.targets.bully import messages as m
from dethrone.clusters.targets.kit.files import Unreadable, file_of, replace_ops, sealed, unsealed
from dethrone.harness.core.clock import MS, Clocks
from dethrone.harness.core.machine import Await, Disk, DiskImage

if TYPE_CHECKING:
    from dethrone.clusters.targets.bully.core import BullyCore

SECONDARY, PRIMARY = "SECONDARY", "PRIMARY"
VETO = -10_000
LEASE = "lease"
TIE_MS = (50, 1050)


class Mongo:
    """The election of one node. ``lease``: (who has the vote, since when by the wall clock)."""

    idle = SECONDARY

    def __init__(self, core: BullyCore) -> None:
        self.core = core
        self.lease: tuple[str, int] | None = None
        self.phase = ""
        self.asked: set[str] = set()
        self.answers: dict[str, Any] = {}
        self.asked_at = self.not_before = 0
        self.tied = False

    def load(self, disk: DiskImage) -> None:
        """A stored lease, if it is stored."""
        content = file_of(disk, LEASE)
        if content is None or not self.core.on.lease_persisted:
            return
        try:
            self.lease = msgspec.json.decode(unsealed(content, path=LEASE), type=tuple[str, int])
        except msgspec.DecodeError as error:
            raise Unreadable(f"{LEASE}: {error}") from error

    def start(self) -> None:
        """Nothing is known yet: the first ticks see who is there."""

    # --- may it stand ---------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Rows 1 and 8."""
        core = self.core
        if core.leads:
            better = [node for node in core.visible() if self._outranks(node, core.me, core.data.optime)]
            if core.on.priority_takeover and better:
                core.stop_leading(f"{better[0]} has a higher priority")
            return
        if core.coordinator is not None and core.coordinator not in core.primaries():
            core.leaderless(SECONDARY)
        if self.phase:
            self._decide()
        elif core.now.mono >= self.not_before and self._may_stand():
            self._ask("fresh")

    def _may_stand(self) -> bool:
        core = self.core
        seen = core.sees_majority() or not core.on.majority_to_stand
        return not core.primaries() and seen and self._electable(core.me, core.data.optime)

    def _electable(self, node: str, optime: int) -> bool:
        core = self.core
        newest = max([core.data.optime, *(core.heard[peer][1].optime for peer in core.visible())])
        return core.on.priority(node) > 0 and optime >= newest - core.on.fresh_window

    def _outranks(self, node: str, other: str, optime: int) -> bool:
        """Whether a visible node, or this one, is electable before another whose log ends there."""
        core = self.core
        own = core.data.optime if node == core.me else core.heard[node][1].optime
        return core.on.priority(node) > core.on.priority(other) and own >= optime - core.on.fresh_window

    def _ask(self, phase: str) -> None:
        """Rows 2 and 4: ask all that are reachable."""
        core = self.core
        if phase == "fresh":
            core.round += 1
            core.note("election_started", round=core.round, why="no primary")
        elif not self._take(core.me):
            self._wait("the own lease names another node")
            return
        self.phase, self.asked, self.answers = phase, set(core.visible()), {}
        self.asked_at = core.now.mono
        for peer in core.visible():
            core.send(peer, m.Fresh(core.round, core.data.optime) if phase == "fresh" else m.Elect(core.round))
        self._decide()

    def _decide(self) -> None:
        """Rows 2, 3 and 5, once all that are still there have answered."""
        core = self.core
        if self.phase == "elect" and core.on.tally_guard and core.now.mono - self.asked_at > core.on.vote_lease:
            self.lease = None
            self._wait("the votes came late")
        elif core.primaries():
            self._wait("there is a primary")
        elif self.phase == "fresh" and core.now.mono - self.asked_at > core.on.ok_timeout:
            self._wait("an answer was lost")
        elif {peer for peer in self.asked if core.up(peer)} <= set(self.answers):
            (self._refreshed if self.phase == "fresh" else self._count)()

    def _refreshed(self) -> None:
        core = self.core
        fresh: list[m.Freshness] = list(self.answers.values())
        vetoes = [one.veto for one in fresh if one.veto]
        if vetoes or (core.on.freshness and any(one.fresher for one in fresh)):
            self._wait(vetoes[0] if vetoes else "a fresher node")
        elif not self.tied and any(one.optime == core.data.optime for one in fresh):
            self._wait("")
            self.tied = True
            core.wait((TIE_MS[0] + core.rng.below(TIE_MS[1] - TIE_MS[0] + 1)) * MS * core.on.time_factor // 1)
        else:
            self._ask("elect")

    def _count(self) -> None:
        core = self.core
        total = 1 + sum(self.answers.values())
        voters = sorted([core.me, *(peer for peer, vote in self.answers.items() if vote > 0)])
        if core.on.count_votes and not core.rules.is_majority(total, members=len(core.members)):
            self.lease = None
            self._wait(f"{total} votes")
            return
        self.phase = ""
        core.lead(PRIMARY, voters)
        core.beat()

    def _wait(self, why: str) -> None:
        core = self.core
        self.phase, self.tied = "", False
        self.not_before = core.now.mono + core.on.coord_timeout
        if why:
            core.note("veto", why=why)

    def waited(self) -> None:
        """Row 3: the wait after a tie is over."""
        if self.core.role == SECONDARY and not self.phase and self._may_stand():
            self._ask("fresh")

    # --- the others' elections ------------------------------------------------------------------------------------

    def message(self, src: str, body: Any) -> None:
        """Questions and answers of an election."""
        core = self.core
        if isinstance(body, m.Fresh):
            newest = max([core.data.optime, *(core.heard[node][1].optime for node in core.visible())])
            veto = self._veto(src, body.optime) or ("" if self._electable(src, body.optime) else "not electable")
            core.send(src, m.Freshness(body.round, core.data.optime, newest > body.optime, veto))
        elif isinstance(body, m.Elect):
            optime = core.heard[src][1].optime if src in core.heard else 0
            vote = VETO if self._veto(src, optime) else int(self._take(src))
            core.send(src, m.Ballot(body.round, vote))
        elif body.round == core.round and self.phase == ("fresh" if isinstance(body, m.Freshness) else "elect"):
            self.answers[src] = body if isinstance(body, m.Freshness) else body.vote
            self._decide()

    def _veto(self, candidate: str, optime: int) -> str:
        """Why that node must not be elected; "": no reason."""
        core = self.core
        if core.leads or any(node != candidate for node in core.primaries()):
            return "there is a primary"
        known = (core.me, *(node for node in core.visible() if node != candidate))
        return next((f"{one} has a higher priority" for one in known if self._outranks(one, candidate, optime)), "")

    def _take(self, candidate: str) -> bool:
        """Row 4: give the vote, unless the lease binds it to another node."""
        core, held = self.core, self.lease
        bound = held is not None and held[0] != candidate and core.now.wall - held[1] <= core.on.vote_lease
        if bound and core.on.lease:
            return False
        self.lease = (candidate, core.now.wall)
        core.note("lease", holder=candidate)
        if core.on.lease_persisted:
            core.data.token += 1
            content = sealed(msgspec.json.encode(self.lease))
            core.out += (Disk(core.data.token, replace_ops(LEASE, content)), Await(core.data.token))
        return True

    def rival(self, src: str, reign: int) -> None:
        """Row 7, and how a secondary learns of its primary."""
        core = self.core
        if not core.leads:
            self.phase = ""
            core.follow(src, reign)
        elif core.on.yields and (core.reign, core.place) < (reign, core.members.index(src)):
            core.follow(src, reign)

    def shown(self, now: Clocks) -> dict[str, Any]:
        """Its lease and priority."""
        age = None if self.lease is None else (now.wall - self.lease[1]) // MS
        return {"lease_ms": age, "priority": self.core.on.priority(self.core.me)}
