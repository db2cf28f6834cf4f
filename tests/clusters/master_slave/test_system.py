from __future__ import annotations

import pytest

from dethrone.clusters.systems.master_slave import SYSTEM, MasterSlaveClient
from dethrone.clusters.systems.operations import outcome_of, request_for
from dethrone.clusters.systems.target_client import TargetClient
from dethrone.clusters.targets.client_api import Append, Ok, Unknown
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.interfaces import OpOutcome
from dethrone.harness.core.promise import LIVENESS
from tests.clusters.master_slave.spec import cluster
from tests.clusters.systems.specs import specs

SECOND = 1_000_000_000


def knobs_of(profile="master-slave", **settings):
    return SYSTEM.knobs({**SYSTEM.defaults().settings, **settings}, profile=profile, variant=None)


def promise(profile="master-slave", **settings):
    return SYSTEM.promise(knobs_of(profile, **settings), profile=profile, voters=2)


def test_nothing_about_leaders_is_promised_and_what_was_acknowledged_is():
    made = promise()
    assert not any(made.owes(name) for name in LIVENESS)
    assert not any(made.owes(name) for name in ("one-leader-per-term", "one-vote-per-term", "leader-completeness"))
    assert all(made.owes(name) for name in ("acknowledged-survives", "log-matching", "commit-never-regresses"))
    assert "MS-B1" in made.exempt["leader-when-owed"].reason
    assert made.tiers == ()


def test_a_profile_demands_the_failover_that_there_is_not():
    made = promise("demand-failover")
    assert made.owes("leader-when-owed")
    assert made.tiers == ("T1", "T2")
    assert made.leader_bound_ns < 4 * SECOND
    assert not made.leader_bound_to_term


def test_logs_of_several_groups_cannot_be_told_apart_and_are_not_judged():
    for deployment, judged in (("DP3", True), ("DP4", False)):
        assert promise(deployment=deployment).owes("log-matching") is judged


def test_brokers_are_what_should_be_led_and_name_servers_are_not():
    assert SYSTEM.voters(("n1", "n2", "n3"), knobs_of(), profile="master-slave") == ("n1", "n2")
    two = knobs_of(name_servers="2")
    assert SYSTEM.voters(("n1", "n2", "n3", "n4"), two, profile="master-slave") == ("n1", "n2")
    with pytest.raises(ConfigError, match="DP5"):
        SYSTEM.voters(("n1", "n2", "n3", "n4"), knobs_of(deployment="DP5"), profile="master-slave")


@pytest.mark.parametrize("profile", ["master-slave", "sync", "demand-failover"])
def test_the_words_of_the_knobs_give_the_same_knobs_again(profile):
    settings = {"time_factor": "1/60", "flushDiskType": "SYNC_FLUSH", "deployment": "DP2"}
    words = SYSTEM.knobs(settings, profile=profile, variant=None)
    assert SYSTEM.typed(words, profile=profile) == SYSTEM.target().knobs(settings, profile=profile)


class Simulated(TargetClient):
    """The socket part of a client, against the tests' world."""

    world = None

    def invoke(self, f, value, *, target, timeout_ns):
        answer = self.world.ask(target, request_for(f, value), ms=timeout_ns // 1_000_000)
        if answer is None:
            return OpOutcome(status="fail" if f in ("read", "get") else "info", error="timeout", node=target)
        return outcome_of(f, answer, node=target)


@pytest.fixture
def client_of(monkeypatch):
    def make(world):
        monkeypatch.setattr(TargetClient, "invoke", Simulated.invoke)
        monkeypatch.setattr(TargetClient, "world", world, raising=False)
        (spec, *_) = specs(SYSTEM, {"deployment": world.knobs.deployment}).values()
        client = SYSTEM.client(dict.fromkeys(world.names, spec))
        assert isinstance(client, MasterSlaveClient)
        return client

    return make


def invoke(client, f, value, target):
    return client.invoke(f, value, target=target, timeout_ns=SECOND)


def test_a_client_writes_to_the_master_whoever_it_is_told_to_ask(client_of):
    client = client_of(cluster())
    assert invoke(client, "append", ["k", 1], "s1").status == "ok"
    assert invoke(client, "read", "k", "s1").value == [1]


def test_when_the_master_is_gone_writes_fail_and_reads_go_on_at_a_slave(client_of):
    world = cluster()
    client = client_of(world)
    invoke(client, "append", ["k", 1], "m")
    world.run(200)
    world.kill("m")
    assert invoke(client, "append", ["k", 2], "m").status == "info"
    found = invoke(client, "read", "k", "m")
    assert (found.status, found.value, found.node) == ("ok", [1], "s1")


def test_with_several_groups_all_are_read_and_another_master_takes_the_writes(client_of):
    world = cluster(("m1", "m2", "ns"), deployment="DP4")
    client = client_of(world)
    for value, target in ((1, "m1"), (2, "m2")):
        assert invoke(client, "append", ["k", value], target).node == target
    assert invoke(client, "read", "k", "m1").value == [1, 2]


def test_without_a_route_nothing_is_sent(client_of):
    world = cluster()
    world.kill("ns")
    client = client_of(world)
    assert invoke(client, "append", ["k", 1], "m").status == "fail"
    assert invoke(client, "read", "k", "m").status == "fail"


def test_a_send_whose_guarantee_was_not_met_is_unknown_to_the_workload():
    assert outcome_of("append", Unknown("SLAVE_NOT_AVAILABLE"), node="m").status == "info"
    assert outcome_of("append", Ok(3), node="m").status == "ok"
    assert request_for("append", ["k", 1]) == Append("k", 1)
