"""The strategy ``triggered``: faults on what the nodes do, in steps that meet every coverage obligation they can.

Most steps begin with what ``random`` would do (a demand, mostly something that unseats the leader) or with something
that leaves half of it working (``openings``), sometimes before a backdrop that lets knowledge diverge (a partial
partition, slow or lossy links, a bad disk), and have on top one or two faults that wait for an event (``rows``), and
sometimes company: what comes upon those who were hit or spared a moment later. Mostly the first fault ends as the event
comes, so that a node that knows nothing of it returns. Then, or where nodes are to spare, everybody whom the event
names may be hit; else what is hit besides the first is not held. Other steps are a series of faults (``series``). What
the promise does not bear, and does not heal, comes in the last step.

Guarantees: the same seed and arguments give the same schedule; obligations as with ``random``; what is in force
together by kills and pauses takes no more than a minority out of action as long as events come in time. Out of scope:
resolving selectors and carrying anything out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from dethrone.harness.core.clock import MS, SECOND, Ns
from dethrone.harness.core.interfaces import Fault, traits_of
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.quorum import minority
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import OnEvent, PlannedFault, Schedule, Step
from dethrone.nemesis import selectors
from dethrone.nemesis.obligations import Demand, least_hold_ns
from dethrone.nemesis.strategies.lasting import last_fault, lasting, outright
from dethrone.nemesis.strategies.openings import PARTIAL, company, fall, opening, partial_shapes, weighted
from dethrone.nemesis.strategies.outsiders import beside
from dethrone.nemesis.strategies.pacing import STEPS_MAX, Pace, pace_of
from dethrone.nemesis.strategies.random import extra, fewest_groups, free
from dethrone.nemesis.strategies.rows import Row, draw_row, hit, offered, partner
from dethrone.nemesis.strategies.series import Series
from dethrone.nemesis.strategies.zonal import in_zones

BASE = "base"
"""The name of the fault after which triggers are armed."""

HEAL_NS = 1 * SECOND
"""How long bringing a fault about and healing it may take, besides its hold."""

_BACKDROPS: Mapping[str, int] = {"partition": 3, "link": 3, "hold": 1, "disk": 3}
_SLOW: Mapping[str, Mapping[str, str]] = {"link": {}, "disk": {"how": "slow"}}
_SLOWNESS: Mapping[str, str] = {"link": "delay_ns", "disk": "latency_ns"}
SLOW_NS: tuple[Ns, ...] = (5 * MS, 15 * MS, 40 * MS)
"""What is longer than it takes to notice an event and act, and short of an election timeout."""
LOSS_PERCENT = (10, 20, 30)
"""Of every link's messages: what any protocol should bear, as far as its promise says so."""
FORMS: Mapping[str, int] = {"rows": 5, "relay": 4, "flutter": 1}
"""What a step is that shows nothing owed, by weight."""


