"""lease-exclusion: two certain holds of a lease never overlap, and fencing tokens rise in real-time order.

Two kinds of leases are judged, as far as a run uses them:

* *locks of clients* (workload ``lease``): ``acquire`` and ``renew`` [lock, owner, ttl_ms] → token, ``release`` [lock,
  owner] → token, ``holder`` lock → [owner, token]. An owner *certainly* holds from the moment at which it received the
  grant until its ttl has passed since it ASKED, or until it asks for the release; the system counts its ttl from later
  on and by no faster clock (within its drift), so no other may certainly hold then. Asking again with a shorter ttl
  shortens its hold. It *possibly* holds from its question on until a release was acknowledged; possible holds are never
  compared. A hold is not certain if an earlier release of the same owner may still take effect.
  Tokens: an acquired token is above every token granted before it was asked for; a renewed, released or seen one is not
  below. A token that was given back is not seen again. While a client certainly holds, any client that asks sees it.
  What a
  ``holder`` answers is judged only where reads are promised to be linearizable.
* *leases of leaders* (``read_served`` with what was left of the lease): no read is served under the lease of a leader
  after a leader of a higher term was witnessed to report a commit that this read does not know. The lease is there to
  prevent exactly that; reads that a round confirmed are no matter of it.

Clocks that ran apart by more than the promise allows (``drift_ppm_max``) excuse everything after it; so does a fault of
clocks that the promise bears for its other properties of safety only (``Promise.safe_under``).

Out of scope: operations whose outcome is unknown (they may hold, never certainly), locks that no client gets although
none holds them, and leases that no event shows. Precedence is that of the history.

Source: Gray, Cheriton, "Leases", 1989; Ongaro, thesis, 6.4.1; tokens: Kleppmann, "How to do distributed locking", 2016.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from dethrone.checkers.base import Base, finding, moment
from dethrone.checkers.excuses import excuses
from dethrone.checkers.facts import in_group
from dethrone.checkers.traces import named
from dethrone.harness.core.client_ops import Op, client_ops
from dethrone.harness.core.clock import MS, Ns
from dethrone.harness.core.duration import show_duration
from dethrone.harness.core.events import Converged, Traced
from dethrone.harness.core.history import History
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.verdict import Finding, Verdict

COMMITS = named("commit")
WORKLOAD = "lease"
_MILLION = 1_000_000
_LOCKING = frozenset({"acquire", "renew", "release", "holder"})


def _under_lease(event: Traced) -> bool:
    return event.term > 0 and isinstance(event.data.get("lease_left"), int)


lease_reads = named("read_served", _under_lease)
"""Reads that a leader served because its lease covered them."""


@dataclass(slots=True)
class _Op:
    """One operation on one lock that was answered ok, or (``token`` -1) may have taken effect."""

    f: str
    owner: str
    ttl: Ns
    token: int
    asked: Op
    told: Op | None
    """The same, if it was answered ``ok``."""


@dataclass(slots=True)
class _Hold:
    """``owner`` certainly held from ``lo`` to ``hi``; ``seqs``: its question and answer."""

    owner: str
    token: int
    lo: Ns
    hi: Ns
    seqs: tuple[int, int]


@dataclass(slots=True)
class _Lock:
    group: str
    name: str
    ops: list[_Op] = field(default_factory=list)
    """In the order of their questions."""


class LeaseExclusion(Base):
    name = "lease-exclusion"
    kind = "safety"
    channels = ("ops", "traced")
    views = (client_ops, lease_reads)

    def examine(self, history: History, promise: Promise, plan: Plan) -> Verdict:
        """The verdict."""
        locks = collect(history)
        reads = lease_reads(history)
        if not locks and not reads and plan.workload.name != WORKLOAD and history.complete:
            return self.na("not exercised: no client asked for a lease, and no read was served under one")
        findings: list[Finding] = []
        holds = tokens = 0
        for lock in locks:
            certain = certain_holds(lock)
            holds += len(certain)
            tokens += sum(op.token >= 0 for op in lock.ops)
            findings += _overlaps(history, promise, lock, certain)
            findings += _falling_tokens(history, promise, lock)
            if promise.linearizable_reads:
                findings += _unseen(history, promise, lock, certain)
        stale, compared = _stale_reads(history, promise, reads)
        findings = [_excused_by_clocks(history, promise, one) for one in (*findings, *stale)]
        return self.conclude(
            history,
            findings=sorted(findings, key=lambda one: one.certificate),
            judged=holds + compared,
            nothing="no client certainly held a lease",
            evidence={
                "locks": len(locks),
                "certain_holds": holds,
                "tokens": tokens,
                "lease_reads": len(reads),
                "lease_reads_compared": compared,
            },
        )


def _excused_by_clocks(history: History, promise: Promise, one: Finding) -> Finding:
    """The same finding; excused where clocks had run apart by more than leases are promised to bear."""
    if one.excused is not None:
        return one
    until = max(moment(history.at(seq)) for seq in one.certificate)
    why = excuses(history, promise).timing(until)
    since = drifted_apart(history, promise)
    if why is None and since is not None and until >= since:
        why = f"clocks ran apart by more than {promise.drift_ppm_max} ppm"
    return one if why is None else msgspec.structs.replace(one, excused=why)


def drifted_apart(history: History, promise: Promise) -> Ns | None:
    """Since when two clocks, the clients' included, may have differed in rate by more than the promise allows."""
    if promise.drift_ppm_max is None:
        return None
    rates: dict[str, int] = {}
    for event in sorted(history.of(Converged), key=lambda one: (one.span.lo, one.seq)):
        skew = event.after.suffered.clock
        rates[event.host] = 0 if skew is None else skew.mono_rate_ppm
        fastest, slowest = max(0, *rates.values()), min(0, *rates.values())
        if (_MILLION + fastest) * _MILLION > (_MILLION + slowest) * (_MILLION + promise.drift_ppm_max):
            return event.span.lo
    return None


