"""The events of a corpus as a Spark frame: explicit schema, only the runs asked for, partitions by their path.

Guarantees: columns that older files lack are derived from what these files have, or null (Spark would silently drop new
columns if it took the schema of the first file); only runs of the manifest are read, regardless of other files there.
``native`` and ``across`` ask.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dethrone.harness.core.parquet import SCHEMA_VERSION
from dethrone.harness.core.rows import COLUMNS, DERIVED
from dethrone.harness.pipeline import layout
from dethrone.harness.pipeline.places import Place, scheme_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = ("date", "system", "run")
_WILD = re.compile(r"([{}\[\]*?\\])")
_SQL = {"int64": "bigint", "string": "string", "bool": "boolean"}


def schema() -> str:
    """The columns of events, partitions last, as Spark's DDL."""
    columns = {**COLUMNS, **DERIVED, **dict.fromkeys(PARTITIONS, "string")}
    return ", ".join(f"`{name}` {_SQL[kind]}" for name, kind in columns.items())


def spark_url(place: Place, path: str) -> str:
    """A file of a place, as Spark has to name it with any default file system."""
    root = place.url.partition("?")[0]  # what follows are pyarrow's own options
    return f"{root}/{path}" if scheme_of(place.url) else f"file://{place.url}/{path}"


def literal(url: str) -> str:
    """A URL without wildcard characters."""
    return _WILD.sub(r"\\\1", url)


def events(spark: SparkSession, place: Place, runs: Sequence[Mapping[str, Any]]) -> DataFrame:
    """All events of these runs (rows of the manifest: of each its ``path``, and its ``schema`` if that is known).

    What newer files have in columns of their own (``rows.DERIVED``) is found for older ones, too, in ``rest``: the
    answer is the same, it only takes longer. So no caller has to ask how old a file is. ``last_ns`` is the exception:
    in an old file each event gives a lower bound of the run's length.
    """
    if not runs:
        return spark.createDataFrame([], schema())
    new = [run for run in runs if (run.get("schema") or 0) >= SCHEMA_VERSION]
    old = [run for run in runs if (run.get("schema") or 0) < SCHEMA_VERSION]
    if not old:
        return _read(spark, place, new)
    told = _told_by_rest(_read(spark, place, old))
    return _read(spark, place, new).unionAll(told) if new else told


def _read(spark: SparkSession, place: Place, runs: Sequence[Mapping[str, Any]]) -> DataFrame:
    reader = spark.read.schema(schema()).option("basePath", spark_url(place, layout.EVENTS))
    return reader.parquet(*(literal(spark_url(place, run["path"])) for run in runs))


def _told_by_rest(events: DataFrame) -> DataFrame:
    """The columns that a file may lack; each reads ``rest`` only where it can hold them, and only if asked for."""
    from pyspark.sql import functions as sf

    rest, traced = sf.col("rest"), sf.col("type") == "traced"
    begins = (sf.col("type") == "fault") & (sf.col("phase") == "begin")
    votes, won = traced & (sf.col("name") == "vote"), traced & (sf.col("name") == "elected")
    # A name only, as the column has it.
    candidate = sf.when(votes & rest.contains('"candidate":"'), sf.get_json_object(rest, "$.data.candidate"))
    voters = sf.when(won, sf.json_array_length(sf.get_json_object(rest, "$.data.voters")).cast("bigint"))
    found = {
        "candidate": candidate,
        "voters": voters,
        "victims": sf.when(begins, sf.get_json_object(rest, "$.victims")),
        "roles": sf.when(begins, sf.get_json_object(rest, "$.roles")),
        "last_ns": sf.col("t"),
    }
    return events.withColumns({name: sf.coalesce(sf.col(name), what) for name, what in found.items()})
