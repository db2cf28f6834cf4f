"""The linearizability engines against the brute-force oracle, on random small histories.

    python tests/checkers/linear_differential.py [--histories 50000] [--seed N] [model …]

Prints a line a model; exit code 1 and the smallest history found at the first difference. Each engine alone, and the
door with its proofs: what a proof names must have no order by itself.
"""

from __future__ import annotations

import argparse
import contextlib
import random  # noqa: TID251 - test data, drawn from a seed that is printed
import sys
import time
from collections import Counter
from unittest import mock

from dethrone.checkers.linearizability import fast, frontier, queues
from dethrone.checkers.linearizability import search as searching
from dethrone.checkers.linearizability.decide import decide
from dethrone.checkers.linearizability.search import Bounds, Fits, Stuck, by_frontiers
from dethrone.checkers.models import model as make
from dethrone.checkers.models.ops import Op, encode
from tests.checkers import linear_oracle as oracle
from tests.checkers import linear_random

APPLY = {
    "register": oracle.register,
    "cas-register": oracle.register,
    "kv": oracle.register,
    "multi-register": oracle.multi_register,
    "mutex": oracle.mutex,
    "fifo-queue": oracle.fifo,
    "set": oracle.sets,
}
MODELS = tuple(APPLY)


def begins(name, initial):
    """What the oracle starts from."""
    return {"mutex": frozenset(), "fifo-queue": (), "set": frozenset()}.get(name, (initial, ()))


def has_order(name, rows, *, strict, initial=None):
    """What the definition says."""
    rows = [{**row, "negative": strict and row["f"] == "cas"} for row in rows]
    return oracle.linearizable(rows, APPLY[name], begins(name, initial))


def encoded(name, rows):
    """The same for the checkers."""
    return encode([Op(**row) for row in rows], sets=name == "set")


def drawn(name, seed, number):
    """(rows, strict, initial) of one history."""
    rng = random.Random(f"{seed}-{name}-{number}")
    initial = rng.choice([None, None, None, 1]) if name.endswith(("register", "kv")) else None
    rows = linear_random.rows(name, rng, initial=initial)
    return rows, name in ("cas-register", "kv") and rng.random() < 0.5, initial


def difference(name, rows, *, strict, initial, tally):
    """What is wrong with this history's answers, "" if nothing is."""
    want = has_order(name, rows, strict=strict, initial=initial)
    model = make(name, strict_cas=strict, initial=initial)
    ops = encoded(name, rows)
    answer = decide(ops, model)
    tally["linearizable" if want else "not"] += 1
    tally.update(answer.engines)
    if (answer.outcome == "pass") != want or answer.outcome == "unknown":
        return f"decide says {answer.outcome}, the definition {want}"
    if (len(answer.violations) > 0) == want:
        return f"{len(answer.violations)} proofs where the definition says {want}"
    for violation in answer.violations:
        tally[f"rule {violation.rule}"] += 1
        wrong = unproven(name, rows, violation, ops, strict=strict, initial=initial)
        if wrong:
            return f"{wrong}: {violation}"
    for narrow in (False, True):
        with frontiers(narrow=narrow):
            found = searched(model, ops)
            quick = searched(model, ops, by_kernel)
        if found is not want:
            return f"the search ({narrow=}) says {found}, the definition {want}"
        if quick is not want and quick != "other":
            return f"the kernel ({narrow=}) says {quick}, the definition {want}"
        tally["kernel"] += quick != "other"
    return ""


def by_kernel(ops, model, bounds):
    """The same passes in compiled code, or in the plain Python that it is made of."""
    return fast.search(ops, model, bounds, engine=fast.load() if fast.there() else fast.plain)


def searched(model, ops, search=by_frontiers):
    """What the search says of all objects, None if it gave up, "other" if one of them is not for it."""
    groups = model.groups(ops)
    objects = [ops.take(groups == group) for group in set(groups.tolist())]
    if model.name == "fifo-queue":
        objects = [queues.relevant(one) for one in objects]
    found = [search(one, model, Bounds()) for one in objects]
    if any(one is None for one in found):
        return "other"
    if any(isinstance(one, Stuck) for one in found):
        return False
    return True if all(isinstance(one, Fits) for one in found) else None


