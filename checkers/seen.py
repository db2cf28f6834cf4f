"""Judging what clients saw: one way for runs of ours and for the histories of other tools.

A checker here says which anomalies it finds in operations; this module makes verdicts of them. Guarantees: an anomaly
of a run is excused as every finding is (``dethrone.checkers.base``); operations that come with doubts, or that show
nothing, are ``unknown`` and never ``pass``; of many anomalies the first of each class come first. Out of scope: every
property itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from dethrone.checkers.base import FINDINGS_MAX, Base, finding
from dethrone.harness.core.client_ops import client_ops, object_of
from dethrone.harness.core.columns import Bools
from dethrone.harness.core.operations import NEVER, ModelOptions, Operation, Operations, final_began, of_history
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.shown import Shown
from dethrone.harness.core.verdict import Finding, Kind, Verdict

if TYPE_CHECKING:
    from dethrone.harness.core.history import History

PLACES_MAX = 8
"""Events that a certificate names at most."""

BARS_MAX, LABEL_MAX = 24, 100
"""Operations that a finding's data draws as bars; characters of the words next to one."""


class Anomaly(msgspec.Struct, frozen=True, kw_only=True):
    """Something that must not be: its class, one sentence, the operations that prove it, and more for drawings."""

    kind: str
    sentence: str
    proof: tuple[Operation, ...]
    data: Mapping[str, Any] = {}

    @property
    def places(self) -> tuple[int, ...]:
        """Places of the proving operations."""
        return tuple(sorted({place for op in self.proof for place in op.places}))[:PLACES_MAX]

    @property
    def drawn(self) -> dict[str, Any]:
        """The data of the finding: with its class, and with the proof as bars unless it brings bars of its own."""
        return {"anomaly": self.kind, "bars": bars(self.proof), **self.data}


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What a checker found. ``judged``: how often the property was tested; ``nothing``: what to say if that is 0.

    ``tolerated``: anomalies that are no findings; counted by class in the metrics.
    """

    anomalies: Sequence[Anomaly]
    judged: int
    nothing: str
    evidence: Mapping[str, Any]
    doubts: Sequence[str] = ()
    tolerated: Sequence[Anomaly] = ()
    metrics: Mapping[str, Any] = {}


def joined(parts: Sequence[Seen]) -> Seen:
    """What was found in parts that share no object: counts are sums. Such parts bring no metrics."""
    evidence: Counter[str] = Counter()
    for part in parts:
        evidence.update(part.evidence)
    return Seen(
        anomalies=[one for part in parts for one in part.anomalies],
        judged=sum(part.judged for part in parts),
        nothing=parts[0].nothing,
        evidence={name: evidence[name] for name in parts[0].evidence},
        doubts=list(dict.fromkeys(one for part in parts for one in part.doubts)),
        tolerated=[one for part in parts for one in part.tolerated],
    )


class Seeing(Protocol):
    """A read that was answered."""

    @property
    def op(self) -> Operation:
        """The operation."""

    @property
    def shown(self) -> Collection[Any]:
        """What it shows."""


class SeenChecker(Base):
    """A checker of operations: a ``Model`` for histories of others, a ``Checker`` for runs."""

    kind: Kind = "safety"
    channels = ("ops",)
    views = (client_ops,)
    about = ""
    rests_on: tuple[str, ...] = ()
    """Properties without which this one is not owed either."""
    timed = False
    """Whether it rests on clocks (`X`)."""
    by_object = False
    """Whether the objects can be judged one by one: then not all operations of a long run are in memory at once."""

    def summary(self) -> str:
        """One line: the operations that it knows."""
        return self.about

    def functions(self) -> frozenset[str]:
        """The names of the operations that it knows."""
        raise NotImplementedError

    def writing(self) -> frozenset[str]:
        """Of the functions those without which a run is not judged: reads alone may be of objects of another kind."""
        return self.functions()

    def not_owed(self, promise: Promise) -> Verdict | None:
        """``n/a`` where the promise exempts this property, or one that it rests on."""
        for name in self.rests_on:
            exempt = promise.exempt.get(name)
            if exempt is not None:
                return self.na(f"{exempt.kind}, for {name} is not: {exempt.reason}")
        return super().not_owed(promise)

    def see(self, operations: Operations, options: ModelOptions) -> Seen:
        """The anomalies in these operations."""
        raise NotImplementedError

    def see_run(self, history: History, options: ModelOptions) -> Seen:
        """The anomalies in the operations of a run."""
        parts = self.parts(
            history, client_ops(history).batches(self.functions()) if self.by_object else (None,), options
        )
        return parts[0] if len(parts) == 1 else joined(parts)

    def parts(self, history: History, batches: Iterable[Bools | None], options: ModelOptions) -> list[Seen]:
        """The anomalies in each of these batches (``Ops.batches``)."""
        found = []
        for batch in batches:
            operations = of_history(history, self.functions(), batch).each(self.keyed)
            seen = self.see(operations, options)
            found.append(msgspec.structs.replace(seen, doubts=[*operations.doubts, *seen.doubts]))
        return found

    def options(self, promise: Promise) -> ModelOptions:
        """How operations of a run are to be read under this promise."""
        return ModelOptions(stale_reads=not promise.linearizable_reads, drift_ppm_max=promise.drift_ppm_max or 0)

    def keyed(self, op: Operation) -> Operation:
        """An operation of a run of ours with its object apart: a write names it as [key, v], a read as its value."""
        about = object_of(op.f, op.value)
        return op if about is None else concerning(op, *about)

    def judge(self, operations: Operations, options: ModelOptions) -> Verdict:
        """The verdict on a history of others."""
        seen = self.see(operations, options)
        findings = tuple(_foreign(one) for one in by_turns(seen.anomalies)[:FINDINGS_MAX])
        doubts = list(dict.fromkeys([*operations.doubts, *seen.doubts]))
        outcome: Literal["pass", "unknown", "fail"] = "pass"
        reason = ""
        if findings:
            outcome, reason = "fail", findings[0].sentence
        elif doubts:
            outcome, reason = "unknown", "; ".join(doubts)
        elif not seen.judged:
            outcome, reason = "unknown", f"not exercised: {seen.nothing}"
        evidence = {**seen.evidence, **operations.notes, "judged": seen.judged}
        if findings:
            evidence["findings"] = len(seen.anomalies)
        return Verdict(
            checker=self.name,
            version=self.version,
            kind=self.kind,
            outcome=outcome,
            reason=reason,
            findings=findings,
            evidence=evidence,
            metrics=_metrics(seen),
        )

    def examine(self, history: History, promise: Promise, plan: Plan) -> Verdict:
        """The verdict on a run."""
        if not client_ops(history).are(self.writing()).any():
            # Reads alone may be those of another workload, which calls them the same.
            nothing = f"the workload {plan.workload.name} does none of these operations"
            if history.complete:
                return self.na(f"not exercised: {nothing}")
            return self.conclude(history, findings=[], judged=0, nothing=nothing, evidence={})
        seen = self.see_run(history, msgspec.structs.replace(self.options(promise), settled=final_began(history)))
        findings = [
            finding(history, promise, one.sentence, one.places, data=one.drawn, timed=self.timed)
            for one in by_turns(seen.anomalies)
        ]
        return self.conclude(
            history,
            findings=findings,
            judged=seen.judged,
            nothing=seen.nothing,
            evidence=seen.evidence,
            metrics=_metrics(seen),
            doubts=seen.doubts,
        )


def _foreign(one: Anomaly) -> Finding:
    return Finding(sentence=one.sentence, certificate=one.places, data=one.drawn)


def bars(proof: Sequence[Operation]) -> list[dict[str, Any]]:
    """Operations to draw, from the place of their calls to that of their returns, in order of their calls."""
    return [
        {
            "process": op.process,
            "label": label(op),
            "call": op.invoked,
            "ret": None if op.returned >= NEVER else op.returned,
            "status": op.status,
            "role": "",
        }
        for op in sorted({op.invoked: op for op in proof}.values(), key=lambda op: op.invoked)[:BARS_MAX]
    ]


def label(op: Operation) -> str:
    """One operation in a few words: ``append x 3``, ``read x → [1 2]``, ``txn append x 1, r y []``."""
    if op.f == "txn":
        steps = op.result if op.status == "ok" else op.value
        words = ", ".join(" ".join(map(told, step)) for step in steps or () if isinstance(step, list | tuple))
    else:
        words = " ".join(told(one) for one in (op.key, op.value) if one is not None)
        if op.status == "ok" and op.result is not None and op.result != op.value:
            words += f" → {told(op.result)}"
    text = f"{op.f} {words}".rstrip()
    return text if len(text) <= LABEL_MAX else text[: LABEL_MAX - 1] + "…"


def by_turns(anomalies: Sequence[Anomaly]) -> list[Anomaly]:
    """The first of each class, then the second of each, and so on: a report shows only the first ones."""
    count: dict[str, int] = {}
    ranked: list[tuple[int, int, Anomaly]] = []
    for at, one in enumerate(anomalies):
        count[one.kind] = count.get(one.kind, 0) + 1
        ranked.append((count[one.kind], at, one))
    return [one for _, _, one in sorted(ranked, key=lambda row: row[:2])]


def _metrics(seen: Seen) -> dict[str, Any]:
    found, tolerated = (Counter(one.kind for one in some) for some in (seen.anomalies, seen.tolerated))
    out = dict(seen.metrics)
    if found:
        out["anomalies"] = dict(sorted(found.items()))
    if tolerated:
        out["tolerated"] = dict(sorted(tolerated.items()))
    return out


def concerning(op: Operation, key: Any, value: Any) -> Operation:
    """The operation with this key, of its group where there are several, and this value."""
    return msgspec.structs.replace(op, key=[op.group, key] if op.group else key, value=value)


def of_key(key: Any) -> str:
    """How a sentence names the object; nothing where there is only one."""
    return "" if key is None else f" of {told(key)}"


def place(op: Operation) -> str:
    """How a sentence names an operation's place in a foreign file; nothing where only places are known."""
    return f" (line {op.line})" if op.line else ""


