"""Linearizability from its definition, for a dozen operations: every order there is.

Written for tests only, from scratch: no code is shared with the checkers. An operation is a dict:
``f, key, value, output, call, ret (None: never), status``.
"""

from __future__ import annotations

UNSET = object()


def precedes(x, y):
    """x returned, with a known outcome, before y was called."""
    return x["ret"] is not None and x["status"] == "ok" and x["ret"] < y["call"]


def linearizable(ops, apply, state):
    """Some order of all ok operations and any of the unknown ones, real time respected, that ``apply`` accepts.

    ``optional`` operations may be left out, but if they are not they are in real time.
    """
    live = [op for op in ops if op["status"] != "fail" or op.get("negative")]
    before = [
        {
            j
            for j, y in enumerate(live)
            if y["ret"] is not None and y["status"] in ("ok", "fail") and y["ret"] < live[i]["call"]
        }
        for i in range(len(live))
    ]
    optional = {i for i, op in enumerate(live) if op.get("optional")}
    must = {i for i, op in enumerate(live) if op["status"] in ("ok", "fail")} - optional
    dead = set()

    def go(done, state):
        if must <= done:
            return True
        if (done, state) in dead:
            return False
        for i, op in enumerate(live):
            if i in done or not before[i] - optional <= done:
                continue
            if i in optional and any(i in before[j] for j in done):
                continue
            after = apply(state, op)
            if after is not UNSET and go(done | {i}, after):
                return True
        dead.add((done, state))
        return False

    return go(frozenset(), state)


def freeze(value):
    """Hashable, and telling 1 from True."""
    if isinstance(value, (list, tuple)):
        return tuple(freeze(item) for item in value)
    return (type(value).__name__, value)


def register(state, op):
    """A dict of keys as a sorted tuple; nothing unset is in it. ``state`` = (initial, pairs)."""
    initial, pairs = state
    held = dict(pairs)
    now = held.get(op["key"], initial)
    if op["f"] == "read":
        return state if op["status"] != "ok" or freeze(op["output"]) == freeze(now) else UNSET
    if op["f"] == "write":
        held[op["key"]] = op["value"]
    else:
        old, new = op["value"]
        same = freeze(old) == freeze(now)
        if op["status"] == "fail":
            return UNSET if same else state
        if not same:
            return UNSET
        held[op["key"]] = new
    return (initial, tuple(sorted(held.items())))


def multi_register(state, op):
    """Micro-operations one after another, all at one moment."""
    initial, pairs = state
    held = dict(pairs)
    for f, key, value in op["output"] if op["status"] == "ok" else op["value"]:
        if f == "w":
            held[key] = value
        elif op["status"] == "ok" and held.get(key, initial) != value:
            return UNSET
    return (initial, tuple(sorted(held.items())))


def mutex(state, op):
    """The set of held locks."""
    if op["f"] == "acquire":
        return UNSET if op["key"] in state else state | {op["key"]}
    return state - {op["key"]} if op["key"] in state else UNSET


def fifo(state, op):
    """A dict of queues as a sorted tuple of (key, tuple)."""
    queues = dict(state)
    line = queues.get(op["key"], ())
    if op["f"] == "enqueue":
        line = (*line, op["value"])
    elif op["status"] == "info":
        line = line[1:]
    elif op["output"] is None:
        if line:
            return UNSET
    elif not line or line[0] != op["output"]:
        return UNSET
    else:
        line = line[1:]
    queues[op["key"]] = line
    return tuple(sorted(queues.items()))


def sets(state, op):
    """The set of (key, element)."""
    key, told = op["key"], op["output"] if op["status"] == "ok" else None
    if op["f"] == "read":
        if op["status"] != "ok":
            return state
        return state if {e for k, e in state if k == key} == set(told) else UNSET
    item = (key, op["value"])
    there = item in state
    if op["f"] == "contains":
        return state if told is None or told == there else UNSET
    if told is not None and told == (there if op["f"] == "add" else not there):
        return UNSET
    return state | {item} if op["f"] == "add" else state - {item}
