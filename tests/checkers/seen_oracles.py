"""Oracles for the checkers of what clients saw: the definitions, by brute force. They share no code.

An operation is a dict: process, f, value, result, status, invoked, returned (None: unknown for ever). Small inputs
only.
"""

from __future__ import annotations

import itertools
import os
import random  # noqa: TID251 - test data, drawn from a seed that is told

from dethrone.harness.core.operations import NEVER, Operation, Operations

MANY = int(os.environ.get("DETHRONE_RANDOM_HISTORIES", "250"))
"""Random histories a test and block."""

FIRST = int(os.environ.get("DETHRONE_RANDOM_SEED") or random.SystemRandom().randrange(1 << 32))
"""Fresh each time; a failure tells its seed: run that test again with it and DETHRONE_RANDOM_HISTORIES=1."""


def seeds(block: int) -> range:
    """The seeds of one block."""
    return range(FIRST + block * MANY, FIRST + (block + 1) * MANY)


def operations(ops, **changes) -> Operations:
    """The same as the checkers take them; lines are the places."""
    rows = [
        Operation(
            process=op["process"],
            f=op["f"],
            value=op["value"],
            status=op["status"],
            result=op["result"],
            invoked=op["invoked"],
            returned=NEVER if op["returned"] is None else op["returned"],
            invoked_ns=op["invoked"],
            returned_ns=-1 if op["returned"] is None else op["returned"],
            line=op["invoked"] + 1,
        )
        for op in sorted(ops, key=lambda op: op["invoked"])
    ]
    return Operations(rows, **changes)


def precedes(a, b) -> bool:
    return a["returned"] is not None and a["returned"] < b["invoked"]


def linearizable(ops, start, step) -> bool:
    """Whether some order, with any of the unknown operations left out, fits real time and ``step``."""
    ops = [op for op in ops if op["status"] != "fail"]

    def go(state, left) -> bool:
        if all(op["status"] == "info" for op in left):
            return True
        for at, op in enumerate(left):
            if any(precedes(other, op) for other in left if other is not op):
                continue
            after = step(state, op)
            rest = left[:at] + left[at + 1 :]
            if after is not None and go(after, rest):
                return True
            if op["status"] == "info" and go(state, rest):
                return True
        return False

    return go(start, ops)


def set_step(state, op):
    if op["f"] == "add":
        return state | {op["value"]}
    if op["status"] != "ok":
        return state
    told = op["result"]
    return state if len(told) == len(set(told)) and set(told) == state else None


def log_step(state, op):
    if op["f"] == "append":
        return (*state, op["value"])
    if op["status"] != "ok":
        return state
    return state if tuple(op["result"]) == state else None


def random_ops(rng: random.Random, start, step, choose, *, many: int, answer):
    """A history of ``many`` operations that really happened at one moment each; times overlap, some are unknown."""
    moments = []
    processes = rng.randint(1, 4)
    free = [0.0] * processes
    for _ in range(many):
        process = rng.randrange(processes)
        begin = free[process] + rng.random()
        end = begin + rng.random() * rng.choice((0.5, 3))
        free[process] = end + 0.01
        moments.append((begin, rng.uniform(begin, end), end, process))
    state, ops = start, []
    for begin, _, end, process in sorted(moments, key=lambda row: row[1]):
        op = choose(rng, process)
        op |= {"process": process, "begin": begin, "end": end, "status": "ok", "result": None}
        fate = rng.random()
        happens = fate > 0.12
        op["status"] = "ok" if fate > 0.25 else "info" if fate > 0.06 else "fail"
        if happens:
            after = step(state, {**op, "status": "info"})
            state = after if after is not None else state
        if op["status"] == "fail" and happens:
            op["status"] = "info"
        if op["status"] == "ok":
            op["result"] = answer(state, op)
        ops.append(op)
    return timed(ops)


def timed(ops):
    """Begin and end as places."""
    ends = sorted(itertools.chain.from_iterable((op["begin"], op["end"]) for op in ops))
    place = {at: number for number, at in enumerate(ends)}
    for op in ops:
        op["invoked"] = place[op.pop("begin")]
        end = place[op.pop("end")]
        op["returned"] = None if op["status"] == "info" else end
    return ops


# --- transactions over lists ------------------------------------------------------------------------------------


def explained(ops, *, order: str) -> bool:
    """Whether some order of the transactions explains all reads. ``order``: ``any``, ``process`` or ``realtime``."""
    sure = [op for op in ops if op["status"] == "ok"]
    maybe = [op for op in ops if op["status"] == "info"]

    def before(a, b) -> bool:
        if order == "realtime":
            return precedes(a, b)
        return order == "process" and a["process"] == b["process"] and precedes(a, b)

    def go(lists, left) -> bool:
        if not any(op["status"] == "ok" for op in left):
            return True
        for at, op in enumerate(left):
            if any(before(other, op) for other in left if other is not op):
                continue
            rest = left[:at] + left[at + 1 :]
            after = run(lists, op)
            if after is not None and go(after, rest):
                return True
            if op["status"] == "info" and go(lists, rest):
                return True
        return False

    return go({}, sure + maybe)


def run(lists, op):
    lists = dict(lists)
    for step in op["result"] if op["status"] == "ok" else op["value"]:
        f, key, value = step
        if f == "append":
            lists[key] = (*lists.get(key, ()), value)
        elif op["status"] == "ok" and tuple(value or ()) != lists.get(key, ()):
            return None
    return lists


