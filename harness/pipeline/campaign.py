"""A simulated campaign on Spark: seeds go out as tasks, wave after wave, and rows come back in the order of the seeds.

Guarantees: the rows are those of a local campaign, by the same code (``campaign_worker``); several waves are out at a
time, so that no core waits while another finishes one; the driver holds the rows of ``AHEAD`` waves and no more. A wave
that Spark gives up on is halved until the one seed that kills workers stands alone, with a row that says so. Executors
of a cluster are sent the packages (``shipping``), and are asked whether they can run them before the first seed. Leaves
out the rows' file and what is kept (``dethrone.harness.engine.campaign.campaign``), and the session (``session``).
"""

from __future__ import annotations

import itertools
import sys
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from dethrone.harness.core.errors import HarnessError, MissingCapability
from dethrone.harness.core.ledger import state_dir
from dethrone.harness.engine.campaign.campaign import Source
from dethrone.harness.engine.campaign.row import CampaignRow
from dethrone.harness.engine.run.exit_status import EXIT_TROUBLE
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import draft
from dethrone.harness.pipeline import campaign_worker, shipping
from dethrone.harness.pipeline.campaign_waves import halves, mean_ns, pieces, shape

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

AHEAD = 3
"""Waves that are out at a time: the second and third fill the cores that the first leaves idle at its end."""

SETTINGS: Mapping[str, str] = {
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "2000",
    "spark.sql.ui.retainedExecutions": "10",
}
"""What a session for campaigns is started with: Spark would remember a hundred thousand tasks."""

_POLL_S = 0.5
_PARCELS = 4
"""Packed versions of the code that are left in the state directory."""

Wave = list[tuple[int, ...]]
Say = Callable[[str], None]


def spark_source(spark: SparkSession, say: Say) -> Source:
    """Simulates on this session's executors. HarnessError says why they cannot."""

    def source(
        options: RunOptions, seeds: Iterable[int], *, count: int, on_the_way: Callable[[int], None]
    ) -> Iterator[CampaignRow]:
        coming = iter(seeds)
        first = next(coming, None)
        if first is None:
            return
        draft(options, seed=first)  # what is wrong with the options is wrong for all
        _check_classic(spark)
        parcel = None if _is_local(spark) else _ship(spark, say)
        run = _Run(spark=spark, packed=campaign_worker.pack_work(options), first=first, parcel=parcel)
        say(f"{run.look()}; {spark.sparkContext.defaultParallelism} cores")
        yield from run.rows(itertools.chain((first,), coming), count, on_the_way)

    return source


def _check_classic(spark: SparkSession) -> None:
    """MissingCapability for Spark Connect, which has neither jobs to watch nor jobs to cancel."""
    from pyspark.errors import PySparkException

    try:
        spark.sparkContext  # noqa: B018 - asking is the test
    except PySparkException as error:
        raise MissingCapability(
            "this Spark session is one of Spark Connect, and campaigns need a classic one",
            cause="a Databricks cluster in standard access mode, serverless, or SPARK_REMOTE",
            next_step="use a cluster in dedicated access mode, or unset SPARK_REMOTE",
        ) from error


def _is_local(spark: SparkSession) -> bool:
    """Whether the workers are children of this process' Java, on this machine, with this interpreter."""
    master = str(spark.sparkContext.master)
    return master == "local" or master.startswith("local[")


def _ship(spark: SparkSession, say: Say) -> shipping.Parcel:
    directory = state_dir() / "spark" / "shipped"
    parcel = shipping.pack(directory)
    before = list(sys.path)
    spark.addArtifacts(str(parcel.path), pyfile=True)
    sys.path[:] = before  # it puts the file before what is installed here, too
    for old in sorted(directory.glob("*.zip"), key=lambda path: path.stat().st_mtime)[:-_PARCELS]:
        if old != parcel.path:
            old.unlink(missing_ok=True)
    say(f"shipping {', '.join(parcel.holds)} to the workers ({parcel.path.stat().st_size / 1e6:.1f} MB)")
    if parcel.left_out:
        say(f"not shipped, because of compiled parts: {', '.join(parcel.left_out)}")
    return parcel


@dataclass(frozen=True, slots=True)
class _Sent:
    """A wave on its way."""

    wave: Wave
    group: str
    answer: Future[list[CampaignRow]]


