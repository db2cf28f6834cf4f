"""How long real systems are without a leader: many faults on the leader of each of three kinds, measured.

An item a system and kind, on three nodes of this machine's Docker. Kill, isolation (the leader cut from all others)
and pause are written schedules, a run of which repeats one of them: the fault ends soon after survivors acknowledge
writes, all nodes are in step again, a moment of quiet, then the next leader. As many runs as it takes, each
kept below ``runs/accept/failovers`` and not done again. The stages are the ``failover`` checker's: noticed (another
node showed that it misses the leader), elected, and the first write acknowledged after that, each from the moment at
which the fault was certainly in force. Outages in which no leader was owed stand apart, and those that noise touched.
Where a promise leaves this kind of fault out, none is owed in any, and all but the noisy ones count.

    .venv/bin/python tests/accept.py failovers-etcd-3.5-kill     measure (resumable)
    cd tests && ../.venv/bin/python -m acceptance.failovers      write the table of TRACK_RECORD.md from what is kept

Promises: an item holds when there are enough faults that hit the leader and the harness had no trouble; times that
were cut off are never taken for short ones (Kaplan and Meier). Leaves out whether a time is a good one: a system that
broke a promise fails in its campaigns, and is told here too.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.pipeline import survival
from tests.acceptance import kept
from tests.acceptance.simulated import OUT, ROOT, Item, Until
from tests.acceptance.tables import Block, Table

KEPT = OUT / "failovers"
RECORD = ROOT / "TRACK_RECORD.md"

NODES = 3
FAULTS_MIN: Mapping[str, int] = {"kill": 30, "isolation": 10, "pause": 10}
"""Faults on the leader, at least; a run of a fast system has more."""

SPARE = 4
"""Faults of a run beyond those: some hit no leader, or one in whose outage none was owed."""

RUNS_MAX = 6
WRITES = 5
"""Writes that survivors acknowledged; then the fault ends. More than can have been under way when it began."""

CLIENTS = 100
"""Client processes: the workload's rate, while calls wait for their time-out at a node that is gone. With fewer, the
first write after an outage is that of the first client which is free again, not the first that the system takes."""

FAULTS: Mapping[str, Mapping[str, Any]] = {
    "kill": {"kind": "kill"},
    "isolation": {"kind": "partition", "params": {"shape": "isolate"}},
    "pause": {"kind": "pause"},
}
STAGES = {"noticed": "noticed_ns", "elected": "elect_ns", "first write": "write_ns"}
"""What a column is called, and the checker's name for it."""


class Subject(NamedTuple):
    """A system, and how fast faults may follow each other. ``awaited_s``: how long an outage is waited for at most;
    ``quiet_s``: after a heal, once all are in step; ``limit_s``: a run takes twice that at most; ``faults``: of it, at
    most; ``clients``: fewer where each is a process of its own, or where so many starve the nodes; ``rate``: operations
    a second, likewise, and where a read of a list is a request a value; None: the workload's."""

    system: str
    faults: int
    awaited_s: int
    quiet_s: int
    limit_s: int
    clients: int = CLIENTS
    rate: int | None = None


SUBJECTS = (
    Subject("etcd", faults=34, awaited_s=15, quiet_s=1, limit_s=90),
    Subject("etcd-3.5", faults=34, awaited_s=15, quiet_s=1, limit_s=90),
    Subject("etcd-3.7", faults=34, awaited_s=15, quiet_s=1, limit_s=90),
    Subject("zookeeper", faults=34, awaited_s=20, quiet_s=1, limit_s=100),
    Subject("kafka-kraft", faults=32, awaited_s=30, quiet_s=1, limit_s=160),
    Subject("kafka-kraft-3.9", faults=32, awaited_s=30, quiet_s=1, limit_s=160),
    Subject("rocketmq-dledger", faults=32, awaited_s=25, quiet_s=1, limit_s=130),
    Subject("rocketmq-dledger-0.3.2", faults=32, awaited_s=25, quiet_s=1, limit_s=130),
    Subject("rocketmq-dledger-0.2.2", faults=32, awaited_s=25, quiet_s=1, limit_s=130),
    Subject("hashicorp-raft", faults=34, awaited_s=15, quiet_s=1, limit_s=100),
    Subject("pysyncobj", faults=34, awaited_s=20, quiet_s=1, limit_s=130),
    Subject("pysyncobj-0.3.14", faults=34, awaited_s=20, quiet_s=1, limit_s=130),
    Subject("redis-sentinel", faults=16, awaited_s=30, quiet_s=20, limit_s=400),
    Subject("nats", faults=32, awaited_s=40, quiet_s=1, limit_s=300, clients=30, rate=10),
    Subject("nats-2.12.1", faults=32, awaited_s=40, quiet_s=1, limit_s=300, clients=30, rate=10),
    Subject("ovsdb", faults=34, awaited_s=15, quiet_s=1, limit_s=120),
    Subject("jraft", faults=32, awaited_s=20, quiet_s=5, limit_s=220),
    Subject("jraft-1.3.14", faults=32, awaited_s=20, quiet_s=5, limit_s=220),
    Subject("ratis", faults=32, awaited_s=15, quiet_s=5, limit_s=220, clients=30, rate=15),
    Subject("ceph-mon", faults=32, awaited_s=25, quiet_s=1, limit_s=200),
    Subject("kazoo-election", faults=32, awaited_s=30, quiet_s=1, limit_s=250),
    Subject("opensearch", faults=16, awaited_s=40, quiet_s=5, limit_s=400),
    Subject("patroni", faults=16, awaited_s=60, quiet_s=5, limit_s=700, clients=30),
    Subject("mysql", faults=16, awaited_s=60, quiet_s=5, limit_s=760, clients=30),
)


