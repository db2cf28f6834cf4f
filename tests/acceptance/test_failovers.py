"""The failovers of real systems: what is asked of a run, how runs become rows, and what the table says of them."""

from __future__ import annotations

import json

import pytest

from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.schedule_text import parse_schedule
from tests.acceptance import failovers, kept
from tests.acceptance.failovers import (
    FAULTS,
    FAULTS_MIN,
    SUBJECTS,
    TABLE,
    Row,
    gathered,
    line,
    spread,
)


def result(*stages, not_owed=(), failed=(), load=3.5):
    """A kept result: (noticed, elected, written) of each fault, ms; a negative one was cut off there."""
    columns = zip(*stages, strict=True)
    metrics = {
        name: [[abs(ms) * MS, ms < 0] for ms in column]
        for name, column in zip(("noticed_ns", "elect_ns", "write_ns"), columns, strict=True)
    }
    checkers = {"failover": {"verdict": "n/a", "metrics": {**metrics, "not_owed": list(not_owed)}}}
    checkers |= {name: {"verdict": "fail"} for name in failed}
    return {"verdict": "pass", "trouble": [], "load": load, "checkers": checkers}


def row(*results):
    return gathered("etcd-3.5", "kill", results, day="2026-11-22")


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.system)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_schedule_hits_one_leader_a_step_and_ends_once_the_others_serve(subject, fault):
    told = parse_schedule(failovers.schedule(subject, fault), where="here")
    assert FAULTS_MIN[fault] < len(told.steps) * failovers.RUNS_MAX
    assert len(told.steps) == min(subject.faults, FAULTS_MIN[fault] + failovers.SPARE)
    (one,) = told.steps[-1].faults
    assert (one.kind, one.victims) == (FAULTS[fault]["kind"], "leader")
    assert one.until is not None
    assert (one.until.by, one.until.within_ns) == ("spared-by:lost", one.hold_ns)


def test_runs_are_added_up_and_outages_without_a_leader_owed_stand_apart():
    told = row(result((10, 20, 30), (11, 21, 31), not_owed=[1], load=2), result((12, 22, 32), load=9, failed=["log"]))
    assert told.hits == 2
    assert told.excused == 1
    assert list(told.stages["elected"]) == [(20 * MS, False), (22 * MS, False)]
    assert told.told == ["log"]
    assert told.loads == [2, 9]


def test_where_no_leader_is_promised_under_a_fault_all_its_outages_count():
    told = row(result((10, 20, 30), (11, 21, 31), not_owed=[0, 1]), result((12, 22, 32), not_owed=[0]))
    assert (told.hits, told.excused) == (3, 0)
    assert "| not promised |" in line(told)


def test_quantiles_are_those_of_the_times_where_nothing_is_cut_off():
    found = spread([(n * SECOND, False) for n in range(1, 101)])
    assert [one // SECOND for one in found[:4]] == [50, 5, 95, 100]
    assert found.censored == 0


def test_a_time_that_was_cut_off_is_not_taken_for_a_short_one():
    times = [(SECOND, False), (2 * SECOND, True), (3 * SECOND, True), (4 * SECOND, False)]
    found = spread(times)
    assert found.median == 4 * SECOND  # by the short ones alone it were 2 s
    late = spread([(SECOND, False), (9 * SECOND, True), (9 * SECOND, True)])
    assert (late.median, late.high, late.longest, late.censored) == (None, None, 9 * SECOND, 2)


def test_a_line_tells_how_many_were_cut_off_and_what_was_never_seen():
    told = line(row(result((-50, 20, -30), (-50, 20, 40))))
    assert "| etcd-3.5 | kill | 2 | not seen | 0.02 (0.02 to 0.02, longest 0.02) |" in told
    assert "1 cut off" in told
    assert told.count("|") == TABLE.head[0].count("|")


def test_loads_are_told_as_a_range():
    assert "| 2 to 9 |" in line(row(result((1, 2, 3), load=2), result((1, 2, 3), load=9)))


def test_the_table_keeps_what_was_measured_elsewhere_and_replaces_its_own():
    stages = {column: [(MS, False)] for column in failovers.STAGES}
    elsewhere = line(Row("kafka-kraft", "pause", "2026-01-01", stages, 0, [1], []))
    old, new = line(row(result((1, 2, 3)))), line(row(result((4, 5, 6))))
    text = f"# Record\n\n{TABLE.block.begin}\n{TABLE.block.end}\n\nafter\n"
    once = TABLE.merged(text, [elsewhere, old])
    twice = TABLE.merged(once, [new])
    assert elsewhere in twice
    assert new in twice
    assert old not in twice
    assert twice.index(new) < twice.index(elsewhere)
    assert twice.startswith("# Record\n")
    assert twice.endswith(f"{TABLE.block.end}\n\nafter\n")
    assert TABLE.merged(twice, [new]) == twice


def test_a_record_without_markers_is_left_alone():
    with pytest.raises(ValueError, match="failovers: begin"):
        TABLE.merged("# Record\n", [])


def test_runs_that_are_kept_are_gathered_and_not_done_again(tmp_path, monkeypatch):
    monkeypatch.setattr(failovers, "KEPT", tmp_path)
    monkeypatch.setattr(kept, "command", lambda *_, **__: pytest.fail("it is kept"))
    subject = SUBJECTS[0]
    (tmp_path / subject.system / "kill-0").mkdir(parents=True)
    (tmp_path / subject.system / "kill-0" / "run.json").write_text('{"started_at": "2026-11-22T01:02:03Z"}')
    done = result(*[(10 + n, 20 + n, 30 + n) for n in range(FAULTS_MIN["kill"])])
    (tmp_path / subject.system / "kill-0.json").write_text(json.dumps(done))
    held, told = failovers.item_of(subject, "kill")(None)
    assert held
    assert told.startswith("30 in 1 runs")
    found = failovers.kept_row(subject, "kill")
    assert found is not None
    assert (found.hits, found.day) == (FAULTS_MIN["kill"], "2026-11-22")
    assert failovers.kept_row(SUBJECTS[1], "kill") is None
