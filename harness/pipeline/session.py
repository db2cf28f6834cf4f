"""The one Spark session of a process: checked before it is started, quiet while it runs.

Guarantees: a missing or old Java, pyspark or pandas is reported before anything starts; workers run this interpreter;
no user interface, no metastore, few shuffle partitions, UTC; what Spark and Java write goes to a log file, not to the
terminal, and the error names that file; a session that other code started in this process is used as it is, and left
running. Every setting can be overridden. Out of scope: what is asked of it.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from dethrone.harness.core.errors import ConfigError, HarnessError, MissingCapability
from dethrone.harness.core.ledger import state_dir
from dethrone.harness.pipeline.java import java_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Progress = Callable[[int, int], None]

NEEDED: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "pyspark": ((4, 0), (4, 4)),
    "pandas": ((2, 2), (3,)),
}
"""Distribution → the oldest that will do, and the first that is too new."""

_POLL_S = 0.5
_COLLECTOR = re.compile(r"-XX:\+Use\w*GC\b")
_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.append = true
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yy/MM/dd HH:mm:ss}} %p %c{{1}}: %m%n
"""


class SparkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a user may say of Spark. ``master``: "" for all cores of this machine."""

    master: str = ""
    conf: Mapping[str, str] = {}


def parse_conf(words: tuple[str, ...]) -> dict[str, str]:
    """``("k=v", …)`` as a mapping. ConfigError for a word without ``=``."""
    out = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key.startswith("spark."):
            raise ConfigError(
                f"--spark-conf {word!r} is no setting of Spark", next_step="write it like spark.key=value"
            )
        out[key.strip()] = value.strip()
    return out


def check_installed() -> None:
    """MissingCapability, if what a session needs is not here."""
    for name, (oldest, beyond) in NEEDED.items():
        wanted = f"{name} ≥ {_dots(oldest)}, < {_dots(beyond)}"
        try:
            found = version(name)
        except PackageNotFoundError:
            found = ""
        parts = tuple(int(part) for part in found.split(".")[:2] if part.isdigit())
        if not found or not oldest <= parts < beyond:
            raise MissingCapability(
                f"this needs {wanted}; " + (f"{found} is installed" if found else "it is not installed"),
                where=sys.prefix,
                next_step="pip install 'dethrone[spark]'",
            )
    java_version()


def settings(options: SparkOptions, *, cores: int, directory: Path, env: Mapping[str, str]) -> dict[str, str]:
    """All settings of a session, the user's last. ``directory``: for its log and temporary files."""
    log = directory / "log4j2.properties"
    master = options.master or f"local[{cores}]"
    local = master.startswith("local")
    ours = {
        "spark.master": master,
        "spark.app.name": "dethrone",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.shuffle.partitions": str(2 * cores) if local else "64",
        "spark.driver.memory": "1g",
        "spark.driver.maxResultSize": "512m",
        "spark.driver.extraJavaOptions": " ".join((*collector(env), f"-Dlog4j2.configurationFile={log.as_uri()}")),
    }
    if local:  # no other machine may reach it, and a host name that does not resolve must not matter
        ours |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return {**ours, **options.conf}


@contextlib.contextmanager
def session(options: SparkOptions) -> Iterator[SparkSession]:
    """A session, stopped at the end unless it was there before. MissingCapability; HarnessError: it does not start."""
    check_installed()
    from pyspark.sql import SparkSession

    there = SparkSession.getActiveSession()
    if there is not None:
        yield there
        return
    cores = len(os.sched_getaffinity(0))
    log = _log_file()
    with tempfile.TemporaryDirectory(prefix="dethrone-spark-", ignore_cleanup_errors=True) as temporary:
        directory = Path(temporary)
        (directory / "log4j2.properties").write_text(_LOG4J.format(log=log), encoding="utf-8")
        spark = _start(settings(options, cores=cores, directory=directory, env=os.environ), log)
        try:
            yield spark
        finally:
            spark.stop()


def _start(conf: Mapping[str, str], log: Path) -> SparkSession:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    os.environ.update(pythons(conf, os.environ))
    wanted = SparkConf()
    for key, value in conf.items():
        wanted.set(key, value)
    try:
        with _stderr_to(log):
            return SparkSession.builder.config(conf=wanted).getOrCreate()
    except Exception as error:
        raise HarnessError(
            f"Spark does not start: {' '.join(str(error).split())[:300]}",
            where=conf["spark.master"],
            cause="the master cannot be reached, a setting is wrong, or there is too little memory",
            next_step=f"see {log}",
        ) from error


def collector(env: Mapping[str, str]) -> tuple[str, ...]:
    """The flag of Java's garbage collector, or none if the environment has one, as Java does not start with two.

    The parallel one stops the world and takes a tenth less CPU: pauses do not matter here.
    """
    said = " ".join(env.get(name, "") for name in ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS"))
    return () if _COLLECTOR.search(said) else ("-XX:+UseParallelGC",)


def pythons(conf: Mapping[str, str], env: Mapping[str, str]) -> dict[str, str]:
    """The variables that name the Python of workers and driver: ours, unless a cluster's workers have another one.

    pyspark itself looks for ``spark.pyspark.python`` only where it was started by spark-submit.
    """
    local = conf["spark.master"].startswith("local")
    there = "" if local else conf.get("spark.pyspark.python") or env.get("PYSPARK_PYTHON", "")
    return {"PYSPARK_PYTHON": there or sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}


def _log_file() -> Path:
    directory = state_dir() / "spark"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        log = directory / "spark.log"
        log.write_bytes(b"")
    except OSError:
        return Path(tempfile.gettempdir()) / f"dethrone-spark-{os.getpid()}.log"
    return log


@contextlib.contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """File descriptor 2 is the log for a moment: Java inherits it and keeps it, and so do the workers."""
    sys.stderr.flush()
    kept = os.dup(2)
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(target, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(target)


@contextlib.contextmanager
def watched(spark: SparkSession, progress: Progress) -> Iterator[None]:
    """Report to ``progress``, twice a second, how many tasks of the running jobs are done, and of how many."""
    over = threading.Event()

    def watch() -> None:
        tracker = spark.sparkContext.statusTracker()
        while not over.wait(_POLL_S):
            done, total = _tasks(tracker)
            if total:
                progress(done, total)

    watcher = threading.Thread(target=watch, name="spark-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join(5)


def _tasks(tracker: Any) -> tuple[int, int]:
    stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)


def _dots(parts: tuple[int, ...]) -> str:
    return ".".join(map(str, parts))