# --- locks of clients -------------------------------------------------------------------------------------------


def collect(history: History) -> list[_Lock]:
    """Operations by lock. Malformed values and failed operations are skipped: they had no effect."""
    locks: dict[tuple[str, str], _Lock] = {}
    for asked in client_ops(history).rows(_LOCKING):
        op = _op(asked)
        if op is None:
            continue
        name = str(asked.value if asked.f == "holder" else asked.value[0])
        locks.setdefault((asked.group, name), _Lock(asked.group, name)).ops.append(op)
    return [locks[key] for key in sorted(locks)]


def _op(asked: Op) -> _Op | None:
    ok = asked.status == "ok"
    if asked.status == "fail":
        return None
    if asked.f == "holder":
        if not ok or not isinstance(asked.value, str):
            return None
        match asked.shown:
            case None:
                return _Op("holder", "", 0, -1, asked, asked)
            case [str(owner), int(token)]:
                return _Op("holder", owner, 0, token, asked, asked)
        return None
    match asked.value:
        case [str(), str(owner), int(ttl_ms)] if asked.f != "release":
            ttl = ttl_ms * MS
        case [str(), str(owner)] if asked.f == "release":
            ttl = 0
        case _:
            return None
    token = asked.shown if ok and isinstance(asked.shown, int) else -1
    return _Op(asked.f, owner, ttl, token, asked, asked if ok else None)


def certain_holds(lock: _Lock) -> list[_Hold]:
    """When each owner certainly held the lock."""
    owners: dict[str, list[_Op]] = defaultdict(list)
    for op in lock.ops:
        if op.f != "holder":
            owners[op.owner].append(op)
    out = [hold for ops in owners.values() for hold in _of_one(ops)]
    return sorted(out, key=lambda hold: (hold.lo, hold.seqs))


def _of_one(ops: list[_Op]) -> Iterable[_Hold]:
    """The certain holds of one owner. Its own later questions may shorten a hold: a release, or a shorter ttl."""
    open_before: list[_Op] = []
    """Earlier operations that had no answer when this one was asked: they may still take effect after it."""
    for position, op in enumerate(ops):
        open_before = [one for one in open_before if one.told is None or one.told.back > op.asked.seq]
        if op.f != "release" and op.told is not None and op.token >= 0:
            lo, hi = op.told.back_t, op.asked.t + op.ttl
            for one in open_before:
                hi = min(hi, lo if one.f == "release" else op.asked.t + one.ttl)
            for one in ops[position + 1 :]:
                if one.asked.t >= hi:
                    break
                hi = min(hi, one.asked.t + one.ttl)
            if lo < hi:
                yield _Hold(op.owner, op.token, lo, hi, (op.asked.seq, op.told.back))
        open_before.append(op)


def _overlaps(history: History, promise: Promise, lock: _Lock, certain: list[_Hold]) -> Iterable[Finding]:
    """Each hold against the one that reaches furthest of every other owner before it."""
    furthest: dict[str, _Hold] = {}
    for hold in certain:
        rivals = [other for owner, other in furthest.items() if owner != hold.owner and other.hi > hold.lo]
        if rivals:
            other = max(rivals, key=lambda one: one.hi)
            yield finding(
                history,
                promise,
                f"{other.owner} (token {other.token}) and {hold.owner} (token {hold.token}) both certainly held"
                f" {lock.name}{in_group(lock.group)} for {show_duration(min(hold.hi, other.hi) - hold.lo)}.",
                (*other.seqs, *hold.seqs),
                data={"lock": lock.name, "owners": [other.owner, hold.owner]},
            )
        if hold.owner not in furthest or furthest[hold.owner].hi < hold.hi:
            furthest[hold.owner] = hold


