"""Who knows the way to a corpus: this machine, pyarrow, or Hadoop through Spark.

Guarantees: nothing is imported or started to find that out. Out of scope: the places themselves (``places``,
``hadoop``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.pipeline.places import Place, scheme_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ARROW = frozenset({"s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "hdfs"})
"""Schemes that pyarrow opens by itself."""


def needs_spark(url: str, conf: Sequence[str]) -> bool:
    """Whether Hadoop has to open it: pyarrow cannot, or the user configured Hadoop (``spark.hadoop.…``) for it."""
    scheme = scheme_of(url)
    if scheme in ("", "file"):
        return False
    return scheme not in ARROW or any(word.startswith("spark.hadoop.") for word in conf)


def place_by_spark(spark: SparkSession, url: str) -> Place:
    """The place, through the session's Hadoop."""
    from harness.pipeline.hadoop import HadoopPlace

    return HadoopPlace(spark, url)
