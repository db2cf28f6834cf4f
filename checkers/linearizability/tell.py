"""Violations as a sentence, operations and a drawing. Proofs of the quick engines are made small here.

Guarantees: the operations named cannot be put in order by themselves; positions in drawings are those of the Ops given.
Out of scope: finding violations, and drawing them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

import numpy as np

from dethrone.checkers.linearizability import grow_sets, minimal, queues, zones
from dethrone.checkers.linearizability.answer import Bar, Violation, Zone
from dethrone.checkers.linearizability.search import Since, Stuck
from dethrone.checkers.models.base import Model
from dethrone.checkers.models.ops import FAIL, NOTHING, OK, OPEN, UNTOLD, F, Ints, Ops
from dethrone.checkers.models.register import Register

BARS_MAX = 60
"""Operations drawn; a longer proof is drawn at its end."""
WORD_MAX = 40
_STATUS: tuple[Literal["ok", "fail", "info"], ...] = ("ok", "fail", "info")
Role = Literal["", "stuck", "first", "second", "between"]


def key_word(ops: Ops) -> Any:
    """The key of these operations, None if there is none."""
    return ops.keys.words[int(ops.key[0])] if len(ops) else None


def word(value: Any) -> str:
    """A value as people read it, cut where it is long."""
    text = "nil" if value is None else repr(value)
    return text if len(text) <= WORD_MAX else text[: WORD_MAX - 1] + "…"


def label(ops: Ops, row: int) -> str:
    """One operation in a few words: ``write 3``, ``read → nil``, ``cas 1 → 2``."""
    words = ops.values.words
    f, a, b, known = F(int(ops.f[row])), int(ops.a[row]), int(ops.b[row]), ops.status[row] == OK
    name = f.name.lower()
    if f is F.CAS:
        return f"cas {word(words[a])} → {word(words[b])}"
    if f in (F.ACQUIRE, F.RELEASE):
        return name
    if f is F.TXN:
        parts = (
            f"{ops.keys.words[key]}{'←' if kind == F.WRITE else '→'}{word(words[value])}"
            for kind, key, value in words[a]
        )
        return "txn " + " ".join(parts)
    if f in (F.READ, F.DEQUEUE):
        if not known:
            return name
        if isinstance(words[a], frozenset):
            shown = sorted(word(words[code]) for code in sorted(words[a])[:8])
            return f"read → {{{', '.join(shown)}{', …' if len(words[a]) > len(shown) else ''}}}"
        return f"{name} → {'empty' if f is F.DEQUEUE and a == NOTHING else word(words[a])}"
    answer = "" if b == UNTOLD else f" → {'yes' if b else 'no'}"
    return f"{name} {word(words[a])}{answer}"


def bars(ops: Ops, rows: Iterable[int], role: Callable[[int], Role]) -> tuple[Bar, ...]:
    """Operations to draw, in order of their calls."""
    return tuple(
        Bar(
            op=int(ops.id[row]),
            label=label(ops, row),
            call=int(ops.call[row]),
            ret=None if ops.ret[row] == OPEN else int(ops.ret[row]),
            status=_STATUS[int(ops.status[row])],
            role=role(row),
        )
        for row in sorted(rows, key=lambda one: int(ops.call[one]))[-BARS_MAX:]
    )


def at_key(key: Any) -> str:
    """How a sentence names the key; nothing where there is none."""
    return "" if key is None else f" of {word(key)}"


# --- registers --------------------------------------------------------------------------------------------------


def register_clash(ops: Ops, model: Register, clash: zones.Clash) -> Violation:
    """What the zones found, made small."""
    start = model.start(ops.values)
    initial = int(start) if isinstance(start, int) else 0

    def still(rest: Ops) -> bool:
        return len(zones.judge(rest, initial=initial, strict=False, clashes_max=1).bad) > 0

    proof = ops.take(clash.rows)
    # Of many operations of two clusters only a few carry their zones.
    if len(proof) > 64 and clash.rule in ("overlap", "inside", "early"):
        few = ops.take(_carriers(ops, clash))
        proof = few if still(few) else proof
    cascade = minimal.register_cascade(ops.take(ops.key == clash.key), model)
    small = minimal.fewest(proof, still, cascade)
    again = zones.judge(small, initial=initial, strict=False, clashes_max=1)
    final = next(iter(again.clashes.values()))
    first = set(small.id[final.first].tolist())
    second = set(small.id[final.second].tolist()) - first

    rivals = set(_rivals(small, final.first)) if final.rule == "two-cas" else set()

    def role(row: int) -> Role:
        op = int(small.id[row])
        if row in rivals:
            return "stuck"
        return "first" if op in first else "second" if op in second else "between"

    key = ops.keys.words[clash.key]
    return Violation(
        rule=final.rule,
        sentence=_register_sentence(small, final, key),
        key=key,
        ops=tuple(sorted(small.id.tolist())),
        bars=bars(small, range(len(small)), role),
        zones=tuple(
            _zone(small, rows, int(start) if isinstance(start, int) else 0)
            for rows in (final.first, final.second)
            if len(rows)
        ),
    )


def _carriers(ops: Ops, clash: zones.Clash) -> Ints:
    """Of each side: all that changes the value, the first to return and the last to be called."""
    picked = []
    for rows in (clash.first, clash.second):
        if not len(rows):
            continue
        changes = rows[(ops.f[rows] == F.WRITE) | (ops.f[rows] == F.CAS)]
        picked += [changes, rows[[np.argmin(ops.ret[rows])]], rows[[np.argmax(ops.call[rows])]]]
        # A read before its write shows only together with the one that returned first of its own value.
        for value in np.unique(ops.a[rows])[:64].tolist():
            same = rows[ops.a[rows] == value]
            picked += [same[[np.argmin(ops.ret[same])]], same[[np.argmax(ops.call[same])]]]
    return np.unique(np.concatenate(picked))


def _zone(ops: Ops, rows: Ints, initial: int) -> Zone:
    first, last = int(ops.ret[rows].min()), int(ops.call[rows].max())
    values = ops.values.words
    wrote = [values[int(ops.a[row])] for row in rows.tolist() if ops.f[row] == F.WRITE]
    shown = wrote or [values[int(ops.a[row])] for row in rows.tolist() if ops.f[row] == F.READ]
    if not wrote and bool(np.any((ops.f[rows] == F.READ) & (ops.a[rows] == initial))):
        first = -1
    return Zone(
        label=", ".join(dict.fromkeys(word(value) for value in shown[:3])),
        lo=min(first, last),
        hi=max(first, last),
        forward=first < last,
    )


def _rivals(ops: Ops, rows: Ints) -> list[int]:
    """Of these the compare-and-set that found one value, the first that more than one of them found."""
    swaps = rows[(ops.f[rows] == F.CAS) & (ops.status[rows] != FAIL)]
    values, count = np.unique(ops.a[swaps], return_counts=True)
    often = values[count > 1]
    same = swaps[ops.a[swaps] == often[0]] if len(often) else swaps
    return [int(row) for row in (same if len(same) else rows)]


def _register_sentence(ops: Ops, clash: zones.Clash, key: Any) -> str:
    words = ops.values.words
    named = at_key(key)

    def value(rows: Ints) -> str:
        reads = rows[ops.f[rows] == F.READ]
        rows = reads if len(reads) else rows
        return word(words[int(ops.a[rows[0]])])

    if clash.rule == "phantom":
        return f"A read{named} answered {value(clash.first)}, which no client ever wrote."
    if clash.rule == "early":
        return f"A read{named} had answered {value(clash.first)} before any client began to write it."
    if clash.rule == "two-cas":
        found = word(words[int(ops.a[_rivals(ops, clash.first)[0]])])
        return f"Two compare-and-set{named} both found {found}, which was written once."
    if clash.rule == "ring":
        return (
            f"Compare-and-set{named} lead from a value back to itself,"
            " and no other operation wrote one of these values."
        )
    if clash.rule == "chain":
        return f"The compare-and-set{named} that follow one another did not happen in that order."
    one, other = value(clash.first), value(clash.second)
    if clash.rule == "inside":
        return f"All that is known of {other}{named} happened while the value certainly was {one}."
    return f"The values {one} and {other}{named} each would have to come before the other."


# --- queues and sets --------------------------------------------------------------------------------------------


def queue_broken(ops: Ops, broken: queues.Broken) -> Violation:
    """What the queue engine found."""
    key = key_word(ops)
    named = at_key(key)
    words = ops.values.words

    def value(rows: Ints) -> str:
        return word(words[int(ops.a[rows[0]])]) if len(rows) else "?"

    one, other = value(broken.first), value(broken.second)
    sentence = {
        "phantom": f"A dequeue{named} answered {one}, which no client ever put in.",
        "early": f"A dequeue{named} had answered {one} before any client began to put it in.",
        "twice": f"{one} was put into the queue{named} once and taken out twice.",
        "order": f"{other} went into the queue{named} after {one}, and came out before it.",
        "empty": f"A dequeue{named} found the queue empty although something was in it all the time.",
    }[broken.rule]
    return _pair(ops, broken.rule, sentence, broken.first, broken.second)


def set_broken(ops: Ops, broken: grow_sets.Broken) -> Violation:
    """What the engine of growing sets found."""
    named = at_key(key_word(ops))
    element = word(ops.values.words[broken.element]) if broken.element >= 0 else "an element"
    sentence = {
        "phantom": f"A read of the set{named} shows {element}, which no client ever added.",
        "fork": f"Of two reads of the set{named}, each lacks something that the other one shows: {element}.",
        "lost": f"{element} was added{named} before something that a later read without it shows.",
        "early": f"A read of the set{named} shows less, or {element} sooner, than what happened before it allows.",
    }[broken.rule]
    return _pair(ops, broken.rule, sentence, broken.first, broken.second)


def _pair(ops: Ops, rule: str, sentence: str, first: Ints, second: Ints) -> Violation:
    ones, others = set(first.tolist()), set(second.tolist())
    rows = sorted(ones | others)

    def role(row: int) -> Role:
        return "first" if row in ones else "second"

    return Violation(
        rule=rule,
        sentence=sentence,
        key=key_word(ops),
        ops=tuple(sorted(int(ops.id[row]) for row in rows)),
        bars=bars(ops, rows, role),
    )


# --- the search -------------------------------------------------------------------------------------------------


def stuck(ops: Ops, model: Model, found: Stuck, *, since: Since | None, came: int) -> Violation:
    """Where every order got stuck. ``came``: returns that had been put in order."""
    key = key_word(ops)
    states = tuple(dict.fromkeys(_state(ops, model, state) for state in found.states[:8]))
    what = label(ops, found.row)
    held = f"it may have held {' or '.join(states)}" if states else "nothing is left that it may have held"
    sentence = (
        f"After {came} operations{at_key(key)} had been put in order, {what} fits nowhere:"
        f" when it had to happen, {held}."
    )
    telling = (ops.status != FAIL) | (isinstance(model, Register) and model.strict_cas)

    def role(row: int) -> Role:
        return "stuck" if row == found.row else ""

    return Violation(
        rule="stuck",
        sentence=sentence,
        key=key,
        ops=tuple(sorted(ops.id[telling].tolist())),
        bars=bars(ops, np.flatnonzero(telling).tolist(), role),
        stuck_at=int(ops.ret[found.row]),
        states=states,
        since=None if since is None else since.position,
    )


def _state(ops: Ops, model: Model, state: object) -> str:
    words = ops.values.words
    if isinstance(model, Register) and isinstance(state, int):
        return word(words[state])
    if isinstance(state, tuple | frozenset) and all(isinstance(item, int) for item in state):
        inner = ", ".join(word(words[item]) for item in list(state)[:8])
        return f"[{inner}]" if isinstance(state, tuple) else f"{{{inner}}}"
    return word(state)
