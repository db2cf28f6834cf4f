"""Real node processes on this machine: they decide, remember over kill -9, and show what they did."""

from __future__ import annotations

import sys
import time

import msgspec
import pytest

from dethrone.clusters.systems.paxos import SYSTEM
from dethrone.harness.core.interfaces import NodeSpec
from tests.clusters.systems.processes import Processes

pytestmark = pytest.mark.processes

SECOND = 1_000_000_000


def start(root, network, *, profile="paxos", settings=None):
    knobs = SYSTEM.knobs({"time_factor": "2", **(settings or {})}, profile=profile, variant=None)
    members = {f"n{k}": f"{network}.{k}" for k in (1, 2, 3)}
    nodes = {
        name: NodeSpec(
            name=name,
            address=address,
            members=members,
            knobs=knobs,
            profile=profile,
            variant=None,
            seed=7,
            data_dir=f"{root}/{name}/data",
            log_dir=f"{root}/{name}/log",
        )
        for name, address in members.items()
    }
    paths = {}
    for name, node in nodes.items():
        ((_, content),) = SYSTEM.files(node).items()
        config = msgspec.json.decode(content)
        config["clock_socket"] = str(root / f"{name}.sock")
        paths[name] = root / f"{name}.json"
        paths[name].write_bytes(msgspec.json.encode(config))
    made = Processes(SYSTEM, nodes, root, lambda name, argv: [sys.executable, *argv[1:4], str(paths[name]), *argv[5:]])
    for name in nodes:
        made.start(name)
    return made


@pytest.fixture
def cluster(tmp_path, request):
    made = start(tmp_path, *request.param[:1], **request.param[1])
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


@pytest.mark.parametrize("cluster", [("127.89.1", {})], indirect=True)
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


@pytest.mark.parametrize("cluster", [("127.89.2", {"profile": "paxos-election"})], indirect=True)
def test_a_dead_leader_of_an_epoch_is_replaced(cluster):
    first = cluster.leader()
    epoch = cluster.reading(first).term
    cluster.kill(first)
    second = cluster.leader()
    assert second != first
    assert cluster.reading(second).term > epoch
    cluster.start(first)
    assert cluster.leader() == second
