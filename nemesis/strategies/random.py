"""The strategy ``random``: whole schedules from a seed, whose first steps meet every coverage obligation they can.

A step is hold, heal, health (awaited by the driver), gap; ``pacing`` says how long.

Guarantees: the same seed and arguments give the same schedule; each named sub-stream moves alone; no step takes more
than a minority out of action by kills and pauses; what could not be fitted into the time limit is not in
``obligations``. Out of scope: resolving selectors and carrying anything out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.interfaces import Fault
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import PlannedFault, Schedule, Step
from dethrone.nemesis.leaderless import hitting_anybody
from dethrone.nemesis.obligations import Demand, demands, faults_for, fit, least_hold_ns
from dethrone.nemesis.strategies.pacing import STEPS_MAX, pace_of
from dethrone.nemesis.strategies.packing import pack, pack_most
from dethrone.nemesis.strategies.zonal import in_zones


class RandomStrategy:
    """See ``dethrone.harness.core.interfaces.Strategy``, ``Thorough``, ``Brisk`` and ``Zoning``. ``each_kind``: each
    kind before anything else."""

    def __init__(
        self, *, each_kind: bool = False, gap_ns_max: Ns | None = None, zones: Mapping[str, str] | None = None
    ) -> None:
        self._each_kind = each_kind
        self._gap_ns_max = gap_ns_max
        self._zones = zones or {}

    def thorough(self) -> RandomStrategy:
        """See ``Thorough``."""
        return RandomStrategy(each_kind=True, gap_ns_max=self._gap_ns_max, zones=self._zones)

    def brisk(self, gap_most_ns: Ns) -> RandomStrategy:
        """See ``Brisk``."""
        return RandomStrategy(each_kind=self._each_kind, gap_ns_max=gap_most_ns, zones=self._zones)

    def zoned(self, zones: Mapping[str, str]) -> RandomStrategy:
        """See ``Zoning``."""
        return RandomStrategy(each_kind=self._each_kind, gap_ns_max=self._gap_ns_max, zones=zones)

    def draw(
        self, rng: Rng, *, faults: Mapping[str, Fault], nodes: int, time_limit_ns: Ns, interval_ns: Ns, promise: Promise
    ) -> Schedule:
        """A schedule of these fault kinds; ConfigError if the time limit is shorter than one fault."""
        if not faults:
            return Schedule(seed=rng.seed, strategy="random", steps=())
        pace = pace_of(
            time_limit_ns=time_limit_ns, interval_ns=interval_ns, promise=promise, gap_ns_max=self._gap_ns_max
        )
        anything = [demand for kind in demands(faults, nodes=nodes) for demand in kind]
        slots, budget_ns = pace.slots(pace.more_ns(least_hold_ns(anything, promise))), pace.budget_ns
        owed, groups = owed_groups(rng, faults, slots=slots, nodes=nodes, each_kind=self._each_kind)
        met = {demand.obligation for group in groups for demand in group}
        more_ns = [pace.more_ns(least_hold_ns(group, promise)) for group in groups]
        steps: list[Step] = []
        while budget_ns >= pace.least_ns and len(steps) < STEPS_MAX:
            number = len(steps)
            stream = rng.stream(f"step-{number}")
            waiting = max(0, len(groups) - number - 1)
            slack_ns = budget_ns - (waiting + 1) * pace.least_ns - sum(more_ns[number + 1 :])
            due = number < len(groups)
            times = rng.stream(f"times-{number}")
            hold_ns, gap_ns = pace.times(times, slack_ns, more_ns=more_ns[number] if due else 0)
            group = groups[number] if due else extra(stream, owed, nodes=nodes)
            planned = free(stream, group, kinds=faults, nodes=nodes, hold_ns=hold_ns, promise=promise)
            steps.append(Step(faults=planned, gap_ns=gap_ns))
            budget_ns -= pace.cost(hold_ns, gap_ns)
        drawn = Schedule(
            seed=rng.seed,
            strategy="random",
            steps=tuple(steps),
            obligations=tuple(sorted(name for name in met if name)),
            health_bound_ns=pace.health_bound_ns,
        )
        if promise.leaderless:
            return hitting_anybody(drawn, nodes=nodes)
        return in_zones(drawn, rng.stream("zones"), faults=faults, zones=self._zones)


def owed_groups(
    rng: Rng, kinds: Mapping[str, Fault], *, slots: int, nodes: int, each_kind: bool = False
) -> tuple[list[Demand], list[list[Demand]]]:
    """All that these kinds owe, in order of importance, and as much of it as fits in groups, one a step.

    ``each_kind``: one of each kind comes first, where there is any way to fit that in.
    """
    owed = _ranked(rng.stream("order"), demands(kinds, nodes=nodes))
    if len(pack_most(owed, slots, partial(fit, nodes=nodes))[1]) < len(owed):  # what shows most, then: elections follow
        owed = _ranked(rng.stream("order"), demands(kinds, nodes=nodes), leader_first=True)
    if each_kind:
        owed = _one_of_each(owed, demands(kinds, nodes=nodes), slots=slots, nodes=nodes)
    return owed, _groups(rng.stream("groups"), owed, slots=slots, nodes=nodes)


def _one_of_each(
    owed: Sequence[Demand], per_kind: Sequence[Sequence[Demand]], *, slots: int, nodes: int
) -> list[Demand]:
    """The same demands, but first one of each kind such that they fit; unchanged if none do."""
    fits = partial(fit, nodes=nodes)
    choices = [sorted(kind, key=owed.index) for kind in per_kind if kind]
    first = next((chosen for chosen in product(*choices) if pack(chosen, slots, fits) is not None), ())
    return [*first, *(demand for demand in owed if demand not in first)]


def fewest_groups(
    rng: Rng, kinds: Mapping[str, Fault], *, slots: int, nodes: int
) -> tuple[list[Demand], list[list[Demand]]]:
    """As ``owed_groups``, but without what no obligation asks for, and as few groups as hold the rest."""
    owed, groups = owed_groups(rng, kinds, slots=slots, nodes=nodes)
    kept = [demand for group in groups for demand in group if demand.obligation]
    for few in range(1, len(groups)):
        packed = pack(kept, few, partial(fit, nodes=nodes))
        if packed is not None:
            return owed, rng.stream("fewest").shuffle(packed)
    return owed, [kept for kept in ([d for d in group if d.obligation] for group in groups) if kept]


def free(
    rng: Rng, group: Sequence[Demand] | None, *, kinds: Mapping[str, Fault], nodes: int, hold_ns: Ns, promise: Promise
) -> tuple[PlannedFault, ...]:
    """The faults of one step: what the group demands; None: a single free draw."""
    if group is not None:
        return faults_for(group, rng, kinds=kinds, nodes=nodes, hold_ns=hold_ns, promise=promise)
    kind = rng.choice(sorted(kinds))
    return (kinds[kind].draw(rng.stream(kind), nodes=nodes, hold_ns=hold_ns, knobs={}),)


def _ranked(rng: Rng, owed: Sequence[Sequence[Demand]], *, leader_first: bool = False) -> list[Demand]:
    """All demands in drawn order, but each kind's first before any kind's second: a short run shows one of each.

    What no obligation asks for comes last. ``leader_first``: within a kind, what hits the leader.
    """
    per_kind = [rng.shuffle(kind) for kind in rng.shuffle(owed)]
    if leader_first:
        per_kind = [sorted(kind, key=lambda demand: demand.who != "leader") for kind in per_kind]
    longest = max(len(kind) for kind in per_kind)
    ranked = [kind[rank] for rank in range(longest) for kind in per_kind if rank < len(kind)]
    return sorted(ranked, key=lambda demand: not demand.obligation)


def _groups(rng: Rng, owed: Sequence[Demand], *, slots: int, nodes: int) -> list[list[Demand]]:
    """The demands in groups, one a step: as many as fit into ``slots``, sometimes a step fewer than there is room."""
    fits = partial(fit, nodes=nodes)
    groups, kept = pack_most(owed, slots, fits)
    if len(groups) == slots and slots > 1 and rng.chance(1, 2):
        denser = pack(kept, slots - 1, fits)
        groups = groups if denser is None else denser
    return rng.shuffle(groups)


def extra(rng: Rng, owed: Sequence[Demand], *, nodes: int) -> list[Demand] | None:
    """Two faults that overlap, one time in three; None: a single free draw."""
    if len(owed) < 2 or not rng.chance(1, 3):
        return None
    pair = rng.sample(owed, 2)
    return pair if fit(pair, nodes=nodes) else None


STRATEGY = RandomStrategy()
