"""The verdict matrix, carried out: every proof of every cell in simulation, resumable, and what it comes to.

What must hold is run over drawn schedules (or its one sequence), each seed; what is broken is run until a seed shows
it. Promises: a function of the columns and the number of seeds; a row is written once, when its runs are done, and is
not done again unless its proofs changed; nothing that no checker could judge counts as held. Out of scope: drawing the
table (``tests.matrix.table``).
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

import msgspec

from dethrone.harness.core import registry
from dethrone.harness.core.clock import MS, Ns
from dethrone.harness.core.errors import ConfigError, HarnessError
from dethrone.harness.core.events import Invoke, Return
from dethrone.harness.core.history import History
from dethrone.harness.core.interfaces import Checker, System
from dethrone.harness.core.planted import Examinable
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.scenario import Scenario
from dethrone.harness.core.verdict import Verdict
from dethrone.harness.engine.campaign.resumable_tasks import keep_rows, read_kept
from dethrone.harness.engine.run.judge import judge, load_checkers
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import draft
from dethrone.harness.engine.run.rehearsal import Rehearsed, rehearse_draft
from dethrone.harness.engine.run.scenario_lookup import find
from tests.matrix.column import INVARIANTS, Cell, Column, Demand, Proof, Says

ROWS = "matrix.jsonl"
CHUNK = 5
"""Drawn seeds of one row."""

LUCK = 10
"""Seeds that a sequence gets to show what it is known for: some need luck."""

SEQUENCE_SEEDS = 3
"""Seeds of a sequence in which something must hold."""

ROUNDS_DEMANDED = 12
"""Lost rounds in a row, where a system that promises no number is demanded to keep one."""

OUTAGE = "longest_outage_ns"
"""A metric of our own: the longest time without an operation that succeeded, from the first one to the last that was
begun."""

Result = Literal["pass", "unknown", "fail", "n/a"]


class Bench(msgspec.Struct, frozen=True, kw_only=True):
    """Proofs that the same runs can show: of one column, under one set of options."""

    column: Column
    proofs: tuple[tuple[str, Says, Proof], ...]

    @property
    def first(self) -> Proof:
        """What all of them have in common is said by the first."""
        return self.proofs[0][2]


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """Some seeds of a bench. ``until_shown``: stop as soon as everything that is to be broken was."""

    bench: Bench
    seeds: tuple[int, ...]
    until_shown: bool

    @property
    def key(self) -> str:
        """Names the task, and changes with everything that changes its outcome, but not with other cells."""
        alone = msgspec.structs.replace(self.bench, column=msgspec.structs.replace(self.bench.column, cell=()))
        digest = hashlib.sha256(msgspec.json.encode(msgspec.structs.replace(self, bench=alone))).hexdigest()[:16]
        return f"{self.bench.column.name} {self.bench.first.by or 'drawn'} {self.seeds[0]} {digest}"


class Count(msgspec.Struct, kw_only=True):
    """How often one proof came out how; ``seed`` and ``sentence`` of the first failure."""

    passed: int = 0
    unknown: int = 0
    failed: int = 0
    seed: int = -1
    sentence: str = ""

    def add(self, result: Result, sentence: str, seed: int) -> None:
        """One more run."""
        if result == "fail":
            if not self.failed:
                self.seed, self.sentence = seed, sentence
            self.failed += 1
        elif result == "pass":
            self.passed += 1
        else:
            self.unknown += 1

    def join(self, other: Count) -> None:
        """The same proof in another row."""
        if other.failed and not self.failed:
            self.seed, self.sentence = other.seed, other.sentence
        self.passed += other.passed
        self.unknown += other.unknown
        self.failed += other.failed


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One task, done. ``counts``: by the proof's name within the column."""

    key: str
    column: str
    runs: int
    counts: dict[str, Count]
    trouble: str = ""


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """One proof, over all its runs. ``ok``: it showed what it must."""

    says: Says
    proof: Proof
    count: Count
    ok: bool


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """One cell. ``ok``: all its proofs are; a cell without any is, too."""

    column: str
    cell: Cell
    shown: tuple[Shown, ...]

    @property
    def ok(self) -> bool:
        """Whether every proof showed what it must."""
        return all(one.ok for one in self.shown)


