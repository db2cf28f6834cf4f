"""log: values are appended to logs, and readers see each of them once, all in one order, without gaps.

Operations: ``append`` v → its index, or nothing; ``read`` → the whole log; ``poll`` → the next [index, value] pairs for
this reader (a client process); ``seek`` index: this reader continues there. One log, or one a key. Judged:

* ``lost``: a value was acknowledged, or read, and from some moment on no read shows it any more; or no reader polled it
  although one polled past its index;
* ``duplicate``: a value in two places of one log;
* ``reordered``: an append that was over before another one was asked stands behind it; or a reader went back;
* ``diverged``: two reads of which neither is a beginning of the other, or two values at one index;
* ``gap``: a reader skipped an index at which a value is known;
* ``phantom``: a value that no client appended, whose append failed, or that was asked for only after the read;
* ``stale``: a read lacks what was acknowledged, or read, before it was asked, and a later one shows it.

Where reads may be old (``stale_reads``), ``stale`` is counted, not judged, and a value is lost if none of the reads
that were asked after the last append shows it. Runs of ours are judged where reads are promised to be linearizable:
elsewhere a follower may also show what is undone later, and ``acknowledged-survives`` says what must not be lost.
Guarantees: exact for logs that are read as a whole: otherwise a history is passed if and only if it is linearizable.
Out of scope: indices that no value is known for (a log may hold marks of its own there); values that were appended
twice; polls of unknown outcome, after which a reader may begin anywhere.

Source: Jepsen's ``kafka`` workload and list-append; the exact statement by phases (``dethrone.checkers.phases``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from dethrone.checkers.calm_lists import CalmList, calm_lists, others
from dethrone.checkers.log_operations import Log, Read, collect, index_of
from dethrone.checkers.phases import Spot, contradictions
from dethrone.checkers.seen import (
    NO_LAST_READ,
    Anomaly,
    Seen,
    SeenChecker,
    joined,
    lost_at_last,
    of_key,
    place,
    told,
)
from dethrone.checkers.shared_lists import Profile, begins, profiles_of
from dethrone.harness.core.history import History
from dethrone.harness.core.operations import NEVER, ModelOptions, Operation, Operations, identity, incomplete
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.shown import Shown
from dethrone.harness.core.verdict import Verdict

NOTHING = "no read was asked after an acknowledged append, and no poll returned anything"
EACH_MAX = 1000
"""Anomalies of one class in one log; more are not looked for."""


class LogReads(SeenChecker):
    name = "log"
    rests_on = ("acknowledged-survives",)
    by_object = True
    about = "append v → index, read → all values, poll → [[index, v] …]: lost, duplicate, reordered, diverged, gaps"

    def functions(self) -> frozenset[str]:
        """Append, read, poll and seek."""
        return frozenset({"append", "read", "poll", "seek"})

    def not_owed(self, promise: Promise) -> Verdict | None:
        """``n/a`` also where reads may be old."""
        if not promise.linearizable_reads:
            return self.na(
                "not promised: reads may be old; acknowledged-survives judges what they must show in the end"
            )
        return super().not_owed(promise)

    def writing(self) -> frozenset[str]:
        """A run that only reads has sets, or nothing to lose."""
        return frozenset({"append"})

    def see(self, operations: Operations, options: ModelOptions) -> Seen:
        """All anomalies of all logs."""
        logs, doubts = collect(operations)
        anomalies: list[Anomaly] = []
        judged = 0
        for log in logs:
            finals = final_reads(log)
            judged += _tested(log, finals if options.stale_reads else log.reads)
            found = of_log(log)
            if options.stale_reads:
                lost = lost_at_last(log.key, log.acked(), finals, "append")
                found = [*(one for one in found if one.kind != "lost"), *lost]
            anomalies += [*found, *of_polls(log)]
            if log.again:
                doubts.append(f"{len(log.again)} values were appended more than once{of_key(log.key)}: not judged")
        allowed = frozenset({"stale"}) if options.stale_reads else frozenset()
        return Seen(
            anomalies=[one for one in anomalies if one.kind not in allowed],
            tolerated=[one for one in anomalies if one.kind in allowed],
            judged=judged,
            nothing=NO_LAST_READ if options.stale_reads else NOTHING,
            evidence={
                "logs": len(logs),
                "appends": sum(len(log.appends) for log in logs),
                "reads": sum(len(log.reads) for log in logs),
                "polls": sum(len(log.polls) for log in logs),
            },
            doubts=doubts,
        )

    def see_run(self, history: History, options: ModelOptions) -> Seen:
        """The same where nothing is wrong with most lists (``calm_lists``)."""
        calm = () if options.stale_reads else calm_lists(history).lists
        if not calm:
            return super().see_run(history, options)
        return joined([_of_calm(history, calm), *self.parts(history, others(history, self.functions()), options)])


def _of_calm(history: History, calm: Sequence[CalmList]) -> Seen:
    return Seen(
        anomalies=(),
        judged=sum(one.tested for one in calm),
        nothing=NOTHING,
        evidence={
            "logs": len(calm),
            "appends": sum(one.appends for one in calm),
            "reads": sum(one.reads for one in calm),
            "polls": 0,
        },
        doubts=incomplete(history),
    )


def final_reads(log: Log) -> list[Read]:
    """Reads that were asked when the last append was over, or had been asked if it never came back."""
    over = max((op.invoked for op in log.appends.values()), default=-1)
    over = max([over, *(op.returned for op in log.appends.values() if op.returned < NEVER)])
    return [read for read in log.reads if read.op.invoked > over]


def _tested(log: Log, reads: Sequence[Read]) -> int:
    """Acknowledged values that were there for certain when one of these reads was asked, and all that was polled."""
    last = max((read.op.invoked for read in reads), default=-1)
    acked = sum(op.status == "ok" and op.returned < last for op in log.appends.values())
    return acked + sum(len(pairs) for _, pairs in log.polls)


# --- reads of the whole log -------------------------------------------------------------------------------------


def of_log(log: Log) -> list[Anomaly]:
    """The anomalies that reads of the whole log show."""
    places = {value: append.invoked for value, append in log.appends.items() if append.status != "fail"}
    profiles = profiles_of((read.shown for read in log.reads), places)
    out = [*_strange(log, profiles), *_duplicates(log, profiles)]
    order, chain, split = _order(log)
    out += split
    out += _missing(log, chain, order)
    if not split and not any(one.kind == "duplicate" for one in out):
        out += _by_phases(log, order)
    return out


def _order(log: Log) -> tuple[Sequence[Any], list[Read], list[Anomaly]]:
    """The longest read, the reads that are beginnings of it, and those that are not."""
    if not log.reads:
        return [], [], []
    longest = max(log.reads, key=lambda read: len(read.shown))
    chain: list[Read] = []
    split: list[Anomaly] = []
    for read in log.reads:
        if begins(longest.shown, read.shown):
            chain.append(read)
        elif len(split) < EACH_MAX:
            at = next(at for at, value in enumerate(read.shown) if longest.shown[at] != value)
            split.append(
                Anomaly(
                    kind="diverged",
                    sentence=f"diverged: at place {at}{of_key(log.key)} one read{place(read.op)} shows"
                    f" {told(read.shown[at])} and another one{place(longest.op)} {told(longest.shown[at])}.",
                    proof=(read.op, longest.op),
                )
            )
    return longest.shown, sorted(chain, key=lambda read: len(read.shown)), split


def _strange(log: Log, profiles: Mapping[int, Profile]) -> Iterator[Anomaly]:
    reported: set[Any] = set()
    shown = [(read.op, value) for read in log.reads for value in _suspects(log, read, profiles)]
    shown += [(op, value) for op, pairs in log.polls for _, value in pairs]
    for read, value in shown:
        if value in reported or value in log.again or len(reported) >= EACH_MAX:
            continue
        append = log.appends.get(value)
        proof: tuple[Operation, ...]
        if append is None:
            why, proof = "which no client appended", (read,)
        elif append.status == "fail":
            why, proof = f"whose append failed{place(append)}", (append, read)
        elif append.invoked > read.returned:
            why, proof = f"which was asked for only later{place(append)}", (read, append)
        else:
            continue
        reported.add(value)
        yield Anomaly(
            kind="phantom",
            sentence=f"phantom: a {read.f}{place(read)} shows {told(value)}{of_key(log.key)}, {why}.",
            proof=proof,
        )


def _suspects(log: Log, read: Read, profiles: Mapping[int, Profile]) -> Iterator[Any]:
    """Values of a read that cannot be there."""
    if isinstance(read.shown, Shown) and profiles[id(read.shown.known)].since[len(read.shown)] <= read.op.returned:
        return
    for value in read.shown:
        append = log.appends.get(value)
        if append is None or append.status == "fail" or append.invoked > read.op.returned:
            yield value


def _duplicates(log: Log, profiles: Mapping[int, Profile]) -> Iterator[Anomaly]:
    reported: set[Any] = set()
    for read in log.reads:
        if isinstance(read.shown, Shown):
            if len(read.shown) < profiles[id(read.shown.known)].double:
                continue
        elif len(set(read.shown)) == len(read.shown):
            continue
        held: set[Any] = set()
        for value in read.shown:
            if value in held and value not in reported and value not in log.again:
                reported.add(value)
                yield Anomaly(
                    kind="duplicate",
                    sentence=f"duplicate: a read{place(read.op)} shows {told(value)} more than once{of_key(log.key)}.",
                    proof=(read.op, *((log.appends[value],) if value in log.appends else ())),
                )
            held.add(value)


def _missing(log: Log, chain: Sequence[Read], order: Sequence[Any]) -> Iterator[Anomaly]:
    """Reads that end before something that was certainly there when they were asked.

    All reads here are beginnings of one order, so all that was certain is a length that a read must have; it is more
    than any read has for a value that none shows.
    """
    at_place = {value: at for at, value in enumerate(order)}
    certain = [(read.op.returned, len(read.shown), read.op) for read in chain]
    certain += [(op.returned, at_place.get(value, len(order)) + 1, op) for value, op in log.acked()]
    certain.sort(key=lambda row: row[0])
    reads = sorted(chain, key=lambda read: read.op.invoked)
    later = [0] * (len(reads) + 1)
    for at in range(len(reads) - 1, -1, -1):
        later[at] = max(later[at + 1], len(reads[at].shown))
    position, needed = 0, 0
    proof: Operation | None = None
    stale = 0
    lost: set[int] = set()
    for at, read in enumerate(reads):
        fresh: list[tuple[int, Operation]] = []
        while position < len(certain) and certain[position][0] < read.op.invoked:
            _, length, op = certain[position]
            position += 1
            if length > later[at]:
                fresh.append((length, op))
            elif length > needed:
                needed, proof = length, op
        if proof is not None and needed > later[at]:
            fresh.append((needed, proof))
            needed, proof = 0, None
        for _, op in fresh:
            if op.invoked not in lost and len(lost) < EACH_MAX:
                lost.add(op.invoked)
                yield _lacking(log, "lost", op, read)
        if proof is not None and len(read.shown) < needed and stale < EACH_MAX:
            stale += 1
            yield _lacking(log, "stale", proof, read)


def _lacking(log: Log, kind: str, proof: Operation, read: Read) -> Anomaly:
    if proof.f == "append":
        what = f"{told(proof.value)} had been acknowledged{place(proof)}"
    else:
        what = f"{len(proof.result or ())} values had been shown by another read{place(proof)}"
    it = "it" if proof.f == "append" else "all of them"
    rest = f"no later read shows {it}" if kind == "lost" else f"a later one shows {it}"
    return Anomaly(
        kind=kind,
        sentence=f"{kind}: {what}{of_key(log.key)} before a read{place(read.op)} was asked that shows only"
        f" {len(read.shown)} values{' without it' if proof.f == 'append' else ''}; {rest}.",
        proof=(proof, read.op),
    )


def _by_phases(log: Log, order: Sequence[Any]) -> Iterator[Anomaly]:
    """Appends whose order in the log is not that of real time;
    reads add nothing to it that is not reported elsewhere.
    """
    shown = set(order)
    spots = [Spot.of(at, op, write=True) for at, value in enumerate(order) if (op := log.committed(value)) is not None]
    for value, op in log.acked():
        if value not in shown:
            spots.append(Spot.of(len(order), op, write=True))
    for earlier, later in islice(contradictions(spots), EACH_MAX):
        if identity(later.op.value) in shown:
            yield _reordered(log, earlier.op, later.op)
        else:
            yield Anomaly(
                kind="lost",
                sentence=f"lost: {told(later.op.value)} had been appended{place(later.op)}{of_key(log.key)} before"
                f" {told(earlier.op.value)} was asked for{place(earlier.op)}, and only that one is ever shown.",
                proof=(later.op, earlier.op),
            )


def _reordered(log: Log, earlier: Operation, later: Operation) -> Anomaly:
    return Anomaly(
        kind="reordered",
        sentence=f"reordered: {told(later.value)} had been appended{place(later)}{of_key(log.key)} before"
        f" {told(earlier.value)} was asked for{place(earlier)}, and stands behind it.",
        proof=(later, earlier),
    )


# --- readers that go along --------------------------------------------------------------------------------------


def of_polls(log: Log) -> Iterator[Anomaly]:
    """The anomalies that indices show: those that appends returned, and those that readers saw."""
    at_index: dict[int, tuple[Any, Operation]] = {}
    place_of: dict[Any, tuple[int, Operation]] = {}
    sources = [(index, value, op) for value, op in log.appends.items() if (index := index_of(op)) is not None]
    if log.polls:
        sources += [(index, value, op) for op, pairs in log.polls for index, value in pairs]
    for index, value, op in sources:
        if value in log.again:
            continue
        here = at_index.setdefault(index, (value, op))
        if here[0] != value:
            yield Anomaly(
                kind="diverged",
                sentence=f"diverged: index {index}{of_key(log.key)} holds {told(here[0])}{place(here[1])} and"
                f" {told(value)}{place(op)}.",
                proof=(here[1], op),
            )
        there = place_of.setdefault(value, (index, op))
        if there[0] != index:
            yield Anomaly(
                kind="duplicate",
                sentence=f"duplicate: {told(value)} stands at index {there[0]}{place(there[1])} and at index"
                f" {index}{place(op)}{of_key(log.key)}.",
                proof=(there[1], op),
            )
    yield from _by_index(log, place_of)
    if log.polls:
        yield from _readers(log, at_index)
        yield from _never_polled(log)


def _by_index(log: Log, place_of: dict[Any, tuple[int, Operation]]) -> Iterator[Anomaly]:
    """Indices rise in real time."""
    spots = []
    for value, (index, _) in place_of.items():
        op = log.committed(value)
        if op is not None:
            spots.append(Spot.of(index, op, write=True))
    for earlier, later in contradictions(spots):
        yield _reordered(log, earlier.op, later.op)


def _readers(log: Log, at_index: dict[int, tuple[Any, Operation]]) -> Iterator[Anomaly]:
    """Each reader goes forward and leaves nothing out that is known."""
    known = sorted(at_index)
    rank = {index: at for at, index in enumerate(known)}
    last: dict[int, tuple[int, Operation]] = {}
    for op, pairs in log.polls:
        if op.f == "seek" or op.status != "ok":
            last.pop(op.process, None)
            continue
        for index, value in pairs:
            before = last.get(op.process)
            if before is not None and index <= before[0]:
                yield Anomaly(
                    kind="reordered",
                    sentence=f"reordered: reader {op.process} went back{of_key(log.key)}, from index"
                    f" {before[0]}{place(before[1])} to {index} ({told(value)}){place(op)}.",
                    proof=(before[1], op),
                )
            elif before is not None and rank.get(index, 0) > rank.get(before[0], 0) + 1:
                skipped = known[rank[before[0]] + 1 : rank[index]]
                first, source = at_index[skipped[0]]
                yield Anomaly(
                    kind="gap",
                    sentence=f"gap: reader {op.process} went{of_key(log.key)} from index {before[0]}{place(before[1])}"
                    f" to {index}{place(op)} and skipped {len(skipped)} known values, the first is {told(first)} at"
                    f" {skipped[0]}{place(source)}.",
                    proof=(before[1], op, source),
                )
            last[op.process] = (index, op)


def _never_polled(log: Log) -> Iterator[Anomaly]:
    """Acknowledged values that no reader polled though one came from before their index to behind it."""
    polled = {value for _, pairs in log.polls for _, value in pairs}
    passed: list[tuple[int, int, Operation]] = []
    last: dict[int, int] = {}
    for op, pairs in log.polls:
        if op.f == "seek" or op.status != "ok":
            last.pop(op.process, None)
            continue
        for index, _ in pairs:
            came_from = last.get(op.process)
            if came_from is not None and index > came_from:
                passed.append((came_from, index, op))
            last[op.process] = index
    passed.sort(key=lambda row: row[:2])
    reach, position = -1, 0
    who: Operation | None = None
    unpolled = [
        (at, value, op)
        for value, op in log.appends.items()
        if value not in polled and value not in log.again and (at := index_of(op)) is not None
    ]
    for index, value, op in sorted(unpolled, key=lambda row: row[0]):
        while position < len(passed) and passed[position][0] < index:
            if passed[position][1] > reach:
                reach, who = passed[position][1], passed[position][2]
            position += 1
        if who is not None and index < reach:
            yield Anomaly(
                kind="lost",
                sentence=f"lost: {told(value)} had been acknowledged at index {index}{of_key(log.key)}{place(op)};"
                f" no reader ever polled it, though one went past that index{place(who)}.",
                proof=(op, who),
            )


CHECKER = MODEL = LogReads()
