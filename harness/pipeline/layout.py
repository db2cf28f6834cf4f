"""The layout of a corpus, and the schemas of its tables (a column without a type holds strings). Pure.

    _corpus.json                                      that this is a corpus, and its version
    events/date=2026-11-21/system=raft/run=<id>/<content>.parquet    the events of a run: dethrone.harness.core.parquet
    events/date=2026-11-21/system=raft/run=<id>/<content>/*.parquet  those of a long one, in its segments
    runs/*.parquet                                    the manifest: a run is in the corpus once its row is
    verdicts/*.parquet   findings/*.parquet           what the checkers said
    campaigns/*.parquet   seeds/*.parquet             campaigns in virtual time, a row per seed

Dates are UTC, of the moment at which the run began. Guarantees: names that every file system, Hive, Spark, DuckDB and
pandas take as they are, and take for strings. Out of scope: reading and writing.
"""

from __future__ import annotations

import re

from dethrone.harness.pipeline.tables import Table, typed

CORPUS_VERSION = 1
MARKER = "_corpus.json"
EVENTS = "events"
SUFFIX = ".parquet"

RUNS = Table(
    name="runs",
    version=1,
    columns=typed(
        "run date system profile variant backend seed:int64 nodes:int64 started_ns:int64 events:int64 "
        "bytes:int64 schema:int64 content digest checksum path complete:bool version source plan info state "
        "written_ns:int64 system_version tags"
    ),
    key=("run",),
    newest="written_ns",
)
"""``started_ns``, ``written_ns``: of the Unix epoch. ``content``: hash of history and plan; ``digest``: of the history
alone (its end record). ``path``: of the file of its events, or of the directory of its segments, relative; ``bytes``,
``checksum``: size and hash of all of it.
``version``: of the dethrone that ran it. ``system_version``, ``tags`` (JSON): of the system that was tested, null in
files of older versions. ``plan``, ``info``: plan.json and run.json. ``state``: ``stored``, or ``pruned`` (its events
are gone, the rest stays)."""

VERDICTS = Table(
    name="verdicts",
    version=1,
    columns=typed(
        "run date system checker version kind outcome reason findings:int64 excused:int64 evidence metrics "
        "content settled:bool took_ns:int64 written_ns:int64"
    ),
    key=("run", "checker"),
    newest="written_ns",
)
"""``version``: the checker's; a verdict of another version, or of other ``content``, is stale. ``settled``: false where
it was not the checker that gave the answer (a worker died): tried again next time. ``findings`` counts those that are
not ``excused``. ``evidence``, ``metrics``: JSON."""

FINDINGS = Table(
    name="findings",
    version=1,
    columns=typed(
        "run date system checker version number:int64 sentence excused term:int64 nodes:strings "
        "certificate:ints events data content written_ns:int64 signature"
    ),
    key=("run", "checker"),
    newest="written_ns",
    several=True,
)
"""``certificate``: the ``seq`` of the events that prove it; ``events``: these events themselves, as JSON lines, so that
a finding outlives the events of its run. ``signature``: as of ``dethrone.harness.core.signature``, null in files of
older versions. Where a newer verdict has no findings, older rows are dropped by it."""

SEEDS = Table(
    name="seeds",
    version=1,
    columns=typed(
        "campaign seed:int64 date system profile variant backend nodes:int64 outcome exit_code:int64 reason "
        "findings:strings elections:int64 faults:int64 ops_ok:int64 elapsed_ns:int64 run version "
        "written_ns:int64"
    ),
    key=("campaign", "seed"),
    newest="written_ns",
)
"""A simulated seed of a campaign, most of which leave nothing else. ``date``: on which it was written (UTC). ``run``:
the run in ``runs`` if its history was kept, or null. ``findings``: those not excused."""

CAMPAIGNS = Table(
    name="campaigns",
    version=1,
    columns=typed("campaign date system profile variant backend nodes:int64 version options written_ns:int64"),
    key=("campaign",),
    newest="written_ns",
)
"""A campaign in virtual time. ``campaign``: hash of ``options`` (JSON) and ``version`` (of dethrone), so that one seed
of one campaign is one run, wherever it was simulated. ``date``: on which it was first brought (UTC)."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,120}")


def usable(name: str) -> bool:
    """Whether a name of a run or a system can stand in a path and is taken for a string everywhere."""
    return _NAME.fullmatch(name) is not None and not re.fullmatch(r"[0-9.eE+-]+|(?i:null|nan|inf|true|false)", name)


def events_path(*, date: str, system: str, run: str, content: str, several: bool = False) -> str:
    """The path of a run's events: a file, or a directory of ``several``."""
    return f"{EVENTS}/date={date}/system={system}/run={run}/{content[:16]}{'' if several else SUFFIX}"
