"""set: elements are added, and reads show the whole set; what was added is there, and nothing else.

Operations ``add`` v and ``read`` → all elements, of one set or of one a key. Judged:

* ``lost``: an element was acknowledged, or shown by a read, and from some moment on no read shows it any more;
* ``stale``: a read lacks an element that was acknowledged, or shown, before the read was asked, and a later read shows
  it; also where only the order of two adds shows it (the read shows one that was asked after the other was there);
* ``diverged``: of two reads each lacks an element of the other one;
* ``phantom``: an element that no client added, whose adds all failed, or that was asked for only after the read;
* ``duplicate``: an element twice in one read.

Where reads may be old (``stale_reads``), ``stale`` and ``diverged`` are counted, not judged, and an element is lost
if none of the reads that were asked after the last add shows it (in a run of ours: of those of its final phase).
Guarantees: exact; otherwise a history is passed if and only if it is linearizable; time is that of sorting, and of
looking at what the reads show. Out of scope: sets from which elements are removed (the model ``set`` of
``linearizable`` knows them).

Source: Jepsen's checkers ``set`` and ``set-full``; the exact statement by phases (``dethrone.checkers.phases``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from dethrone.checkers.phases import Spot, contradictions
from dethrone.checkers.seen import (
    NO_LAST_READ,
    Anomaly,
    Seen,
    SeenChecker,
    double,
    lost_at_last,
    of_key,
    place,
    told,
)
from dethrone.harness.core.operations import NEVER, ModelOptions, Operation, Operations, identity

EACH_MAX = 1000
"""Anomalies of one class in one set; more are not looked for."""


@dataclass(slots=True)
class Add:
    """All adds of one element as one: it can be there from ``lo`` on (``op`` was the first), and certainly is from
    ``hi`` on (``acked`` was the first that returned)."""

    op: Operation
    acked: Operation
    lo: int
    hi: int


@dataclass(slots=True)
class Read:
    """One read that was answered."""

    op: Operation
    shown: frozenset[Any]
    double: Sequence[Any] = ()
    """An element that stands twice, if one does."""


@dataclass(slots=True)
class Elements:
    """One set."""

    key: Any
    adds: dict[Any, Add] = field(default_factory=dict)
    failed: dict[Any, Operation] = field(default_factory=dict)
    reads: list[Read] = field(default_factory=list)


class SetReads(SeenChecker):
    name = "set"
    rests_on = ("acknowledged-survives",)
    by_object = True
    about = "add v, read → all elements: lost, stale, diverged, phantom, duplicate"

    def functions(self) -> frozenset[str]:
        """Add and read."""
        return frozenset({"add", "read"})

    def writing(self) -> frozenset[str]:
        """A run that only reads has lists."""
        return frozenset({"add"})

    def see(self, operations: Operations, options: ModelOptions) -> Seen:
        """All anomalies of all sets."""
        sets, doubts = collect(operations)
        anomalies: list[Anomaly] = []
        judged = 0
        for one in sets:
            finals = final_reads(one, options.settled)
            judged += _tested(one, finals if options.stale_reads else one.reads)
            found = of_set(one)
            if options.stale_reads:
                acked = ((value, add.acked) for value, add in one.adds.items() if add.hi < NEVER)
                lost = lost_at_last(one.key, acked, finals, "add")
                found = [*(item for item in found if item.kind != "lost"), *lost]
            anomalies += found
        allowed = frozenset({"stale", "diverged"}) if options.stale_reads else frozenset()
        return Seen(
            anomalies=[one for one in anomalies if one.kind not in allowed],
            tolerated=[one for one in anomalies if one.kind in allowed],
            judged=judged,
            nothing=NO_LAST_READ if options.stale_reads else "no read was asked after an acknowledged add",
            evidence={
                "sets": len(sets),
                "elements": sum(len(one.adds) for one in sets),
                "reads": sum(len(one.reads) for one in sets),
            },
            doubts=doubts,
        )


def collect(operations: Operations) -> tuple[list[Elements], list[str]]:
    """Operations by set; and what could not be understood."""
    sets: dict[Any, Elements] = {}
    doubts: list[str] = []
    for op in operations.rows:
        if op.f not in ("add", "read"):
            continue
        one = sets.get(identity(op.key))
        if one is None:
            one = sets[identity(op.key)] = Elements(op.key)
        if op.f == "add":
            _enter(one, op)
        elif op.status == "ok":
            values = () if op.result is None else op.result
            if not isinstance(values, list | tuple | set | frozenset):
                doubts.append(f"a read{place(op)} returned no list of elements, so it cannot be judged")
                continue
            known = [identity(value) for value in values]
            one.reads.append(Read(op, frozenset(known), double(known)))
    return list(sets.values()), doubts


def _enter(one: Elements, op: Operation) -> None:
    value = identity(op.value)
    if op.status == "fail":
        one.failed.setdefault(value, op)
        return
    known = one.adds.get(value)
    if known is None:
        one.adds[value] = Add(op, op, op.invoked, op.returned)
    elif op.returned < known.hi:
        known.hi, known.acked = op.returned, op


def final_reads(one: Elements, settled: int = -1) -> list[Read]:
    """Reads that were asked after ``settled`` and when the last add was over, or had been asked if it never was."""
    over = max((add.op.invoked for add in one.adds.values()), default=-1)
    over = max([over, settled, *(add.hi for add in one.adds.values() if add.hi < NEVER)])
    return [read for read in one.reads if read.op.invoked > over]


def _tested(one: Elements, reads: Sequence[Read]) -> int:
    """Elements that were there for certain when one of these reads was asked."""
    last = max((read.op.invoked for read in reads), default=-1)
    return sum(add.hi < last for add in one.adds.values())


def of_set(one: Elements) -> list[Anomaly]:
    """The anomalies of one set."""
    out = [*_strange(one)]
    missing = list(_missing(one))
    out += missing
    chain, split = _chain(one)
    out += split
    if not missing and not out:
        out += _by_phases(one, chain)
    return out


def _strange(one: Elements) -> Iterator[Anomaly]:
    """Phantoms and duplicates."""
    left = EACH_MAX
    reported: set[Any] = set()
    other: tuple[Operation, ...]
    for read in one.reads:
        if read.double and left:
            left -= 1
            yield Anomaly(
                kind="duplicate",
                sentence=f"duplicate: a read{place(read.op)} shows {told(read.double[0])} more than once"
                f"{of_key(one.key)}.",
                proof=(read.op,),
            )
        for value in read.shown:
            add = one.adds.get(value)
            if (add is not None and add.lo < read.op.returned) or value in reported or not left:
                continue
            reported.add(value)
            left -= 1
            if add is not None:
                why, other = f"which was asked for only later{place(add.op)}", (add.op,)
            elif value in one.failed:
                why, other = f"whose add failed{place(one.failed[value])}", (one.failed[value],)
            else:
                why, other = "which no client added", ()
            yield Anomaly(
                kind="phantom",
                sentence=f"phantom: a read{place(read.op)} shows {told(value)}{of_key(one.key)}, {why}.",
                proof=(read.op, *other),
            )


def _missing(one: Elements) -> Iterator[Anomaly]:
    """Reads that lack what was certainly there before they were asked."""
    since: dict[Any, tuple[int, Operation]] = {}
    last_shown: dict[Any, int] = {}
    for value, add in one.adds.items():
        if add.hi < NEVER:
            since[value] = (add.hi, add.acked)
    for read in one.reads:
        for value in read.shown:
            if value not in one.adds:
                continue
            if value not in since or read.op.returned < since[value][0]:
                since[value] = (read.op.returned, read.op)
            if read.op.invoked > last_shown.get(value, -1):
                last_shown[value] = read.op.invoked
    due = sorted(((at, value) for value, (at, _) in since.items()), key=lambda row: row[0])
    required: set[Any] = set()
    position = 0
    reported: set[Any] = set()
    for read in sorted(one.reads, key=lambda item: item.op.invoked):
        while position < len(due) and due[position][0] < read.op.invoked:
            required.add(due[position][1])
            position += 1
        if required <= read.shown:
            continue
        for value in sorted(required - read.shown, key=lambda item: since[item][0]):
            kind = "stale" if last_shown.get(value, -1) > read.op.invoked else "lost"
            if (kind, value) in reported or len(reported) >= EACH_MAX:
                continue
            reported.add((kind, value))
            if kind == "lost":
                required.discard(value)  # reported once; all later reads lack it as well
            witness = since[value][1]
            how = "been acknowledged" if witness.f == "add" else "been shown by another read"
            rest = "and no later one shows it" if kind == "lost" else "though a later one shows it again"
            yield Anomaly(
                kind=kind,
                sentence=f"{kind}: {told(value)}{of_key(one.key)} had {how}{place(witness)} before a read"
                f"{place(read.op)} was asked that lacks it, {rest}.",
                proof=(witness, read.op),
            )


def _chain(one: Elements) -> tuple[list[Read], list[Anomaly]]:
    """Reads from the smallest to the largest, each holding those before it; and those that do not fit in."""
    chain: list[Read] = []
    split: list[Anomaly] = []
    for read in sorted(one.reads, key=lambda item: (len(item.shown), item.op.invoked)):
        if chain and not chain[-1].shown <= read.shown:
            other = chain[-1]
            here, there = next(iter(other.shown - read.shown)), next(iter(read.shown - other.shown))
            if len(split) < EACH_MAX:
                split.append(
                    Anomaly(
                        kind="diverged",
                        sentence=f"diverged: of two reads{of_key(one.key)} one{place(other.op)} shows {told(here)} and"
                        f" not {told(there)}, the other one{place(read.op)} {told(there)} and not {told(here)}.",
                        proof=(other.op, read.op),
                    )
                )
            continue
        chain.append(read)
    return chain, split


def _by_phases(one: Elements, chain: Sequence[Read]) -> Iterator[Anomaly]:
    """What only the order of two adds shows: one is shown without the other, which had been there before."""
    spots: list[Spot] = []
    entered: set[Any] = set()
    phase = 0
    shown: frozenset[Any] = frozenset()
    for read in chain:
        if read.shown != shown or phase == 0:
            phase += 2
            for value in read.shown - entered:
                if value in one.adds:
                    add = one.adds[value]
                    spots.append(Spot(phase, add.lo, add.hi, add.op, write=True))
            entered |= read.shown
            shown = read.shown
        spots.append(Spot.of(phase + 1, read.op, write=False))
    for value, add in one.adds.items():
        if value not in entered and add.hi < NEVER:
            spots.append(Spot(phase + 2, add.lo, add.hi, add.op, write=True))
    for earlier, later in contradictions(spots):
        between = next(read for read in chain if _lacks(read, later, earlier))
        yield Anomaly(
            kind="stale",
            sentence=f"stale: a read{place(between.op)} shows {told(earlier.op.value)}{of_key(one.key)} and lacks"
            f" {told(later.op.value)}, which had been acknowledged{place(later.op)} before the other was asked for"
            f"{place(earlier.op)}.",
            proof=(one.adds[identity(later.op.value)].acked, earlier.op, between.op),
        )
        return


def _lacks(read: Read, later: Spot, earlier: Spot) -> bool:
    return identity(earlier.op.value) in read.shown and identity(later.op.value) not in read.shown


CHECKER = MODEL = SetReads()
