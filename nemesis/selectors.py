"""Who a fault hits: selectors as text, parsed, and resolved against what the harness believes right now.

    leader                 the node that leads
    follower, follower:2   that many running voters that do not lead
    minority-with-leader   the leader and as many others as a minority has
    minority               a minority without the leader
    majority               as many nodes as a quorum, drawn from all
    cut-off                a running node that the desired state cuts from every quorum; while there is none: a follower
    outsider               a node that does not vote: an observer, a coordination service
    random, random:2       that many nodes, drawn from all
    node:n3, node:n1,n2    exactly these
    zone:a, zone:a,b       every node of these zones
    zone:leader            every node of the zone that the leader is in
    zone:other             every node of another zone, one with a minority of the voters at most
    all                    every node

Of a fault that an event triggered, relative to that event:

    actor                  the node of the event
    candidate, voter       who stood, one who voted, where the event names them; voters: all who did
    receiver               to whom a frame was sent
    peer, peer:2           that many running nodes other than the actor; peers: every other node

Of a fault in a step with named faults:

    hit-by:a, hit-by:a,b   whom the faults of these names hit
    spared-by:a,b          everybody else

Followers, minorities, majorities and quorums are of the voters: an observer or a coordination service is among
outsiders, ``random``, ``all``, peers and names only. Guarantees: pure; an unknown selector is a ConfigError with the
nearest known one; a selector that cannot be resolved now (no leader is known) is a reason in words, never a guess.
Out of scope: what is done to the nodes.
"""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.interfaces import ClusterView
from dethrone.harness.core.quorum import minority, quorum
from dethrone.harness.core.registry import unknown_name
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.zones import LEADERS, OTHER, members

COUNTED = ("follower", "random", "peer")
"""Selectors that take ``:k``."""

NAMING = ("node", "zone", "hit-by", "spared-by")
"""Selectors that take names: of nodes, of zones, or of faults."""

_EXAMPLES = {"node": "node:n3 or node:n1,n2", "zone": "zone:a or zone:leader"}

OF_EVENT = ("actor", "candidate", "voter", "voters", "receiver", "peer", "peers")
"""Selectors that speak of the event that triggered the fault."""

KINDS = (
    "leader",
    "follower",
    "minority-with-leader",
    "minority",
    "majority",
    "cut-off",
    "outsider",
    "random",
    "all",
    *NAMING,
    *OF_EVENT,
)

_FORM = re.compile(r"([a-z-]+)(?:[:\s]\s*(\S.*)?)?")
_OUR_NAMES = re.compile(r"n([1-9]\d*)")


