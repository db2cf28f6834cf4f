"""The events of a corpus as a Spark frame: explicit schema, only the runs asked for, partitions by their path.

Promises: columns that older files lack are null (Spark would silently drop new columns if it took the schema of the
first file); only runs of the manifest are read, whatever else lies there. Leaves out what is asked (``native``,
``across``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from harness.core.parquet import COLUMNS, DERIVED
from harness.pipeline import layout
from harness.pipeline.places import Place, scheme_of

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
    """A file of a place, as Spark has to name it, whatever its default file system is."""
    return f"{place.url}/{path}" if scheme_of(place.url) else f"file://{place.url}/{path}"


def literal(url: str) -> str:
    """A URL of which no character is a wildcard."""
    return _WILD.sub(r"\\\1", url)


def events(spark: SparkSession, place: Place, runs: Sequence[Mapping[str, Any]]) -> DataFrame:
    """All events of these runs (rows of the manifest, of which ``path`` is needed)."""
    reader = spark.read.schema(schema()).option("basePath", spark_url(place, layout.EVENTS))
    if not runs:
        return spark.createDataFrame([], schema())
    return reader.parquet(*(literal(spark_url(place, run["path"])) for run in runs))
