"""The adapter against real node processes on this machine: what it asks, they answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from dethrone.clusters.node.journal import replay
from dethrone.clusters.systems.kraft import SYSTEM
from tests.clusters.systems.processes import started

SECOND = 1_000_000_000


@pytest.fixture
def cluster(tmp_path):
    made = started(SYSTEM, tmp_path, "127.88.14", {"time_factor": "0.2", "observers": "n4"}, count=4)
    yield made
    made.close()


@pytest.mark.slow
def test_it_elects_serves_and_shows_itself_across_a_kill_and_a_resignation(cluster):
    leader = cluster.leader()
    assert leader != "n4"
    client = SYSTEM.client(cluster.nodes)
    outcome = client.invoke("append", ["k", 1], target="n4", timeout_ns=3 * SECOND)
    assert (outcome.status, outcome.node) == ("ok", leader)
    assert client.invoke("read", "k", target=leader, timeout_ns=3 * SECOND).value == [1]
    before = cluster.reading(leader)
    assert (before.leads, before.role, before.incarnation) == (True, "Leader", 1)
    assert before.log_end[0] == before.term
    cluster.kill(leader)
    second = cluster.leader()
    assert second not in {leader, "n4"}
    assert client.invoke("append", ["k", 2], target=second, timeout_ns=3 * SECOND).status == "ok"
    cluster.start(leader)
    third = cluster.leader()
    assert client.invoke("read", "k", target=third, timeout_ns=3 * SECOND).value == [1, 2]
    client.close()
    journal = Path(cluster.nodes[leader].log_dir) / "journal.jsonl"
    assert sum(1 for _ in replay(journal, SYSTEM.target(), incarnation=1)) > 10  # it led: fetches, at the least
    elected, votes = {}, {}
    for name, node in cluster.nodes.items():
        with open(SYSTEM.trace_path(node), "rb") as trace:  # noqa: PTH123 - a path of the adapter's
            lines = [SYSTEM.trace(line) for line in trace]
        assert None not in lines
        assert "violation" not in {line.name for line in lines}
        for line in lines:
            if line.source == "shell" and line.name == "elected":
                assert set(line.data["config"]["voters"]) == {"n1", "n2", "n3"}
                elected.setdefault(line.term, set()).add(name)
            elif line.source == "shell" and line.name == "vote":
                votes.setdefault((name, line.term), set()).add(line.data["candidate"])
    assert all(len(who) == 1 for who in [*elected.values(), *votes.values()])
    assert {who for one in elected.values() for who in one} >= {leader, second}
    assert not [name for name, _ in votes if name == "n4"]
