"""MongoDB's election before 3.2 in its meaning: freshness, vetoes, votes bound by a volatile lease, no terms.

Guarantees: the rows of the profile ``mongo``, by number. Its safety rests on time alone: a restart of a voter, a step
of its clock, or late votes break it. Out of scope: arbiters, hidden members, and more or less than one vote per node.

Source: docs/sources.md, bully: MongoDB's protocol version 0.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from dethrone.clusters.targets.bully import messages as m
from dethrone.clusters.targets.bully.core import WAIT, BullyCore
from dethrone.clusters.targets.bully.rules import Rules
from dethrone.clusters.targets.kit.files import file_of, replace_ops, sealed, unsealed
from dethrone.harness.core.clock import MS
from dethrone.harness.core.machine import Await, DiskImage

SECONDARY, PRIMARY = "SECONDARY", "PRIMARY"
VETO = -10_000
LEASE = "lease"
TIE_MS = (50, 1050)
_DECODER = msgspec.json.Decoder(tuple[str, int])


class Mongo(BullyCore):
    """One node. ``lease``: (which node has the vote, since when by the wall clock)."""

    idle = SECONDARY

    def __init__(self, node: str, members: tuple[str, ...], rules: Rules) -> None:
        super().__init__(node, members, rules)
        self.phase = ""
        self.asked: set[str] = set()
        self.answers: dict[str, Any] = {}
        self.asked_at = self.not_before = 0
        self.tied = False

    def load(self, disk: DiskImage) -> None:
        """Read the lease, too, if it is stored."""
        content = file_of(disk, LEASE)
        if content is not None and self.on.lease_persisted:
            self.lease = unsealed(content, _DECODER.decode, path=LEASE)
        super().load(disk)

    # --- may it stand ---------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Rows 1 and 8."""
        if self.leads:
            better = [node for node in self.visible() if self._outranks(node, self.me, self.optime)]
            if self.on.priority_takeover and better:
                self.stop_leading(f"{better[0]} has a higher priority")
            return
        if self.coordinator is not None and self.coordinator not in self.primaries():
            self.leaderless(SECONDARY)
        if self.phase:
            self._decide()
        elif self.mono >= self.not_before and self._may_stand():
            self._ask("fresh")

    def _may_stand(self) -> bool:
        seen = self.sees_majority() or not self.on.majority_to_stand
        return not self.primaries() and seen and self._electable(self.me, self.optime)

    def _newest(self) -> int:
        return max([self.optime, *(self.heard[peer][1].optime for peer in self.visible())])

    def _electable(self, node: str, optime: int) -> bool:
        return self.on.priority(node) > 0 and optime >= self._newest() - self.on.fresh_window

    def _outranks(self, node: str, other: str, optime: int) -> bool:
        """Whether a visible node, or this one, is electable before another whose log ends there."""
        own = self.optime if node == self.me else self.heard[node][1].optime
        return self.on.priority(node) > self.on.priority(other) and own >= optime - self.on.fresh_window

    def _ask(self, phase: str) -> None:
        """Rows 2 and 4: ask all that are reachable."""
        if phase == "fresh":
            self.next_round("no primary")
        elif not self._take(self.me):
            self._wait("the own lease names another node")
            return
        self.phase, self.asked, self.answers = phase, set(self.visible()), {}
        self.asked_at = self.mono
        for peer in self.visible():
            self.send(peer, m.Fresh(self.round, self.optime) if phase == "fresh" else m.Elect(self.round))
        self._decide()

    def _decide(self) -> None:
        """Rows 2, 3 and 5, once all that are still there have answered."""
        if self.phase == "elect" and self.on.tally_guard and self.mono - self.asked_at > self.on.vote_lease:
            self.lease = None
            self._wait("the votes came late")
        elif self.phase == "fresh" and self.mono - self.asked_at > self.on.ok_timeout:
            self._wait("an answer was lost")
        elif {peer for peer in self.asked if self.up(peer)} <= set(self.answers):
            (self._refreshed if self.phase == "fresh" else self._count)()

    def _refreshed(self) -> None:
        fresh: list[m.Freshness] = list(self.answers.values())
        vetoes = [one.veto for one in fresh if one.veto]
        if vetoes or (self.on.freshness and any(one.fresher for one in fresh)):
            self._wait(vetoes[0] if vetoes else "a fresher node")
        elif not self.tied and any(one.optime == self.optime for one in fresh):
            self._wait("")
            self.tied = True
            self.timer(WAIT, self.on.ns(TIE_MS[0] + self.rng.below(TIE_MS[1] - TIE_MS[0] + 1)))
        else:
            self._ask("elect")

    def _count(self) -> None:
        total = 1 + sum(ballot.vote for ballot in self.answers.values())
        voters = sorted([self.me, *(peer for peer, ballot in self.answers.items() if ballot.vote > 0)])
        if self.on.count_votes and 2 * total <= len(self.members):
            self.lease = None
            self._wait(f"{total} votes")
            return
        self.phase = ""
        self.lead(PRIMARY, voters)
        self.beat()

    def _wait(self, why: str) -> None:
        self.phase, self.tied = "", False
        self.not_before = self.mono + self.on.coord_timeout
        if why:
            self.note("veto", {"why": why})

    def _waited(self) -> None:
        """Row 3: the wait after a tie is over."""
        if self.role == SECONDARY and not self.phase and self._may_stand():
            self._ask("fresh")

    # --- the others' elections ------------------------------------------------------------------------------------

    def _asked_fresh(self, src: str, body: m.Fresh) -> None:
        veto = self._veto(src, body.optime) or ("" if self._electable(src, body.optime) else "not electable")
        self.send(src, m.Freshness(body.round, self.optime, self._newest() > body.optime, veto))

    def _asked_vote(self, src: str, body: m.Elect) -> None:
        optime = self.heard[src][1].optime if src in self.heard else 0
        self.send(src, m.Ballot(body.round, VETO if self._veto(src, optime) else int(self._take(src))))

    def _answered(self, src: str, body: m.Freshness | m.Ballot) -> None:
        phase = "fresh" if isinstance(body, m.Freshness) else "elect"
        if body.round == self.round and self.phase == phase:
            self.answers[src] = body
            self._decide()

    MESSAGES: ClassVar = {
        **BullyCore.MESSAGES,
        m.Fresh: _asked_fresh,
        m.Elect: _asked_vote,
        m.Freshness: _answered,
        m.Ballot: _answered,
    }
    TIMERS: ClassVar = {**BullyCore.TIMERS, WAIT: _waited}

    def _veto(self, candidate: str, optime: int) -> str:
        """Why that node must not be elected; "": no reason."""
        if self.leads or any(node != candidate for node in self.primaries()):
            return "there is a primary"
        known = (self.me, *(node for node in self.visible() if node != candidate))
        return next((f"{one} has a higher priority" for one in known if self._outranks(one, candidate, optime)), "")

    def _take(self, candidate: str) -> bool:
        """Row 4: give the vote, unless the lease binds it to another node."""
        held = self.lease
        bound = held is not None and held[0] != candidate and self.wall - held[1] <= self.on.vote_lease
        if bound and self.on.lease:
            return False
        self.lease = (candidate, self.wall)
        self.note("lease", {"holder": candidate})
        if self.on.lease_persisted:
            content = sealed(msgspec.json.encode(self.lease))
            self.out.append(Await(self.batch(replace_ops(LEASE, content))))
        return True

    def rival(self, src: str, reign: int) -> None:
        """Row 7, and how a secondary learns of its primary."""
        if not self.leads:
            self.phase = ""
            self.follow(src, reign)
        elif self.on.yields and (self.reign, self.ids[self.me]) < (reign, self.ids[src]):
            self.follow(src, reign)

    def extra(self) -> dict[str, Any]:
        """Also its lease and priority."""
        age = None if self.lease is None else (self.wall - self.lease[1]) // MS
        return {**super().extra(), "lease_ms": age, "priority": self.on.priority(self.me)}