class TriggeredStrategy(msgspec.Struct, frozen=True, kw_only=True):
    """See ``dethrone.harness.core.interfaces.Strategy``. ``share_percent``: how many of the steps have triggers.

    ``observable``, ``operations``, ``outsiders``: see ``dethrone.harness.core.interfaces.Informed``; None: everything.
    ``zones``: see ``Zoning``.
    """

    name: str = "triggered"
    share_percent: int = 100
    observable: frozenset[str] | None = None
    operations: frozenset[str] = frozenset({"append", "read"})
    outsiders: int = 0
    zones: Mapping[str, str] = {}

    def zoned(self, zones: Mapping[str, str]) -> TriggeredStrategy:
        """The same, for nodes in these zones."""
        return msgspec.structs.replace(self, zones=zones)

    def informed(
        self, *, observable: frozenset[str], operations: frozenset[str], outsiders: int = 0
    ) -> TriggeredStrategy:
        """The same, for a system of which so much is seen."""
        return msgspec.structs.replace(self, observable=observable, operations=operations, outsiders=outsiders)

    def draw(
        self, rng: Rng, *, faults: Mapping[str, Fault], nodes: int, time_limit_ns: Ns, interval_ns: Ns, promise: Promise
    ) -> Schedule:
        """A schedule of these fault kinds; ConfigError if the time limit is shorter than one fault."""
        if not faults:
            return Schedule(seed=rng.seed, strategy=self.name, steps=())
        pace = pace_of(time_limit_ns=time_limit_ns, interval_ns=interval_ns, promise=promise)
        faults, final = outright(faults, promise), lasting(faults, promise) if pace.slots() > 1 else {}
        if not faults:
            faults, final = final, {}
        owed, groups = fewest_groups(rng, faults, slots=pace.slots() - bool(final), nodes=nodes)
        met = {demand.obligation for group in groups for demand in group}
        draft = _Drafter(
            faults, nodes, promise, pace, offered_to(self, kinds=faults, nodes=nodes, promise=promise), owed
        )
        steps: list[Step] = []
        budget_ns = pace.budget_ns - (pace.least_ns if final else 0)
        while budget_ns >= pace.least_ns and len(steps) < STEPS_MAX:
            number = len(steps)
            stream = rng.stream(f"step-{number}")
            group = groups[-1] if groups and number % 2 else None  # every other step shows what is owed
            waiting_ns = (len(groups) - (group is not None)) * pace.least_ns
            triggered = bool(draft.rows) and rng.stream(f"share-{number}").chance(self.share_percent, 100)
            make = draft.triggered if triggered else draft.plain
            step, spent_ns = make(stream, group, budget_ns - waiting_ns - pace.least_ns)
            if spent_ns > budget_ns - waiting_ns and groups:  # what is owed comes first
                group = groups[-1]
                waiting_ns = (len(groups) - 1) * pace.least_ns
                step, spent_ns = draft.plain(stream, group, budget_ns - waiting_ns - pace.least_ns)
            if group is not None:
                groups.pop()
            if self.outsiders:
                step = beside(rng.stream(f"outsiders-{number}"), step, kinds=faults, nodes=nodes)
            steps.append(step)
            budget_ns -= spent_ns
        if final:
            steps.append(draft.last(rng.stream("last"), final))
        drawn = Schedule(
            seed=rng.seed,
            strategy=self.name,
            steps=tuple(steps),
            obligations=tuple(sorted(name for name in met if name)),
            health_bound_ns=pace.health_bound_ns,
        )
        return in_zones(drawn, rng.stream("zones"), faults={**faults, **final}, zones=self.zones)


def offered_to(
    strategy: TriggeredStrategy, *, kinds: Mapping[str, Fault], nodes: int, promise: Promise
) -> tuple[Row, ...]:
    """The rows that make sense in such a cluster; none for a single node, which has no rival."""
    if nodes < 2:
        return ()
    return offered(kinds=kinds, promise=promise, observable=strategy.observable, operations=strategy.operations)