def double(values: Sequence[Any]) -> list[Any]:
    """The first value that stands there a second time, as a list of one; an empty list where none does."""
    if len(set(values)) == len(values):
        return []
    held: set[Any] = set()
    for value in values:
        if value in held:
            return [value]
        held.add(value)
    return []


NO_LAST_READ = "reads may be old, so only those at the end count: none was asked after an acknowledged write"


def lost_at_last(
    key: Any, acked: Iterable[tuple[Any, Operation]], finals: Sequence[Seeing], f: str
) -> Iterator[Anomaly]:
    """Acknowledged values, each with the operation that wrote it, that none of the last reads shows."""
    shown = frozenset[Any]().union(*(read.shown for read in finals))
    for value, op in acked if finals else ():
        if value not in shown:
            yield Anomaly(
                kind="lost",
                sentence=f"lost: {told(value)}{of_key(key)} had been acknowledged{place(op)}, and none of the"
                f" {len(finals)} reads after the last {f} shows it.",
                proof=(op, finals[-1].op),
            )


def told(value: Any, most: int = 8) -> str:
    """A value as sentences show it; of a long list its end."""
    if isinstance(value, list | tuple | Shown) and len(value) > most:
        return f"[… {' '.join(map(told, value[-most:]))}]"
    if isinstance(value, list | tuple | Shown):
        return f"[{' '.join(map(told, value))}]"
    return value if isinstance(value, str) else repr(value)
