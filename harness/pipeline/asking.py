"""A native table of a corpus for people and programs: its first rows, how many there are, all of them in files.

Guarantees: only as many rows as are shown come to the driver; unreadable events are reported as damage of the corpus.
Out of scope: what the tables mean (``native``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from dethrone.harness.core import registry
from dethrone.harness.core.errors import ConfigError, HistoryError
from dethrone.harness.pipeline import frames, native
from dethrone.harness.pipeline.corpus import Corpus

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """The first rows by run, and how many there are in all."""

    columns: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]
    count: int


def check_name(name: str) -> None:
    """ConfigError, if there is no such table."""
    if name not in native.TABLES:
        raise registry.unknown_name("table", name, native.TABLES)


def ask(
    corpus: Corpus, spark: SparkSession, name: str, *, since: str = "", system: str = "", limit: int, out: str = ""
) -> Shown:
    """The table ``name`` of the runs selected. ``out``: a new directory, into which all rows are written as Parquet."""
    from pyspark.errors import AnalysisException, PySparkException

    check_name(name)
    runs = corpus.runs("run", "path", "schema", since=since, system=system, stored=True)
    try:
        table = native.TABLES[name](frames.events(spark, corpus.place, runs)).cache()
        try:
            if out:
                table.write.mode("errorifexists").parquet(out)
            ordered = table.orderBy("run", *[column for column in ("seq", "group", "term") if column in table.columns])
            rows = ordered.limit(limit).toArrow().to_pylist()
            return Shown(columns=tuple(table.columns), rows=tuple(rows), count=table.count())
        finally:
            table.unpersist()
    except AnalysisException as error:
        if out and "already exists" in str(error).lower():
            raise ConfigError("there is something already", where=out, next_step="name another --out") from error
        raise _damage(error, corpus) from error
    except PySparkException as error:
        raise _damage(error, corpus) from error


def _damage(error: Exception, corpus: Corpus) -> HistoryError:
    return HistoryError(
        f"the events cannot be asked: {' '.join(str(error).split())[:300]}",
        where=corpus.place.url,
        cause="events of some run are gone or cut off",
        next_step=f"dethrone corpus verify --corpus {corpus.place.url}",
    )
