"""Real processes: a master, its slaves and a name server; nobody takes over when the master is killed."""

from __future__ import annotations

import pytest

from dethrone.clusters.node.config import load_target
from dethrone.clusters.node.journal import replay
from tests.clusters.node.node_cluster import Cluster, wait_for

pytestmark = pytest.mark.processes


def test_slaves_copy_serve_reads_and_never_take_over(tmp_path):
    cluster = Cluster(tmp_path, 4, target="master_slave", rpc_timeout_ms=150, knobs={"time_factor": "1/60"})
    try:
        cluster.start()
        master, one, two, server = cluster.nodes.values()
        assert [node.status()["role"] for node in (master, one, two, server)] == [
            "MASTER",
            "SLAVE",
            "SLAVE",
            "NAMESERVER",
        ]
        wait_for(lambda: len(master.status()["extra"]["slaves"]) == 2)
        client = master.client()
        assert client.ask("append", key="k", value=1)["type"] == "ok"
        client.close()
        wait_for(lambda: one.status()["log_end"]["index"] == 1)
        master.kill()
        wait_for(lambda: "a/0" not in server.status()["extra"]["registered"], limit_s=15)
        client = one.client()
        assert client.ask("get", key="k")["value"] == [1]
        assert client.ask("append", key="k", value=2)["type"] == "not_leader"
        client.close()
        assert [node.status()["role"] for node in (one, two)] == ["SLAVE", "SLAVE"]
        target = load_target("master_slave")
        for node in cluster.nodes.values():
            node.kill()
            assert sum(1 for _ in replay(node.journal_path, target, incarnation=1)) > 2
    finally:
        cluster.close()
