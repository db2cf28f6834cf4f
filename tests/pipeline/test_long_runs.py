"""A corpus judges a long run from disk, with the verdicts that it has in memory."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from dethrone.harness.core import parquet
from dethrone.harness.engine.run.judge import load_checkers
from dethrone.harness.pipeline.judging import HISTORY, Job, judge_job
from tests.long_runs import simulated

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("variant", [None, "45-acks-after-local-append"])
def test_a_worker_leaves_a_long_run_on_disk_and_judges_it_as_in_memory(variant, tmp_path, monkeypatch):
    place, plan = simulated(tmp_path / "run", variant=variant)
    files = [str(path) for path in sorted(place.iterdir())]
    checkers = load_checkers()
    job = Job(
        run="r",
        date="d",
        system="raft",
        path="events",
        content="c",
        plan=msgspec.json.encode(plan).decode(),
        checkers=(*checkers, HISTORY),
    )
    expected = judge_job(lambda: [pa.BufferReader(Path(file).read_bytes()) for file in files], job, checkers)
    monkeypatch.setattr(parquet, "history_of", None)  # which reads into memory
    found = judge_job(lambda: files, job, checkers)
    assert [{**row, "took_ns": 0} for row in found.verdicts] == [{**row, "took_ns": 0} for row in expected.verdicts]
    assert found.findings == expected.findings
    assert bool(found.findings) == (variant is not None)
