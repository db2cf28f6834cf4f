"""Real processes around brokers and service: one leads, it is replaced when killed, and the journals re-execute."""

from __future__ import annotations

import pytest

from dethrone.clusters.node.config import load_target
from dethrone.clusters.node.journal import replay
from tests.clusters.node.node_cluster import Cluster, wait_for

pytestmark = pytest.mark.processes

KNOBS = {
    "zookeeper_session_timeout_ms": "900",
    "replica_lag_time_max_ms": "1500",
    "call_retry_ms": "100",
    "replica_fetch_wait_max_ms": "200",
}


@pytest.mark.parametrize("mode", ["race", "controller"])
def test_a_leader_is_replaced_when_it_is_killed_and_its_writes_are_there(tmp_path, mode):
    cluster = Cluster(
        tmp_path, 4, target="zk_ephemeral", rpc_timeout_ms=150, knobs={**KNOBS, "mode": mode, "acks": "all"}
    )
    try:
        cluster.start()
        nodes = list(cluster.nodes.values())
        brokers = nodes[:-1]
        assert nodes[-1].status()["role"] == "COORDINATOR"

        def agreed(among, *, isr=0):
            seen = {node.name: node.status() for node in among}
            leaders = [name for name, status in seen.items() if status["role"] == "LEADER"]
            if len(leaders) != 1 or {status["leader"] for status in seen.values()} != set(leaders):
                return None
            return leaders[0] if len(seen[leaders[0]]["extra"]["isr"]) >= isr else None

        leader = wait_for(lambda: agreed(brokers, isr=3), limit_s=20)
        client = cluster.nodes[leader].client()
        assert client.ask("append", key="k", value=1)["type"] == "ok"
        client.close()
        shell = [line["source"] for line in cluster.nodes[leader].events("elected")]
        assert "shell" in shell
        cluster.nodes[leader].kill()
        rest = [node for node in brokers if node.name != leader]
        second = wait_for(lambda: agreed(rest, isr=2), limit_s=20)
        client = cluster.nodes[second].client()
        assert client.ask("get", key="k")["value"] == [1]
        client.close()
        cluster.nodes[leader].start()
        wait_for(lambda: agreed(brokers, isr=3), limit_s=20)
        target = load_target("zk_ephemeral")
        for node in nodes:
            node.kill()
            for incarnation in range(1, node.incarnation + 1):
                assert sum(1 for _ in replay(node.journal_path, target, incarnation=incarnation)) > 5
    finally:
        cluster.close()
