"""The adapter: its door, promise, knobs, readings; and real processes around the core."""

from __future__ import annotations

import pytest

from dethrone.clusters.systems.joyqueue import SYSTEM
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.interfaces import Yes
from dethrone.harness.core.promise import SAFETY
from tests.clusters.node.node_cluster import Cluster, wait_for


def promise(settings=None, profile="joyqueue", voters=3):
    knobs = SYSTEM.knobs(settings or {}, profile=profile, variant=None)
    return SYSTEM.promise(knobs, profile=profile, voters=voters)


@pytest.mark.parametrize("profile", ["joyqueue", "joyqueue-starved", "joyqueue-mended"])
def test_all_safety_stays_promised_and_the_known_weaknesses_of_liveness_are_not(profile):
    made = promise(profile=profile)
    assert all(made.owes(name) for name in SAFETY)
    assert set(made.exempt) == {"step-down-without-quorum", "leader-stability"}
    assert "JQ-B5" in made.exempt["step-down-without-quorum"].reason
    assert "JQ-B4" in made.exempt["leader-stability"].reason
    assert made.tiers == ("T1", "T2")
    assert made.step_down_ns is None


def test_bounds_are_election_timeouts_and_follow_the_knobs():
    assert promise().leader_bound_ns == 40 * SECOND + SECOND // 5
    assert promise({"time_factor": "0.1"}).leader_bound_ns == 4 * SECOND + SECOND // 5
    assert promise({"vote_timeout_ms": "10000"}).leader_bound_ns > promise().leader_bound_ns
    assert promise(profile="joyqueue-starved").leader_bound_ns > promise().leader_bound_ns
    assert promise().election_timeout_ns == 10 * SECOND
    assert promise().converge_ns >= promise().leader_bound_ns


def test_split_votes_are_as_likely_as_timeouts_are_close():
    assert promise().split_vote_percent == 2
    assert promise({"time_factor": "0.1"}, voters=5).split_vote_percent == 17
    assert promise({"task_delay_max_ms": "2500"}).split_vote_percent == 100


def test_reads_are_linearizable_as_far_as_they_go_through_the_log():
    assert promise().linearizable_reads
    assert not promise({"reads": "local"}).linearizable_reads


def test_the_default_run_scales_its_timers():
    defaults = SYSTEM.defaults()
    assert defaults.settings == {"time_factor": "0.1"}
    assert defaults.workload == "log"
    assert SYSTEM.rpc_timeout_ns(SYSTEM.typed({}, profile="joyqueue")) == SECOND // 4
    assert all(SYSTEM.fault_support(kind) == Yes() for kind in defaults.faults)


def test_learners_are_no_voters():
    knobs = SYSTEM.knobs({"learners": "n3"}, profile=None, variant=None)
    assert SYSTEM.voters(("n1", "n2", "n3", "n4"), knobs, profile="joyqueue") == ("n1", "n2", "n4")


def test_everything_it_shows_is_named():
    assert {"traced", "witness", "observed", "ops", "log_end", "commit", "voted_for", "found"} <= set(
        SYSTEM.observable()
    )
    assert SYSTEM.operations() == {"append", "add", "read", "put", "get", "cas"}


@pytest.mark.processes
def test_three_processes_with_two_groups_elect_serve_and_tell_of_both(tmp_path):
    cluster = Cluster(tmp_path, 3, target="joyqueue", rpc_timeout_ms=150, knobs={"time_factor": "0.1", "groups": "2"})
    try:
        cluster.start()
        nodes = list(cluster.nodes.values())

        def leaders():
            shares = {node.name: node.status()["groups"] for node in nodes}
            led = [{one[g]["leader"] for one in shares.values()} for g in (0, 1)]
            return [who.pop() for who in led] if all(len(who) == 1 and None not in who for who in led) else None

        led = wait_for(leaders)
        for key in ("a", "b", "c", "d"):
            found = [
                reply["type"]
                for node in nodes
                for client in [node.client()]
                for reply in [client.ask("append", key=key, value=1)]
                if client.close() is None
            ]
            assert sorted(found) == ["not_leader", "not_leader", "ok"]
        status = cluster.nodes["n1"].status()
        assert [one["group"] for one in status["groups"]] == ["topic/0", "topic/1"]
        assert sum(one["commit"] for one in cluster.nodes[led[0]].status()["groups"]) >= 1
        for number, leader in enumerate(led):
            lines = [
                line
                for line in cluster.nodes[leader].events("elected")
                if line.get("group") == f"topic/{number}" and line["source"] == "shell"
            ]
            assert len(lines[-1]["data"]["voters"]) >= 2
            assert lines[-1]["role"] == "LEADER"
        cluster.nodes[led[0]].kill()
        cluster.nodes[led[0]].start()
        after = cluster.nodes[led[0]].status()["groups"]
        assert all(share["persisted"]["term"] == share["term"] for share in after)
        assert sorted(path.name for path in (cluster.nodes["n1"].data / "topic").iterdir()) == ["0", "1"]
    finally:
        cluster.close()