class Selector(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed selector. ``count`` for the counted kinds, ``names`` for the naming ones."""

    kind: str
    count: int = 1
    names: tuple[str, ...] = ()


@lru_cache(maxsize=256)  # for each fault that begins
def parse(text: str) -> Selector:
    """The selector that ``text`` names; spaces serve as well as hyphens and the colon. Raises ConfigError."""
    words = text.strip().lower()
    kind, rest = words, ""
    if words.replace(" ", "-") in KINDS:
        kind = words.replace(" ", "-")
    elif (match := _FORM.fullmatch(words)) is not None:
        kind, rest = match[1], (match[2] or "").strip()
    if kind not in KINDS:
        raise unknown_name("selector", text.strip(), KINDS)
    if kind in NAMING:
        # Names keep their case: they belong to the user.
        names = tuple(dict.fromkeys(name for name in re.split(r"[,\s]+", text.strip()[len(kind) + 1 :]) if name))
        if not names:
            what = kind if kind in _EXAMPLES else "fault"
            raise _bad(text, f"it names no {what}", f"write {_EXAMPLES.get(kind, f'{kind}:a')}")
        return Selector(kind=kind, names=names)
    if not rest:
        return Selector(kind=kind)
    if kind not in COUNTED:
        raise _bad(text, f"{kind!r} takes no number", f"write {kind}")
    if not rest.isascii() or not rest.isdigit() or int(rest) < 1:
        raise _bad(text, f"{rest!r} is not a number of nodes", f"write {kind}:2")
    return Selector(kind=kind, count=int(rest))


def size(selector: Selector, nodes: int) -> int:
    """How many nodes it selects out of ``nodes``, as far as that is known before anything happened; else 1."""
    if selector.kind in COUNTED:
        return selector.count
    sizes = {
        "minority-with-leader": minority(nodes),
        "minority": minority(nodes),
        "majority": quorum(nodes),
        "node": len(selector.names),
        "all": nodes,
        "peers": nodes - 1,
    }
    return sizes.get(selector.kind, 1)


def check(text: str, *, nodes: int) -> Selector:
    """Parse, and raise ConfigError when a cluster of ``nodes`` can never have that many, or such, victims."""
    selector = parse(text)
    count = size(selector, nodes)
    most = nodes - 1 if selector.kind in {"follower", "cut-off", "peer"} else nodes
    if count > most:
        raise ConfigError(
            f"more victims than nodes: {text!r} selects {count} of {nodes}",
            cause=f"at most {most} can be selected that way",
            next_step="lower the number, or give more --nodes",
        )
    if count < 1:
        raise ConfigError(
            f"{text!r} selects none of {nodes}",
            cause="so small a cluster has no minority",
            next_step="give at least 3 --nodes, or another selector",
        )
    for name in selector.names if selector.kind == "node" else ():
        match = _OUR_NAMES.fullmatch(name)
        if match is not None and int(match[1]) > nodes:
            raise ConfigError(f"no node {name!r} among {nodes}", next_step=f"known: n1 … n{nodes}")
    return selector


def resolve(selector: Selector, view: ClusterView, rng: Rng) -> tuple[str, ...] | str:
    """The victims' names, sorted; or why there are none now."""
    kind, nodes = selector.kind, view.nodes
    if kind == "all":
        return tuple(sorted(nodes))
    if kind == "node":
        absent = [name for name in selector.names if name not in nodes]
        return f"no node {', '.join(absent)} in this cluster" if absent else tuple(sorted(selector.names))
    if kind in OF_EVENT:
        return _of_event(selector, view, rng)
    if kind == "zone":
        return _of_zones(selector, view, rng)
    if kind in NAMING:
        return _of_faults(selector, view)
    voters = view.voters or nodes
    if kind in {"random", "majority"}:
        among = nodes if kind == "random" else voters
        count = size(selector, len(among))
        if count > len(among):
            return f"{count} of {len(among)} nodes cannot be selected"
        return tuple(sorted(rng.sample(among, count)))
    if kind == "outsider":
        outside = [node for node in nodes if node not in voters]
        return (rng.choice(outside),) if outside else "every node votes"
    if kind == "cut-off":
        cut = [node for node in running(view) if node in voters and not reaches_quorum(node, view)]
        if cut:
            return (rng.choice(cut),)
    if view.leader is None:
        return "no leader is known"
    if kind == "leader":
        return (view.leader,)
    others = [node for node in voters if node != view.leader]
    few = minority(len(voters))
    if few < 1 and kind in {"minority", "minority-with-leader"}:
        return f"{len(voters)} voters have no minority"
    if kind == "minority-with-leader":
        return tuple(sorted((view.leader, *rng.sample(others, few - 1))))
    if kind == "minority":
        return tuple(sorted(rng.sample(others, few)))
    free = [node for node in running(view) if node in voters and node != view.leader]
    if len(free) < selector.count:
        return f"{len(free)} running followers, {selector.count} wanted"
    return tuple(sorted(rng.sample(free, selector.count)))


def _of_event(selector: Selector, view: ClusterView, rng: Rng) -> tuple[str, ...] | str:
    """Who is meant by a word about the event that triggered this fault."""
    kind, seen = selector.kind, view.occurrence
    if seen is None:
        return f"{kind!r} speaks of an event, and this fault waits for none"
    if kind in {"peer", "peers"}:
        actors = seen.roles.get("actor", ())
        if kind == "peers":
            others = [node for node in view.nodes if node not in actors]
            return tuple(sorted(others)) if others else "the event's node is the only one"
        free = [node for node in running(view) if node not in actors]
        if len(free) < selector.count:
            return f"{len(free)} running peers of the event's node, {selector.count} wanted"
        return tuple(sorted(rng.sample(free, selector.count)))
    known = [node for node in seen.roles.get(kind.removesuffix("s"), ()) if node in view.nodes]
    if not known:
        return f"the event {seen.event!r} names no {kind.removesuffix('s')}"
    return (rng.choice(known),) if kind == "voter" else tuple(sorted(known))


def _of_zones(selector: Selector, view: ClusterView, rng: Rng) -> tuple[str, ...] | str:
    """Every node of these zones."""
    by_zone, chosen = members(view.zones), set()
    if not by_zone:
        return "no host has a zone"
    for name in selector.names:
        zone = name
        if name in {LEADERS, OTHER}:
            if view.leader is None:
                return "no leader is known"
            zone = view.zones.get(view.leader, "")
            if not zone:
                return f"the leader {view.leader} is in no zone"
        if name == OTHER:
            voters = set(view.voters or view.nodes)
            few = [
                label
                for label, nodes in by_zone.items()
                if label != zone and len(voters & set(nodes)) <= minority(len(voters))
            ]
            if not few:
                return "no other zone has a minority of the voters at most"
            zone = rng.choice(few)
        if zone not in by_zone:
            return f"no host is in the zone {zone!r}: known are {', '.join(by_zone)}"
        chosen |= set(by_zone[zone])
    return tuple(sorted(chosen))


def _of_faults(selector: Selector, view: ClusterView) -> tuple[str, ...] | str:
    """Whom earlier faults hit, or spared."""
    absent = [name for name in selector.names if name not in view.hit]
    if absent:
        return f"no fault called {', '.join(absent)} was in force before"
    hit = {node for name in selector.names for node in view.hit[name]}
    chosen = hit if selector.kind == "hit-by" else set(view.nodes) - hit
    return tuple(sorted(chosen)) if chosen else f"no node was spared by {', '.join(selector.names)}"


def running(view: ClusterView) -> list[str]:
    """Nodes whose process is wanted up and running, in the view's order."""
    return [node for node in view.nodes if view.state[node].down is None and not view.state[node].frozen]


def reaches_quorum(node: str, view: ClusterView) -> bool:
    """Whether the desired state leaves ``node`` two-way links to a quorum, itself included."""
    state = view.state
    voters = view.voters or view.nodes
    linked = [
        other for other in voters if other == node or (other not in state[node].cuts and node not in state[other].cuts)
    ]
    return len(linked) >= quorum(len(voters))


def _bad(text: str, why: str, next_step: str) -> ConfigError:
    return ConfigError(f"bad selector {text.strip()!r}: {why}", next_step=next_step)
