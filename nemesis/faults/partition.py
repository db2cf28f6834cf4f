"""partition: directed cuts between hosts, in one of the shapes of ``dethrone.nemesis.shapes``.

Parameters: ``shape`` (a name of ``SHAPES``); or ``graph``, the name of one of ``dethrone.nemesis.orbits``, in which the
victim has place 0; or ``links``, a list of ``[selector, selector]``: what the one sends never arrives at the other; or
``cuts``, a list of ``[src, dst]`` by name, for exactly these (a replay).
``way``: ``drop`` (default): what is cut vanishes; ``reset``: TCP is answered with a reset, so that connections end at
once and their programs notice; ``new-only``: established connections work, and no new one is made.
``at_heal``: ``reset`` (default): connections that were cut are reset as the cut ends, so that programs connect again at
once; ``retransmit``: they are left to TCP, which waits the longer the longer the cut was.
``victims`` chooses what the shape is built around: the one side of ``halves``, the nodes that ``isolate`` and the
one-way shapes hit, the node in the middle of ``bridge`` and ``hub``, an end (or both) of a link, those that lose the
leader by ``from-leader``, the only one by ``constrained`` that can still reach a majority; ``all`` for the rest.

Guarantees: pure; what was resolved carries the cuts themselves, so a stored schedule means the same for ever. Out of
scope: clients: only links between nodes are cut.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.hoststate import HostState, with_cuts, without_new
from dethrone.harness.core.interfaces import ClusterView, FaultTraits, Shown, Who
from dethrone.harness.core.quorum import minority
from dethrone.harness.core.registry import unknown_name
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import PlannedFault
from dethrone.nemesis import orbits, selectors, shapes
from dethrone.nemesis.parameters import bad, check_known, check_times

WAYS = ("drop", "reset", "new-only")
AT_HEAL = ("reset", "retransmit")
Builder = Callable[[tuple[str, ...], tuple[str, ...], Rng], shapes.Cuts]


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """A shape by name: how it is built from (victims, all nodes, chance), and what it needs."""

    build: Builder
    nodes_min: int
    victims_max: int | None = None
    """None: any number short of all."""
    whole: bool = False
    """It is drawn over all nodes; the victims must be ``all``."""
    draws: tuple[str, ...]
    """The selectors that are drawn for it."""
    weight: int
    """How often it is drawn, against the others; 0: only in what several faults make up together."""
    follows: bool = False
    """It is built with the leader as the first of the nodes, and the victims are others."""


def _bridge(group: tuple[str, ...], nodes: tuple[str, ...], rng: Rng) -> shapes.Cuts:
    rest = rng.shuffle([node for node in nodes if node != group[0]])
    half = len(rest) // 2
    return shapes.bridge(group[0], rest[:half], rest[half:])


def _link(
    join: Callable[[str, str], shapes.Cuts],
) -> Builder:
    def build(group: tuple[str, ...], nodes: tuple[str, ...], rng: Rng) -> shapes.Cuts:
        first = group[0]
        others = group[1:] or tuple(node for node in nodes if node != first)
        return join(first, rng.choice(others))

    return build


SHAPES: Mapping[str, Shape] = {
    "halves": Shape(
        build=lambda group, nodes, _: shapes.halves(group, nodes),
        nodes_min=3,
        draws=("minority-with-leader", "minority"),
        weight=4,
    ),
    "isolate": Shape(
        build=lambda group, nodes, _: shapes.isolate(group, nodes),
        nodes_min=2,
        draws=("leader", "follower"),
        weight=4,
    ),
    "bridge": Shape(build=_bridge, nodes_min=3, victims_max=1, draws=("leader", "follower"), weight=2),
    "majorities-ring": Shape(
        build=lambda _, nodes, rng: shapes.majorities_ring(rng.shuffle(nodes)),
        nodes_min=4,
        whole=True,
        draws=("all",),
        weight=2,
    ),
    "one-link": Shape(
        build=_link(shapes.one_link), nodes_min=2, victims_max=2, draws=("leader", "follower:2"), weight=2
    ),
    "one-link-in": Shape(
        build=_link(lambda a, b: shapes.one_way((b,), (a,))), nodes_min=2, victims_max=2, draws=("leader",), weight=1
    ),
    "one-link-out": Shape(
        build=_link(lambda a, b: shapes.one_way((a,), (b,))), nodes_min=2, victims_max=2, draws=("leader",), weight=1
    ),
    "one-way-in": Shape(
        build=lambda group, nodes, _: shapes.one_way_in(group, nodes),
        nodes_min=2,
        draws=("leader", "follower"),
        weight=2,
    ),
    "one-way-out": Shape(
        build=lambda group, nodes, _: shapes.one_way_out(group, nodes),
        nodes_min=2,
        draws=("leader", "follower"),
        weight=2,
    ),
    "chain": Shape(
        build=lambda _, nodes, rng: shapes.chain(rng.shuffle(nodes)), nodes_min=4, whole=True, draws=("all",), weight=1
    ),
    "hub": Shape(
        build=lambda group, nodes, _: shapes.hub(group[0], nodes),
        nodes_min=4,
        victims_max=1,
        draws=("follower",),
        weight=1,
    ),
    "from-leader": Shape(
        build=lambda group, nodes, _: shapes.from_leader(group, nodes[0]),
        nodes_min=3,
        draws=("follower",),
        weight=0,
        follows=True,
    ),
    "constrained": Shape(
        build=lambda group, nodes, _: shapes.constrained(group[0], nodes[0], nodes),
        nodes_min=4,
        victims_max=1,
        draws=("follower",),
        weight=0,
        follows=True,
    ),
}


class PartitionFault:
    """See ``dethrone.harness.core.interfaces.Fault``."""

    kind = "partition"
    traits = FaultTraits(
        harms="network",
        takes_out=True,
        cuts=True,
        leaves_majority=True,
        nodes_min=2,
        owes=(Shown("leader-cut-off", "leader"), Shown("leader-in-majority", "follower", nodes_min=3)),
        touches=frozenset({"cuts"}),
    )

    def summary(self) -> str:
        """One line for ``list faults``."""
        return f"cut links between nodes: {', '.join(SHAPES)}"

    def check(self, fault: PlannedFault, *, nodes: int) -> None:
        """Raise ConfigError for bad parameters, too few nodes for the shape, or victims that do not fit it."""
        check_known(self.kind, fault.params, ("shape", "graph", "cuts", "links", "way", "at_heal"))
        _way(fault.params)
        if _at_heal(fault.params) == "retransmit" and _way(fault.params) != "drop":
            raise bad(self.kind, "at_heal", "retransmit", "only connections whose packets are dropped wait for TCP")
        check_times(fault)
        selector = selectors.check(fault.victims, nodes=nodes)
        if "cuts" in fault.params:
            _read_cuts(fault.params["cuts"])
            return
        if "graph" in fault.params:
            orbit = orbits.read(fault.params["graph"])
            if orbit.nodes > nodes or selectors.size(selector, nodes) != 1:
                raise bad(
                    self.kind, "graph", str(orbit), f"it is of {orbit.nodes} nodes, and one of them is the victim"
                )
            return
        if "links" in fault.params:
            for pair in _pairs("links", fault.params["links"]):
                for end in pair:
                    selectors.check(end, nodes=nodes)
            return
        name = fault.params.get("shape")
        shape = _shape(name)
        if nodes < shape.nodes_min:
            raise ConfigError(
                f"the shape {name!r} needs at least {shape.nodes_min} nodes, there are {nodes}",
                next_step="give more --nodes, or another shape",
            )
        count = selectors.size(selector, nodes)
        most = nodes - 1 if shape.victims_max is None else shape.victims_max
        if shape.whole and selector.kind != "all":
            raise bad(self.kind, "victims", fault.victims, f"the shape {name!r} is drawn over all nodes: write all")
        if not shape.whole and count > most:
            raise bad(self.kind, "victims", fault.victims, f"the shape {name!r} takes at most {most} of {nodes}")

    def draw(self, rng: Rng, *, nodes: int, hold_ns: Ns, knobs: Mapping[str, Any]) -> PlannedFault:
        """Any shape that this number of nodes allows, by weight. Knobs: ``shape``, ``victims``."""
        check_known(self.kind, knobs, ("shape", "victims", "way", "at_heal"))
        name = knobs.get("shape") or _draw_shape(rng, nodes)
        shape = _shape(name)
        fitting = [text for text in shape.draws if selectors.size(selectors.parse(text), nodes) < nodes]
        victims = knobs.get("victims") or rng.choice(fitting or shape.draws)
        way = {name: knobs[name] for name in ("way", "at_heal") if name in knobs}
        return PlannedFault(kind=self.kind, victims=victims, hold_ns=hold_ns, params={"shape": name, **way})

    def oblige(self, who: Who, rng: Rng, *, nodes: int, hold_ns: Ns, company: int) -> PlannedFault:
        """A complete partition. In company it takes one node only, to leave room for the others' victims."""
        shape, victims = "isolate", str(who)
        if not company and minority(nodes) > 1 and rng.chance(1, 2):
            shape = "halves"
            victims = "minority-with-leader" if who == "leader" else "minority"
        return PlannedFault(kind=self.kind, victims=victims, hold_ns=hold_ns, params={"shape": shape})

    def resolve(
        self, fault: PlannedFault, view: ClusterView, rng: Rng
    ) -> tuple[tuple[str, ...], Mapping[str, Any]] | str:
        """Victims, and the shape with its directed cuts as sorted pairs."""
        victims = selectors.resolve(selectors.parse(fault.victims), view, rng.stream("victims"))
        if isinstance(victims, str):
            return victims
        if "cuts" in fault.params:
            cuts = _read_cuts(fault.params["cuts"])
            absent = sorted({node for cut in cuts for node in cut} - set(view.nodes))
            if absent:
                return f"no node {', '.join(absent)} in this cluster"
        elif "links" in fault.params:
            found = _links(fault.params["links"], view, rng.stream("links"))
            if isinstance(found, str):
                return found
            cuts = found
        elif "graph" in fault.params:
            orbit = orbits.read(fault.params["graph"])
            others = [node for node in view.voters or view.nodes if node != victims[0]]
            places = (victims[0], *rng.stream("places").shuffle(others))
            if len(places) < orbit.nodes:
                return f"{len(places)} voting nodes, {orbit.nodes} wanted"
            cuts = frozenset((places[a], places[b]) for a, b in orbit.cuts)
        else:
            shape, nodes = _shape(fault.params.get("shape")), view.nodes
            if shape.follows:
                if view.leader is None or view.leader in victims:
                    return "no leader is known" if view.leader is None else f"{view.leader} leads now"
                nodes = (view.leader, *(node for node in nodes if node != view.leader))
            cuts = shape.build(victims, nodes, rng.stream("shape"))
        if not cuts:
            return "the shape cuts nothing here"
        return victims, {**fault.params, "cuts": [list(cut) for cut in sorted(cuts)]}

    def apply(
        self, state: Mapping[str, HostState], victims: tuple[str, ...], params: Mapping[str, Any]
    ) -> Mapping[str, HostState]:
        """``state`` plus the cuts in ``params``."""
        del victims  # the cuts say everything
        cuts, way = _read_cuts(params["cuts"]), _way(params)
        if way == "new-only":
            return without_new(state, cuts)
        return with_cuts(state, cuts, reset=way == "reset", lingers=_at_heal(params) == "retransmit")

    def needs(self) -> frozenset[str]:
        """It needs iptables in the hosts' network namespaces."""
        return frozenset({"iptables"})


