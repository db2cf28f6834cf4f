"""A schedule that fails in simulation shrinks to a scenario that reads back, fails with the bug, and only with it."""

from __future__ import annotations

import tomllib

import msgspec

from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.scenario import Expected, Scenario, parse_scenario
from dethrone.harness.core.scenario_text import scenario_toml
from dethrone.harness.engine.replay.failure_check import StillFails
from dethrone.harness.engine.replay.shrinker import shrink
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import draft

OPTIONS = RunOptions(
    system="raft",
    backend="sim",
    nodes=3,
    seed=3,
    profile="raft",
    variant="01-vote-not-written",
    workload="election",
    faults=("kill", "partition", "restart"),
    strategy="triggered",
    nemesis_interval_ns=2 * SECOND,
    time_limit_ns=90 * SECOND,
)
WANTED = ("vote-is-durable",)


def test_a_shrunk_schedule_is_a_scenario_that_fails_with_the_bug_and_not_without_it():
    whole = draft(OPTIONS, seed=3).plan.schedule
    assert len(whole.steps) >= 12
    fails = StillFails(OPTIONS, WANTED)
    assert fails(whole)
    small = shrink(whole, fails, tries_max=100).schedule
    assert len(small.steps) <= 2
    assert fails.run(small).judgement == fails.run(small).judgement
    lasting = fails.options(small)
    assert lasting.time_limit_ns < OPTIONS.time_limit_ns
    scenario = Scenario(
        name="small",
        source="s",
        title="t",
        text="t",
        system="raft",
        variant=OPTIONS.variant,
        profile="raft",
        schedule=msgspec.structs.replace(small, strategy="scenario small", seed=0),
        expected=Expected(verdict="fail", fails=WANTED),
    )
    again = parse_scenario(tomllib.loads(scenario_toml(scenario)), name="small", where="small")
    assert again == scenario
    assert StillFails(OPTIONS, WANTED)(msgspec.structs.replace(again.schedule, seed=3))
    assert not StillFails(msgspec.structs.replace(OPTIONS, variant=None), WANTED)(small)


def test_only_the_wanted_checkers_count():
    whole = draft(OPTIONS, seed=3).plan.schedule
    assert not StillFails(OPTIONS, ("log-matching",))(whole)
