"""lock: two clients never certainly hold a lock at one moment, and fencing tokens rise.

Operations ``acquire``, ``renew``, ``release`` and ``use``. Their value is nil (the lock, or the one of this key; the
owner is the client process), or [owner], or [owner, ttl_ms] where holds run out; of ``use`` it is the token. An
``ok`` acquire or renew may return a fencing token (a whole number). Judged, a lock at a time:

* ``overlap``: two owners certainly held it at one moment. An owner *certainly* holds from the moment at which it was
  granted until it asks for the release, and no longer than its ttl after it ASKED, made shorter by what clocks may
  differ (``drift_ppm_max``). It *possibly* holds from its question until its release was acknowledged; possible holds
  excuse, they never accuse. While an earlier release of the same owner may still take effect, its hold is not certain;
* ``token``: an acquire got a token that is not above one granted before the acquire was asked; or two acquires
  got the same one; or a renew got a lower one than its owner had;
* ``fencing``: a ``use`` was accepted with a lower token than one accepted before it was asked;
* ``not-held``: a release was acknowledged to a client that never asked for the lock before.

Counted, not judged: acquires that failed while no client possibly held (``refused_while_free``). Guarantees: time is
that of sorting. Out of scope: whether one order explains all (the model ``mutex`` of ``linearizable`` says that);
leases without times in the history (then only the release ends a hold, and its ttl makes it uncertain at once).

Source: Gray, Cheriton, "Leases", 1989; Kleppmann, "How to do distributed locking", 2016.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from dethrone.checkers.seen import Anomaly, Seen, SeenChecker, concerning, of_key, place
from dethrone.harness.core.clock import MS, Ns
from dethrone.harness.core.duration import show_duration
from dethrone.harness.core.operations import NEVER, ModelOptions, Operation, Operations, identity

ACTIVE_MAX = 64
"""Holds of one lock at one moment that a new one is compared with: the last ones; more is broken many times over."""

_MILLION = 1_000_000
FOREVER = 2**62
"""The end of a hold that no ttl limits, in ns."""


@dataclass(slots=True)
class Ask:
    """One operation on a lock, understood. ``token`` is -1 where none was granted."""

    f: str
    owner: str
    ttl: Ns | None
    token: int
    op: Operation


@dataclass(slots=True)
class Hold:
    """``owner`` certainly held from the return of ``ask`` to place ``until`` or time ``until_ns``."""

    owner: str
    ask: Ask
    until: int
    until_ns: Ns

    def lasts(self, at: int, at_ns: Ns) -> bool:
        """Whether it certainly lasts at that place, which is that time."""
        return at < self.until and at_ns < self.until_ns


@dataclass(slots=True)
class Lock:
    """One lock; ``asks`` in the order in which they were asked."""

    key: Any
    asks: list[Ask] = field(default_factory=list)


class LockHolds(SeenChecker):
    name = "lock"
    timed = True
    about = "acquire, renew, release, use: certain holds that overlap, fencing tokens that do not rise"

    def functions(self) -> frozenset[str]:
        """Acquire, renew, release and use."""
        return frozenset({"acquire", "renew", "release", "use"})

    def keyed(self, op: Operation) -> Operation:
        """In runs of ours the lock comes first: [lock, owner, ttl_ms]; of use [lock, token]."""
        if not isinstance(op.value, list | tuple) or not op.value:
            return op
        lock, *rest = op.value
        value = (rest[0] if rest else None) if op.f == "use" else (rest or None)
        return concerning(op, lock, value)

    def see(self, operations: Operations, options: ModelOptions) -> Seen:
        """All anomalies of all locks."""
        locks, doubts = collect(operations)
        anomalies: list[Anomaly] = []
        holds = refused = 0
        for lock in locks:
            certain = certain_holds(lock, options.drift_ppm_max)
            holds += len(certain)
            anomalies += _overlaps(lock, certain)
            anomalies += _tokens(lock)
            anomalies += _fencing(lock)
            anomalies += _not_held(lock)
            refused += _refused_while_free(lock)
        tokens = sum(ask.token >= 0 for lock in locks for ask in lock.asks)
        return Seen(
            anomalies=anomalies,
            judged=holds,
            nothing="no client certainly held a lock",
            evidence={"locks": len(locks), "certain_holds": holds, "tokens": tokens},
            doubts=doubts,
            metrics={"refused_while_free": refused} if refused else {},
        )


def collect(operations: Operations) -> tuple[list[Lock], list[str]]:
    """Operations by lock; and what could not be understood."""
    locks: dict[Any, Lock] = {}
    doubts: list[str] = []
    for op in operations.rows:
        if op.f not in ("acquire", "renew", "release", "use"):
            continue
        ask = _ask(op)
        if ask is None:
            doubts.append(f"{op.f}{place(op)} is neither nil nor [owner] nor [owner, ttl_ms] (of use: a token)")
            continue
        lock = locks.get(identity(op.key))
        if lock is None:
            lock = locks[identity(op.key)] = Lock(op.key)
        lock.asks.append(ask)
    return list(locks.values()), doubts


def _ask(op: Operation) -> Ask | None:
    owner, ttl = f"process {op.process}", None
    token = op.result if op.status == "ok" and type(op.result) is int else -1
    if op.f == "use":
        return Ask(op.f, owner, None, op.value, op) if type(op.value) is int else None
    match op.value:
        case None:
            pass
        case [name]:
            owner = str(name)
        case [name, int(ms)] if op.f != "release" and type(ms) is int and ms >= 0:
            owner, ttl = str(name), ms * MS
        case _:
            return None
    return Ask(op.f, owner, ttl, token, op)


def certain_holds(lock: Lock, drift_ppm_max: int) -> list[Hold]:
    """When each owner certainly held the lock, in the order in which the holds began."""
    owners: dict[str, list[Ask]] = defaultdict(list)
    for ask in lock.asks:
        if ask.f != "use":
            owners[ask.owner].append(ask)
    out = [hold for asks in owners.values() for hold in _of_one(asks, drift_ppm_max)]
    return sorted(out, key=lambda hold: hold.ask.op.returned)


def _of_one(asks: Sequence[Ask], drift_ppm_max: int) -> Iterator[Hold]:
    """The certain holds of one owner. Its own later questions may shorten one: a release, or a shorter ttl."""
    released, shortest = _later(asks, drift_ppm_max)
    open_before: list[Ask] = []
    """Earlier questions without an answer when this one was asked: they may still take effect after it."""
    never_over: list[Ask] = []
    """Those of them that were never answered: any release, and of the others the one with the shortest ttl."""
    for at, ask in enumerate(asks):
        op = ask.op
        open_before = [one for one in open_before if one.op.returned > op.invoked]
        if ask.f != "release" and op.status == "ok":
            until = min(released[at], op.returned) if _release_among(open_before, never_over) else released[at]
            until_ns = min(_ends(op.invoked_ns, ask.ttl, drift_ppm_max), shortest[at])
            for one in (*open_before, *never_over):
                until_ns = min(until_ns, _ends(op.invoked_ns, one.ttl, drift_ppm_max))
            hold = Hold(ask.owner, ask, until, until_ns)
            if hold.lasts(op.returned, op.returned_ns):
                yield hold
        if op.status == "fail":
            continue
        if op.returned < NEVER:
            open_before.append(ask)
        else:
            never_over = _kept([*never_over, ask])


def _release_among(*asks: Sequence[Ask]) -> bool:
    return any(one.f == "release" for some in asks for one in some)


def _kept(asks: Sequence[Ask]) -> list[Ask]:
    """One release, and the question with the shortest ttl: the others change nothing in addition."""
    releases = [one for one in asks if one.f == "release"]
    others = [one for one in asks if one.f != "release"]
    return [*releases[:1], *sorted(others, key=lambda one: FOREVER if one.ttl is None else one.ttl)[:1]]


def _later(asks: Sequence[Ask], drift_ppm_max: int) -> tuple[list[int], list[Ns]]:
    """By question: where the next release was asked for, and when the leases that were asked for before it end."""
    released, shortest = [NEVER] * len(asks), [FOREVER] * len(asks)
    release, end = NEVER, FOREVER
    for at in range(len(asks) - 1, -1, -1):
        released[at], shortest[at] = release, end
        ask = asks[at]
        if ask.op.status == "fail":
            continue
        if ask.f == "release":
            release, end = ask.op.invoked, FOREVER
        else:
            end = min(end, _ends(ask.op.invoked_ns, ask.ttl, drift_ppm_max))
    return released, shortest


def _ends(asked_ns: Ns, ttl: Ns | None, drift_ppm_max: int) -> Ns:
    """When a lease asked for then is over at the earliest, by the clock of the history; at once if it has no times."""
    if ttl is None:
        return FOREVER
    if asked_ns < 0:
        return -1
    return asked_ns + ttl * _MILLION // (_MILLION + drift_ppm_max)


def _overlaps(lock: Lock, certain: Sequence[Hold]) -> Iterator[Anomaly]:
    """Each hold, as it begins, against those that have not ended."""
    active: list[Hold] = []
    for hold in certain:
        op = hold.ask.op
        active = [one for one in active if one.lasts(op.returned, op.returned_ns)][-ACTIVE_MAX:]
        other = next((one for one in active if one.owner != hold.owner), None)
        if other is not None:
            yield Anomaly(
                kind="overlap",
                sentence=f"overlap: {other.owner}{_with(other.ask)} and {hold.owner}{_with(hold.ask)} both certainly"
                f" held the lock{of_key(lock.key)}{_for(other, hold)}.",
                proof=(other.ask.op, op),
                data={"owners": [other.owner, hold.owner]},
            )
        active.append(hold)


def _with(ask: Ask) -> str:
    token = f" with token {ask.token}" if ask.token >= 0 else ""
    return token + place(ask.op)


def _for(one: Hold, other: Hold) -> str:
    """For how long, where times show it."""
    end = min(one.until_ns, other.until_ns)
    if end >= FOREVER or other.ask.op.returned_ns < 0:
        return ""
    return f" for up to {show_duration(end - other.ask.op.returned_ns)}"


def _after_highest(asks: Sequence[Ask]) -> Iterator[tuple[Ask, Ask | None]]:
    """Each of them with the one of the highest token that had returned before it was asked."""
    back = sorted(asks, key=lambda ask: ask.op.returned)
    position = 0
    best: Ask | None = None
    for ask in asks:
        while position < len(back) and back[position].op.returned < ask.op.invoked:
            if best is None or back[position].token > best.token:
                best = back[position]
            position += 1
        yield ask, best


def _tokens(lock: Lock) -> Iterator[Anomaly]:
    """Tokens against the highest that was granted before they were asked for."""
    given = [ask for ask in lock.asks if ask.f in ("acquire", "renew") and ask.token >= 0]
    first: dict[int, Ask] = {}
    for ask, best in _after_highest(given):
        twin = first.get(ask.token)
        if ask.f == "acquire":
            if twin is not None and twin.owner != ask.owner:
                yield _token(lock, twin, ask, f"both received token {ask.token}")
                continue
            first.setdefault(ask.token, ask)
        if best is not None and (ask.token < best.token):
            yield _token(lock, best, ask, f"received token {best.token} and then token {ask.token}")


def _token(lock: Lock, before: Ask, after: Ask, what: str) -> Anomaly:
    return Anomaly(
        kind="token",
        sentence=f"token: {before.owner}{place(before.op)} and {after.owner}{place(after.op)} {what} of the"
        f" lock{of_key(lock.key)}.",
        proof=(before.op, after.op),
        data={"tokens": [before.token, after.token]},
    )


def _fencing(lock: Lock) -> Iterator[Anomaly]:
    """What is guarded refuses a token below one that it accepted before."""
    uses = [ask for ask in lock.asks if ask.f == "use" and ask.op.status == "ok"]
    for ask, best in _after_highest(uses):
        if best is not None and ask.token < best.token:
            yield Anomaly(
                kind="fencing",
                sentence=f"fencing: token {ask.token} was accepted{place(ask.op)}{of_key(lock.key)} after token"
                f" {best.token} had been{place(best.op)}.",
                proof=(best.op, ask.op),
                data={"tokens": [best.token, ask.token]},
            )


def _not_held(lock: Lock) -> Iterator[Anomaly]:
    """Releases that were acknowledged to owners who had not asked for the lock."""
    asked: set[str] = set()
    waiting: dict[str, list[Ask]] = defaultdict(list)
    for ask in lock.asks:
        if ask.f in ("acquire", "renew") and ask.op.status != "fail":
            asked.add(ask.owner)
            # a question that came before the release was acknowledged may have been granted before it
            waiting[ask.owner] = [one for one in waiting[ask.owner] if one.op.returned < ask.op.invoked]
            yield from _unheld(lock, waiting.pop(ask.owner))
        elif ask.f == "release" and ask.op.status == "ok" and ask.owner not in asked:
            waiting[ask.owner].append(ask)
    for rest in waiting.values():
        yield from _unheld(lock, rest)


def _unheld(lock: Lock, releases: Sequence[Ask]) -> Iterator[Anomaly]:
    for ask in releases:
        yield Anomaly(
            kind="not-held",
            sentence=f"not-held: {ask.owner} gave back the lock{of_key(lock.key)}{place(ask.op)} and had never asked"
            " for it.",
            proof=(ask.op,),
        )


def _refused_while_free(lock: Lock) -> int:
    """Acquires that certainly failed although no client can have held the lock at any moment of them."""
    begun: list[tuple[int, int]] = []
    """Possible holds: from the question to the return of the release that certainly ended it."""
    ends: dict[str, list[int]] = defaultdict(list)
    for ask in lock.asks:
        if ask.f == "release" and ask.op.status == "ok":
            ends[ask.owner].append(ask.op.returned)
    for over in ends.values():
        over.sort()
    for ask in lock.asks:
        if ask.f in ("acquire", "renew") and ask.op.status != "fail":
            over = ends[ask.owner]
            next_at = bisect_right(over, ask.op.invoked)
            end = over[next_at] if next_at < len(over) else NEVER
            begun.append((ask.op.invoked, end if ask.op.status == "ok" else NEVER))
    begun.sort()
    count = position = 0
    reach = -1
    failed = sorted(
        (ask.op for ask in lock.asks if ask.f == "acquire" and ask.op.status == "fail" and ask.op.returned < NEVER),
        key=lambda op: op.returned,
    )
    for op in failed:
        while position < len(begun) and begun[position][0] < op.returned:
            reach = max(reach, begun[position][1])
            position += 1
        count += reach < op.invoked
    return count


CHECKER = MODEL = LockHolds()