def _way(params: Mapping[str, Any]) -> str:
    way = params.get("way", "drop")
    if not isinstance(way, str) or way not in WAYS:
        raise unknown_name("way to cut", str(way), WAYS)
    return way


def _at_heal(params: Mapping[str, Any]) -> str:
    what = params.get("at_heal", "reset")
    if not isinstance(what, str) or what not in AT_HEAL:
        raise unknown_name("way to heal", str(what), AT_HEAL)
    return what


def _shape(name: object) -> Shape:
    if not isinstance(name, str) or name not in SHAPES:
        raise unknown_name("partition shape", str(name), SHAPES)
    return SHAPES[name]


def _draw_shape(rng: Rng, nodes: int) -> str:
    fitting = [name for name, shape in SHAPES.items() for _ in range(shape.weight) if nodes >= shape.nodes_min]
    if not fitting:
        raise ConfigError(
            "a partition needs at least two nodes", next_step="give more --nodes, or leave partition out of --faults"
        )
    return rng.choice(fitting)


def _read_cuts(value: object) -> shapes.Cuts:
    """Pairs of names, as JSON gives them. Raises ConfigError."""
    cuts = _pairs("cuts", value)
    for src, dst in cuts:
        if src == dst:
            raise bad("partition", "cuts", [src, dst], "each cut is two different node names")
    return frozenset(cuts)


def _links(value: object, view: ClusterView, rng: Rng) -> shapes.Cuts | str:
    """The cuts of pairs of selectors; equal words select the same nodes. Or why they cannot be resolved now."""
    chosen: dict[str, tuple[str, ...]] = {}
    cuts: set[tuple[str, str]] = set()
    for pair in _pairs("links", value):
        for word in pair:
            if word not in chosen:
                found = selectors.resolve(selectors.parse(word), view, rng.stream(word))
                if isinstance(found, str):
                    return found
                chosen[word] = found
        cuts |= shapes.one_way(chosen[pair[0]], chosen[pair[1]])
    return frozenset(cuts)


def _pairs(name: str, value: object) -> list[tuple[str, str]]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise bad("partition", name, value, "a list of [src, dst] is needed")
    for pair in value:
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise bad("partition", name, pair, "each of them is two words")
    return [(str(src), str(dst)) for src, dst in value]


FAULT = PartitionFault()
