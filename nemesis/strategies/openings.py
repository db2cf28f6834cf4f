"""What a step may begin with besides a clean cut or kill: partial partitions, deaf and mute nodes, bad disks and links.

Most faults in the field are of this kind: something still works, so that no node is sure to notice. And what may come
on the node that was hit, or was spared, a moment later: a stepped clock, a pause, a slow disk.

Guarantees: pure; only kinds that are asked for; no node is taken out of action that was not already. Out of scope: when
the step ends.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.interfaces import Fault, traits_of
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.quorum import minority
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import AfterFault, PlannedFault
from dethrone.nemesis import selectors
from dethrone.nemesis.faults.clock import draw_step
from dethrone.nemesis.faults.disk import HANG_NS
from dethrone.nemesis.faults.partition import SHAPES
from dethrone.nemesis.strategies.durations import MOMENT_NS, around, log_between

KINDS: Mapping[str, int] = {"partition": 6, "disk": 3, "link": 1}
"""Kinds that leave something working, by weight."""

PARTIAL: Mapping[str, int] = {
    "one-way-in": 6,
    "one-link": 4,
    "one-way-out": 2,
    "bridge": 2,
    "one-link-out": 1,
    "one-link-in": 1,
    "chain": 1,
    "hub": 1,
    "majorities-ring": 1,
}
"""Shapes that are no complete partition, by weight."""

FALLING: Mapping[str, int] = {"kill": 2, "partition": 2, "pause": 1, "powerloss": 1}
"""What takes the leader out while another node is half broken, by weight."""

COMPANY: Mapping[str, int] = {"clock": 9, "disk": 2, "pause": 2, "link": 1}
"""What may come upon a node in trouble, by weight."""


def weighted(rng: Rng, weights: Mapping[str, int], among: Collection[str]) -> str | None:
    """One of ``among``, by weight, in the order of the weights; None: there is none."""
    names = [name for name, weight in weights.items() if name in among for _ in range(weight)]
    return rng.choice(names) if names else None


def partial_shapes(nodes: int) -> list[str]:
    """Those that this number of nodes allows, and that are not the whole of a partition there."""
    return [name for name in PARTIAL if nodes >= max(3, SHAPES[name].nodes_min)]


def opening(rng: Rng, *, kinds: Mapping[str, Fault], nodes: int, hold_ns: Ns, promise: Promise) -> PlannedFault | None:
    """Something that leaves something working, of the leader's or a follower's; None where no such kind is there."""
    able = [kind for kind in KINDS if kind in kinds and (kind != "partition" or partial_shapes(nodes))]
    kind = weighted(rng, KINDS, able)
    if kind is None:
        return None
    victims = rng.choice(("leader", "follower"))
    knobs: dict[str, Any] = {"victims": victims}
    if kind == "partition":
        name = weighted(rng, PARTIAL, partial_shapes(nodes))
        if name is None or victims not in SHAPES[name].draws:
            knobs = {}
        knobs["shape"] = name
    if kind == "disk" and rng.chance(3, 4):  # a node that runs without progress is noticed last
        knobs |= {"how": "slow", "latency_ns": HANG_NS if rng.chance(1, 2) else around(rng, promise)}
    return kinds[kind].draw(rng.stream(kind), nodes=nodes, hold_ns=hold_ns, knobs=knobs)


def fall(
    rng: Rng, base: PlannedFault, *, kinds: Mapping[str, Fault], nodes: int, hold_ns: Ns, promise: Promise
) -> PlannedFault | None:
    """The leader is lost while ``base``, a named fault of others, is in force; None where nothing can take it out."""
    kind = weighted(rng, FALLING, kinds)
    if kind is None:
        return None
    longest_ns = max(promise.heartbeat_ns, 1) * 8
    delay_ns = min(log_between(rng, max(1, promise.heartbeat_ns // 2), longest_ns), hold_ns // 4)
    knobs: dict[str, Any] = {"victims": "leader"}
    if kind == "partition":
        knobs["shape"] = "isolate"
    drawn = kinds[kind].draw(rng.stream(kind), nodes=nodes, hold_ns=hold_ns, knobs=knobs)
    return msgspec.structs.replace(
        drawn, when=AfterFault(fault=base.name), delay_ns=delay_ns, hold_ns=hold_ns - delay_ns
    )


def company(
    rng: Rng, base: PlannedFault, *, kinds: Mapping[str, Fault], nodes: int, hold_ns: Ns, promise: Promise
) -> PlannedFault | None:
    """What comes upon those whom ``base``, a named fault, hit or spared, within the time that makes a difference."""
    gone = traits_of(kinds[base.kind]).ends_process
    able = [kind for kind in COMPANY if kind in kinds and kind != base.kind and not (gone and kind != "clock")]
    few = selectors.size(selectors.parse(base.victims), nodes) <= minority(nodes)
    if not (few and base.kind == "partition"):  # else one more node would be out of action
        able = [kind for kind in able if kind != "pause"]
    kind = weighted(rng, COMPANY, able)
    if kind is None:
        return None
    hit, spared = f"hit-by:{base.name}", f"spared-by:{base.name}"
    everybody = selectors.size(selectors.parse(base.victims), nodes) >= nodes
    if everybody or kind != "clock":
        victims = hit
    elif gone:
        victims = rng.choice((spared, "all"))
    else:
        victims = rng.choice((hit, hit, spared, "all"))
    if gone and everybody:
        return None
    delay_ns = min(log_between(rng, MOMENT_NS, max(MOMENT_NS, 2 * promise.election_timeout_ns)), hold_ns // 2)
    held_ns = hold_ns - delay_ns
    if kind == "pause" or rng.chance(1, 4):
        held_ns = min(held_ns, around(rng, promise))
    knobs: dict[str, Any] = {"victims": victims}
    if kind == "clock":
        size = abs(draw_step(rng.stream("step"))["offset_ns"])
        knobs["offset_ns"] = -size if rng.chance(2, 3) else size  # set back, it makes time that is over last on
    drawn = kinds[kind].draw(rng.stream(kind), nodes=nodes, hold_ns=held_ns, knobs=knobs)
    return msgspec.structs.replace(drawn, when=AfterFault(fault=base.name), delay_ns=delay_ns)
