"""Several leaders lost one after another, and the same fault again and again: steps in which the order is what matters.

    flutter   the same brief fault a few times in a row, each about as long as something that the protocol waits for
    relay     each new leader is hit as it gets a vote, is elected, commits or acknowledges; the node hit before it
              returns as the next one falls. Or one node is away all the time while leaders come and go, and returns as
              the last one falls

Guarantees: pure; but for moments one node at most is out of action in a relay besides bystanders, of whom there are no
more than a minority, and with bystanders leaders are hit only briefly until these return; only kinds that are asked
for. Out of scope: what comes before and after.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.interfaces import Fault, traits_of
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.quorum import minority
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import AfterFault, OnEvent, PlannedFault, StepBegin, When
from dethrone.nemesis.strategies.durations import around, log_between, within_patience
from dethrone.nemesis.strategies.openings import weighted
from dethrone.nemesis.strategies.rows import ISOLATE, MANY, kind_of

FLUTTERING: Mapping[str, int] = {"pause": 4, "partition": 2, "kill": 2, "restart": 1}
"""What happens again and again, by weight."""

TAKING: Mapping[str, int] = {ISOLATE: 5, "kill": 2, "pause": 2, "powerloss": 1}
"""What takes a leader out of a relay, by weight: words of ``rows``."""

BRIEFLY: Mapping[str, int] = {"restart": 2, "kill": 1, "powerloss": 1}
"""What a leader is hit by while another node is away, by weight: it is restarted at once."""

LEADING: Mapping[str, int] = {"elected": 4, "committed": 4, "vote-granted": 3, "write-acked": 1}
"""When the node that leads, or is about to, is hit, by weight: before it hears of its votes, before it has sent
anything on, or when just enough have what it sent."""


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """What all series of one schedule share. ``events``: for which triggers exist."""

    kinds: Mapping[str, Fault]
    nodes: int
    promise: Promise
    events: Collection[str]

    def flutter(self, rng: Rng, *, hold_ns: Ns, name: str) -> list[PlannedFault]:
        """Brief faults of one kind, in a row, all begun within ``hold_ns``; empty where no kind fits.

        Each hits the leader of that moment, or all of them the first victim, of the fault called ``name``.
        """
        kind = weighted(rng, FLUTTERING, self.kinds)
        if kind is None or self.nodes < 2:
            return []
        same, first = rng.chance(1, 3), "leader" if self.nodes < 3 or rng.chance(3, 4) else "follower"
        out: list[PlannedFault] = []
        at: Ns = 0
        for number in range(rng.between(3, 6)):
            held_ns = 0 if traits_of(self.kinds[kind]).lasts == "at-once" else around(rng, self.promise)
            if out and at + held_ns > hold_ns:
                break
            out.append(
                self._fault(
                    rng.stream(f"flutter-{number}"),
                    ISOLATE if kind == "partition" else kind,
                    f"hit-by:{name}" if same and out else first,
                    name="" if out else name,
                    when=AfterFault(fault=name) if out else StepBegin(),
                    delay_ns=at,
                    hold_ns=held_ns,
                )
            )
            gap_ns = log_between(rng, max(1, self.promise.heartbeat_ns), max(1, 4 * self.promise.election_timeout_ns))
            at += held_ns + gap_ns
        return out

    def relay(self, rng: Rng, *, hold_ns: Ns, name: str) -> list[PlannedFault]:
        """A first fault called ``name``, and two to four more that wait for what the leaders after it do.

        Empty where the kinds, the nodes or what can be seen do not suffice.
        """
        takes = [deed for deed in TAKING if kind_of(deed) in self.kinds]
        brief = [deed for deed in BRIEFLY if deed in self.kinds]
        if self.nodes < 3 or not takes or "elected" not in self.events:
            return []
        names = [name, *(f"{name}-{number}" for number in range(1, rng.between(3, 5)))]
        if brief and rng.chance(1, 3):
            return self._with_bystander(rng, names, takes, brief, hold_ns)
        when: When = StepBegin()
        if rng.chance(1, 4):
            when = self._leading(rng, [event for event in LEADING if event in MANY], "", hold_ns)
        out = [self._taken(rng.stream(name), takes, "leader", name, when, until=names[1], hold_ns=hold_ns)]
        for before, own, following in zip(names[:-1], names[1:], [*names[2:], ""], strict=True):
            when = self._leading(rng, LEADING, before, hold_ns)
            out.append(self._taken(rng.stream(own), takes, _who(when), own, when, until=following, hold_ns=hold_ns))
        return out

    def _with_bystander(
        self, rng: Rng, names: Sequence[str], takes: Sequence[str], brief: Sequence[str], hold_ns: Ns
    ) -> list[PlannedFault]:
        """One node is away while leaders are restarted, and returns as the last one falls, for good."""
        away = "minority" if minority(self.nodes) > 1 and rng.chance(1, 2) else "follower"
        out = [self._taken(rng.stream("away"), takes, away, names[0], StepBegin(), until=names[-1], hold_ns=hold_ns)]
        for before, own in itertools.pairwise(names[:-1]):
            first = before == names[0]  # no node is elected before one falls
            when: When = AfterFault(fault=before)
            if not first:
                when = OnEvent(event="elected", after=before, within_ns=max(1, hold_ns))
            out.append(
                self._fault(
                    rng.stream(own),
                    weighted(rng, BRIEFLY, brief) or brief[0],
                    "leader" if first else "actor",
                    name=own,
                    when=when,
                    delay_ns=within_patience(rng, self.promise) if first or rng.chance(1, 2) else 0,
                    hold_ns=0,
                )
            )
        when = self._leading(rng, LEADING, names[-2], hold_ns)
        out.append(self._taken(rng.stream("last"), takes, _who(when), names[-1], when, until="", hold_ns=hold_ns))
        return out

    def _leading(self, rng: Rng, events: Collection[str], after: str, hold_ns: Ns) -> When:
        """One of these events, as far as they can be seen: mostly the next one."""
        event = weighted(rng, LEADING, [event for event in events if event in self.events])
        if event is None:
            return StepBegin()
        count = rng.between(2, 10) if event in MANY and rng.chance(1, 5) else 1
        return OnEvent(event=event, after=after, count=count, within_ns=max(1, hold_ns))

    def _taken(
        self, rng: Rng, takes: Sequence[str], victims: str, name: str, when: When, *, until: str, hold_ns: Ns
    ) -> PlannedFault:
        """One node is taken out, until the fault called ``until`` is in force (if one is named)."""
        planned = self._fault(
            rng,
            weighted(rng, TAKING, takes) or takes[0],
            victims,
            name=name,
            when=when,
            delay_ns=within_patience(rng, self.promise) if isinstance(when, OnEvent) and rng.chance(1, 8) else 0,
            hold_ns=hold_ns,
        )
        if not until:
            return planned
        ends = OnEvent(event="fault-begun", where={"fault": until}, within_ns=max(1, hold_ns))
        return msgspec.structs.replace(planned, until=ends)

    def _fault(
        self, rng: Rng, deed: str, victims: str, *, name: str, when: When, delay_ns: Ns, hold_ns: Ns
    ) -> PlannedFault:
        """A fault by a word of ``rows``; what else its kind needs is drawn by itself."""
        kind = kind_of(deed)
        knobs: dict[str, Any] = {"victims": victims}
        if deed == ISOLATE:
            knobs["shape"] = "isolate"
        drawn = self.kinds[kind].draw(rng, nodes=self.nodes, hold_ns=hold_ns, knobs=knobs)
        return msgspec.structs.replace(drawn, victims=victims, name=name, when=when, delay_ns=delay_ns, hold_ns=hold_ns)


def _who(when: When) -> str:
    """Who is hit on this event: the node that leads or is to lead."""
    return "candidate" if isinstance(when, OnEvent) and when.event == "vote-granted" else "actor"
