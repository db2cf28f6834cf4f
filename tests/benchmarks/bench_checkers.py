"""How fast the checkers are: observations a second on columns in memory, and whole histories from events.

    python -m tests.benchmarks.bench_checkers [observations]

Prints figures; judges nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from dethrone.checkers.commit_never_regresses import polled_regressions
from dethrone.checkers.one_leader_per_term import polled_claims
from dethrone.checkers.one_vote_per_term import polled_votes
from dethrone.checkers.polled_falls import polled_falls
from dethrone.harness.core import registry
from dethrone.harness.core.clock import MS, Span
from dethrone.harness.core.columns import Dictionary, ObservedColumns
from dethrone.harness.core.events import SCHEMA, Begin, End, Observed
from dethrone.harness.core.history import History
from dethrone.harness.core.plan import Plan, WorkloadPlan
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.schedule import Schedule
from dethrone.harness.core.views import Columns, columns

NODES = tuple(f"n{k}" for k in range(1, 6))
EVERY = 100 * MS


def table(rows: int) -> Columns:
    """Five nodes polled in turn; a new term every 300 rounds, followers a little late."""
    words = Dictionary()
    names = np.array([words.code(node) for node in NODES], dtype=np.int32)
    group = np.full(rows, words.code(""), dtype=np.int32)
    at = np.arange(rows, dtype=np.int64)
    who = (at % 5).astype(np.int32)
    term = 1 + (at + (5 - who) * 7) // 1500
    leader = names[(term * 3) % 5]
    node = names[who]
    lo = (at // 5) * EVERY + who * MS
    none = np.full(rows, -1, dtype=np.int64)
    obs = ObservedColumns(
        seq=at,
        lo=lo,
        hi=lo + MS,
        group=group,
        node=node,
        incarnation=np.ones(rows, dtype=np.int32),
        role=np.zeros(rows, dtype=np.int32),
        leads=leader == node,
        term=term,
        leader=leader,
        voted_for=leader,
        log_term=none,
        log_index=none,
        commit=at // 50,
        atomic=np.ones(rows, dtype=np.bool_),
    )
    return Columns(words, obs)


def fresh(one: Columns) -> Columns:
    """The same arrays without what was already derived from them."""
    fields = {name: getattr(one.observed, name) for name in ObservedColumns.__dataclass_fields__}
    return Columns(one.words, ObservedColumns(**fields))


def best_of(times: int, work: Callable[[], object]) -> float:
    """The shortest of some runs, in seconds."""
    found = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        found.append(time.perf_counter() - begin)
    return min(found)


def terms_fell(one: Columns) -> list[tuple[int, int]]:
    """What the checker of terms asks of polls."""
    return list(polled_falls(one.observed, one.observed.term, least=1))


def election_checks(one: Columns) -> None:
    """Everything that the election checkers ask of polls."""
    polled_claims(one)
    polled_votes(one)
    terms_fell(one)


def story(rows: int) -> tuple[History, Plan]:
    """The same as events, for the whole checkers."""
    one = table(rows).observed
    words = NODES
    events: list[object] = [Begin(seq=0, t=0, schema=SCHEMA, system="raft", nodes=NODES, seed=1)]
    events += [
        Observed(
            seq=row + 1,
            t=int(one.hi[row]),
            span=Span(int(one.lo[row]), int(one.hi[row])),
            node=words[one.node[row]],
            incarnation=1,
            role="LEADER" if one.leads[row] else "FOLLOWER",
            leads=bool(one.leads[row]),
            term=int(one.term[row]),
            leader=words[one.leader[row]],
            voted_for=words[one.leader[row]],
            commit=int(one.commit[row]),
        )
        for row in range(rows)
    ]
    events.append(End(seq=rows + 1, t=int(one.hi[-1]), count=rows + 1, digest="", reason="complete"))
    promise = Promise(
        system="raft",
        profile="raft",
        source="bench",
        election_timeout_ns=300 * MS,
        heartbeat_ns=50 * MS,
        leader_bound_ns=3000 * MS,
        later_gap_ns=3000 * MS,
        step_down_ns=600 * MS,
        converge_ns=3000 * MS,
        tiers=("T1", "T2", "T3", "T5"),
        pre_vote=True,
    )
    plan = Plan(
        system="raft",
        backend="bench",
        profile="raft",
        variant=None,
        nodes=NODES,
        voters=NODES,
        knobs={},
        seed=1,
        time_limit_ns=1,
        workload=WorkloadPlan(name="election", processes=0, rate_per_s=0, op_timeout_ns=1),
        schedule=Schedule(seed=1, strategy="random", steps=()),
        promise=promise,
        observable=("traced", "witness", "observed", "ops", "log_end", "commit", "voted_for", "atomic"),
        observe_interval_ns=EVERY,
        final_read_ns=1,
    )
    return History(events), plan


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000
    one = table(rows)
    print(f"columns in memory, {rows:,} observations of {len(NODES)} nodes, one core:")
    for name, work in (
        ("one-leader-per-term", lambda: polled_claims(fresh(one))),
        ("one-vote-per-term", lambda: polled_votes(fresh(one))),
        ("term-never-decreases", lambda: terms_fell(fresh(one))),
        ("commit-never-regresses", lambda: polled_regressions(fresh(one))),
        ("the three election checks together", lambda: election_checks(fresh(one))),
    ):
        taken = best_of(5, work)
        print(f"  {name:36} {rows / taken / 1e6:8.1f} million observations/s")
    few = min(rows, 100_000)
    history, plan = story(few)
    begin = time.perf_counter()
    columns(history)
    print(f"from {few:,} events:\n  {'columns built':36} {few / (time.perf_counter() - begin) / 1e6:8.2f} million/s")
    for name, checker in registry.load_all(registry.CHECKERS).items():
        begin = time.perf_counter()
        verdict = checker.check(history, plan.promise, plan)
        taken = time.perf_counter() - begin
        print(f"  {name:36} {few / taken / 1e6:8.2f} million/s   {verdict.outcome}")


if __name__ == "__main__":
    main()
