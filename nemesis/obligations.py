"""What a schedule must show for each fault kind that was asked for, and the planned faults that show it.

What that is, each kind declares (``FaultTraits.owes``): ``leader-cut-off``, ``follower-killed``, ``restarted`` …

A *demand* is one obligation to be met, or, for a kind that owes none, one fault of it. Guarantees: pure; demands that
``fit`` together never take more nodes than a minority out of action at once (one, where there is no minority), so a
quorum is left. Out of scope: when and in which order (``strategies``), that each kind that was asked for is in a plan
at least once or the plan is refused (``dethrone.harness.engine.run.schedule_draw``), and whether it took place
(``dethrone.checkers.coverage``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.interfaces import Fault, FaultTraits, Obliging, Who, traits_of
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.quorum import minority
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import PlannedFault


class Demand(msgspec.Struct, frozen=True):
    """One fault of ``kind`` that hits ``who``; ``obligation`` is what it shows, "" for kinds that owe nothing."""

    kind: str
    who: Who
    obligation: str = ""
    traits: FaultTraits = FaultTraits()
    """Of the kind."""


def demands(kinds: Mapping[str, Fault], *, nodes: int) -> list[list[Demand]]:
    """Per kind, in sorted order, what is owed by a cluster of ``nodes``. ConfigError where a kind makes no sense."""
    out = []
    for kind in sorted(kinds):
        traits = traits_of(kinds[kind])
        if nodes < traits.nodes_min:
            raise ConfigError(
                f"the fault {kind!r} needs at least {traits.nodes_min} nodes",
                next_step=f"give more --nodes, or leave {kind} out of --faults",
            )
        owed = [
            Demand(kind, shown.who, shown.name, traits)
            for shown in traits.owes
            if nodes >= shown.nodes_min and (nodes >= 2 or shown.who != "follower")
        ]
        out.append(owed if traits.owes else [Demand(kind, "anybody", traits=traits)])
    return out


def fit(group: Sequence[Demand], *, nodes: int) -> bool:
    """Whether these may be in force together."""
    kinds = [demand.kind for demand in group]
    if len(set(kinds)) < len(kinds):
        return False
    hard = _hard(group)
    if len(hard) < len(group) and hard and nodes == 1:
        return False  # what is mild needs a process that runs
    if len(hard) < 2:
        return True
    if any(not demand.traits.cuts and demand.traits.harms != "process" for demand in hard):
        return False  # its effect on the nodes is unknown here
    if sum(demand.who == "leader" for demand in hard) > 1:
        return False  # a leader that is killed while cut off cannot show that it steps down
    if len(hard) <= minority(nodes):
        return True
    # Everything else needs one node that suffers two faults: one that is cut off, and then hit by the other.
    cut = next((demand for demand in hard if demand.traits.cuts), None)
    others = [demand for demand in hard if demand is not cut]
    return cut is not None and len(others) == 1 and others[0].who in {"anybody", cut.who}


def faults_for(
    group: Sequence[Demand], rng: Rng, *, kinds: Mapping[str, Fault], nodes: int, hold_ns: Ns, promise: Promise
) -> tuple[PlannedFault, ...]:
    """The planned faults of one step that meet these demands together, in the order in which they must begin."""
    hard = _hard(group)
    crowded = len(hard) > minority(nodes)
    planned = []
    for demand in sorted(group, key=_order(crowded=crowded and len(hard) > 1)):
        kind, stream = kinds[demand.kind], rng.stream(demand.kind)
        company = sum(other is not demand for other in hard)
        if isinstance(kind, Obliging):
            planned.append(kind.oblige(demand.who, stream, nodes=nodes, hold_ns=hold_ns, company=company))
        elif demand.traits.harms == "process":
            shared = next((other for other in hard if other is not demand and crowded), None)
            planned.append(
                _process(demand, kind, stream, nodes, hold_ns, alone_ns=_alone_ns(promise), company=company, cut=shared)
            )
        else:
            knobs = {} if demand.who == "anybody" else {"victims": demand.who}
            planned.append(kind.draw(stream, nodes=nodes, hold_ns=hold_ns, knobs=knobs))
    return tuple(planned)


def least_hold_ns(group: Sequence[Demand], promise: Promise) -> Ns:
    """How long a step of these must hold for a leader that it cuts off to show that it steps down; 0: there is none."""
    cuts_leader = any(demand.traits.cuts and demand.who == "leader" for demand in group)
    return _alone_ns(promise) * 8 // 7 if cuts_leader else 0


def _alone_ns(promise: Promise) -> Ns:
    """For so long nothing else hits a leader that is cut off."""
    return (promise.step_down_ns or 0) * 6 // 5


def _hard(group: Sequence[Demand]) -> list[Demand]:
    return [demand for demand in group if not demand.traits.mild]


def _order(*, crowded: bool) -> Callable[[Demand], tuple[bool, bool, str]]:
    """Followers first, as selecting them needs a leader; a cut before the fault that hits the node it cuts off."""

    def key(demand: Demand) -> tuple[bool, bool, str]:
        late = not demand.traits.cuts if crowded else demand.who == "leader"
        return (demand.traits.mild, late, demand.kind)

    return key


def _process(
    demand: Demand, kind: Fault, rng: Rng, nodes: int, hold_ns: Ns, *, alone_ns: Ns, company: int, cut: Demand | None
) -> PlannedFault:
    """A fault of one node's process; of the node that ``cut`` cuts off, if there is no room for another victim.

    A leader that is cut off is left alone for half the time, or for ``alone_ns`` as far as that leaves an eighth of it.
    """
    most, delay_ns = minority(nodes), 0
    victims: str = demand.who
    if cut is not None:
        victims = "cut-off"
        if cut.who == "leader":
            least_ns = max(hold_ns // 2, min(alone_ns, hold_ns * 7 // 8))
            delay_ns = rng.between(least_ns, max(least_ns, hold_ns * 3 // 4))
    elif victims == "anybody":
        victims = "leader" if nodes == 1 or (not company and rng.chance(1, 2)) else "follower"
    elif victims == "follower" and not company and most > 1 and rng.chance(1, 3):
        victims = f"follower:{rng.between(2, most)}"
    drawn = kind.draw(rng, nodes=nodes, hold_ns=hold_ns - delay_ns, knobs={"victims": victims})
    return msgspec.structs.replace(drawn, delay_ns=delay_ns)