def random_transactions(rng: random.Random, *, many: int):
    """Transactions that happen one at a time at hidden moments; some begin in an older state, some reads are mixed."""
    processes = rng.randint(1, 4)
    free = [0.0] * processes
    moments = []
    for _ in range(many):
        process = rng.randrange(processes)
        begin = free[process] + rng.random()
        end = begin + rng.random() * rng.choice((0.5, 3))
        free[process] = end + 0.01
        moments.append((begin, rng.uniform(begin, end), end, process))
    states, ops, value = [{}], [], itertools.count(1)
    wild = rng.random() * 0.6
    for begin, _, end, process in sorted(moments, key=lambda row: row[1]):
        base = rng.choice(states) if rng.random() < wild else states[-1]
        lists = dict(base)
        asked, told, appended = [], [], []
        for _ in range(rng.randint(1, 3)):
            key = rng.choice("xy")
            if rng.random() < 0.5:
                asked.append(["r", key, None])
                told.append(["r", key, list(lists.get(key, ()))])
            else:
                number = next(value)
                asked.append(["append", key, number])
                told.append(["append", key, number])
                lists[key] = (*lists.get(key, ()), number)
                appended.append((key, number))
        fate = rng.random()
        status = "ok" if fate > 0.2 else "info" if fate > 0.08 else "fail"
        if status != "fail" and (status == "ok" or rng.random() < 0.6):
            after = dict(states[-1])
            for key, number in appended:
                after[key] = (*after.get(key, ()), number)
            states.append(after)
        if status == "ok" and rng.random() < wild / 4:
            reads = [step for step in told if step[0] == "r" and step[2]]
            if reads:
                rng.shuffle(rng.choice(reads)[2])
        ops.append(
            {
                "process": process,
                "f": "txn",
                "value": asked,
                "result": told if status == "ok" else None,
                "status": status,
                "begin": begin,
                "end": end,
            }
        )
    return timed(ops)


def torn_transactions(rng: random.Random, *, many: int):
    """Transactions whose steps happen one by one on shared lists, mixed with those of others."""
    ops, steps, values = [], [], itertools.count(1)
    for process in range(many):
        begin = rng.random()
        end = begin + rng.random() * 2
        asked = []
        for _ in range(rng.randint(1, 3)):
            key = rng.choice("xy")
            asked.append(["r", key, None] if rng.random() < 0.5 else ["append", key, next(values)])
        status = "ok" if rng.random() < 0.9 else "info"
        op = {"process": process, "f": "txn", "value": asked, "status": status, "begin": begin, "end": end}
        op["result"] = [list(step) for step in asked] if status == "ok" else None
        moments = sorted(rng.uniform(begin, end) for _ in asked)
        steps += [(at, op, number) for number, at in enumerate(moments)]
        ops.append(op)
    lists: dict[str, list[int]] = {"x": [], "y": []}
    for _, op, number in sorted(steps, key=lambda row: row[0]):
        f, key, value = op["value"][number]
        if f == "append":
            lists[key].append(value)
        elif op["result"] is not None:
            op["result"][number][2] = list(lists[key])
    return timed(ops)


def cycle_names(ops) -> set[str]:
    """The plain cycles by Adya's definitions, over edges read off one by one; every simple cycle is looked at.

    Only for histories whose reads of each list are beginnings of each other, without strange or doubled values.
    """
    seen = {
        (key, value)
        for op in ops
        if op["status"] == "ok"
        for f, key, values in op["result"]
        if f == "r"
        for value in values
    }
    committed = [
        op
        for op in ops
        if op["status"] == "ok"
        or (op["status"] == "info" and any(f == "append" and (k, v) in seen for f, k, v in op["value"]))
    ]
    writer = {
        (key, value): number for number, op in enumerate(committed) for f, key, value in op["value"] if f == "append"
    }
    edges: set[tuple[int, int, str]] = set()
    keys = {key for op in ops for _, key, _ in op["value"]}
    for key in keys:
        reads = [
            (number, tuple(values))
            for number, op in enumerate(committed)
            if op["status"] == "ok"
            for f, k, values in op["result"]
            if f == "r" and k == key
        ]
        if not reads:
            continue
        longest = max((values for _, values in reads), key=len)
        hidden = [value for k, value in writer if k == key and value not in longest]
        for a, b in itertools.pairwise(longest):
            edges.add((writer[key, a], writer[key, b], "ww"))
        if longest:
            edges |= {(writer[key, longest[-1]], writer[key, value], "ww") for value in hidden}
        for number, values in reads:
            if values:
                edges.add((writer[key, values[-1]], number, "wr"))
            following = [longest[len(values)]] if len(values) < len(longest) else hidden
            edges |= {(number, writer[key, value], "rw") for value in following}
    edges = {edge for edge in edges if edge[0] != edge[1]}
    out: dict[int, list[tuple[int, str]]] = {}
    for a, b, kind in edges:
        out.setdefault(a, []).append((b, kind))
    names: set[str] = set()

    def walk(first, node, visited, kinds):
        for target, kind in out.get(node, ()):
            if target == first:
                anti = [*kinds, kind].count("rw")
                names.add("G2" if anti > 1 else "G-single" if anti else "G1c" if "wr" in [*kinds, kind] else "G0")
            elif target > first and target not in visited:
                walk(first, target, visited | {target}, [*kinds, kind])

    for first in range(len(committed)):
        walk(first, first, {first}, [])
    return names