def tasks_for(columns: Iterable[Column], *, seeds: int) -> list[Task]:
    """All tasks. ``seeds``: drawn schedules for each thing that must hold."""
    out: list[Task] = []
    for column in columns:
        for bench in _benches(column):
            proofs = bench.proofs
            holds = any(says == "holds" for _, says, _ in proofs)
            if bench.first.by:
                out.append(Task(bench=bench, seeds=tuple(range(SEQUENCE_SEEDS if holds else LUCK)), until_shown=True))
            elif holds:
                for first in range(0, seeds, CHUNK):
                    chunk = tuple(range(first, min(seeds, first + CHUNK)))
                    out.append(Task(bench=bench, seeds=chunk, until_shown=False))
            else:
                out.append(Task(bench=bench, seeds=tuple(range(max(seeds, LUCK))), until_shown=True))
    return out


def run_matrix(
    tasks: Sequence[Task], out: Path, *, jobs: int, on_row: Callable[[Row, int, int], None]
) -> tuple[list[Row], bool]:
    """Every task that has no row in ``out`` yet. All rows of these tasks, and whether it was interrupted."""
    path = out / ROWS
    kept = [row for row in read_kept(path, Row, what="the matrix'") if not row.trouble]
    return keep_rows(carry_out, {task.key: task for task in tasks}, kept, path, jobs=jobs, on_row=on_row)


def carry_out(task: Task) -> Row:
    """One task, here. Trouble of the harness is recorded in the row, and shows nothing."""
    bench = task.bench
    checkers = load_checkers()
    counts = {name: Count() for name, _, _ in bench.proofs}
    runs, trouble = 0, ""
    try:
        for number in task.seeds:
            done = _run(bench, number, checkers)
            runs += 1
            for name, _, proof in bench.proofs:
                result, sentence = outcome_of(proof, _checkers_of(name, proof), done, checkers)
                counts[name].add(result, sentence, number)
            if task.until_shown and all(says == "broken" and counts[name].failed for name, says, _ in bench.proofs):
                break
    except HarnessError as error:
        trouble = str(error)
    return Row(key=task.key, column=bench.column.name, runs=runs, counts=counts, trouble=trouble)


def cells_of(columns: Iterable[Column], rows: Iterable[Row]) -> list[Judged]:
    """All cells of these columns, as far as rows tell."""
    counts: dict[tuple[str, str], Count] = defaultdict(Count)
    for row in rows:
        for name, count in row.counts.items():
            counts[row.column, name].join(count)
    out = []
    for column in columns:
        for cell in column.cell:
            shown = []
            for name, says, proof in cell.proofs():
                count = counts[column.name, name]
                ok = count.failed > 0 if says == "broken" else count.failed == 0 and count.passed > 0
                shown.append(Shown(says=says, proof=proof, count=count, ok=ok))
            out.append(Judged(column=column.name, cell=cell, shown=tuple(shown)))
    return out


def outcome_of(
    proof: Proof, names: Sequence[str], done: Rehearsed, checkers: Mapping[str, Checker]
) -> tuple[Result, str]:
    """What one run says to one proof: fail is broken. Of several checkers one that fails is enough."""
    verdicts = {verdict.checker: verdict for verdict in done.judgement.verdicts}
    if proof.metric == OUTAGE:
        longest = longest_outage(done.history)
        return ("fail" if longest > proof.above else "pass"), f"{OUTAGE} {longest}"
    if proof.metric:
        return _metric(proof, verdicts.values())
    if proof.demand is not None:
        plan = msgspec.structs.replace(done.plan, promise=demanded(done.plan.promise, proof.demand, names))
        again = judge(done.history, plan, {name: checkers[name] for name in names})
        verdicts = {verdict.checker: verdict for verdict in again.verdicts}
    found = [verdicts[name] for name in names if name in verdicts]
    for verdict in found:
        for finding in verdict.findings:
            if (verdict.outcome == "fail" and finding.excused is None) or proof.excused:
                return "fail", f"{verdict.checker}: {finding.sentence}"
    outcomes = {verdict.outcome for verdict in found}
    first: Result = next((one for one in ("pass", "unknown") if one in outcomes), "n/a")
    return first, "; ".join(verdict.reason for verdict in found if verdict.reason)


def demanded(promise: Promise, demand: Demand, names: Sequence[str]) -> Promise:
    """The promise as if the system had given one for these checkers, too."""
    within = demand.within_ns or promise.leader_bound_ns
    return msgspec.structs.replace(
        promise,
        exempt={name: why for name, why in promise.exempt.items() if name not in names},
        tiers=demand.tiers or promise.tiers or ("T1", "T2"),
        tolerates={**promise.tolerates, **dict.fromkeys(demand.tolerates)},
        safe_under={**promise.tolerated_for_safety, **dict.fromkeys(demand.tolerates)},
        step_down_ns=demand.within_ns or promise.step_down_ns or within,
        converge_ns=demand.within_ns or promise.converge_ns or within,
        leader_bound_ns=within,
        later_gap_ns=demand.within_ns or promise.later_gap_ns,
        rounds_max=promise.rounds_max or ROUNDS_DEMANDED,
        delay_max_ns=demand.delay_ns or promise.delay_max_ns,
        owed_in_calm=False,  # what is demanded is demanded under faults
    )


