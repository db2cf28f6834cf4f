"""Who a fault hits: selectors as text, parsed, and resolved against what the harness believes right now.

    leader                 the node that leads
    follower, follower:2   that many running nodes that do not lead
    minority-with-leader   the leader and as many others as a minority has
    minority               a minority without the leader
    majority               as many nodes as a quorum, whoever they are
    cut-off                a running node that the desired state cuts from every quorum; while there is none: a follower
    random, random:2       that many nodes, whoever they are
    node:n3, node:n1,n2    exactly these
    all                    every node

Promises: pure; an unknown selector is a ConfigError with the nearest known one; a selector that cannot be resolved now
(no leader is known) is a reason in words, never a guess. Leaves out what is done to the nodes.
"""

from __future__ import annotations

import re

import msgspec

from harness.core.errors import ConfigError
from harness.core.protocols import ClusterView
from harness.core.quorum import minority, quorum
from harness.core.registry import unknown_name
from harness.core.rng import Rng

COUNTED = ("follower", "random")
"""Selectors that take ``:k``."""

KINDS = ("leader", "follower", "minority-with-leader", "minority", "majority", "cut-off", "random", "node", "all")

_FORM = re.compile(r"([a-z-]+)(?:[:\s]\s*(\S.*)?)?")
_OUR_NAMES = re.compile(r"n([1-9]\d*)")


class Selector(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed selector. ``count`` for the counted kinds, ``names`` for ``node``."""

    kind: str
    count: int = 1
    names: tuple[str, ...] = ()


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
    if kind == "node":
        # Node names keep their case: they are somebody's own.
        names = tuple(dict.fromkeys(name for name in re.split(r"[,\s]+", text.strip()[len("node:") :]) if name))
        if not names:
            raise _bad(text, "it names no node", "write node:n3 or node:n1,n2")
        return Selector(kind=kind, names=names)
    if not rest:
        return Selector(kind=kind)
    if kind not in COUNTED:
        raise _bad(text, f"{kind!r} takes no number", f"write {kind}")
    if not rest.isascii() or not rest.isdigit() or int(rest) < 1:
        raise _bad(text, f"{rest!r} is not a number of nodes", f"write {kind}:2")
    return Selector(kind=kind, count=int(rest))


def size(selector: Selector, nodes: int) -> int:
    """How many nodes it selects out of ``nodes``."""
    if selector.kind in COUNTED:
        return selector.count
    sizes = {
        "minority-with-leader": minority(nodes),
        "minority": minority(nodes),
        "majority": quorum(nodes),
        "node": len(selector.names),
        "all": nodes,
    }
    return sizes.get(selector.kind, 1)


def check(text: str, *, nodes: int) -> Selector:
    """Parse, and raise ConfigError when a cluster of ``nodes`` can never have so many, or such, victims."""
    selector = parse(text)
    count = size(selector, nodes)
    most = nodes - 1 if selector.kind in {"follower", "cut-off"} else nodes
    if count > most:
        raise ConfigError(
            f"more victims than nodes: {text!r} selects {count} of {nodes}",
            cause=f"at most {most} can be selected that way",
            next_step="lower the number, or give more --nodes",
        )
    if count < 1:
        raise ConfigError(
            f"{text!r} selects nobody of {nodes}",
            cause="so small a cluster has no minority",
            next_step="give at least 3 --nodes, or another selector",
        )
    for name in selector.names:
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
    if kind in {"random", "majority"}:
        count = size(selector, len(nodes))
        if count > len(nodes):
            return f"{count} of {len(nodes)} nodes cannot be selected"
        return tuple(sorted(rng.sample(nodes, count)))
    if kind == "cut-off":
        cut = [node for node in running(view) if not reaches_quorum(node, view)]
        if cut:
            return (rng.choice(cut),)
    if view.leader is None:
        return "no leader is known"
    if kind == "leader":
        return (view.leader,)
    others = [node for node in nodes if node != view.leader]
    if kind == "minority-with-leader":
        return tuple(sorted((view.leader, *rng.sample(others, minority(len(nodes)) - 1))))
    if kind == "minority":
        return tuple(sorted(rng.sample(others, minority(len(nodes)))))
    free = [node for node in running(view) if node != view.leader]
    if len(free) < selector.count:
        return f"{len(free)} running followers, {selector.count} wanted"
    return tuple(sorted(rng.sample(free, selector.count)))


def running(view: ClusterView) -> list[str]:
    """Nodes whose process is wanted up and running, in the view's order."""
    return [node for node in view.nodes if view.state[node].down is None and not view.state[node].frozen]


def reaches_quorum(node: str, view: ClusterView) -> bool:
    """Whether the desired state leaves ``node`` two-way links to a quorum, itself included."""
    state = view.state
    linked = [
        other
        for other in view.nodes
        if other == node or (other not in state[node].cuts and node not in state[other].cuts)
    ]
    return len(linked) >= quorum(len(view.nodes))


def _bad(text: str, why: str, next_step: str) -> ConfigError:
    return ConfigError(f"bad selector {text.strip()!r}: {why}", next_step=next_step)
