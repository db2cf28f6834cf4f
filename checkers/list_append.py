"""list-append: what transactions over append-only lists saw can be explained by some order of them.

Operations ``txn`` with ``["append", key, value]`` and ``["r", key, nil]``; values are unique in a list. Judged, with
what each consistency level forbids:

* always: ``phantom`` (a value that no client appended), ``duplicate`` (a value twice in a list), ``G0`` (writes mixed);
* from ``read-committed`` on: ``G1a`` (a value of a failed transaction was read), ``G1b`` (a state in the middle of a
  transaction was read), ``G1c`` (information flows in a circle), ``incompatible-order`` (two reads of a list, neither a
  beginning of the other);
* from ``serializable`` on: ``internal`` (a transaction does not see its own past, or its appends to one list stand
  there in another order), ``lost-update`` (two that read the same version both appended), ``G-single`` (a cycle with
  one read of a version that was over), ``G2`` (with several);
* from ``strong-session-serializable`` on: the same cycles, if they need the order of one client (``-process``);
* ``strict-serializable``: also if they need real time (``-realtime``).

What the level allows is counted (``tolerated``). Guarantees: what is reported follows from what was seen, for every
fate of transactions of unknown outcome; linear in the operations, except the search for short cycles, which is bounded.
Out of scope: anomalies of predicates; cycles through lists whose order cannot be trusted (those lists are reported).

Source: Adya, "Weak consistency", 1999; Kingsbury, Alvaro, "Elle", VLDB 2020.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from dethrone.checkers import list_append_words as words
from dethrone.checkers.list_append_graph import build, cycles
from dethrone.checkers.list_append_observed import List, Look, Observed, Txn, observe
from dethrone.checkers.seen import Anomaly, Seen, SeenChecker, double, place, told
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.operations import ModelOptions, Operation, Operations, identity
from dethrone.harness.core.promise import Promise

_UNCOMMITTED = frozenset({"phantom", "duplicate", "G0"})
_COMMITTED = _UNCOMMITTED | {"G1a", "G1b", "G1c", "incompatible-order"}
_SERIALIZABLE = _COMMITTED | {"internal", "lost-update", "G-single", "G2"}
_SESSION = _SERIALIZABLE | {"G0-process", "G1c-process", "G-single-process", "G2-process"}
_STRICT = _SESSION | {"G0-realtime", "G1c-realtime", "G-single-realtime", "G2-realtime"}

LEVELS = {
    "read-uncommitted": _UNCOMMITTED,
    "read-committed": _COMMITTED,
    "serializable": _SERIALIZABLE,
    "strong-session-serializable": _SESSION,
    "strict-serializable": _STRICT,
}
"""Consistency level → what it forbids."""

STRANGE_MAX = 100
"""Values of one list that cannot have been committed: more are not looked for."""


OPERATIONS_MAX = 500_000
"""Transactions that are read of a foreign file unless it is asked for more: with their graph up to two gigabytes."""


class ListAppend(SeenChecker):
    name = "list-append"
    rests_on = ("acknowledged-survives",)
    operations_max = OPERATIONS_MAX
    about = "txn with [append k v] and [r k nil]: strict serializability, or a weaker level"

    def functions(self) -> frozenset[str]:
        """Transactions only."""
        return frozenset({"txn"})

    def keyed(self, op: Operation) -> Operation:
        """A transaction names its lists itself."""
        return op

    def options(self, promise: Promise) -> ModelOptions:
        """Strict where reads are promised to be linearizable."""
        return ModelOptions(consistency="strict-serializable" if promise.linearizable_reads else "serializable")

    def see(self, operations: Operations, options: ModelOptions) -> Seen:
        """All anomalies, the simplest first."""
        forbidden = LEVELS.get(options.consistency)
        if forbidden is None:
            raise ConfigError(
                f"unknown consistency level {options.consistency!r}", next_step=f"one of: {', '.join(LEVELS)}"
            )
        observed = observe(operations)
        graph = build(observed)
        found = cycles(graph)
        anomalies = [*_simple(observed), *(_cycle(cycle) for cycle in found.cycles)]
        reads = sum(len(one.looks) for one in observed.lists.values())
        doubts = list(observed.doubts)
        if graph.left_out:
            doubts.append(f"{graph.left_out} pairs of a reader and an append that no read showed were not compared")
        return Seen(
            anomalies=[one for one in anomalies if one.kind in forbidden],
            tolerated=[one for one in anomalies if one.kind not in forbidden],
            judged=reads,
            nothing="no transaction read anything",
            evidence={
                "transactions": len(observed.txns),
                "committed": len(observed.committed),
                "lists": len(observed.lists),
                "reads": reads,
                "edges": len(graph.edges),
                "consistency": options.consistency,
                **({"search": "stopped at its bound"} if found.exhausted else {}),
            },
            doubts=doubts,
        )


def _cycle(cycle: Any) -> Anomaly:
    proof = tuple(link.before.op for link in cycle.links)
    return Anomaly(kind=cycle.name, sentence=words.sentence(cycle), proof=proof, data=words.data(cycle))


def _simple(observed: Observed) -> Iterator[Anomaly]:
    """Anomalies that need no cycle."""
    for txn in observed.txns:
        if txn.known:
            yield from _internal(txn)
    for one in observed.lists.values():
        if not observed.malformed:  # one of those that could not be read may have appended it
            yield from _phantoms(one)
        yield from _duplicates(one)
        yield from _aborted(one)
        yield from _intermediate(one)
        yield from _shuffled(one)
        yield from _incompatible(one)
        yield from _lost(one)


def _internal(txn: Txn) -> Iterator[Anomaly]:
    """A read has to show what the transaction itself read and appended before."""
    if len({identity(micro.key) for micro in txn.micros}) == len(txn.micros):
        return
    coming: dict[Any, set[Any]] = defaultdict(set)
    for micro in txn.micros:
        if micro.append:
            coming[identity(micro.key)].add(identity(micro.value))
    base: dict[Any, list[Any]] = {}
    own: dict[Any, list[Any]] = defaultdict(list)
    for micro in txn.micros:
        key = identity(micro.key)
        if micro.append:
            own[key].append(identity(micro.value))
            coming[key].discard(identity(micro.value))
            continue
        values = [identity(value) for value in micro.seen or ()]
        mine = own[key]
        right = base[key] + mine if key in base else values[: len(values) - len(mine)] + mine
        future = coming[key].intersection(values)
        if values != right or future:
            expected = told(base[key] + mine) if key in base else f"a list that ends with {told(mine)}"
            expected = f"one without {told(min(future, key=repr))}" if future else expected
            yield Anomaly(
                kind="internal",
                sentence=f"internal: a transaction{_who(txn)} read {told(micro.key)} as {told(values)}, but by its own"
                f" steps before it had to be {expected}.",
                proof=(txn.op,),
                data={"key": told(micro.key)},
            )
            return
        base[key], own[key] = values, []


def _who(txn: Txn) -> str:
    return f" of process {txn.op.process}{place(txn.op)}"


def _holder(one: List, at: int) -> Look:
    """The earliest read that shows the version at this place of the order."""
    holders = (look for look in one.looks if len(look.values) > at and look.values[: at + 1] == one.order[: at + 1])
    return min(holders, key=lambda look: look.txn.op.returned)


def _shown(one: List) -> Iterator[tuple[Any, Look]]:
    """Values that some read shows and that cannot have been committed, each with a read that does."""
    left = STRANGE_MAX
    for at, value in enumerate(one.order):
        write = one.writes.get(value)
        if write is None or write.txn.op.status == "fail":
            yield value, _holder(one, at)
            left -= 1
            if not left:
                return
    for look in one.strays[:STRANGE_MAX]:
        for value in look.values:
            write = one.writes.get(value)
            if write is None or write.txn.op.status == "fail":
                yield value, look


def _phantoms(one: List) -> Iterator[Anomaly]:
    name = told(one.name)
    for value, look in _shown(one):
        if value not in one.writes:
            yield Anomaly(
                kind="phantom",
                sentence=f"phantom: a transaction{_who(look.txn)} read {told(value)} in {name}, "
                "which no client appended.",
                proof=(look.txn.op,),
                data={"key": name},
            )


def _duplicates(one: List) -> Iterator[Anomaly]:
    name = told(one.name)
    for look in (max(one.looks, key=lambda look: len(look.values)), *one.strays) if one.looks else ():
        for twice in double(look.values):
            if twice in one.again:
                continue
            write = one.writes.get(twice)
            yield Anomaly(
                kind="duplicate",
                sentence=f"duplicate: a transaction{_who(look.txn)} read {told(twice)} more than once in {name}.",
                proof=(look.txn.op, *((write.txn.op,) if write else ())),
                data={"key": name},
            )


def _aborted(one: List) -> Iterator[Anomaly]:
    for value, look in _shown(one):
        write = one.writes.get(value)
        if write is not None and value not in one.again:
            yield Anomaly(
                kind="G1a",
                sentence=f"G1a: a transaction{_who(look.txn)} read {told(value)} in {told(one.name)}, which a"
                f" transaction{_who(write.txn)} had appended that failed.",
                proof=(write.txn.op, look.txn.op),
                data={"key": told(one.name)},
            )


def _intermediate(one: List) -> Iterator[Anomaly]:
    for look in one.looks:
        if not look.values or look.values[-1] in one.again:
            continue
        value = look.values[-1]
        write = one.writes.get(value)
        if write is None or write.last or write.txn is look.txn or write.txn.op.status == "fail":
            continue
        yield Anomaly(
            kind="G1b",
            sentence=f"G1b: a transaction{_who(look.txn)} read {told(one.name)} up to {told(value)}, in the middle of a"
            f" transaction{_who(write.txn)} that appended more to it.",
            proof=(write.txn.op, look.txn.op),
            data={"key": told(one.name)},
        )


def _shuffled(one: List) -> Iterator[Anomaly]:
    """The appends of one transaction to one list come one after the other, without gaps."""
    if not one.ordered:
        return
    count: dict[int, int] = defaultdict(int)
    for at, value in enumerate(one.order):
        write = one.writes.get(value)
        if write is None:
            continue
        if write.nth != count[write.txn.number]:
            look = _holder(one, at)
            yield Anomaly(
                kind="internal",
                sentence=f"internal: a transaction{_who(write.txn)} appended {told(value)} to {told(one.name)} after"
                f" another value of its own, which does not stand before it in what was read{place(look.txn.op)}.",
                proof=(write.txn.op, look.txn.op),
                data={"key": told(one.name)},
            )
            return
        count[write.txn.number] += 1


def _incompatible(one: List) -> Iterator[Anomaly]:
    if not one.strays:
        return
    longest = max(one.looks, key=lambda look: len(look.values))
    for look in one.strays:
        at = next(place for place, value in enumerate(look.values) if longest.values[place] != value)
        yield Anomaly(
            kind="incompatible-order",
            sentence=f"incompatible-order: two transactions{_who(look.txn)} and{_who(longest.txn)[3:]} read"
            f" {told(one.name)} with {told(look.values[at])} and {told(longest.values[at])} in the same place.",
            proof=(look.txn.op, longest.txn.op),
            data={"key": told(one.name), "reads": [told(look.values), told(longest.values)]},
        )


def _lost(one: List) -> Iterator[Anomaly]:
    """Two transactions that read the same version and both appended: one did not see the other."""
    if one.again:
        return
    groups: dict[Any, dict[int, Look]] = defaultdict(dict)
    stray = {id(look) for look in one.strays}
    for look in one.looks:
        if look.updates:
            version = tuple(look.values) if id(look) in stray else len(look.values)
            groups[version].setdefault(look.txn.number, look)
    for looks in groups.values():
        if len(looks) < 2:
            continue
        first, second, *more = looks.values()
        rest = f" ({len(more)} more did so too)" if more else ""
        yield Anomaly(
            kind="lost-update",
            sentence=f"lost-update: transactions{_who(first.txn)} and{_who(second.txn)[3:]} both read {told(one.name)}"
            f" as {told(first.values)} and appended to it{rest}; neither saw the other.",
            proof=(first.txn.op, second.txn.op),
            data={"key": told(one.name), "transactions": len(looks)},
        )


CHECKER = MODEL = ListAppend()