def longest_outage(history: History) -> Ns:
    """See ``OUTAGE``; 0 where nothing ever succeeded."""
    moments = [event.t for event in history.of(Return) if event.status == "ok"]
    if not moments:
        return 0
    moments.append(max(event.t for event in history.of(Invoke)))
    return max((later - sooner for sooner, later in pairwise(moments)), default=0)


# --- small parts --------------------------------------------------------------------------------------------------


def _benches(column: Column) -> list[Bench]:
    groups: dict[bytes, list[tuple[str, Says, Proof]]] = defaultdict(list)
    for cell in column.cell:
        for name, says, proof in cell.proofs():
            same = (
                proof.by,
                sorted(proof.settings.items()),
                proof.profile,
                proof.nodes,
                proof.workload,
                proof.observe_ms,
            )
            # what is shown by luck is kept from what must hold: the one stops early, the other does not
            groups[msgspec.json.encode((same, says if not proof.by else ""))].append((name, says, proof))
    return [Bench(column=column, proofs=tuple(proofs)) for proofs in groups.values()]


def _run(bench: Bench, number: int, checkers: Mapping[str, Checker]) -> Rehearsed:
    options = _sequence(bench, find(bench.first.by), number) if bench.first.by else _drawn(bench, number)
    drafted = draft(options, seed=number)
    if bench.first.observe_ms:
        plan = msgspec.structs.replace(drafted.plan, observe_interval_ns=bench.first.observe_ms * MS)
        drafted = msgspec.structs.replace(drafted, plan=plan)
    return rehearse_draft(drafted, checkers)


def _sequence(bench: Bench, scenario: Scenario, number: int) -> RunOptions:
    proof = bench.first
    return RunOptions(
        system=scenario.system,
        nodes=proof.nodes or scenario.nodes,
        backend="sim",
        seed=number,
        workload=proof.workload or scenario.workload,
        time_limit_ns=scenario.time_limit_ns,
        settings={**scenario.settings, **proof.settings},
        profile=proof.profile or scenario.profile,
        variant=scenario.variant,
        rate_per_s=scenario.rate_per_s,
        processes=scenario.processes,
        stop_at_first_failure=False,
        conclusive=False,
        scenario=scenario.name,
    )


def _drawn(bench: Bench, number: int) -> RunOptions:
    """As the exam draws, but first in haste, then at leisure: run k takes the k-th of intervals, sizes, workloads."""
    column, proof = bench.column, bench.first
    system: System = registry.load(registry.SYSTEMS, column.system)
    if not isinstance(system, Examinable):
        raise ConfigError(f"{column.system} does not declare how it is examined", where=f"column {column.name}")
    plan = system.exam()
    sizes = (proof.nodes,) if proof.nodes else plan.nodes
    workloads = (proof.workload,) if proof.workload else column.workloads or plan.workloads
    backend = {name: word for name, word in plan.settings.items() if "." in name}
    interval_ns, rest = plan.intervals_ns[number % len(plan.intervals_ns)], number // len(plan.intervals_ns)
    nodes, rest = sizes[rest % len(sizes)], rest // len(sizes)
    workload = workloads[rest % len(workloads)]
    return RunOptions(
        system=column.system,
        backend="sim",
        nodes=nodes,
        seed=number,
        workload=workload,
        faults=column.faults or plan.faults,
        strategy="triggered",
        profile=proof.profile or column.profile,
        time_limit_ns=plan.time_limit_ns,
        nemesis_interval_ns=interval_ns,
        settings={**backend, **column.settings, **proof.settings},
        stop_at_first_failure=False,
        conclusive=False,
    )


def _checkers_of(name: str, proof: Proof) -> tuple[str, ...]:
    by_id = {invariant.id: invariant for invariant in INVARIANTS}
    return proof.checkers or by_id[name.split(" ", 1)[0]].checkers


def _metric(proof: Proof, verdicts: Iterable[Verdict]) -> tuple[Result, str]:
    for verdict in verdicts:
        value = verdict.metrics.get(proof.metric)
        if isinstance(value, int):
            return ("fail" if value > proof.above else "pass"), f"{proof.metric} {value}"
    return "unknown", f"no checker reports {proof.metric}"
