"""The adapter against real etcd members on this machine, where the binary is."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

import pytest
from processes import Processes
from specs import specs

from clusters.systems.etcd import SYSTEM, member_id

sys.path.insert(0, str(Path(__file__).parents[2] / "systems_unsafe"))
from etcd_unsafe import SYSTEM as UNSAFE

pytestmark = pytest.mark.system
SECOND = 1_000_000_000
BINARY = shutil.which("etcd")


@pytest.fixture
def clusters(tmp_path):
    if BINARY is None:
        pytest.skip("no etcd on PATH (Debian: etcd-server)")
    made = []

    def make(system, network):
        nodes = specs(system, network=network, root=tmp_path)
        made.append(
            Processes(
                system, nodes, tmp_path, lambda _, argv: [BINARY if word == "/usr/bin/etcd" else word for word in argv]
            )
        )
        for name in nodes:
            made[-1].start(name)
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_members_name_themselves_as_computed_and_survive_a_kill(clusters):
    cluster = clusters(SYSTEM, "127.89.1")
    leader = cluster.leader()
    assert len({member_id(node.address) for node in cluster.nodes.values()}) == 3
    client = SYSTEM.client(cluster.nodes)
    for number, name in enumerate(cluster.nodes):
        assert client.invoke("append", ["k", number], target=name, timeout_ns=5 * SECOND).status == "ok"
    assert client.invoke("read", "k", target="n3", timeout_ns=5 * SECOND).value == [0, 1, 2]
    before = cluster.reading(leader)
    cluster.kill(leader)
    outcome = client.invoke("append", ["k", 9], target=leader, timeout_ns=5 * SECOND)
    assert outcome.status == "fail"
    second = cluster.leader()
    assert cluster.reading(second).term > before.term
    cluster.start(leader)
    cluster.leader()
    assert cluster.reading(leader).incarnation == 2
    assert client.invoke("read", "k", target=leader, timeout_ns=5 * SECOND).value == [0, 1, 2]
    client.close()


def test_the_unsafe_one_forms_a_cluster_of_its_own_after_a_restart(clusters):
    cluster = clusters(UNSAFE, "127.89.2")
    cluster.leader()
    cluster.kill("n1")
    cluster.kill("n2")
    cluster.kill("n3")
    cluster.start("n1")
    end = time.monotonic() + 20
    while time.monotonic() < end:
        reading = cluster.reading("n1")
        if reading is not None and reading.leads:
            break
        time.sleep(0.1)
    assert reading.leads, "one of three leads without a majority"
