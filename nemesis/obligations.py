"""What a schedule must show for each fault kind that was asked for, and the planned faults that show it.

    partition  leader-cut-off       the leader without links to a quorum
               leader-in-majority   a partition that leaves the leader with a quorum
    kill       leader-killed, follower-killed
    pause      leader-paused, follower-paused
    clock      clock-stepped        a wall clock stepped
    restart    restarted            a node killed and restarted at once

A *demand* is one obligation to be met, or, for a kind that owes none, one fault of it. Guarantees: pure; demands that
``fit`` together never take more nodes than a minority out of action at once (one, where there is no minority), so a
quorum is left. Out of scope: when and in which order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal

import msgspec

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.interfaces import Fault
from dethrone.harness.core.quorum import minority
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import PlannedFault
from dethrone.nemesis.faults.clock import draw_step

Who = Literal["leader", "follower", "anybody"]

_PROCESS = ("kill", "stop", "restart", "pause")


class Demand(msgspec.Struct, frozen=True):
    """One fault of ``kind`` that hits ``who``; ``obligation`` is what it shows, "" for kinds that owe nothing."""

    kind: str
    who: Who
    obligation: str = ""


_OWED: Mapping[str, tuple[Demand, ...]] = {
    "partition": (
        Demand("partition", "leader", "leader-cut-off"),
        Demand("partition", "follower", "leader-in-majority"),
    ),
    "kill": (Demand("kill", "leader", "leader-killed"), Demand("kill", "follower", "follower-killed")),
    "pause": (Demand("pause", "leader", "leader-paused"), Demand("pause", "follower", "follower-paused")),
    "clock": (Demand("clock", "anybody", "clock-stepped"),),
    "restart": (Demand("restart", "anybody", "restarted"),),
}


def demands(kinds: Collection[str], *, nodes: int) -> list[list[Demand]]:
    """Per kind, in sorted order, what is owed by a cluster of ``nodes``. ConfigError where a kind makes no sense."""
    if "partition" in kinds and nodes < 2:
        raise ConfigError(
            "a partition needs at least two nodes", next_step="give more --nodes, or leave partition out of --faults"
        )
    out = []
    for kind in sorted(kinds):
        owed = [demand for demand in _OWED.get(kind, (Demand(kind, "anybody"),)) if _possible(demand, nodes)]
        out.append(owed)
    return out


def fit(group: Sequence[Demand], *, nodes: int) -> bool:
    """Whether these may be in force together."""
    kinds = [demand.kind for demand in group]
    if len(set(kinds)) < len(kinds):
        return False
    hard = [demand for demand in group if demand.kind != "clock"]
    if len(hard) < len(group) and hard and nodes == 1:
        return False  # the one clock cannot be measured while its process is gone
    if len(hard) < 2:
        return True
    if any(demand.kind not in (*_PROCESS, "partition") for demand in hard):
        return False  # a plug-in's fault: its effect on the nodes is unknown here
    if sum(demand.who == "leader" for demand in hard) > 1:
        return False  # a leader that is killed while cut off cannot show that it steps down
    if len(hard) <= minority(nodes):
        return True
    # Everything else needs one node that suffers two faults: one that is cut off, and then hit by the other.
    cut = next((demand for demand in hard if demand.kind == "partition"), None)
    others = [demand for demand in hard if demand is not cut]
    return cut is not None and len(others) == 1 and others[0].who in {"anybody", cut.who}


def faults_for(
    group: Sequence[Demand], rng: Rng, *, kinds: Mapping[str, Fault], nodes: int, hold_ns: Ns
) -> tuple[PlannedFault, ...]:
    """The planned faults of one step that meet these demands together, in the order in which they must begin."""
    hard = [demand for demand in group if demand.kind != "clock"]
    crowded = len(hard) > minority(nodes)
    planned = []
    for demand in sorted(group, key=_order(crowded=crowded and len(hard) > 1)):
        stream = rng.stream(demand.kind)
        if demand.kind == "clock":
            planned.append(_clock(stream, nodes, hold_ns, alone=not hard))
        elif demand.kind == "partition":
            planned.append(_partition(demand, stream, nodes, hold_ns, alone=len(hard) == 1))
        elif demand.kind in _PROCESS:
            shared = next((other for other in hard if other is not demand and crowded), None)
            planned.append(_process(demand, stream, nodes, hold_ns, company=len(hard) - 1, cut=shared))
        else:
            planned.append(kinds[demand.kind].draw(stream, nodes=nodes, hold_ns=hold_ns, knobs={}))
    return tuple(planned)


def _possible(demand: Demand, nodes: int) -> bool:
    if demand.obligation == "leader-in-majority":
        return nodes >= 3
    return nodes >= 2 or demand.who != "follower"


def _order(*, crowded: bool) -> Callable[[Demand], tuple[bool, bool, str]]:
    """Followers first, as selecting them needs a leader; a cut before the fault that hits the node it cuts off."""

    def key(demand: Demand) -> tuple[bool, bool, str]:
        late = demand.kind != "partition" if crowded else demand.who == "leader"
        return (demand.kind == "clock", late, demand.kind)

    return key


def _partition(demand: Demand, rng: Rng, nodes: int, hold_ns: Ns, *, alone: bool) -> PlannedFault:
    """A complete partition. In company it takes one node only, to leave room for the others' victims."""
    shape, victims = "isolate", str(demand.who)
    if alone and minority(nodes) > 1 and rng.chance(1, 2):
        shape = "halves"
        victims = "minority-with-leader" if demand.who == "leader" else "minority"
    return PlannedFault(kind="partition", victims=victims, hold_ns=hold_ns, params={"shape": shape})


def _process(demand: Demand, rng: Rng, nodes: int, hold_ns: Ns, *, company: int, cut: Demand | None) -> PlannedFault:
    """A fault of one node's process; of the node that ``cut`` cuts off, if there is no room for another victim.

    A leader that is cut off is left alone for half the time, to show that it steps down.
    """
    most, delay_ns = minority(nodes), 0
    victims: str = demand.who
    if cut is not None:
        victims = "cut-off"
        delay_ns = rng.between(hold_ns // 2, hold_ns * 3 // 4) if cut.who == "leader" else 0
    elif victims == "anybody":
        victims = "leader" if nodes == 1 or (not company and rng.chance(1, 2)) else "follower"
    elif victims == "follower" and not company and most > 1 and rng.chance(1, 3):
        victims = f"follower:{rng.between(2, most)}"
    held_ns = 0 if demand.kind == "restart" else hold_ns - delay_ns
    return PlannedFault(kind=demand.kind, victims=victims, delay_ns=delay_ns, hold_ns=held_ns)


def _clock(rng: Rng, nodes: int, hold_ns: Ns, *, alone: bool) -> PlannedFault:
    """A step of one node's clock, with any leader: by a selector that can always be resolved.

    In company it comes after the others, which may have ended processes, and hits enough nodes that one runs.
    """
    few = f"random:{rng.between(1, max(1, minority(nodes)))}"
    victims = rng.choice((few, "majority", "all") if alone else ("majority", "all"))
    delay_ns = 0 if alone else rng.between(0, hold_ns // 2)
    return PlannedFault(
        kind="clock", victims=victims, delay_ns=delay_ns, hold_ns=hold_ns - delay_ns, params=draw_step(rng)
    )
