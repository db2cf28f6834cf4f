from __future__ import annotations

import msgspec
import pytest

from dethrone.clusters.systems.kraft import SYSTEM
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.interfaces import Electorate, Yes
from dethrone.harness.core.promise import LIVENESS, SAFETY
from tests.clusters.systems.specs import specs

MS = 1_000_000
SECOND = 1_000 * MS


def promise(settings=None, profile="kraft", voters=5):
    knobs = SYSTEM.knobs(settings or {}, profile=profile, variant=None)
    return SYSTEM.promise(knobs, profile=profile, voters=voters)


def test_all_of_safety_is_promised_and_of_liveness_all_but_stability():
    made = promise()
    assert all(made.owes(name) for name in SAFETY)
    assert {name for name in LIVENESS if not made.owes(name)} == {"leader-stability"}
    assert "KR-B3" in made.exempt["leader-stability"].reason
    assert made.tiers == ("T1", "T2")
    assert made.leader_bound_to_term
    assert not made.linearizable_reads
    assert not made.pre_vote
    assert set(made.tolerates) >= {"partition", "kill", "stop", "restart", "pause", "clock"}
    assert not set(made.tolerates) & {"damage", "wipe"}  # KR-B2


def test_a_cut_off_leader_resigns_within_the_window_of_its_profile_or_never():
    assert 2 * SECOND < promise().step_down_ns < 3 * SECOND
    assert 3 * SECOND < promise(profile="kraft-3.7").step_down_ns < 4 * SECOND
    old = promise(profile="kraft-3.6")
    assert old.step_down_ns is None
    assert "KAFKA-15489" in old.exempt["step-down-without-quorum"].reason
    assert promise({"check_quorum": "1.0"}, profile="kraft-3.6").owes("step-down-without-quorum")


def test_the_bound_is_six_rounds_and_scales():
    assert promise().leader_bound_ns == promise().converge_ns == 19 * SECOND + 200 * MS
    assert promise({"time_factor": "0.25"}).leader_bound_ns == 4_950 * MS
    assert promise({"fetch_timeout_ms": "1000"}).leader_bound_ns == 18 * SECOND + 200 * MS


def test_the_default_run_exercises_liveness():
    defaults = SYSTEM.defaults()
    made = promise(dict(defaults.settings))
    assert 2 * defaults.nemesis_interval_ns >= 3 * made.leader_bound_ns
    assert all(SYSTEM.fault_support(kind) == Yes() for kind in defaults.faults)


def test_reads_through_the_log_are_linearizable():
    assert promise({"reads": "log"}).linearizable_reads


def test_it_says_who_votes():
    assert isinstance(SYSTEM, Electorate)
    nodes = ("n1", "n2", "n3", "n4")
    knobs = SYSTEM.knobs({"observers": "n4"}, profile="kraft", variant=None)
    assert SYSTEM.voters(nodes, knobs, profile="kraft") == ("n1", "n2", "n3")
    assert SYSTEM.voters(nodes, SYSTEM.knobs({}, profile=None, variant=None), profile="kraft") == nodes
    for observers in ("n9", "n1,n2,n3,n4"):
        with pytest.raises(ConfigError):
            SYSTEM.voters(nodes, {**knobs, "observers": observers}, profile="kraft")


def test_a_leader_is_recognised_by_its_own_spelling():
    node = specs(SYSTEM)["n1"]
    status = {
        "node": "n1",
        "group": "",
        "incarnation": 1,
        "role": "Leader",
        "term": 4,
        "leader": "n1",
        "voted_for": None,
        "log_end": {"term": 4, "index": 5},
        "commit": 5,
    }
    for role, leads in (("Leader", True), ("Resigned", False), ("Follower", False)):
        reading = SYSTEM.reading(node, msgspec.json.encode({"id": 0, "status": {**status, "role": role}}))
        assert (reading.leads, reading.role, reading.log_end) == (leads, role, (4, 5))
    assert SYSTEM.reading(node, b"{}") is None
