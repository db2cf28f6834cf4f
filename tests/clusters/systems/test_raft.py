from __future__ import annotations

import msgspec
import pytest

from dethrone.clusters.node.config import NodeConfig
from dethrone.clusters.systems.raft import SYSTEM
from dethrone.harness.core.interfaces import Yes
from dethrone.harness.core.promise import LIVENESS, SAFETY
from tests.clusters.systems.specs import specs

MS = 1_000_000
E = 300 * MS


def promise(settings=None, profile="raft", voters=5):
    knobs = SYSTEM.knobs(settings or {}, profile=profile, variant=None)
    return SYSTEM.promise(knobs, profile=profile, voters=voters)


def test_the_gate_promises_everything_on_all_tiers_it_can_keep():
    made = promise()
    assert all(made.owes(name) for name in (*SAFETY, *LIVENESS))
    assert made.tiers == ("T1", "T2", "T3", "T5")
    assert made.leader_bound_ns == made.later_gap_ns == made.converge_ns == 10 * E + 200 * MS
    assert E + 50 * MS < made.step_down_ns < 2 * E
    assert made.linearizable_reads
    assert made.pre_vote
    assert made.leader_bound_to_term
    assert {"partition", "kill", "stop", "restart", "pause", "clock", "powerloss"} <= set(made.tolerates)
    assert not {"wipe", "damage"} & set(made.tolerates)
    assert made.bears("damage", {"path": "vote"}) is not None
    assert made.drift_ppm_max == 100_000
    assert not any(made.tolerates.values())


def test_the_papers_profile_does_not_promise_what_it_is_known_to_break():
    made = promise(profile="raft-paper")
    assert set(made.exempt) == {"step-down-without-quorum", "leader-stability"}
    assert "RF-B5" in made.exempt["step-down-without-quorum"].reason
    assert "RF-B6" in made.exempt["leader-stability"].reason
    assert made.tiers == ("T1", "T2")
    assert made.leader_bound_ns == 12 * E + 200 * MS
    assert made.step_down_ns is None
    assert not made.linearizable_reads
    assert all(made.owes(name) for name in SAFETY)


def test_a_knob_that_mends_a_rule_adds_the_promise_and_one_that_drops_it_takes_it():
    assert promise({"check_quorum": "on"}, profile="raft-paper").owes("step-down-without-quorum")
    assert promise({"pre_vote": "off", "prevote_leader_check": "off"}).tiers == ("T1", "T2")
    assert not promise({"prevote_leader_check": "off"}).owes("leader-stability")
    assert not promise({"reads": "local"}).linearizable_reads


@pytest.mark.parametrize("rule", ["persist", "log_check", "prev_check", "commit_current_term_only"])
def test_a_knob_that_breaks_a_safety_rule_leaves_the_safety_promise(rule):
    made = promise({rule: "off"})
    assert all(made.owes(name) for name in SAFETY)


def test_bounds_scale_with_the_time_factor():
    made = promise({"time_factor": "10"})
    assert made.election_timeout_ns == 10 * E
    assert made.leader_bound_ns == 100 * E + 200 * MS
    assert made.delay_max_ns == 200 * MS
    assert promise({"time_factor": "0.5"}).delay_max_ns == 20 * MS


def test_words_are_complete_and_in_one_spelling():
    words = SYSTEM.knobs({"electionTimeoutMax": "400", "noop": "true"}, profile=None, variant=None)
    assert words["election_timeout_max_ms"] == "400"
    assert words["noop"] == "on"
    assert "electionTimeoutMax" not in words
    assert words["reads"] == "readindex"


def test_every_variant_without_needs_is_accepted_and_named_in_the_configuration():
    variant = "01-vote-not-written" if "01-vote-not-written" in SYSTEM.variants() else next(iter(SYSTEM.variants()))
    node = specs(SYSTEM, variant=variant)["n1"]
    assert msgspec.json.decode(SYSTEM.files(node).popitem()[1])["variant"] == variant


def test_the_node_is_told_everything_and_started_with_its_incarnation():
    node = specs(SYSTEM)["n2"]
    ((path, content),) = SYSTEM.files(node).items()
    config = msgspec.json.decode(content, type=NodeConfig)
    assert (config.node, config.bind, config.members) == ("n2", "10.0.0.2", dict(node.members))
    assert config.data_dir == node.data_dir
    assert config.trace_path == SYSTEM.trace_path(node)
    command = SYSTEM.command(node)
    assert path in command.argv
    assert command.argv[-2:] == ("--incarnation", "{incarnation}")
    assert SYSTEM.image() == "node"


def test_it_shows_everything_serves_the_log_and_suffers_all_faults():
    told = {"traced", "witness", "shell", "observed", "ops", "log_end", "commit", "voted_for", "atomic", "found"}
    assert told == set(SYSTEM.observable())
    assert {"append", "read", "acquire", "renew", "release", "holder", "reconfigure"} <= SYSTEM.operations()
    assert all(SYSTEM.fault_support(kind) == Yes() for kind in SYSTEM.defaults().faults)


def test_the_default_run_exercises_liveness():
    defaults, made = SYSTEM.defaults(), promise()
    assert 2 * defaults.nemesis_interval_ns >= 3 * made.leader_bound_ns


def test_split_votes_are_bounded_by_the_spacing_of_uniform_deadlines():
    assert promise(voters=3).split_vote_percent == 13
    assert promise(voters=5).split_vote_percent == 19
    assert promise({"time_factor": "10"}, voters=3).split_vote_percent == 2
    assert promise({"electionTimeoutMax": "150"}).split_vote_percent == 100


def test_rounds_in_vain_are_bounded_more_widely_without_pre_votes():
    assert promise().rounds_max < promise(profile="raft-paper").rounds_max
    assert promise().rounds_max * 150 * MS < promise().leader_bound_ns
