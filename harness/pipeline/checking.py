"""``corpus check``: everything that is stale judged by the checkers of a single run, one Spark task per run.

Runs go out in waves, largest first, so that no long one is left alone at the end; each wave is written before the next
goes, so that an interruption costs one wave and the driver holds one wave. Guarantees: what is judged already by this
version of a checker is not judged again; verdicts of other runs and other checkers stay; a run at which a worker dies
is ``unknown`` and harms no other. Out of scope: judging itself (``judging``) and showing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from dethrone.harness.core import registry
from dethrone.harness.core.interfaces import Checker
from dethrone.harness.core.verdict import Outcome
from dethrone.harness.engine.run.judge import load_checkers
from dethrone.harness.pipeline import across, judging, layout, tables
from dethrone.harness.pipeline.corpus import Corpus, of_runs, open_events
from dethrone.harness.pipeline.judging import HISTORY, HISTORY_VERSION, Job, Told
from dethrone.harness.pipeline.places import Place, place_of
from dethrone.harness.pipeline.session import watched

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

WAVE = 256
"""Runs that go out together; their plans go with them."""

FILES_MAX = 32
"""Files of verdicts or findings, above which a check tidies them up at its end."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of the corpus. ``since``: a date, or "". ``again``: also what is not stale."""

    since: str = ""
    system: str = ""
    checkers: tuple[str, ...] = ()
    again: bool = False


class RunOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """One run, of all its verdicts that were asked for. ``reason``: of the worst of them; ``excused``: its findings
    that the faults took out of the promise."""

    run: str
    date: str
    system: str
    outcome: Outcome
    checker: str
    reason: str
    settled: bool
    excused: int = 0


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a check. ``judged``: new verdicts, and the number of runs that they are of."""

    runs: tuple[RunOutcome, ...]
    judged: int
    judged_runs: int
    events: int
    elapsed_ns: int


Loader = Callable[[], Mapping[str, Checker]]
"""Where checkers come from, here and on the workers."""


def check(
    corpus: Corpus,
    spark: SparkSession,
    asked: Asked,
    progress: Callable[[int, int], None],
    *,
    loader: Loader = load_checkers,
) -> Checked:
    """Judge what is stale, write it, and report the state of all selected runs. ConfigError: an unknown checker."""
    began = time.monotonic_ns()
    checkers = _chosen(asked.checkers, loader())
    runs = corpus.runs(*judging.RUN_COLUMNS, since=asked.since, system=asked.system, stored=True)
    verdicts = corpus.verdicts("run", "checker", "version", "content", "settled")
    if not asked.checkers:
        _compare(corpus, spark, verdicts, again=asked.again)
    versions = {**({} if asked.checkers else {HISTORY: HISTORY_VERSION})}
    versions |= {name: checker.version for name, checker in checkers.items()}
    known = of_runs(verdicts, (run["run"] for run in runs)).to_pylist()
    jobs = judging.jobs_of(runs, known, versions, again=asked.again)
    del verdicts, known
    sizes = {run["run"]: run["events"] for run in runs}
    work = Work(spark, corpus.place, checkers, loader)
    judged = 0
    for start in range(0, len(jobs), WAVE):
        wave = jobs[start : start + WAVE]

        def tell(done: int, _total: int, start: int = start) -> None:
            progress(start + done, len(jobs))

        told = list(work.wave(wave, tell))
        judged += write(corpus, told)
        progress(start + len(wave), len(jobs))
    tidy(corpus)
    return Checked(
        runs=tuple(outcomes(corpus, [run["run"] for run in runs], tuple(versions), whole=not asked.checkers)),
        judged=judged,
        judged_runs=len(jobs),
        events=sum(sizes[job.run] for job in jobs),
        elapsed_ns=time.monotonic_ns() - began,
    )


def _chosen(names: Sequence[str], known: Mapping[str, Checker]) -> dict[str, Checker]:
    for name in names:
        if name not in known:
            raise registry.unknown_name("checker", name, known)
    return {name: known[name] for name in (names or known)}


@dataclass(frozen=True, slots=True)
class Work:
    """What all waves share."""

    spark: SparkSession
    place: Place
    checkers: Mapping[str, Checker]
    loader: Loader

    def wave(self, jobs: Sequence[Job], progress: Callable[[int, int], None]) -> Iterator[Told]:
        """The answers of a wave. Where Spark gives up on it, its halves: in the end the one run that kills workers."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            with watched(self.spark, progress):
                yield from _answers(self._frame(jobs))
        except (PySparkException, Py4JError) as error:
            if self.spark.sparkContext._jsc is None:  # noqa: SLF001 - Spark itself is gone: not the fault of a run
                raise
            if len(jobs) == 1:
                why = " ".join(str(error).split())[:300]
                yield judging.unsettled(jobs[0], f"the worker died while it judged this run: {why}", self.checkers)
                return
            middle = len(jobs) // 2
            for half in (jobs[:middle], jobs[middle:]):
                yield from self.wave(half, progress)

    def _frame(self, jobs: Sequence[Job]) -> pa.Table:
        """Position → answer: one task a position, in this order."""
        work = _on_worker(self.place.url, list(jobs), self.loader)
        frame = self.spark.range(0, len(jobs), 1, len(jobs))
        table: pa.Table = frame.mapInArrow(work, "position long, told binary").toArrow()
        return table


