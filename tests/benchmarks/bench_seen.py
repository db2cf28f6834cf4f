"""How the judging of what clients saw grows with the history: readers, list-append, set, log, lock.

    python -m tests.benchmarks.bench_seen [most operations]

Prints, for each n, the seconds of this process' core and the microseconds an operation (flat: linear), on valid
histories of 10 clients and, for transactions, on one with an old read at its end. Judges nothing.
"""

from __future__ import annotations

import gc
import json
import sys
import time

from dethrone.checkers.list_append import ListAppend
from dethrone.checkers.lock_holds import LockHolds
from dethrone.checkers.log_reads import LogReads
from dethrone.checkers.set_reads import SetReads
from dethrone.harness.core.foreign.reading import read_pieces
from dethrone.harness.core.foreign.writing import edn
from dethrone.harness.core.operations import ModelOptions, Operation, Operations
from dethrone.harness.core.rng import Rng

CLIENTS = 10
READ_EVERY = 200
"""Operations between two reads of a whole set or log: what reads show grows with n, so their number must not."""

LIST_MAX = 64
"""Values of one list, as Elle's workloads bound them."""


def history(many: int, seed: int, make) -> list[Operation]:
    """Operations that take effect one after the other, each somewhere within its own time."""
    rng = Rng(seed)
    free = [0] * CLIENTS
    rows = []
    for number in range(many):
        client = number % CLIENTS
        begin = free[client] + rng.between(1, 100)
        free[client] = begin + rng.between(2, 1000)
        rows.append((rng.between(begin, free[client]), begin, free[client], client))
    rows.sort()
    place = {at: number for number, at in enumerate(sorted((at, k) for _, b, e, k in rows for at in (b, e)))}
    out = []
    for number, (_, begin, end, client) in enumerate(rows):
        f, value, result = make(rng, number)
        spot = place[begin, client]
        out.append(
            Operation(
                process=client,
                f=f,
                value=value,
                status="ok",
                result=result,
                invoked=spot,
                returned=place[end, client],
                line=spot + 1,
            )
        )
    return sorted(out, key=lambda op: op.invoked)


def transactions():
    """Appends and reads of five lists at a time, each closed when it is long."""
    lists: dict[int, list[int]] = {}
    keys, following = list(range(5)), [5, 0]

    def make(rng, number):
        del number
        asked, told = [], []
        for _ in range(rng.between(1, 4)):
            slot = rng.below(5)
            key = keys[slot]
            values = lists.setdefault(key, [])
            if rng.chance(1, 2):
                asked.append(["r", key, None])
                told.append(["r", key, list(values)])
                continue
            following[1] += 1
            values.append(following[1])
            asked.append(["append", key, following[1]])
            told.append(asked[-1])
            if len(values) >= LIST_MAX:
                keys[slot] = following[0]
                following[0] += 1
        return "txn", asked, told

    return make


def growing(write, reads_every):
    """Unique values, and a read of all of them now and then."""
    held: list[int] = []

    def make(rng, number):
        del rng
        if number % reads_every == reads_every - 1:
            return "read", None, list(held)
        held.append(number)
        return write, number, None

    return make


def locks():
    """One owner after the other, a thousand locks."""

    def make(rng, number):
        del rng
        f = "release" if number // 1000 % 2 else "acquire"
        return f, [f"c{number % 1000}"], number if f == "acquire" else None

    return make


def seconds(work) -> float:
    """Of this process' core, without the collector."""
    gc.collect()
    gc.disable()
    began = time.process_time()
    work()
    taken = time.process_time() - began
    gc.enable()
    return taken


def lines(rows, form) -> bytes:
    """The same as a file."""
    events = sorted(
        [(op.invoked, "invoke", op, op.value) for op in rows] + [(op.returned, "ok", op, op.result) for op in rows],
        key=lambda row: row[0],
    )
    if form == "jsonl":
        text = (
            json.dumps({"type": kind, "process": op.process, "f": op.f, "value": value})
            for _, kind, op, value in events
        )
    else:
        text = (
            f"{{:type :{kind}, :process {op.process}, :f :{op.f}, :value {edn(value)}, :index {number}}}"
            for number, (_, kind, op, value) in enumerate(events)
        )
    return "\n".join(text).encode()


def cells(many: int):
    """(name, work) of one n."""
    options = ModelOptions()
    txns = history(many, 1, transactions())
    late = max(op.returned for op in txns) + 1
    old = Operation(
        process=99,
        f="txn",
        value=[["r", 0, None]],
        status="ok",
        result=[["r", 0, []]],
        invoked=late,
        returned=late + 1,
        line=late,
    )
    every = max(READ_EVERY, many // 50)
    sets = history(many, 2, growing("add", every))
    logs = history(many, 3, growing("append", every))
    held = history(many, 4, locks())
    plain = history(many, 5, lambda rng, number: ("write", number, None))
    for form in ("jsonl", "jepsen-edn"):
        data = lines(plain, form)
        yield f"read {form}", lambda data=data, form=form: read_pieces([data], form, ["write"])
    yield "list-append", lambda: ListAppend().see(Operations(txns), options)
    yield "list-append, old read", lambda: ListAppend().see(Operations([*txns, old]), options)
    yield "set", lambda: SetReads().see(Operations(sets), options)
    yield "log", lambda: LogReads().see(Operations(logs), options)
    yield "lock", lambda: LockHolds().see(Operations(held), options)


def main() -> None:
    """All cells for n = 1000, 10 000 … up to the bound."""
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    many = 1000
    print(f"{'n':>8}  {'what':<24}{'seconds':>9}{'µs an op':>10}")
    while many <= most:
        for name, work in cells(many):
            taken = seconds(work)
            print(f"{many:>8}  {name:<24}{taken:>9.3f}{taken / many * 1e6:>10.2f}", flush=True)
        many *= 10


if __name__ == "__main__":
    main()
