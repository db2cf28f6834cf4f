from __future__ import annotations

import msgspec
import pytest

from dethrone.clusters.node.config import NodeConfig
from dethrone.clusters.systems.nacos import SYSTEM
from dethrone.harness.core import registry
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.interfaces import Yes
from dethrone.harness.core.promise import SAFETY
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import draft
from tests.clusters.systems.specs import specs

SECOND = 1_000_000_000


def promise(settings=None, profile="nacos"):
    knobs = SYSTEM.knobs(settings or {}, profile=profile, variant=None)
    return SYSTEM.promise(knobs, profile=profile, voters=5)


def test_it_comes_through_the_same_door_as_a_plug_in():
    assert registry.load(registry.SYSTEMS, "nacos") is SYSTEM


def test_the_known_safety_weaknesses_stay_promised_so_that_they_fail():
    made = promise()
    for name in ("one-leader-per-term", "one-vote-per-term", "term-never-decreases", "leader-has-majority"):
        assert made.owes(name)
    assert made.owes("acknowledged-survives")
    unobservable = {name for name in SAFETY if not made.owes(name)}
    assert unobservable == {"leader-completeness", "log-matching", "commit-never-regresses"}
    assert all(made.exempt[name].kind == "not observable" for name in unobservable)


def test_the_known_liveness_weaknesses_are_not_promised_by_the_original():
    made = promise()
    assert {"step-down-without-quorum", "leader-stability"} <= set(made.exempt)
    assert made.owes("leader-when-owed")
    assert made.tiers == ("T1", "T2")
    assert not made.leader_bound_to_term
    assert not made.linearizable_reads


def test_a_knob_that_mends_one_adds_the_promise():
    made = promise({"leader_needs_majority_acks": "true"})
    assert made.owes("step-down-without-quorum")
    assert made.step_down_ns > 20 * SECOND
    assert promise(profile="nacos-mended").owes("step-down-without-quorum")


def test_the_bound_is_a_minute_times_the_factor():
    assert promise().leader_bound_ns == 60 * SECOND + SECOND // 5
    assert promise({"time_factor": "0.1"}).leader_bound_ns == 6 * SECOND + SECOND // 5


def test_the_default_run_is_the_one_that_finds_its_faults():
    defaults = SYSTEM.defaults()
    assert (defaults.workload, defaults.settings["time_factor"]) == ("election", "0.1")
    assert defaults.nemesis_interval_ns == 3 * SECOND
    assert {"kill", "restart", "partition"} <= set(defaults.faults)
    assert defaults.stop_at_first_failure
    assert all(SYSTEM.fault_support(kind) == Yes() for kind in defaults.faults)


def test_the_default_run_of_the_mended_one_owes_a_leader_while_nodes_are_away_and_has_time_to_show_it():
    plan = draft(RunOptions(system="nacos", profile="nacos-mended", backend="sim"), seed=1).plan
    assert plan.schedule.health_bound_ns is None  # faults outlast the bound, so whole clusters are awaited between
    assert {"window:T1", "window:T2"} <= set(plan.evidence)
    assert {step.faults[0].kind for step in plan.schedule.steps} == set(SYSTEM.defaults().faults)
    assert SYSTEM.profile_defaults("nacos") == SYSTEM.defaults()


def test_the_node_is_told_the_words_that_differ_and_how_long_a_call_may_take():
    config = msgspec.json.decode(SYSTEM.files(specs(SYSTEM)["n1"]).popitem()[1], type=NodeConfig)
    assert config.target == "nacos"
    assert config.knobs == {"time_factor": "0.1"}
    assert config.rpc_timeout_ms == 500


def test_its_variants_are_bugs_of_the_mended_one():
    assert set(SYSTEM.variants()) == set(SYSTEM.planted())
    with pytest.raises(ConfigError):
        SYSTEM.knobs({}, profile=None, variant="04-ignore-failed-vote-write")
    with pytest.raises(ConfigError, match="term_jump"):
        SYSTEM.knobs({"term_jmp": "1"}, profile=None, variant=None)


def test_everything_it_shows_is_named():
    assert set(SYSTEM.observable()) == {"traced", "witness", "shell", "observed", "ops", "atomic", "found"}
