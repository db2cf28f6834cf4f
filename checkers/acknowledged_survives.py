"""acknowledged-survives: acknowledged values are there, and no value is there that no client may have written.

Operations of the workload ``log``: ``append`` [key, value] with unique values, ``read`` key → list. Judged:

* each append answered ``ok`` is in the final reads (phase ``final``) of its key. Where reads are promised to be
  linearizable: in every one of them; else in at least one of them, and in each that a leader answered;
* no value twice, no value that no client wrote or whose append certainly failed;
* where reads are promised to be linearizable: every read holds what was acknowledged before it was asked, and no two
  reads disagree about the order. Not promised: counted (``stale_reads``, ``order_disagreements``), not judged.

Precedence is that of the history: a return written before an invoke happened before it. Out of scope: appends that
ended
``info`` or never returned (they may or may not be there); values that the workload wrote twice.

Source: Jepsen's set and list-append workloads, here with values that are written once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from dethrone.checkers.base import Base, finding, writes_expected
from dethrone.checkers.calm_lists import CalmList, calm_lists, others
from dethrone.checkers.polls import Polls
from dethrone.checkers.shared_lists import Profile, Required, begins, first_shown, profiles_of, shared_lists
from dethrone.harness.core.client_ops import Op, client_ops, misfit
from dethrone.harness.core.columns import Bools
from dethrone.harness.core.errors import HistoryError
from dethrone.harness.core.history import History, per_history
from dethrone.harness.core.operations import NEVER, final_began
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.shown import Shown
from dethrone.harness.core.verdict import Finding, Verdict
from dethrone.harness.core.views import columns

Value = int | str

LISTS = frozenset({"append", "read"})
LISTLESS = frozenset({"agreement", "register", "set", "list-append"})
"""Workloads that write, but append to no list."""


@dataclass(slots=True)
class _Append:
    invoked: int
    returned: int = -1
    status: str = ""


@dataclass(slots=True)
class _Read:
    invoked: int
    returned: int
    node: str
    values: Sequence[Value]
    final: bool


@dataclass(slots=True)
class _Key:
    """What happened to one key; numbers are ``seq``."""

    appends: dict[Value, _Append] = field(default_factory=dict)
    again: set[Value] = field(default_factory=set)
    """Values that the workload wrote more than once: not judged."""
    reads: list[_Read] = field(default_factory=list)


class AcknowledgedSurvives(Base):
    name = "acknowledged-survives"
    kind = "safety"
    channels = ("ops",)
    views = (client_ops, columns)

    def revealed(self, history: History, promise: Promise, plan: Plan) -> Verdict | None:
        """How many appends that were acknowledged are missing at the end, where that may be."""
        verdict, na = self.examine(history, promise, plan), self.not_owed(promise)
        if na is None or not history.complete or not verdict.evidence.get("judged"):
            return None
        lost, judged = verdict.metrics["lost"], verdict.evidence["judged"]
        reason = f"{na.reason}; here {lost:,} of {judged:,} appends are missing at the end"
        return msgspec.structs.replace(na, reason=reason, metrics={"lost": lost, "of": judged})

    def examine(self, history: History, promise: Promise, plan: Plan) -> Verdict:
        """The verdict."""
        tally: Counter[str] = Counter()
        findings: list[Finding] = []
        doubts: list[str] = []
        for one in calm_lists(history).lists:
            _count_calm(one, tally)
        for batch in others(history, LISTS):
            keys, unread = collect(history, batch)
            doubts += unread
            for name, key in sorted(keys.items()):
                findings += _examined(history, promise, name, key, tally)
        if not tally["keys"] and not writes_expected(plan) and history.complete:
            return self.na("not observable: this workload writes nothing")
        if plan.workload.name in LISTLESS and history.complete and not tally["appends"]:
            return self.na("not observable: this workload appends to no list")
        return self.conclude(
            history,
            findings=sorted(findings, key=lambda one: one.certificate),
            judged=tally["judged"],
            nothing=_nothing(tally["appends_acknowledged"], tally["final_reads"]),
            evidence={
                name: tally[name]
                for name in ("appends_acknowledged", "appends_unknown", "reads", "final_reads", "keys")
            },
            metrics={name: tally[name] for name in ("lost", "stale_reads", "order_disagreements")},
            doubts=doubts,
        )


def _examined(history: History, promise: Promise, name: str, key: _Key, tally: Counter[str]) -> list[Finding]:
    """The findings of one key, which is counted."""
    findings, judged = _lost(history, promise, name, key)
    lost = sum(one.data["lost_count"] for one in findings)
    findings += _foreign(history, promise, name, key)
    old, mixed = _stale(key), _disagree(key)
    if promise.linearizable_reads:
        findings += _stale_findings(history, promise, name, old)
        findings += _order_findings(history, promise, name, mixed)
    statuses = Counter(one.status for one in key.appends.values())
    tally.update(
        judged=judged,
        lost=lost,
        appends=len(key.appends),
        appends_acknowledged=statuses["ok"],
        appends_unknown=statuses[""] + statuses["info"],
        reads=len(key.reads),
        final_reads=sum(read.final for read in key.reads),
        keys=1,
        stale_reads=len(old),
        order_disagreements=len(mixed),
    )
    return findings


def _count_calm(one: CalmList, tally: Counter[str]) -> None:
    tally.update(
        judged=one.acknowledged if one.final_reads else 0,
        appends=one.appends,
        appends_acknowledged=one.acknowledged,
        appends_unknown=one.unknown,
        reads=one.reads,
        final_reads=one.final_reads,
        keys=int(one.appends > 0 or one.reads > 0),
    )


def collect(history: History, batch: Bools | None) -> tuple[dict[str, _Key], list[str]]:
    """Appends and reads of a batch by key, and what keeps reads from being judged. Malformed values are passed over."""
    final = final_began(history)
    keys: dict[str, _Key] = defaultdict(_Key)
    doubts = []
    for op in client_ops(history).rows(LISTS, batch):
        if op.f == "append":
            _collect_append(keys, op)
        elif isinstance(op.shown, HistoryError):
            doubts.append(misfit(op))
        elif isinstance(op.value, str | int) and op.status == "ok":
            values = [] if op.shown is None else op.shown
            if _plain(values):
                key = keys[str(op.value)]
                is_final = op.seq > final
                key.reads.append(_Read(op.seq, op.back, op.node or op.target, values, is_final))
    return dict(keys), doubts


def _plain(values: Any) -> bool:
    """Whether these are whole numbers and words, in a list."""
    if isinstance(values, Shown) and values.known.simple:
        return True
    kinds = set(map(type, values)) if isinstance(values, list | tuple | Shown) else {object}
    return all(issubclass(kind, int | str) for kind in kinds)


def _collect_append(keys: dict[str, _Key], op: Op) -> None:
    pair = op.value
    if not (isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[1], int | str)):
        return
    key = keys[str(pair[0])]
    if pair[1] in key.appends:
        key.again.add(pair[1])
        return
    key.appends[pair[1]] = _Append(op.seq, op.back, op.status)


def _nothing(acked: int, finals: int) -> str:
    if not acked:
        return "no append was acknowledged"
    if not finals:
        return "no final read succeeded"
    return "no final read of a key with acknowledged appends succeeded"


def _lost(history: History, promise: Promise, name: str, key: _Key) -> tuple[list[Finding], int]:
    """Acknowledged appends that the final reads do not hold; and how many were looked for."""
    finals = [read for read in key.reads if read.final]
    acked = {value: one for value, one in key.appends.items() if one.status == "ok" and value not in key.again}
    if not finals or not acked:
        return [], 0
    seen = [(read, set(read.values)) for read in finals]
    decisive = seen if promise.linearizable_reads else [pair for pair in seen if _leads(history, pair[0])]
    lost: dict[Value, _Read] = {}
    for value, one in acked.items():
        missing = next((read for read, held in decisive if value not in held and read.invoked > one.returned), None)
        if missing is None and all(value not in held and read.invoked > one.returned for read, held in seen):
            missing = seen[-1][0]
        if missing is not None:
            lost[value] = missing
    if not lost:
        return [], len(acked)
    value, read = next(iter(lost.items()))
    one = acked[value]
    more = f", and {len(lost) - 1} more" if len(lost) > 1 else ""
    found = finding(
        history,
        promise,
        f"Append of {value!r} to {name!r} was acknowledged and is not in the final read at {read.node}{more}.",
        (one.invoked, one.returned, read.invoked, read.returned),
        nodes=(read.node,),
        data={"key": name, "lost": list(lost)[:50], "lost_count": len(lost)},
    )
    return [found], len(acked)


@per_history
def _polls(history: History) -> tuple[dict[str, Polls], int]:
    """Node → its polls, as they stand in the history; and the highest term of all."""
    table = columns(history)
    node = table.observed.node
    polls = {
        table.words.words[code]: Polls(table, np.flatnonzero(node == code), by="seq")
        for code in np.unique(node).tolist()
    }
    return polls, int(table.observed.term.max(initial=0))


def _leads(history: History, read: _Read) -> bool:
    """Whether the node that answered led, by its last poll before the answer and its first one after it."""
    polls, top = _polls(history)
    mine = polls.get(read.node)
    if mine is None or not (first := mine.before(read.invoked)):
        return False
    later = mine.until(read.returned)
    rows = (mine.at(first - 1), *mine.between(later, min(later + 1, len(mine))))
    return all(row.leads and row.term == top for row in rows)


def _foreign(history: History, promise: Promise, name: str, key: _Key) -> list[Finding]:
    """Values that stand twice in a read, and values that cannot be there."""
    out: list[Finding] = []
    twice: dict[Value, _Read] = {}
    phantom: dict[Value, _Read] = {}
    sound = {value: one.invoked for value, one in key.appends.items() if one.status != "fail" or value in key.again}
    profiles = profiles_of((read.values for read in key.reads), sound)
    for read in key.reads:
        if _each_once(read, sound, profiles):
            continue
        held: set[Value] = set()
        for value in read.values:
            if value in held and value not in key.again:
                twice.setdefault(value, read)
            held.add(value)
            one = key.appends.get(value)
            impossible = one is None or one.invoked > read.returned or (one.status == "fail" and value not in key.again)
            if impossible:
                phantom.setdefault(value, read)
    for values, what in ((twice, "stands more than once"), (phantom, "stands")):
        for value, read in list(values.items())[:3]:
            one = key.appends.get(value)
            why = ""
            if values is phantom:
                why = (
                    ", but no client had written it"
                    if one is None or one.status != "fail"
                    else ", but its append failed"
                )
            certificate = [read.invoked, read.returned]
            certificate += [one.invoked] if one is not None else []
            certificate += [one.returned] if one is not None and one.returned >= 0 else []
            sentence = f"{value!r} {what} in the read of {name!r} at {read.node}{why}."
            out.append(finding(history, promise, sentence, certificate, nodes=(read.node,), data={"key": name}))
    return out


def _each_once(read: _Read, sound: Mapping[Value, int], profiles: Mapping[int, Profile]) -> bool:
    """Whether the read shows every value once, and each of them may be there."""
    values = read.values
    if isinstance(values, Shown):
        profile = profiles[id(values.known)]
        return profile.double > values.size and profile.since[values.size] <= read.returned
    may_be_there = all(sound.get(value, NEVER) <= read.returned for value in values)
    return may_be_there and len(set(values)) == len(values)


def _stale(key: _Key) -> list[tuple[Value, _Append, _Read]]:
    """Reads that lack a value acknowledged before they were asked, or shown by an earlier read: the first such value.

    Values that no read at all shows are lost, not stale.
    """
    known = first_shown((read.values, read.returned) for read in key.reads)
    """value → when it was certain to be there: its acknowledgement or the first read that shows it."""
    for value, one in key.appends.items():
        if one.status == "ok" and value in known:
            known[value] = min(known[value], one.returned)
    due = sorted(
        ((seq, value) for value, seq in known.items() if value in key.appends and value not in key.again),
        key=lambda pair: pair[0],
    )
    out = []
    required = Required(shared_lists(read.values for read in key.reads).values())
    position = 0
    for read in sorted(key.reads, key=lambda one: one.invoked):
        while position < len(due) and due[position][0] < read.invoked:
            required.add(due[position][1])
            position += 1
        missing = required.missing(read.values)
        if missing is not None:
            out.append((missing, key.appends[missing], read))
    return out


def _disagree(key: _Key) -> list[tuple[_Read, _Read]]:
    """Reads of which neither is a prefix of the other: each against the longest one."""
    if not key.reads:
        return []
    longest = max(key.reads, key=lambda read: len(read.values))
    return [(read, longest) for read in key.reads if not begins(longest.values, read.values)]


def _stale_findings(
    history: History, promise: Promise, name: str, stale: list[tuple[Value, _Append, _Read]]
) -> list[Finding]:
    return [
        finding(
            history,
            promise,
            f"A read of {name!r} at {read.node} lacks {value!r}, which was acknowledged, or shown by another read,"
            " before it was asked.",
            (one.invoked, *((one.returned,) if one.returned >= 0 else ()), read.invoked, read.returned),
            nodes=(read.node,),
            data={"key": name},
        )
        for value, one, read in stale[:3]
    ]


def _order_findings(history: History, promise: Promise, name: str, mixed: list[tuple[_Read, _Read]]) -> list[Finding]:
    return [
        finding(
            history,
            promise,
            f"Two reads of {name!r}, at {read.node} and at {longest.node}, disagree about the order of its values.",
            (read.invoked, read.returned, longest.invoked, longest.returned),
            nodes=(read.node, longest.node),
            data={"key": name, "first_difference": _first_difference(read.values, longest.values)},
        )
        for read, longest in mixed[:3]
    ]


def _first_difference(a: Sequence[Any], b: Sequence[Any]) -> int:
    return next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


CHECKER = AcknowledgedSurvives()
