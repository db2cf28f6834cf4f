"""Scenarios: every file reads, is a valid plan, and comes out in simulation as it says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from dethrone.harness.cli.run_options import system_of
from dethrone.harness.cli.settings import Given
from dethrone.harness.core import registry
from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.errors import ConfigError, MissingCapability
from dethrone.harness.core.scenario import Expected, as_expected, parse_scenario
from dethrone.harness.core.schedule import AfterFault, OnEvent, StepBegin
from dethrone.harness.core.schedule_text import parse_schedule, read_schedule
from dethrone.harness.core.verdict import Finding, Verdict
from dethrone.harness.engine.run.judge import load_checkers
from dethrone.harness.engine.run.listener import Silence
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import draft
from dethrone.harness.engine.run.runner import run
from dethrone.harness.engine.run.scenario_lookup import all_scenarios, find

SCENARIOS = all_scenarios()
SIMULATED = [name for name, scenario in SCENARIOS.items() if "version" not in scenario.settings]
"""Simulated nodes have one version: ``tests/clusters/local/test_versions.py`` plays the others."""
SEEDS = 3
"""What is expected to fail needs luck now and then: one of so many runs must show it."""


def options(scenario, **more):
    simulated = scenario.name in SIMULATED
    return RunOptions(
        system=more.pop("system", None) or scenario.system or ("raft" if simulated else "nats"),
        nodes=scenario.nodes,
        backend="sim" if simulated else "docker",
        workload=scenario.workload,
        time_limit_ns=scenario.time_limit_ns,
        settings=scenario.settings,
        profile=scenario.profile,
        variant=scenario.variant,
        rate_per_s=scenario.rate_per_s,
        processes=scenario.processes,
        stop_at_first_failure=False,
        scenario=scenario.name,
        **more,
    )


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_is_a_valid_plan_with_known_checkers(name):
    scenario = SCENARIOS[name]
    plan = draft(options(scenario), seed=1).plan
    assert plan.schedule.steps == scenario.schedule.steps
    assert scenario.source
    assert scenario.text.strip().endswith(".")
    expected = scenario.expected
    assert {*expected.fails, *expected.may_fail, *expected.holds} <= set(load_checkers())
    assert not set(expected.fails) & set(plan.promise.exempt)


def test_a_scenario_of_versions_is_refused_where_there_is_only_one():
    with pytest.raises(MissingCapability, match="only one version of it at hand"):
        draft(options(SCENARIOS["rolling-upgrade"], system="raft"), seed=1)


LONG = {"nacos-b6", "paxos-b3", "paxos-b4"}
MORE = pytest.mark.nightly("up to a quarter of a minute each; the other scenarios are played in make test")


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=MORE) if name in LONG else name for name in SIMULATED])
def test_a_scenario_comes_out_as_expected(name, tmp_path):
    scenario = SCENARIOS[name]
    told = []
    for seed in range(SEEDS):
        result = run(options(scenario, seed=seed, out=tmp_path / str(seed)), Silence())
        assert result.judgement is not None, result.trouble
        told = as_expected(scenario.expected, result.judgement.verdicts)
        if not told or scenario.expected.verdict == "pass":
            break
    assert not told


def verdict(name, outcome, *, kind="safety", excused=None):
    findings = (Finding(sentence="x", certificate=(), excused=excused),) if outcome == "fail" else ()
    return Verdict(checker=name, version="1", kind=kind, outcome=outcome, reason="r", findings=findings)


def test_an_expected_failure_must_come_and_no_other_may():
    expected = Expected(verdict="fail", fails=("a",), may_fail=("b",))
    assert (
        as_expected(expected, [verdict("a", "fail"), verdict("b", "fail"), verdict("l", "fail", kind="liveness")]) == []
    )
    assert "a was expected to fail" in as_expected(expected, [verdict("a", "pass")])[0]
    assert "a was expected to fail" in as_expected(expected, [verdict("a", "fail", excused="wiped")])[0]
    assert "c failed" in as_expected(expected, [verdict("a", "fail"), verdict("c", "fail")])[0]


def test_what_must_hold_is_judged_and_holds():
    expected = Expected(verdict="pass", holds=("a", "b"))
    assert as_expected(expected, [verdict("a", "pass"), verdict("b", "n/a"), verdict("c", "unknown")]) == []
    assert "b was expected to hold: no checker judged it" in as_expected(expected, [verdict("a", "pass")])
    assert "a was expected to hold" in as_expected(expected, [verdict("a", "unknown"), verdict("b", "pass")])[0]
    with pytest.raises(ValueError, match="must name the checkers that fail"):
        Expected(verdict="fail")


def under(fate, fault=0):
    row = {"fault": fault, "kind": "clock", "fate": fate, "why": "n1 led term 1", "after_ns": None}
    figures = {"leader_under": [row]}
    return Verdict(checker="failover", version="3", kind="metric", outcome="n/a", reason="r", metrics=figures)


def test_where_nothing_may_be_touched_a_lost_leader_an_excused_finding_and_doubt_deviate():
    expected = Expected(verdict="pass", untouched=True)
    assert as_expected(expected, [under("kept"), verdict("a", "pass")]) == []
    assert as_expected(expected, [under("lost")]) == ["fault 0 (clock): the leader was lost: n1 led term 1"]
    assert "not shown (noise)" in as_expected(expected, [under("noise")])[0]
    assert as_expected(expected, [verdict("a", "pass")]) == ["no fault was certainly in force"]
    assert as_expected(expected, [under("kept"), verdict("a", "fail", excused="clocks")]) == ["a: x"]


WALL = "wall-step-alone"


@pytest.mark.slow
@pytest.mark.parametrize(("clock", "lost"), [("monotonic", False), ("wall", True)])
def test_timers_on_wall_clocks_show_under_steps_and_others_do_not(clock, lost, tmp_path):
    scenario = SCENARIOS[WALL]
    asked = options(scenario, system="dledger", seed=1, out=tmp_path)
    result = run(msgspec.structs.replace(asked, settings={"clock": clock}), Silence())
    deviations = as_expected(scenario.expected, result.judgement.verdicts)
    assert any("the leader was lost" in line for line in deviations) == lost, deviations


def test_a_scenario_for_any_system_needs_one_to_be_named():
    given = {"scenario": Given(value=WALL, origin="flag")}
    with pytest.raises(ConfigError, match="no system was named"):
        system_of(None, given)
    assert system_of("zab", given) == "zab"


def test_an_unknown_scenario_is_told_with_the_nearest_one():
    with pytest.raises(ConfigError, match="raft-b1"):
        find("raft-b01")


def test_a_scenario_with_a_mistake_is_refused_with_its_file():
    table = {"source": "s", "title": "t", "text": "t.", "system": "raft", "expected": {"verdict": "pass"}, "step": []}
    assert parse_scenario(table, name="x", where="x.toml").schedule.steps == ()
    for more in ({"settings": {"persist": False}}, {"colour": "red"}, {"step": [{"fault": 1}]}, {"nodes": "three"}):
        with pytest.raises(ConfigError, match=r"x\.toml"):
            parse_scenario({**table, **more}, name="x", where="x.toml")


WRITTEN = """
health_bound = "0s"
[[step]]
gap = "1s"
when = { event = "elected", within = "5s" }
[[step.fault]]
name = "cut"
kind = "partition"
victims = "actor"
delay = "20ms"
hold = "3s"
params = { shape = "isolate" }
until = { event = "write-acked", within = "2s", count = 3 }
[[step.fault]]
kind = "clock"
victims = "hit-by:cut"
hold = "1s"
params = { offset = "2s", rate_ppm = 5 }
when = { after = "cut" }
"""


def test_a_written_schedule_means_what_it_says(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(WRITTEN)
    schedule = read_schedule(path)
    (step,) = schedule.steps
    assert schedule.health_bound_ns == 0
    assert step.when == OnEvent(event="elected", within_ns=5 * SECOND)
    cut, clock = step.faults
    assert (cut.delay_ns, cut.hold_ns, cut.when) == (20 * MS, 3 * SECOND, StepBegin())
    assert cut.until == OnEvent(event="write-acked", within_ns=2 * SECOND, count=3)
    assert clock.params == {"offset_ns": 2 * SECOND, "rate_ppm": 5}
    assert clock.when == AfterFault(fault="cut")


def test_a_written_clock_may_go_back_and_an_unclear_offset_is_told(tmp_path):
    fault = '[[step]]\n[[step.fault]]\nkind = "clock"\nvictims = "leader"\nparams = {{ offset = "{}" }}'
    path = tmp_path / "s.toml"
    path.write_text(fault.format("-60s"))
    (step,) = read_schedule(path).steps
    assert step.faults[0].params == {"offset_ns": -60 * SECOND}
    path.write_text(fault.format("-60"))
    with pytest.raises(ConfigError, match="not a duration"):
        read_schedule(path)


def test_the_examples_of_the_documentation_are_valid():
    text = (Path(__file__).parents[2] / "docs" / "schedules.md").read_text()
    written, *others, scenario = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    schedule = parse_schedule(tomllib.loads(written), where="docs")
    more = [parse_schedule(tomllib.loads(one), where="docs") for one in others]
    assert len(schedule.steps) == 2
    assert len(list(schedule.triggers)) == 4
    assert [fault.kind for one in more for step in one.steps for fault in step.faults] == ["transfer", "member"]
    for step in (*schedule.steps, *(step for one in more for step in one.steps)):
        for fault in step.faults:
            registry.load(registry.FAULTS, fault.kind).check(fault, nodes=3)
        for trigger in step.triggers:
            registry.load(registry.TRIGGERS, trigger.event).check(trigger, nodes=3)
    assert parse_scenario({**tomllib.loads(scenario), "step": []}, name="x", where="docs").system == "raft"


def test_a_stored_schedule_reads_like_a_written_one(tmp_path):
    schedule = find("raft-b1").schedule
    path = tmp_path / "schedule.planned.json"
    path.write_bytes(msgspec.json.encode(schedule))
    assert read_schedule(path) == schedule


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("step = 1", "must be a list"),
        ('[[step]]\ngap = "soon"', "not a duration"),
        ("[[step]]\ngap = 5", "not a duration"),
        ('[[step]]\n[[step.fault]]\nkind = "kill"', "victims"),
        ('[[step]]\n[[step.fault]]\nkind = "kill"\nvictims = "actor"\nwhen = { event = "elected" }', "within_ns"),
        ('[[step]]\n[[step.fault]]\nkind = "kill"\nvictims = "actor"\nwhen = { within = "1s" }', "is not a trigger"),
        ('[[step]]\n[[step.fault]]\nkind = "kill"\nvictims = "actor"\nwhen = { after = "x" }', "names no earlier"),
        ("[[step]]\nnot toml", "not TOML"),
    ],
)
def test_a_mistake_in_a_written_schedule_is_told(tmp_path, text, words):
    path = tmp_path / "s.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words):
        read_schedule(path)


def test_a_file_that_is_no_table_is_told(tmp_path):
    path = tmp_path / "s.json"
    path.write_text("[]")
    with pytest.raises(ConfigError, match="expected a table"):
        read_schedule(path)
    with pytest.raises(ConfigError, match="a step must be a table"):
        parse_schedule({"step": [3]}, where="x")
    with pytest.raises(ConfigError, match="cannot read"):
        read_schedule(tmp_path / "absent.toml")
