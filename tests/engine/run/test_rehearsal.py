"""A rehearsal is the run that the command line would carry out, without its files."""

from __future__ import annotations

import msgspec
import pytest

from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.history_files import read_history
from dethrone.harness.engine.replay.stored_run import read_stored, schedule_of
from dethrone.harness.engine.run.judge import load_checkers
from dethrone.harness.engine.run.listener import Silence
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import draft
from dethrone.harness.engine.run.rehearsal import rehearse, rehearse_draft, with_schedule
from dethrone.harness.engine.run.runner import run


def options(**changes):
    settings = {"nodes": 3, "seed": 4, "time_limit_ns": 30 * SECOND, "nemesis_interval_ns": 2 * SECOND}
    return RunOptions(system="raft", backend="sim", **{**settings, **changes})


def lines(history):
    """The events as the file holds them, but for its end record."""
    return [msgspec.json.encode(event) for event in history.events[:-1]]


@pytest.mark.slow
def test_a_rehearsal_has_the_events_of_the_run(tmp_path):
    result = run(options(out=tmp_path / "run", strategy="triggered"), Silence())
    stored = read_history(result.run_dir / "history")
    rehearsed = rehearse(options(strategy="triggered"), load_checkers(), seed=4)
    assert lines(rehearsed.history) == lines(stored)
    assert rehearsed.judgement.outcome == result.judgement.outcome


@pytest.mark.slow
def test_a_stored_run_is_replayed_from_its_directory_to_the_same_events(tmp_path):
    result = run(options(out=tmp_path / "run"), Silence())
    stored = read_stored(result.run_dir, trust=False)
    drafted = draft(stored.options, seed=stored.plan.seed)
    again = rehearse_draft(with_schedule(drafted, schedule_of(stored, "triggers")), {})
    assert lines(again.history) == lines(read_history(result.run_dir / "history"))


def test_realised_times_hit_the_same_nodes_at_the_same_distances(tmp_path):
    result = run(options(out=tmp_path / "run"), Silence())
    stored = read_stored(result.run_dir, trust=False)
    times = schedule_of(stored, "times")
    again = rehearse_draft(with_schedule(draft(stored.options, seed=4), times), {}).realised
    was = [fault for fault in stored.realised.faults if fault.outcome == "installed"]
    now = [fault for fault in again.faults if fault.outcome == "installed"]
    assert [(f.kind, f.victims) for f in was] == [(f.kind, f.victims) for f in now]
    first = was[0].begin.lo - now[0].begin.lo
    assert all(abs(a.begin.lo - b.begin.lo - first) < SECOND for a, b in zip(was, now, strict=True))


@pytest.mark.slow
def test_a_replay_runs_at_the_recorded_time_scale_and_is_not_slowed_down_twice(tmp_path):
    options = RunOptions(system="raft", backend="sim", nodes=3, seed=5, out=tmp_path / "run", time_scale=2.0)
    result = run(options, Silence())
    stored = read_stored(result.run_dir, trust=False)
    assert stored.plan.time_scale == stored.options.time_scale == 2
    again = tmp_path / "again.json"
    again.write_bytes(msgspec.json.encode(schedule_of(stored, "triggers")))
    plan = draft(msgspec.structs.replace(stored.options, schedule=again), seed=5).plan
    assert plan == msgspec.structs.replace(stored.plan, promise=plan.promise, evidence=plan.evidence, warmup={})
    assert schedule_of(stored, "times").time_scale == 2
