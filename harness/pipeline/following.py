"""``corpus follow``: a stream of what lands, which ends in findings that nobody heard of.

Three kinds of files are followed with Structured Streaming: ``run.json`` of runs that end (their directory is added),
files of the manifest (their runs are judged), files of findings (they are raised); what one step makes goes into the
next at once, and its file, which lands like those of anybody else, changes nothing more. Spark's checkpoint tells which
files were seen; a batch that was broken off comes again, and every step is one that can be taken twice: a run is added
once, what was judged is not judged again, and the journal tells what was raised. So nothing is lost or repeated, even
if the checkpoint is: it only spares looking. Guarantees: what cannot be read is news once, and stops nothing. Out of
scope: telling (``harness.report.following``), and what only several runs show (``corpus check``).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.core import parquet
from harness.core.clock import SECOND
from harness.core.errors import HarnessError, HistoryError
from harness.core.ledger import state_dir
from harness.engine.judge import load_checkers
from harness.pipeline import checking, ingest, judging, layout, raising, tables
from harness.pipeline.checking import Loader
from harness.pipeline.corpus import Corpus, of_runs, said_by
from harness.pipeline.frames import literal, spark_url
from harness.pipeline.journal import Bad, Before, Journal, News, Raised, Waiting
from harness.pipeline.known import Known
from harness.pipeline.places import LocalPlace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

OURS = "_follow"
SEEN = (*ingest.KNOWN, "system", "date")
"""Of the manifest: what a follower keeps of each run."""

FILES_MAX = 64
"""Files of one kind in a batch, so that the first findings of a long backlog do not wait for the last."""

EVERY_S = 1
QUIET_NS = 10 * SECOND
"""For how long nothing may change in a run directory without its end, until it is taken as it is."""

TIDY_EVERY = 64
"""Batches that wrote something, until the tables are looked at."""

_FILES = "path string, modificationTime timestamp, length long, content binary"
_FOR_EVER = "36500d"


def home(corpus: Corpus) -> Path:
    """Where journal and checkpoint lie: in the corpus if it is a directory of this machine."""
    if isinstance(corpus.place, LocalPlace):
        return corpus.place.root / OURS
    return state_dir() / "follow" / raising.id_of(corpus.place.url)


class Follower:
    """What is done with files that landed. ``tell``: gets each piece of news, after the journal has it."""

    def __init__(
        self,
        corpus: Corpus,
        spark: SparkSession,
        journal: Journal,
        tell: Callable[[News], None],
        *,
        known: Sequence[Known] = (),
        loader: Loader = load_checkers,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._corpus = corpus
        self._journal = journal
        self._tell = tell
        self._known = known
        self._now_ns = now_ns
        self._checkers = loader()
        self._versions = {name: checker.version for name, checker in self._checkers.items()}
        self._versions[judging.HISTORY] = judging.HISTORY_VERSION
        self._work = checking.Work(spark, corpus.place, self._checkers, loader)
        self._one = threading.RLock()
        self._wrote = 0
        self.runs = 0
        self._manifest: dict[str, Mapping[str, Any]] = {}
        self._begin()

    def _begin(self) -> None:
        """What is there: the manifest, whose runs are judged by now, and, the first time, the findings."""
        for row in self._rows(layout.RUNS, SEEN, self._paths(layout.RUNS)):
            self._manifest[row["run"]] = row
        columns = ("run", "checker", "version", "content", "settled", "written_ns")
        verdicts, bad = tables.read_what_can(self._corpus.place, layout.VERDICTS, columns, self._paths(layout.VERDICTS))
        self._say_bad(bad)
        self._judged = {(row["run"], row["content"]) for row in _complete(verdicts.to_pylist(), self._versions)}
        self._begun = set(verdicts.column("run").to_pylist())
        if self._journal.new:
            findings, bad = tables.read_what_can(
                self._corpus.place, layout.FINDINGS, tuple(layout.FINDINGS.columns), self._paths(layout.FINDINGS)
            )
            self._say_bad(bad)
            said = said_by(verdicts.select(["run", "checker", "written_ns"]), findings).to_pylist()
            there = list(raising.identified(said))
            causes = tuple((row["signature"], row["run"], row["date"]) for _, row in there if row["signature"])
            self._journal.record(Before(tuple(name for name, _ in there), causes))

    def landed(self, ended: Sequence[Path], manifest: Sequence[str], findings: Sequence[str]) -> None:
        """Run directories that ended, files of the manifest and of findings. May be called twice with the same."""
        with self._one:
            for directory in ended:
                if str(directory) not in self._journal.waiting and not ingest.ended(directory):
                    self._journal.record(Waiting(str(directory)))
            self._add([one for one in ended if str(one) not in self._journal.waiting])
            self._judge(self._rows(layout.RUNS, MANIFEST, manifest))
            self._raise(self._rows(layout.FINDINGS, tuple(layout.FINDINGS.columns), findings))

    def look_again(self) -> int:
        """At directories that were not whole when they were seen; how many still are not."""
        if not self._one.acquire(blocking=False):  # a batch is at work: the next look is soon enough
            return len(self._journal.waiting)
        try:
            now = self._now_ns()
            ready = [
                directory
                for directory in map(Path, self._journal.waiting)
                if ingest.ended(directory) or now - _changed_ns(directory) > QUIET_NS
            ]
            self._add(ready)
            for directory in ready:
                self._journal.record(Waiting(str(directory), over=True))
            return len(self._journal.waiting)
        finally:
            self._one.release()

    def _add(self, directories: Sequence[Path]) -> None:
        added = []
        for row in ingest.add(self._corpus, directories, now_ns=self._now_ns(), known=self._manifest):
            if row.answer in {"stored", "duplicate"} and row.run in self._manifest:
                added.append(self._manifest[row.run])
            elif row.answer in {"conflict", "refused"}:
                self._bad(str(row.directory), f"{row.answer}: {row.why}")
        self._judge([row for row in added if "plan" in row])
        for one in added:  # a plan a run would add up
            self._manifest[one["run"]] = {name: one[name] for name in SEEN}

    def _judge(self, rows: Sequence[Mapping[str, Any]]) -> None:
        for row in rows:
            self._manifest[row["run"]] = {name: row[name] for name in SEEN}
        todo = [row for row in rows if row["state"] == "stored" and (row["run"], row["content"]) not in self._judged]
        if not todo:
            return
        said: list[dict[str, Any]] = []
        if any(row["run"] in self._begun for row in todo):
            columns = ("run", "checker", "version", "content", "settled")
            paths = self._paths(layout.VERDICTS)
            verdicts, bad = tables.read_what_can(self._corpus.place, layout.VERDICTS, columns, paths)
            self._say_bad(bad)
            said = of_runs(verdicts, (row["run"] for row in todo)).to_pylist()
        jobs = judging.jobs_of(todo, said, self._versions)
        if jobs:
            told = list(self._work.wave(jobs, lambda _done, _total: None))
            checking.write(self._corpus, told)
            self._say_unsettled(told)
            self._raise([{**row, "written_ns": 0} for one in told for row in one.findings])
            self._tidy()
        self.runs += len(jobs)
        self._judged.update((row["run"], row["content"]) for row in todo)
        self._begun.update(row["run"] for row in todo)

    def _raise(self, rows: Iterable[Mapping[str, Any]]) -> None:
        for name, row in raising.identified(rows):
            if name not in self._journal.ids:
                fault = self._fault_before(row)
                news = raising.finding_of(name, row, fault=fault, known=self._known, now_ns=self._now_ns())
                self._news(raising.seen_before(news, self._journal.causes, self._days()))

    def _days(self) -> list[tuple[str, str]]:
        """System and date of every run of the corpus."""
        return [(row["system"], row["date"]) for row in self._manifest.values()]

    def _news(self, news: News) -> None:
        self._journal.record(Raised(news))
        self._tell(news)

    def _bad(self, where: str, why: str) -> None:
        name = raising.id_of("bad", where, why)
        if name not in self._journal.ids:
            self._news(Bad(id=name, where=where, why=why, raised_ns=self._now_ns()))

    def _say_bad(self, bad: Iterable[tuple[str, str]]) -> None:
        for path, why in bad:
            self._bad(f"{path} in {self._corpus.place.url}", why)

    def _say_unsettled(self, told: Iterable[judging.Told]) -> None:
        for one in told:
            row = next((row for row in one.verdicts if not row["settled"]), None)
            if row is not None:
                self._bad(f"run {row['run']}", row["reason"])

    def _rows(self, table: tables.Table, columns: Sequence[str], paths: Sequence[str]) -> list[dict[str, Any]]:
        rows, bad = tables.read_what_can(self._corpus.place, table, columns, paths)
        self._say_bad(bad)
        found: list[dict[str, Any]] = rows.to_pylist()
        return found

    def _paths(self, table: tables.Table) -> list[str]:
        return [entry.path for entry in self._corpus.place.files(table.name)]

    def _fault_before(self, row: Mapping[str, Any]) -> str:
        """As comparisons count it: the kind that had begun last before the proof was complete."""
        run, last = self._manifest.get(row["run"]), max(row["certificate"], default=None)
        if run is None or last is None:
            return ""
        try:
            faults = parquet.faults_begun(self._corpus.place.open(run["path"]), where=run["path"])
        except HistoryError:
            return ""
        before = [kind for seq, kind in faults if seq < last]
        return before[-1] if before else ""

    def _tidy(self) -> None:
        self._wrote += 1
        if self._wrote % TIDY_EVERY == 0:
            checking.tidy(self._corpus)


MANIFEST = (*judging.RUN_COLUMNS, "state")


def _complete(rows: Iterable[Mapping[str, Any]], versions: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
    """A row of each run that every checker judged, in its version, settled and on the same bytes."""
    counts: dict[tuple[str, str], int] = {}
    for row in rows:
        if row["settled"] and versions.get(row["checker"]) == row["version"]:
            key = (row["run"], row["content"])
            counts[key] = counts.get(key, 0) + 1
            if counts[key] == len(versions):
                yield row


def _changed_ns(directory: Path) -> int:
    """When anything in there changed last, as the file system knows it; 0: it is gone."""
    with contextlib.suppress(OSError):
        return max(path.stat().st_ctime_ns for path in (directory, *directory.iterdir()))
    return 0


@contextlib.contextmanager
def stream(
    spark: SparkSession, follower: Follower, corpus: Corpus, paths: Sequence[Path], *, once: bool
) -> Iterator[Stream]:
    """The running stream over these directories and the corpus, stopped at the end. ``once``: what is there now."""
    for table in (layout.RUNS, layout.FINDINGS):  # Spark follows no directory that is not there
        if not corpus.place.files(table.name):
            tables.append(corpus.place, table, table.schema().empty_table(), name="begin")
    running = Stream(spark, follower, corpus, paths, once=once)
    try:
        yield running
    finally:
        running.stop()


class Stream:
    """A running query."""

    def __init__(
        self, spark: SparkSession, follower: Follower, corpus: Corpus, paths: Sequence[Path], *, once: bool
    ) -> None:
        self._follower = follower
        self._error: Exception | None = None
        self._stopping = False
        landed = [
            _files(spark, spark_url(corpus.place, name), name) for name in (layout.RUNS.name, layout.FINDINGS.name)
        ]
        landed += [_files(spark, f"file://{path.absolute()}", "ended", only="run.json") for path in paths]
        frame = landed[0]
        for one in landed[1:]:
            frame = frame.unionByName(one)
        words = [str(path.absolute()) for path in paths]
        self._checkpoint = home(corpus) / f"checkpoint-{raising.id_of(*words)}"
        writer = frame.writeStream.foreachBatch(self._batch).queryName("dethrone-follow")
        writer = writer.option("checkpointLocation", self._checkpoint.absolute().as_uri())
        writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=f"{EVERY_S} seconds")
        with self._said():
            self._query: StreamingQuery = writer.start()

    def running(self) -> bool:
        """Whether it goes on. HarnessError: it broke."""
        with self._said():
            if self._query.isActive:
                return True
            trouble = self._query.exception()
            if trouble is not None and not self._stopping:
                raise trouble
            return False

    def stop(self) -> None:
        """Let go of it; the batch under way is broken off."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        self._stopping = True
        with contextlib.suppress(PySparkException, Py4JError, OSError):
            self._query.stop()

    def _batch(self, frame: DataFrame, _number: int) -> None:
        rows = frame.collect()
        by_kind: dict[str, list[str]] = {}
        for row in sorted(rows, key=lambda row: str(row["path"])):
            by_kind.setdefault(row["kind"], []).append(row["path"])
        try:
            self._follower.landed(
                [Path(path.removeprefix("file:")).parent for path in by_kind.get("ended", ())],
                [_relative(path, layout.RUNS) for path in by_kind.get(layout.RUNS.name, ())],
                [_relative(path, layout.FINDINGS) for path in by_kind.get(layout.FINDINGS.name, ())],
            )
        except Exception as error:
            self._error = error
            raise

    @contextlib.contextmanager
    def _said(self) -> Iterator[None]:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            yield
        except (PySparkException, Py4JError) as error:
            if isinstance(self._error, HarnessError):
                raise self._error from error
            raise HarnessError(
                f"the stream broke: {' '.join(str(self._error or error).split())[:300]}",
                where=str(self._checkpoint),
                cause="Spark ended, a directory is gone, or the checkpoint is damaged",
                next_step="call it again; a checkpoint may be removed: nothing is lost or repeated by that",
            ) from error


def _files(spark: SparkSession, url: str, kind: str, *, only: str = "") -> DataFrame:
    """The paths of files as they land.

    Without ``maxFileAge`` Spark leaves out what is a week older than the newest file, however late it lands. What
    ``compact`` removes before it is read has its rows in another file.
    """
    from pyspark.sql import functions as sf

    reader = spark.readStream.format("binaryFile").schema(_FILES)
    options = {"maxFilesPerTrigger": str(FILES_MAX), "maxFileAge": _FOR_EVER, "recursiveFileLookup": "true"}
    options["ignoreMissingFiles"] = "true"
    options |= {"pathGlobFilter": only} if only else {}
    return reader.options(**options).load(literal(url)).select(sf.lit(kind).alias("kind"), "path")


def _relative(path: str, table: tables.Table) -> str:
    return f"{table.name}/{path.rpartition('/')[2]}"
