"""Nights compared with the nights before them."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from dethrone.harness.core.errors import ConfigError
from dethrone.harness.pipeline import known_regressions, trends
from dethrone.harness.pipeline.nights import Cell, Facts, Judged, flakes, time_to_find
from tests.pipeline import made_nights as made

POLICY = trends.Policy(resamples=0)
FLAKE = known_regressions.Known(system="etcd", metric="fail/leader-stability", kind="standing", why="flaky since ever")
FLAKE_NEW = msgspec.structs.replace(FLAKE, kind="new")


@pytest.fixture(scope="module")
def before():
    return made.joined(*(made.night(f"2026-11-0{day}", day, runs=60) for day in range(1, 5)))


def red(before, tonight, **policy):
    facts = made.joined(before, tonight)
    found = trends.night(facts, facts.nights()[-1], replace(POLICY, **policy))
    return found, known_regressions.sort(found.regressions, [FLAKE, FLAKE_NEW]).red


def test_a_slower_election_is_named_with_system_fault_metric_night_and_what_changed(before):
    found, worse = red(before, made.night("2026-11-05", 50, runs=60, slower=1.5))
    named = {(str(one.cell), one.kind, one.night) for one in worse}
    assert ("raft/kill/elect", "slower", "2026-11-05") in named
    assert {one.cell.system for one in worse} == {"raft"}
    one = next(one for one in worse if str(one.cell) == "raft/kill/elect")
    assert one.changed == ("knobs.election_timeout_ms: 150 → 225",)
    assert "× 1.5" in one.size or "× 1.4" in one.size
    assert one.runs
    assert all(run.startswith("raft-2026-11-05") for run in one.runs)
    assert found.other == "2026-11-01..2026-11-04"


def test_a_violation_that_was_never_seen_is_new_and_needs_no_statistics(before):
    tonight = made.night("2026-11-05", 51, runs=60)
    victim = next(name for name, run in tonight.runs.items() if run.system == "kraft" and "partition" in run.faults)
    place = next(i for i, one in enumerate(tonight.judged) if one.run == victim)
    tonight.judged[place] = Judged(victim, "one-leader-per-term", "fail", "partition")
    _, worse = red(before, tonight)
    assert [(one.kind, str(one.cell), one.runs) for one in worse] == [
        ("new", "kraft/partition/fail/one-leader-per-term", (victim,))
    ]


def test_a_violation_in_a_setup_that_no_other_night_has_is_red_too(before):
    tonight = made.night("2026-11-05", 51, runs=60)
    victim = next(name for name, run in tonight.runs.items() if run.system == "kraft" and "partition" in run.faults)
    tonight.runs[victim] = replace(tonight.runs[victim], setup="docker 7")
    place = next(i for i, one in enumerate(tonight.judged) if one.run == victim)
    tonight.judged[place] = Judged(victim, "one-leader-per-term", "fail", "partition")
    _, (one,) = red(before, tonight)
    assert (one.kind, one.runs) == ("new", (victim,))
    assert one.size.endswith(", and 1 of setups without others")


def test_a_violation_of_earlier_nights_stays_red_until_it_is_known(before):
    facts = made.joined(before, made.night("2026-11-05", 52, runs=60))
    found = trends.night(facts, "2026-11-05", POLICY)
    standing = [one for one in found.regressions if one.kind == "standing"]
    assert [str(one.cell) for one in standing] == ["etcd/pause/fail/leader-stability"]
    assert standing[0].first < "2026-11-05"
    sorted_ = known_regressions.sort(found.regressions, [FLAKE, FLAKE_NEW])
    assert sorted_.red == ()
    assert [why for _, why in sorted_.known] == ["flaky since ever"]
    assert sorted_.unused == (FLAKE_NEW,)
    ran_out = msgspec.structs.replace(FLAKE, until="2026-11-04")
    assert known_regressions.sort(found.regressions, [ran_out]).red == tuple(standing)


def with_cause(night, cause, *, place=0):
    """The night with a violation of this cause in one of its runs."""
    victim = [name for name, run in night.runs.items() if run.system == "kraft" and "partition" in run.faults][place]
    at = next(i for i, one in enumerate(night.judged) if one.run == victim)
    night.judged[at] = Judged(victim, "one-leader-per-term", "fail", "partition", signatures=(cause,))
    return night


def test_another_cause_of_a_violation_that_stands_is_new():
    before = made.joined(*(with_cause(made.night(f"2026-11-0{day}", day, runs=60), "old") for day in (1, 2)))
    tonight = with_cause(with_cause(made.night("2026-11-03", 3, runs=60), "old"), "fresh", place=1)
    _, worse = red(before, tonight)
    assert {(one.kind, one.signature) for one in worse} == {("standing", "old"), ("new", "fresh")}
    assert all("by this cause" in one.size for one in worse)
    mine = known_regressions.Known(signature="fresh", why="ours")
    _, worse = red(before, tonight)
    assert {one.signature for one in known_regressions.sort(worse, [mine]).red} == {"old"}


def test_a_violation_that_was_away_for_long_is_new_again():
    nights = [with_cause(made.night("2026-11-01", 1, runs=60), "old")]
    nights += [made.night(f"2026-11-0{day}", day, runs=60) for day in (2, 3, 4, 5, 6, 7)]
    tonight = with_cause(made.night("2026-11-08", 8, runs=60), "old")
    exposed = sum(run.system == "kraft" and "partition" in run.faults for run in nights[0].runs.values())
    _, (soon,) = red(made.joined(*nights[:3]), tonight)
    _, (late,) = red(made.joined(*nights), tonight)
    assert exposed > 1, "one of several runs showed it"
    assert (soon.kind, late.kind) == ("standing", "new")


def test_what_fails_more_often_than_before_is_red_although_it_is_known_to_fail(before):
    tonight = made.night("2026-11-05", 53, runs=60)
    etcd = [
        i for i, one in enumerate(tonight.judged) if one.run.startswith("etcd") and one.checker == "leader-stability"
    ]
    for place in etcd[:20]:
        run = tonight.judged[place].run
        tonight.judged[place] = Judged(run, "leader-stability", "fail", "pause")
        tonight.runs[run] = replace(tonight.runs[run], faults=tonight.runs[run].faults | {"pause"})
    _, worse = red(before, tonight)
    assert [(one.kind, str(one.cell)) for one in worse] == [("more-often", "etcd/pause/fail/leader-stability")]


def test_other_setups_are_not_compared_and_said_not_to_be(before):
    tonight = made.night("2026-11-05", 54, runs=60, slower=2)
    for name, run in tonight.runs.items():
        tonight.runs[name] = replace(run, setup="docker 3")
    found, worse = red(before, tonight)
    assert worse == ()
    assert all(one.p_slower is None and "of one setup" in one.why for one in found.times)
    assert all(one.p is None for one in found.rates)
    assert set(found.thin) == set(made.SYSTEMS)


def test_the_first_night_has_nothing_to_be_compared_with():
    tonight = made.night("2026-11-05", 55, runs=20)
    found = trends.night(tonight, "2026-11-05", POLICY)
    assert found.tested == 0
    assert found.other == ""
    assert {one.kind for one in found.regressions} <= {"new"}


def test_runs_that_nobody_judged_are_named(before):
    tonight = made.night("2026-11-05", 56, runs=12)
    quiet = next(iter(tonight.runs))
    found, _ = red(before, Facts(tonight.runs, tonight.samples, [r for r in tonight.judged if r.run != quiet]))
    assert found.unjudged == (quiet,)


def test_every_number_of_a_cell_is_made_of_rows_that_can_be_asked_for(before):
    facts = made.joined(before, made.night("2026-11-05", 57, runs=60))
    found = trends.night(facts, "2026-11-05", POLICY)
    mine, theirs, _ = trends.nights_before(facts, "2026-11-05", POLICY)
    side = trends.sides(facts, mine, theirs)
    assert found.times
    for one in found.times:
        rows = trends.rows_behind(facts, side, one.cell)
        now = [row for row in rows if row["counted"] == "now"]
        assert (len(now), len({row["run"] for row in now})) == (one.times, one.runs)
        assert sum(row["counted"] == "before" for row in rows) == one.times_before
        assert one.now.at is None or one.now.at in {row["ns"] for row in now if not row["censored"]}
    for rate in found.rates:
        rows = trends.rows_behind(facts, side, rate.cell)
        assert sum(row["counted"] == "now" for row in rows) == rate.of
        assert sum(row["counted"] == "before" and row["hit"] for row in rows) == rate.hits_before


def test_runs_of_one_plan_and_version_that_differ_are_flakes(before):
    found = flakes(before)
    assert found
    assert {(system, checker) for system, checker, _ in found} == {("etcd", "leader-stability")}
    for _, checker, runs in found:
        said = {one.outcome for one in before.judged if one.run in runs and one.checker == checker}
        assert said == {"pass", "fail"}


def test_time_to_find_counts_runs_until_the_first_violation(before):
    for found in time_to_find(before):
        of_night = sorted(n for n, run in before.runs.items() if (run.system, run.night) == (found.system, found.night))
        assert of_night.index(found.first) == found.runs - 1
        assert found.of == len(of_night)


def test_a_known_entry_with_a_typing_error_is_refused(tmp_path):
    file = tmp_path / "known.toml"
    file.write_text('[[known]]\nsystem = "raft"\nmetrik = "elect"\nwhy = "x"\n')
    with pytest.raises(ConfigError, match="metrik"):
        known_regressions.read(file)
    file.write_text('[[known]]\nsystem = "raft"\nmetric = "elect"\nwhy = "x"\nuntil = "soon"\n')
    with pytest.raises(ConfigError):
        known_regressions.read(file)
    file.write_text('[[known]]\nsystem = "raft"\nmetric = "elect"\nwhy = "x"\nfault = "kill"\n')
    assert [one.fault for one in known_regressions.read(file)] == ["kill"]


def test_clean_nights_raise_nothing(before):
    pool = made.Pool(before)
    history = made.joined(*(made.again(pool, f"2026-10-0{day}", day, 60) for day in range(1, 4)))
    for draw in range(8):
        _, worse = red(history, made.again(pool, "2026-11-09", 1000 + draw, 60))
        assert worse == ()


def test_a_cell_is_written_as_users_name_it():
    assert str(Cell("raft", "kill", "fail/one-leader-per-term")) == "raft/kill/fail/one-leader-per-term"
