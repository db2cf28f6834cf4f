"""Histories of many clients on one object, drawn from a seed, for the benchmarks of the linearizability checkers.

    rows(kind, n, clients=…, unknown=…, violation=…, seed=…)
        → list of dicts: f, process, value, output, call, ret, status
    events(kind, n, …)
        → the same as calls and returns, in the JSON-lines format (docs/histories.md)

``register``: half reads, half writes of values never written before. ``cas``: a third each of reads, writes and cas
over five values. ``queue``: enqueues of unique values and dequeues. Each operation takes effect at one moment within
it; ``unknown`` of them never return (half of those take effect). With ``violation``, one answer at 99 % is wrong: a
value overwritten long ago (register), nil (cas), a value out of turn (queue).
"""

from __future__ import annotations

import heapq
import random  # noqa: TID251 - test data, drawn from a seed that is an argument

VALUES = (1, 2, 3, 4, 5)


def rows(kind, n, *, clients, unknown, violation, seed):
    """See the module. Times are ns; rows are in order of their calls."""
    rng = random.Random(f"{kind}-{n}-{clients}-{unknown}-{violation}-{seed}")
    state, fresh = None, 0
    past, line = [], []
    out = []
    heap = [(rng.randint(0, 2000), number, 0, number, None) for number in range(clients)]
    heapq.heapify(heap)
    tie, next_process = clients, clients
    spoilt = not violation
    while heap:
        at, _, phase, process, op = heapq.heappop(heap)
        tie += 1
        if phase == 0:
            if len(out) >= n:
                continue
            op = {
                "f": "read",
                "process": process,
                "value": None,
                "output": None,
                "call": at,
                "ret": None,
                "status": "info",
            }
            draw = rng.random()
            if kind == "register" and draw < 0.5:
                fresh += 1
                op["f"], op["value"] = "write", fresh
            elif kind == "cas" and draw < 1 / 3:
                op["f"], op["value"] = "write", rng.choice(VALUES)
            elif kind == "cas" and draw < 2 / 3:
                op["f"], op["value"] = "cas", [rng.choice(VALUES), rng.choice(VALUES)]
            elif kind == "queue":
                op["f"] = "dequeue"
                if draw < 0.5:
                    fresh += 1
                    op["f"], op["value"] = "enqueue", fresh
            out.append(op)
            op["lost"] = rng.random() < unknown
            heapq.heappush(heap, (at + 1 + int(rng.expovariate(1 / 1000)), tie, 1, process, op))
        elif phase == 1:
            status, output = "ok", None
            if not op["lost"] or rng.random() < 0.5:
                if op["f"] == "read":
                    output = state
                elif op["f"] == "write":
                    past.append(state)
                    state = op["value"]
                elif op["f"] == "enqueue":
                    line.append(op["value"])
                elif op["f"] == "dequeue":
                    output = line.pop(0) if line else None
                elif state == op["value"][0]:
                    past.append(state)
                    state = op["value"][1]
                else:
                    status = "fail"
            if not spoilt and len(out) >= 0.99 * n and op["f"] in ("read", "dequeue") and not op["lost"]:
                spoilt, output = True, stale(kind, clients, past, line, output)
            heapq.heappush(heap, (at + 1 + int(rng.expovariate(1 / 1000)), tie, 2, process, (op, status, output)))
        else:
            op, status, output = op
            if op.pop("lost"):
                process, next_process = next_process, next_process + 1
            else:
                op["status"], op["output"], op["ret"] = status, output, at
            heapq.heappush(heap, (at + rng.randint(1, 200), tie, 0, process, None))
    return out


def events(kind, n, **options):
    """Calls and returns in their order, a call before a return at the same time. What is lost has no return."""
    made = rows(kind, n, **options)
    calls = [(row["call"], 0, at) for at, row in enumerate(made)]
    returns = [(row["ret"], 1, at) for at, row in enumerate(made) if row["ret"] is not None]
    for time, returned, at in sorted(calls + returns):
        row = made[at]
        value = row["output"] if returned and row["f"] in ("read", "dequeue") else row["value"]
        happened = row["status"] if returned else "invoke"
        yield {"type": happened, "process": row["process"], "f": row["f"], "value": value, "time": time}


def stale(kind, clients, past, line, output):
    """What no order explains at this moment."""
    if kind == "register":
        return past[-4 * clients] if len(past) > 4 * clients else None
    if kind == "cas":
        return None
    return line[min(len(line) - 1, 4 * clients)] if line else output