@contextlib.contextmanager
def frontiers(*, narrow):
    """So narrow that a dozen operations overflow them: everything that long histories go through happens here."""
    if not narrow:
        yield
        return
    every = fast.ALL
    with (
        mock.patch.object(searching, "PASSES", (("exact", (1, 2), 60), ("exact", (every,), every))),
        mock.patch.object(
            searching,
            "PASSES_UNKNOWN",
            (("greedy", (1, 2, 3), 60), ("generous", (every,), 60), ("greedy", (2, 4), 60), ("exact", (every,), every)),
        ),
        mock.patch.object(fast, "PASSES", (("exact", (1, 2), 60), ("exact", (every,), every))),
        mock.patch.object(
            fast,
            "PASSES_UNKNOWN",
            (("greedy", (1, 2, 3), 60), ("generous", (every,), 60), ("greedy", (2, 4), 60), ("exact", (every,), every)),
        ),
        mock.patch.object(fast, "ALL", every),
        mock.patch.object(fast, "MARK_EVERY", 1),
        mock.patch.object(fast, "BACK", 2),
        mock.patch.object(fast, "EXPAND_MAX", 2),
        mock.patch.object(fast, "STEPS_A_LOOK", 3),
        mock.patch.object(frontier, "MARK_EVERY", 1),
        mock.patch.object(frontier, "BACK", 2),
        mock.patch.object(frontier, "EXPAND_MAX", 2),
    ):
        yield


def unproven(name, rows, violation, ops, *, strict, initial):
    """Whether the operations of a proof have an order after all."""
    named = [dict(rows[op]) for op in violation.ops]
    if violation.since is None and violation.stuck_at is None:
        if has_order(name, named, strict=strict, initial=initial):
            return "the proof has an order"
        return ""
    # A proof of the search ends at the return where it was stuck, and may begin late.
    place = {int(op): at for at, op in enumerate(ops.id)}
    held = [initial] if violation.since is None else [initial, *linear_values(rows, ops, violation)]
    for op, row in zip(violation.ops, named, strict=True):
        at = place[op]
        row["call"] = int(ops.call[at])
        later = ops.ret[at] > violation.stuck_at
        row["ret"] = None if later else int(ops.ret[at])
        row["optional"] = later or (violation.since is not None and row["call"] < violation.since)
    named = [row for row in named if row["f"] != "read" or not (row["status"] == "info" or row["optional"])]
    starts = [begins(name, value) for value in held]
    if name == "mutex":
        starts = [frozenset(), frozenset({violation.key})] if violation.since is not None else [frozenset()]
    negative = [{**row, "negative": strict and row["f"] == "cas"} for row in named]
    if any(oracle.linearizable(negative, APPLY[name], start) for start in starts):
        return "the stuck proof has an order"
    return ""


def linear_values(rows, ops, violation):
    """All values that the register of this proof can have held before its end."""
    called = {int(op) for op in ops.id[ops.call < violation.stuck_at]}
    return [
        row["value"] if row["f"] == "write" else row["value"][1]
        for op, row in enumerate(rows)
        if op in called and row["key"] == violation.key and row["f"] in ("write", "cas") and row["status"] != "fail"
    ]


def smaller(name, rows, **options):
    """A smaller history with a difference."""
    at = 0
    while at < len(rows):
        rest = rows[:at] + rows[at + 1 :]
        if rest and difference(name, rest, tally=Counter(), **options):
            rows, at = rest, 0
        else:
            at += 1
    return rows


def run(name, histories, seed):
    """(what is wrong or "", counts) of many histories of one model."""
    tally = Counter()
    for number in range(histories):
        rows, strict, initial = drawn(name, seed, number)
        wrong = difference(name, rows, strict=strict, initial=initial, tally=tally)
        if wrong:
            rows = smaller(name, rows, strict=strict, initial=initial)
            wrong = difference(name, rows, strict=strict, initial=initial, tally=Counter())
            told = "\n".join(str(row) for row in rows)
            return f"{name}, seed {seed}, history {number}, strict {strict}, initial {initial}: {wrong}\n{told}", tally
    return "", tally


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--histories", type=int, default=50_000)
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(1 << 32)))
    options = parser.parse_args()
    for name in options.models or MODELS:
        began = time.monotonic()
        wrong, tally = run(name, options.histories, options.seed)
        if wrong:
            print(f"DIFFERENCE {wrong}")
            return 1
        counts = ", ".join(f"{what} {count}" for what, count in sorted(tally.items()))
        print(
            f"{name}: {options.histories} histories, seed {options.seed}, no difference; {counts}; "
            f"{time.monotonic() - began:.0f} s",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