class _Drafter(msgspec.Struct, frozen=True):
    """What all steps of one schedule share."""

    faults: Mapping[str, Fault]
    nodes: int
    promise: Promise
    pace: Pace
    rows: tuple[Row, ...]
    owed: Sequence[Demand]

    def plain(self, rng: Rng, group: Sequence[Demand] | None, slack_ns: Ns) -> tuple[Step, Ns]:
        """A step without triggers, as ``random`` draws it; and what it takes off the budget."""
        more_ns = self.pace.more_ns(least_hold_ns(group or (), self.promise))
        hold_ns, gap_ns = self.pace.times(rng.stream("times"), slack_ns, more_ns=more_ns)
        if group is None:
            group = extra(rng, self.owed, nodes=self.nodes)
        planned = self._free(rng, group, hold_ns)
        return Step(faults=planned, gap_ns=gap_ns), self.pace.cost(hold_ns, gap_ns)

    def _free(self, rng: Rng, group: Sequence[Demand] | None, hold_ns: Ns) -> tuple[PlannedFault, ...]:
        return free(rng, group, kinds=self.faults, nodes=self.nodes, hold_ns=hold_ns, promise=self.promise)

    def triggered(self, rng: Rng, group: Sequence[Demand] | None, slack_ns: Ns) -> tuple[Step, Ns]:
        """A step with triggers; and what it takes off the budget, if its events come soon."""
        half: PlannedFault | None = None
        if group is None:
            form = weighted(rng.stream("form"), FORMS, FORMS)
            if form != "rows" and (made := self._series(rng.stream("series"), form, slack_ns)) is not None:
                return made
            rows, group = self._unowed(rng)
            if rng.stream("half").chance(2 if self.pace.hasty else 4, 5):
                half = opening(
                    rng.stream("opening"), kinds=self.faults, nodes=self.nodes, hold_ns=1, promise=self.promise
                )
            if half is not None and "leader" not in half.victims:
                rows = self._chosen(rng.stream("rows"), unseats=False)
                if self._room([half]) and rng.stream("fall").chance(2, 3):
                    return self._fallen(rng, half, slack_ns)
        else:
            rows = self._chosen(rng.stream("rows"), unseats=any(_unseats(demand) for demand in group))
        if not rows:
            return self.plain(rng, group, slack_ns)
        drafted = self._faults(rng, group, rows, self.pace.interval_ns, half)
        backdrop = self._backdrop(rng.stream("backdrop"), group, half, {fault.kind for fault in drafted})
        cut = any(fault.name == BASE and fault.kind == "partition" for fault in drafted)
        joined = rng.stream("beside").chance(3 if cut else 2, 6)
        beside = self._company(rng, drafted, self.pace.interval_ns) if joined else []
        count = (len(group) if half is None else 1) + len(rows) + len(backdrop) + len(beside)
        hold_ns, gap_ns = self.pace.times(rng.stream("times"), slack_ns, faults=count)
        faults = self._faults(rng, group, rows, hold_ns, half)
        around = [msgspec.structs.replace(fault, hold_ns=hold_ns) for fault in backdrop]
        beside = self._company(rng, faults, hold_ns) if beside else []
        return Step(faults=(*around, *faults, *beside), gap_ns=gap_ns), self.pace.cost(hold_ns, gap_ns)

    def _company(self, rng: Rng, faults: Sequence[PlannedFault], hold_ns: Ns) -> list[PlannedFault]:
        """What comes upon those whom the base hit or spared, if anything can."""
        base = next(fault for fault in faults if fault.name == BASE)
        stream = rng.stream("company")
        more = company(stream, base, kinds=self.faults, nodes=self.nodes, hold_ns=hold_ns, promise=self.promise)
        return [] if more is None else [more]

    def _fallen(self, rng: Rng, half: PlannedFault, slack_ns: Ns) -> tuple[Step, Ns]:
        """The leader falls while another node is half broken."""
        hold_ns, gap_ns = self.pace.times(rng.stream("times"), slack_ns, faults=2)
        base = msgspec.structs.replace(half, name=BASE, hold_ns=hold_ns)
        lost = fall(
            rng.stream("lost"), base, kinds=self.faults, nodes=self.nodes, hold_ns=hold_ns, promise=self.promise
        )
        return Step(faults=(base,) if lost is None else (base, lost), gap_ns=gap_ns), self.pace.cost(hold_ns, gap_ns)

    def last(self, rng: Rng, final: Mapping[str, Fault]) -> Step:
        """One fault from which its victim does not recover."""
        hold_ns, gap_ns = self.pace.times(rng.stream("times"), 0)
        return Step(
            faults=(last_fault(rng, final, nodes=self.nodes, hold_ns=hold_ns, promise=self.promise),), gap_ns=gap_ns
        )

    def _series(self, rng: Rng, form: str | None, slack_ns: Ns) -> tuple[Step, Ns] | None:
        """A step that is one series of faults; None where there cannot be one."""
        series = Series(
            kinds=self.faults, nodes=self.nodes, promise=self.promise, events={row.event for row in self.rows}
        )
        draw = series.relay if form == "relay" else series.flutter
        drafted = draw(rng.stream("faults"), hold_ns=self.pace.interval_ns, name=BASE)
        if not drafted:
            return None
        count = len(drafted) if form == "relay" else 2
        hold_ns, gap_ns = self.pace.times(rng.stream("times"), slack_ns, faults=count)
        faults = draw(rng.stream("faults"), hold_ns=hold_ns, name=BASE)
        if form == "relay" and rng.stream("beside").chance(1, 2):
            faults += self._company(rng, faults, hold_ns)
        return Step(faults=tuple(faults), gap_ns=gap_ns), self.pace.cost(hold_ns, gap_ns)

    def _faults(
        self, rng: Rng, group: Sequence[Demand], rows: Sequence[Row], hold_ns: Ns, half: PlannedFault | None
    ) -> list[PlannedFault]:
        """The base and what it leads to, without a backdrop. ``half``: a base instead of what the group demands."""
        if half is not None:
            planned = [msgspec.structs.replace(half, hold_ns=hold_ns)]
        else:
            planned = list(self._free(rng.stream("planned"), group, hold_ns))
        at = next((i for i, fault in enumerate(planned) if "leader" in fault.victims), 0)
        if half is None and len(group) == 1 and _unseats(group[0]):
            planned[at] = msgspec.structs.replace(planned[at], victims=_with_leader(planned[at].victims))
        base = planned[at] = msgspec.structs.replace(planned[at], name=BASE)
        room = self._room(planned)
        lasts = base.hold_ns > 0 and len(planned) == 1 and rows[0].event != "healed"
        returns = lasts and rng.stream("until").chance(3 if room else 5, 6)
        hits = self._hits(rng.stream("hits"), rows, hold_ns, room=returns or room)
        if returns:
            planned[at] = msgspec.structs.replace(base, until=_same_event(hits[0], within_ns=base.hold_ns))
        return [*planned, *hits]

    def _unowed(self, rng: Rng) -> tuple[list[Row], list[Demand]]:
        """Rows, and a base that suits them: mostly something that unseats the leader; before a heal mostly not."""
        rows = self._chosen(rng.stream("rows"), unseats=True)
        stream = rng.stream("base")
        declared = [(kind, traits_of(fault)) for kind, fault in sorted(self.faults.items())]
        unseating = [Demand(kind, "leader", traits=traits) for kind, traits in declared if traits.unseats]
        others = [
            Demand(kind, "follower", traits=traits)
            for kind, traits in declared
            if any(shown.who == "follower" for shown in traits.owes)
        ]
        if rows and rows[0].event == "healed" and others and self.nodes >= 3 and stream.chance(2, 3):
            return rows, [stream.choice(others)]
        if unseating and (any(row.unseats for row in rows) or not self.owed or stream.chance(4, 5)):
            return rows, [stream.choice(unseating)]
        return rows, [stream.choice(self.owed)]

    def _chosen(self, rng: Rng, *, unseats: bool) -> list[Row]:
        """One row, two one time in three. Without a leader's fall only events that come anyway, at first."""
        now = [row for row in self.rows if unseats or not row.unseats]
        if not now:
            return []
        first = draw_row(rng, now)
        if not rng.chance(1, 3):
            return [first]
        later = self.rows if unseats or first.event == "write-acked" else now
        return [first, draw_row(rng, later)]

    def _backdrop(
        self, rng: Rng, group: Sequence[Demand], half: PlannedFault | None, deeds: Collection[str]
    ) -> list[PlannedFault]:
        """A fault that lasts around everything else; where it can be had, what makes everything slow.

        A slow link or disk holds open, for long enough to be hit, what otherwise is over in a moment.
        """
        begun = {demand.kind for demand in group} if half is None else {half.kind}
        kinds = [kind for kind in _BACKDROPS if kind in self.faults and kind not in begun]
        if "partition" in begun or self.nodes < 3:
            kinds = [kind for kind in kinds if kind != "partition"]
        unsynced = "disk" in kinds and "powerloss" in deeds  # what is synced at once is not lost with the power
        often = 3 if set(kinds) & set(_SLOW) else 1
        if not kinds or not rng.chance(often if half is None else 1, 4):  # half a failure shows best by itself
            return []
        kind = rng.choice([kind for kind in kinds for _ in range(_BACKDROPS[kind])])
        if unsynced and rng.chance(1, 2):
            kind = "disk"
        knobs: dict[str, Any] = {}
        if kind == "partition":
            knobs = {"shape": weighted(rng, PARTIAL, partial_shapes(self.nodes))}
        elif kind == "link" and self.promise.loss_percent_max and rng.chance(1, 3):
            bearable = [loss for loss in LOSS_PERCENT if loss <= self.promise.loss_percent_max]
            knobs = {"victims": "all", "loss_percent": rng.choice(bearable or (self.promise.loss_percent_max,))}
        elif kind in _SLOW and rng.chance(4, 5):
            knobs = {"victims": "all", **_SLOW[kind], _SLOWNESS[kind]: rng.choice(SLOW_NS)}
        return [self.faults[kind].draw(rng.stream(kind), nodes=self.nodes, hold_ns=1, knobs=knobs)]

    def _hits(self, rng: Rng, rows: Sequence[Row], hold_ns: Ns, *, room: bool) -> list[PlannedFault]:
        """``room``: one more node may be taken out by the time the first event has come."""
        out: list[PlannedFault] = []
        for number, row in enumerate(rows):
            follows = number > 0 and row.event != "healed" and rng.chance(1, 2)
            on_heal = row.event == "healed"
            stream = rng.stream(f"hit-{number}")
            after = out[-1].name if follows else BASE
            held_ns = rng.between(hold_ns // 3, hold_ns * 2 // 3)
            if not self.pace.hasty and rng.chance(1, 2):
                held_ns = hold_ns  # long enough to see whether the remaining nodes recover
            first = hit(
                row,
                stream,
                kinds=self.faults,
                nodes=self.nodes,
                name=f"hit-{number + 1}",
                after=after,
                within_ns=hold_ns + HEAL_NS if on_heal else hold_ns,
                hold_ns=held_ns,
                promise=self.promise,
                room=room or on_heal,
            )
            out.append(first)
            room = room and first.hold_ns == 0
            if row.partner_deeds and room and stream.chance(4, 5):
                name = f"hit-{number + 1}-too"
                out.append(
                    partner(
                        row, first, stream, kinds=self.faults, nodes=self.nodes, name=name, hold_ns=held_ns, room=room
                    )
                )
                room = out[-1].hold_ns == 0
        return out

    def _room(self, planned: Sequence[PlannedFault]) -> bool:
        """Whether one more node may be taken out while these are in force."""
        out = sum(
            selectors.size(selectors.parse(fault.victims), self.nodes)
            for fault in planned
            if traits_of(self.faults[fault.kind]).takes_out and fault.hold_ns
        )
        return out < minority(self.nodes)


def _with_leader(victims: str) -> str:
    return victims if "leader" in victims else "leader"


def _unseats(demand: Demand) -> bool:
    return demand.who == "leader" and demand.traits.unseats


def _same_event(fault: PlannedFault, *, within_ns: Ns) -> OnEvent | None:
    """The event that this fault waits for, as an end; None where that would be the end itself."""
    if not isinstance(fault.when, OnEvent) or fault.when.event == "healed":
        return None
    return msgspec.structs.replace(fault.when, after="", within_ns=within_ns)


STRATEGY = TriggeredStrategy()