def _falling_tokens(history: History, promise: Promise, lock: _Lock) -> Iterable[Finding]:
    """Tokens against the highest that was granted before their question, and against those given back."""
    told = sorted((op for op in lock.ops if op.told is not None and op.token >= 0), key=_answer)
    position = 0
    best: _Op | None = None
    given_back: dict[int, _Op] = {}
    for op in lock.ops:
        while position < len(told) and _answer(told[position]) < op.asked.seq:
            one = told[position]
            position += 1
            if one.f == "holder" and not promise.linearizable_reads:
                continue
            if best is None or one.token > best.token:
                best = one
            if one.f == "release":
                given_back.setdefault(one.token, one)
        if op.told is None or op.token < 0 or (op.f == "holder" and not promise.linearizable_reads):
            continue
        what = {"acquire": "was given", "renew": "renewed", "release": "gave back", "holder": "was seen with"}[op.f]
        who = f"{op.owner} {what} token {op.token} of {lock.name}{in_group(lock.group)}"
        if best is not None and (op.token < best.token or (op.token == best.token and op.f == "acquire")):
            sentence = f"{who} after token {best.token} had been granted to {best.owner or 'another owner'}."
            if op.token == best.token:
                sentence = f"{who}, which {best.owner} had received before."
            yield _token_finding(history, promise, sentence, best, op)
        elif op.token in given_back:
            owner = given_back[op.token].owner
            yield _token_finding(history, promise, f"{who} after {owner} had given it back.", given_back[op.token], op)


def _token_finding(history: History, promise: Promise, sentence: str, before: _Op, op: _Op) -> Finding:
    return finding(history, promise, sentence, (before.asked.seq, _answer(before), op.asked.seq, _answer(op)))


def _unseen(history: History, promise: Promise, lock: _Lock, certain: list[_Hold]) -> Iterable[Finding]:
    """A question that is asked and answered while one owner certainly holds the lock must name that owner."""
    for op in lock.ops:
        if op.f != "holder" or op.told is None or op.token >= 0:
            continue
        hold = next((one for one in certain if one.lo < op.asked.t and op.told.back_t < one.hi), None)
        if hold is None or hold.seqs[1] > op.asked.seq:
            continue
        yield finding(
            history,
            promise,
            f"A client saw no holder of {lock.name}{in_group(lock.group)} while {hold.owner} (token {hold.token})"
            " certainly held it.",
            (*hold.seqs, op.asked.seq, op.told.back),
        )


def _answer(op: _Op) -> int:
    return -1 if op.told is None else op.told.back


# --- leases of leaders ------------------------------------------------------------------------------------------


def _stale_reads(history: History, promise: Promise, reads: Sequence[Traced]) -> tuple[list[Finding], int]:
    """(findings, reads that could be compared: a node led a higher term in the end)."""
    commits: dict[str, list[tuple[Ns, int, int, Traced]]] = defaultdict(list)
    for event in COMMITS(history) if reads else ():
        index: Any = event.data.get("index")
        if event.source == "shell" and isinstance(index, int):
            commits[event.group].append((event.span.hi, event.term, index, event))
    findings: list[Finding] = []
    reported: set[tuple[str, str, int]] = set()
    compared = 0
    for group, rows in commits.items():
        rows.sort(key=lambda row: (row[0], row[3].seq))
        position = 0
        newest: dict[int, tuple[int, Traced]] = {}
        """Term → the highest commit reported in it so far, and by what event."""
        for read in sorted((one for one in reads if one.group == group), key=lambda one: (one.span.lo, one.seq)):
            while position < len(rows) and rows[position][0] < read.span.lo:
                _, term, index, event = rows[position]
                position += 1
                if term not in newest or newest[term][0] < index:
                    newest[term] = (index, event)
            compared += 1
            known: Any = read.data.get("readIndex")
            known = known if isinstance(known, int) else 0
            later = [row for term, row in newest.items() if term > read.term and row[0] > known]
            key = (group, read.node, read.term)
            if not later or key in reported:
                continue
            reported.add(key)
            index, event = max(later, key=lambda row: row[0])
            findings.append(
                finding(
                    history,
                    promise,
                    f"{read.node} served a read under its lease of term {read.term}{in_group(group)}, up to entry"
                    f" {known}, {show_duration(read.span.lo - event.span.hi)} after {event.node} "
                    f"had committed entry {index}"
                    f" in term {event.term}.",
                    (event.seq, read.seq),
                    nodes=(read.node, event.node),
                    term=read.term,
                )
            )
    return findings, compared


CHECKER = LeaseExclusion()