@dataclass(frozen=True, slots=True)
class _Run:
    """One campaign. ``first``: a seed of it, to try the options with."""

    spark: SparkSession
    packed: bytes
    first: int
    parcel: shipping.Parcel | None

    def rows(self, coming: Iterator[int], left: int, on_the_way: Callable[[int], None]) -> Iterator[CampaignRow]:
        """A row for each seed, in order."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        out: deque[_Sent] = deque()
        seed_ns: int | None = None
        pool = ThreadPoolExecutor(AHEAD, thread_name_prefix="spark-wave")
        try:
            while True:
                while len(out) < AHEAD and left > 0:
                    wave = pieces(coming, shape(left=left, slots=self._slots(), seed_ns=seed_ns))
                    left = left - sum(map(len, wave)) if wave else 0
                    if wave:
                        group = f"dethrone-{uuid.uuid4().hex}"
                        out.append(_Sent(wave, group, pool.submit(self._simulated, wave, group)))
                if not out:
                    return
                while not wait([out[0].answer], timeout=_POLL_S).done:
                    on_the_way(sum(map(self._done, out)))
                sent = out.popleft()
                try:
                    rows = sent.answer.result()
                except (PySparkException, Py4JError) as error:
                    rows = list(self._piecemeal(sent.wave, error))
                seed_ns = mean_ns((row.elapsed_ns for row in rows if row.elapsed_ns), seed_ns)
                yield from rows
        except (Py4JError, ConnectionError) as error:
            raise HarnessError(
                f"Spark itself is gone: {_short(error)}",
                cause="its Java was killed, or had too little memory (spark.driver.memory)",
                next_step="repeat the command: it resumes where it stopped",
            ) from error
        finally:
            for sent in out:
                self._cancel(sent.group)
            pool.shutdown(wait=False, cancel_futures=True)

    def _slots(self) -> int:
        """How many tasks run at once."""
        return max(1, int(self.spark.sparkContext.defaultParallelism))

    def look(self) -> str:
        """The executors that can work for us, in words. HarnessError: there are none, and what to do."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        tasks = 2 * self._slots()
        try:
            frame = self.spark.range(0, tasks, 1, tasks)
            answers = frame.mapInArrow(_looking(self.packed, self.first), "able binary").toArrow()
        except (PySparkException, Py4JError) as error:
            raise HarnessError(
                f"Spark's workers cannot start Python: {_short(error)}",
                where=str(self.spark.sparkContext.master),
                cause="no Python of this version, or no pyarrow, where they run",
                next_step="name their Python with PYSPARK_PYTHON; see docs/campaigns.md",
            ) from error
        found = [msgspec.json.decode(raw, type=campaign_worker.Able) for raw in answers.column("able").to_pylist()]
        for able in found:
            if able.why_not:
                raise HarnessError(
                    f"a worker cannot simulate: {able.why_not}",
                    where=able.host,
                    cause=f"its Python needs {', '.join(shipping.NEEDED_THERE)}; dethrone itself is sent to it",
                    next_step="install them there, or send an environment: see docs/campaigns.md",
                )
            if self.parcel is not None and self.parcel.path.name not in able.home:
                raise HarnessError(
                    f"a worker would run another dethrone: {able.home}",
                    where=able.host,
                    cause="its PYTHONPATH names one, before what was sent",
                    next_step="take it out of the workers' PYTHONPATH",
                )
        hosts = sorted({able.host for able in found})
        return f"workers on {', '.join(hosts[:5])}{' …' if len(hosts) > 5 else ''}"

    def _simulated(self, wave: Wave, group: str) -> list[CampaignRow]:
        """The rows of a wave: one job, one task per piece."""
        self.spark.sparkContext.setJobGroup(group, f"{sum(map(len, wave))} seeds", interruptOnCancel=True)
        frame = self.spark.range(0, len(wave), 1, len(wave))
        table: pa.Table = frame.mapInArrow(_simulating(self.packed, wave), "position long, rows binary").toArrow()
        answers = table.sort_by("position").column("rows").to_pylist()
        rows = [row for answer in answers for row in campaign_worker.rows_from(answer)]
        if [row.seed for row in rows] != [seed for piece in wave for seed in piece]:
            raise HarnessError("Spark lost rows, or gave some twice", where=str(self.spark.sparkContext.master))
        return rows

    def _piecemeal(self, wave: Wave, error: Exception) -> Iterator[CampaignRow]:
        """The rows of a wave that Spark gave up."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        self.look()  # if no executor can work any more, it is not the fault of a seed
        parts = halves(wave)
        if not parts:
            yield dead(wave[0][0], _short(error))
        for part in parts:
            try:
                yield from self._simulated(part, f"dethrone-{threading.get_ident()}")
            except (PySparkException, Py4JError) as again:
                yield from self._piecemeal(part, again)

    def _done(self, sent: _Sent) -> int:
        """Seeds of a wave whose tasks are done, as Spark's status tracker has it."""
        tracker = self.spark.sparkContext.statusTracker()
        tasks = 0
        for job in tracker.getJobIdsForGroup(sent.group):
            info = tracker.getJobInfo(job)
            for number in info.stageIds if info is not None else ():
                stage = tracker.getStageInfo(number)
                tasks += stage.numCompletedTasks if stage is not None else 0
        return min(tasks, len(sent.wave)) * len(sent.wave[0])

    def _cancel(self, group: str) -> None:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            self.spark.sparkContext.cancelJobGroup(group)
        except (PySparkException, Py4JError, OSError, AssertionError):
            return  # Spark is gone, and its jobs with it


def dead(seed: int, why: str) -> CampaignRow:
    """The row of a seed that kills every worker: trouble, never a judgement."""
    return CampaignRow(
        seed=seed,
        outcome="unknown",
        exit_code=EXIT_TROUBLE,
        run_dir="",
        elapsed_ns=0,
        elections=0,
        faults=0,
        ops_ok=0,
        reason=f"the worker died while it simulated this seed: {why}",
    )


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


# What these two return travels by value, and names nothing of ours before it runs: what is ours may not be there.


def _simulating(packed: bytes, wave: Wave) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def simulate_pieces(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        from dethrone.harness.pipeline.campaign_worker import simulate

        for batch in batches:
            for position in batch.column("id").to_pylist():
                yield pa.RecordBatch.from_arrays(
                    [pa.array([position], pa.int64()), pa.array([simulate(packed, wave[position])], pa.binary())],
                    names=["position", "rows"],
                )

    return simulate_pieces


def _looking(packed: bytes, seed: int) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def look_around(batches: Iterable[Any]) -> Iterator[Any]:
        import json
        import platform
        import sys

        import pyarrow as pa

        for _ in batches:
            try:
                from dethrone.harness.pipeline.campaign_worker import look

                told = look(packed, seed)
            except ImportError as error:
                why = f"{error} ({sys.executable}, Python {platform.python_version()})"
                told = json.dumps({"host": platform.node(), "home": "", "why_not": why}).encode()
            yield pa.RecordBatch.from_arrays([pa.array([told], pa.binary())], names=["able"])

    return look_around