def schedule(subject: Subject, fault: str) -> dict[str, Any]:
    """The written schedule of a run (docs/schedules.md)."""
    awaited = f"{subject.awaited_s}s"
    until = {"event": "write-acked", "by": "spared-by:lost", "count": WRITES, "within": awaited}
    one = {"name": "lost", "victims": "leader", "hold": awaited, "until": until, **FAULTS[fault]}
    count = min(subject.faults, FAULTS_MIN[fault] + SPARE)
    return {"health_bound": "30s", "step": [{"gap": f"{subject.quiet_s}s", "fault": [one]}] * count}


def run(subject: Subject, fault: str, number: int, *, until: Until) -> dict[str, Any]:
    """The result of a run, from an earlier slice if it was done then; ``load``: of the machine, as it ended."""
    place = KEPT / subject.system / f"{fault}-{number}"
    result_of_it = place.with_name(f"{place.name}.json")
    done_before = result_of_it.is_file()
    written = place.with_name(f"schedule-{fault}.json")
    written.parent.mkdir(parents=True, exist_ok=True)
    written.write_text(json.dumps(schedule(subject, fault), indent=1), encoding="utf-8")
    words = (subject.system, "--nodes", str(NODES), "--schedule", written, "--seed", str(number + 1))
    pace = ("--time-limit", f"{subject.limit_s}s", "--concurrency", str(subject.clients), "--fail-on", "violation")
    rate = () if subject.rate is None else ("--rate", str(subject.rate))
    result = kept.run(place, [*words, *pace, *rate], until=until)
    if not done_before:
        result["load"] = round(os.getloadavg()[1], 1)
        result_of_it.write_text(json.dumps(result), encoding="utf-8")
    return result


