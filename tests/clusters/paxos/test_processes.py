"""Real node processes on this machine: they decide, remember over kill -9, and show what they did."""

from __future__ import annotations

import time

import pytest

from dethrone.clusters.systems.paxos import SYSTEM
from tests.clusters.systems.processes import started

pytestmark = pytest.mark.processes

SECOND = 1_000_000_000


@pytest.fixture
def cluster(tmp_path, request):
    network, profile = request.param
    made = started(SYSTEM, tmp_path, network, {"time_factor": "2"}, profile=profile)
    yield made
    made.close()


def until_ok(client, f, value, *, target, limit_s=20):
    """The answer, asking again while the nodes come up."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        outcome = client.invoke(f, value, target=target, timeout_ns=6 * SECOND)
        if outcome.status == "ok":
            return outcome.value
        time.sleep(0.05)
    raise AssertionError(outcome)


@pytest.mark.parametrize("cluster", [("127.89.1", "paxos")], indirect=True)
def test_values_are_decided_by_instance_and_remembered_over_a_kill(cluster):
    client = SYSTEM.client(cluster.nodes)
    assert until_ok(client, "propose", [1, "x"], target="n1") == "x"
    assert until_ok(client, "propose", [1, "y"], target="n2") == "x"
    assert until_ok(client, "propose", [2, {"a": 1}], target="n3") == {"a": 1}
    reading = cluster.reading("n2")
    assert (reading.leads, reading.leader, reading.incarnation) == (False, None, 1)
    for name in cluster.nodes:
        cluster.kill(name)
        cluster.start(name)
    assert until_ok(client, "learn", 1, target="n3") == "x"
    assert until_ok(client, "propose", [2, "late"], target="n2") == {"a": 1}
    assert until_ok(client, "append", ["k", 7], target="n1")["index"] == 3
    assert until_ok(client, "read", "k", target="n2") == [7]
    client.close()
    seen = set()
    for name, node in cluster.nodes.items():
        with open(SYSTEM.trace_path(node), "rb") as trace:  # noqa: PTH123 - a path of the adapter's
            lines = [SYSTEM.trace(line) for line in trace]
        assert all(lines)
        assert not [line for line in lines if line.name in {"crashed", "violation"}], name
        seen |= {(line.source, line.name) for line in lines}
    assert {("shell", "accepted"), ("shell", "promised"), ("shell", "persisted"), ("core", "learned")} <= seen


@pytest.mark.parametrize("cluster", [("127.89.2", "paxos-election")], indirect=True)
def test_a_dead_leader_of_an_epoch_is_replaced(cluster):
    first = cluster.leader()
    epoch = cluster.reading(first).term
    cluster.kill(first)
    second = cluster.leader()
    assert second != first
    assert cluster.reading(second).term > epoch
    cluster.start(first)
    assert cluster.leader() == second
