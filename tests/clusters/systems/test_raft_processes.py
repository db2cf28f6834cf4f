"""The adapter against real node processes on this machine: what it asks, they answer."""

from __future__ import annotations

import pytest

from dethrone.clusters.systems.nacos import SYSTEM as NACOS
from dethrone.clusters.systems.raft import SYSTEM as RAFT
from tests.clusters.systems.processes import started

SECOND = 1_000_000_000


@pytest.fixture
def clusters(tmp_path):
    made = []

    def make(system, network, settings):
        made.append(started(system, tmp_path, network, settings))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_raft_elects_serves_and_shows_itself_across_a_kill(clusters):
    cluster = clusters(RAFT, "127.88.1", {"time_factor": "2"})
    leader = cluster.leader()
    client = RAFT.client(cluster.nodes)
    other = next(name for name in cluster.nodes if name != leader)
    outcome = client.invoke("append", ["k", 1], target=other, timeout_ns=3 * SECOND)
    assert (outcome.status, outcome.node) == ("ok", leader)
    assert outcome.value["index"] >= 1
    assert client.invoke("read", "k", target=leader, timeout_ns=3 * SECOND).value == [1]
    before = cluster.reading(leader)
    assert (before.leads, before.incarnation) == (True, 1)
    assert before.log_end[0] == before.term
    cluster.kill(leader)
    assert client.invoke("append", ["k", 2], target=leader, timeout_ns=SECOND).status in {"fail", "info"}
    second = cluster.leader()
    assert client.invoke("append", ["k", 3], target=second, timeout_ns=3 * SECOND).status == "ok"
    cluster.start(leader)
    assert cluster.leader() == second
    assert cluster.reading(leader).incarnation == 2
    assert client.invoke("read", "k", target=second, timeout_ns=3 * SECOND).value[-1] == 3
    client.close()
    with open(RAFT.trace_path(cluster.nodes[second]), "rb") as trace:  # noqa: PTH123 - a path of the adapter's
        lines = [RAFT.trace(line) for line in trace]
    assert None not in lines
    assert {"core", "shell"} <= {line.source for line in lines}
    elected = [line for line in lines if line.name == "elected"]
    assert any(line.term > before.term for line in elected)


def test_nacos_elects_and_serves_items_and_its_trace_is_understood(clusters):
    cluster = clusters(NACOS, "127.88.2", {"time_factor": "0.05"})
    leader = cluster.leader()
    client = NACOS.client(cluster.nodes)
    assert client.invoke("append", ["k", 1], target=leader, timeout_ns=3 * SECOND).status == "ok"
    assert client.invoke("read", "k", target=leader, timeout_ns=3 * SECOND).value == [1]
    client.close()
    with open(NACOS.trace_path(cluster.nodes[leader]), "rb") as trace:  # noqa: PTH123 - a path of the adapter's
        lines = [NACOS.trace(line) for line in trace]
    assert None not in lines
    assert "elected" in {line.name for line in lines}