def _answers(table: pa.Table) -> Iterator[Told]:
    for raw in table.sort_by("position").column("told").to_pylist():
        yield msgspec.json.decode(raw, type=Told)


def _on_worker(url: str, jobs: list[Job], loader: Loader) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """What a task does with its row: the position of its job."""

    def judge_rows(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        checkers = loader()
        place = place_of(url)
        for batch in batches:
            for position in batch.column("id").to_pylist():
                job = jobs[position]
                told = msgspec.json.encode(
                    judging.judge_job(partial(open_events, place, job.path), job, checkers), enc_hook=str
                )
                yield pa.RecordBatch.from_arrays(
                    [pa.array([position], pa.int64()), pa.array([told], pa.binary())], names=["position", "told"]
                )

    return judge_rows


def write(corpus: Corpus, told: Sequence[Told]) -> int:
    """Findings first: a verdict that says ``fail`` has its findings. How many verdicts there were."""
    moment = time.time_ns()
    verdicts, findings = judging.write_rows(told, moment_ns=moment)
    for table, rows in ((layout.FINDINGS, findings), (layout.VERDICTS, verdicts)):
        if rows:
            tables.append(corpus.place, table, tables.rows_of(table, rows), name=f"check-{moment}")
    return len(verdicts)


def _compare(corpus: Corpus, spark: SparkSession, verdicts: pa.Table, *, again: bool) -> None:
    """What only several runs together show. Of the whole corpus: a group does not end where a selection does."""
    import pyarrow.compute as pc
    from pyspark.errors import PySparkException

    groups = across.groups_of(corpus.runs(*across.COLUMNS, stored=True))
    if not again:
        known = verdicts.filter(pc.equal(verdicts.column("checker"), across.NAME)).to_pylist()
        groups = across.stale(groups, known)
    moment = time.time_ns()
    try:
        differences = across.compare(spark, corpus.place, [one for one in groups if not one.same])
    except PySparkException:  # events that cannot be read: their runs say so themselves, and here they differ, no more
        differences = {}
    rows = across.rows_for(groups, differences)
    if rows:
        stamped = tables.rows_of(layout.VERDICTS, [{**row, "written_ns": moment} for row in rows])
        tables.append(corpus.place, layout.VERDICTS, stamped, name=f"across-{moment}")


def tidy(corpus: Corpus) -> None:
    """Merge files, once there are too many."""
    from dethrone.harness.pipeline import upkeep

    if max(len(corpus.place.files(table.name)) for table in (layout.VERDICTS, layout.FINDINGS)) > FILES_MAX:
        upkeep.compact(corpus, now_ns=time.time_ns())


def outcomes(corpus: Corpus, runs: Sequence[str], checkers: Sequence[str], *, whole: bool) -> Iterator[RunOutcome]:
    """How the runs stand. ``whole``: all checkers were asked, so a pass needs one of safety and one of liveness."""
    asked = set(checkers)
    columns = ("run", "date", "system", "checker", "kind", "outcome", "reason", "settled", "excused")
    by_run: dict[str, list[dict[str, Any]]] = {}
    for row in of_runs(corpus.verdicts(*columns), runs).to_pylist():
        if row["checker"] in asked:
            by_run.setdefault(row["run"], []).append(row)
    for run, rows in by_run.items():
        outcome, worst = standing(rows, whole=whole)
        yield RunOutcome(
            run=run,
            date=rows[0]["date"],
            system=rows[0]["system"],
            outcome=outcome,
            checker=worst["checker"] if worst else "",
            reason=worst["reason"] if worst else "",
            settled=all(row["settled"] for row in rows),
            excused=sum(row["excused"] or 0 for row in rows),
        )


def standing(rows: Sequence[Mapping[str, Any]], *, whole: bool) -> tuple[Outcome, Mapping[str, Any] | None]:
    """The outcome of a run by the rows of its verdicts, and the row that decides it: the rule of ``verdict.merge``."""
    for outcome in ("fail", "unknown"):  # damage explains the doubts of all others
        deciding = next((row for row in sorted(rows, key=_rank) if row["outcome"] == outcome), None)
        if deciding is not None:
            return outcome, deciding
    kinds = {row["kind"] for row in rows if row["outcome"] == "pass"}
    if whole and not {"safety", "liveness"} <= kinds:
        return "unknown", {"checker": "", "reason": "not at least one safety and one liveness checker could judge it"}
    return ("pass" if kinds else "n/a"), None


def _rank(row: Mapping[str, Any]) -> tuple[bool, str]:
    return row["checker"] != HISTORY, row["checker"]
