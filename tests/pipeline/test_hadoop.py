"""A corpus that only Hadoop can reach: the same answers, through Spark's file systems."""

from __future__ import annotations

import pytest

from harness.core.errors import HistoryError
from harness.pipeline import ingest, upkeep
from harness.pipeline.checking import Asked, check
from harness.pipeline.corpus import open_corpus
from harness.pipeline.hadoop import HadoopPlace
from harness.pipeline.opening import needs_spark


@pytest.mark.spark
def test_a_corpus_through_hadoop_is_kept_and_judged_like_a_local_one(spark, tmp_path, night):
    place = HadoopPlace(spark, (tmp_path / "far").as_uri())
    far = open_corpus(place, make=True)
    near = open_corpus(str(tmp_path / "near"), make=True)
    runs = ingest.find_runs([night])
    for corpus in (far, near):
        assert [row.answer for row in ingest.add(corpus, runs, now_ns=1)] == ["stored"] * 3
    assert [row.answer for row in ingest.add(far, runs, now_ns=2)] == ["duplicate"] * 3
    assert place.files("events") == near.place.files("events")
    assert not place.create("_corpus.json", b"{}")
    asked = Asked(checkers=("one-leader-per-term", "leader-has-majority"))
    told = [check(corpus, spark, asked, lambda done, total: None).runs for corpus in (far, near)]
    assert told[0] == told[1]
    assert {run.run: run.outcome for run in told[0]}["raft-c"] == "fail"
    upkeep.compact(far, now_ns=9)
    assert upkeep.verify(far, progress=lambda done, total: None).damage == ()
    place.delete(far.runs()[0]["path"])
    assert [one.kind for one in upkeep.verify(far, progress=lambda done, total: None).damage] == ["missing"]


@pytest.mark.spark
def test_a_file_system_without_its_jar_is_said(spark):
    with pytest.raises(HistoryError, match="Hadoop refuses") as error:
        HadoopPlace(spark, "nosuchscheme://bucket/corpus")
    assert "spark.jars.packages" in error.value.next_step


@pytest.mark.parametrize(
    ("url", "conf", "told"),
    [
        ("corpus", (), False),
        ("file:///corpus", ("spark.hadoop.x=1",), False),
        ("s3a://bucket/corpus", (), False),
        ("s3a://bucket/corpus", ("spark.hadoop.fs.s3a.endpoint=http://here",), True),
        ("viewfs://cluster/corpus", (), True),
    ],
)
def test_hadoop_is_asked_where_nobody_else_knows_the_way_or_the_user_says_so(url, conf, told):
    assert needs_spark(url, conf) is told