# --- what was measured ----------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A system under one kind of fault. ``stages``: column → (ns, censored) of each fault on the leader; ``excused``:
    how many more there were, in whose outage no leader was owed or which noise touched; ``loads``: of the machine, five
    minutes as each run ended; ``told``: verdicts that are no pass; ``promised``: a leader, under such a fault."""

    system: str
    fault: str
    day: str
    stages: Mapping[str, Sequence[tuple[Ns, bool]]]
    excused: int
    loads: Sequence[float]
    told: Sequence[str]
    promised: bool = True

    @property
    def hits(self) -> int:
        """Faults on a leader, excused ones apart."""
        return len(self.stages["elected"])


def gathered(system: str, fault: str, results: Sequence[Mapping[str, Any]], *, day: str) -> Row:
    """The row of these runs."""
    stages: dict[str, list[tuple[Ns, bool]]] = {column: [] for column in STAGES}
    excused, told = 0, []
    found = [result["checkers"]["failover"]["metrics"] for result in results]
    promised = any(len(figures["not_owed"]) < len(figures["elect_ns"]) for figures in found)
    for figures, result in zip(found, results, strict=True):
        apart = {*(figures["not_owed"] if promised else ()), *figures.get("noisy", ())}
        excused += len(apart)
        for column, name in STAGES.items():
            owed = (pair for place, pair in enumerate(figures[name]) if place not in apart)
            stages[column] += [(int(ns), bool(censored)) for ns, censored in owed]
        told += kept.of(dict(result), "fail")
    loads = [float(result["load"]) for result in results if "load" in result]
    return Row(system, fault, day, stages, excused, loads, sorted(set(told)), promised)


class Spread(NamedTuple):
    """Of one stage, ns; None: so much was cut off that it was not reached. ``longest``: of all, cut off or not."""

    median: Ns | None
    low: Ns | None
    high: Ns | None
    longest: Ns
    censored: int


def spread(times: Sequence[tuple[Ns, bool]]) -> Spread | None:
    """Median, 5 % and 95 % by Kaplan and Meier; None: there is nothing."""
    if not times:
        return None
    ns, censored = np.array([one for one, _ in times], np.int64), np.array([cut for _, cut in times], np.bool_)
    curve = survival.curve(survival.Times(ns=ns, censored=censored, run=np.zeros(len(times), np.int64)))

    def by(part: float) -> Ns | None:
        reached = (at for at, left in zip(curve.ns, curve.share, strict=True) if left <= 1 - part + 1e-9)
        return next(reached, None)

    return Spread(by(0.5), by(0.05), by(0.95), int(ns.max()), int(censored.sum()))


# --- told -----------------------------------------------------------------------------------------------------------

TABLE = Table(
    Block("failovers"),
    (
        f"| system | fault on the leader | n | {' | '.join(STAGES)} | omitted | load | measured |",
        f"|---|---|---|{'---|' * len(STAGES)}---|---|---|",
    ),
    [(subject.system, fault) for subject in SUBJECTS for fault in FAULTS],
)


def line(row: Row) -> str:
    """A row of the table: median (5 % - 95 %, longest) in seconds."""
    cells = [row.system, row.fault, str(row.hits), *(_cell(row.stages[column]) for column in STAGES)]
    load = (
        " to ".join(sorted({f"{one:g}" for one in (min(row.loads), max(row.loads))}, key=float)) if row.loads else "-"
    )
    owed = str(row.excused) if row.promised else "not promised"
    return f"| {' | '.join([*cells, owed, load, row.day])} |"


def _cell(times: Sequence[tuple[Ns, bool]]) -> str:
    found = spread(times)
    if found is None:
        return "-"
    if found.censored == len(times):
        return "not seen"
    low, high, longest = _s(found.low), _s(found.high), _s(found.longest)
    cut = f"; {found.censored} cut off" if found.censored else ""
    return f"{_s(found.median)} ({low} to {high}, longest {longest}{cut})"


def _s(ns: Ns | None) -> str:
    return "not reached" if ns is None else f"{ns / SECOND:.2f}"


def _all() -> list[tuple[Subject, str]]:
    return [(subject, fault) for subject in SUBJECTS for fault in FAULTS]


def kept_row(subject: Subject, fault: str) -> Row | None:
    """What is kept of these; None: nothing yet."""
    places = [KEPT / subject.system / f"{fault}-{number}" for number in range(RUNS_MAX)]
    places = [place for place in places if place.with_name(f"{place.name}.json").is_file()]
    if not places:
        return None
    results = [json.loads(place.with_name(f"{place.name}.json").read_text(encoding="utf-8")) for place in places]
    began = json.loads((places[-1] / "run.json").read_text(encoding="utf-8"))["started_at"]
    return gathered(subject.system, fault, results, day=str(began)[:10])


def item_of(subject: Subject, fault: str) -> Item:
    """Many faults of one kind."""

    def item(until: Until) -> tuple[bool, str]:
        results: list[dict[str, Any]] = []
        for number in range(RUNS_MAX):
            results.append(run(subject, fault, number, until=until))
            row = gathered(subject.system, fault, results, day="")
            if row.hits >= FAULTS_MIN[fault]:
                break
        trouble = [text for result in results for text in result["trouble"]]
        stages = ", ".join(f"{column} {_cell(row.stages[column])} s" for column in STAGES)
        failed = f"; failed: {', '.join(row.told)}" if row.told else ""
        held = row.hits >= FAULTS_MIN[fault] and not trouble
        return held, f"{row.hits} in {len(results)} runs, {stages}{failed}{''.join(trouble)}"

    item.__doc__ = f"{subject.system}: how long {FAULTS_MIN[fault]} faults on the leader ({fault}) each took."
    return item


def items() -> dict[str, Item]:
    """By name."""
    return {f"failovers-{subject.system}-{fault}": item_of(subject, fault) for subject, fault in _all()}


def main() -> int:
    """Write the table."""
    rows = [row for subject, fault in _all() if (row := kept_row(subject, fault)) is not None]
    TABLE.write(RECORD, [line(row) for row in rows])
    print(f"{len(rows)} rows, {sum(row.hits for row in rows)} failovers: {RECORD.name}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
