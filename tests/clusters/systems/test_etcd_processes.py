"""The adapter against real etcd members on this machine: the binary of its PATH, or the one in the image."""

from __future__ import annotations

import importlib.util
import io
import shutil
import tarfile
import time
from pathlib import Path

import pytest

from dethrone.clusters.docker.client import connect
from dethrone.clusters.docker.image import ensure_image
from dethrone.clusters.docker.recipe_files import ingredients_of
from dethrone.clusters.systems.etcd import SYSTEM, member_id
from tests.clusters.systems.processes import Processes
from tests.clusters.systems.specs import specs

pytestmark = [pytest.mark.system, pytest.mark.docker]
SECOND = 1_000_000_000


@pytest.fixture(scope="module")
def unsafe():
    """The deliberately unsafe adapter, loaded without making its directory importable for everybody else."""
    path = Path(__file__).parents[2] / "systems_unsafe" / "etcd_unsafe.py"
    spec = importlib.util.spec_from_file_location("etcd_unsafe_for_a_test", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.SYSTEM


@pytest.fixture(scope="module")
def binary(tmp_path_factory):
    """An etcd that runs on this machine."""
    here = shutil.which("etcd")
    if here is not None:
        return here
    client = connect()
    try:
        image = ensure_image(client, packages=ingredients_of("etcd").packages)
        container = client.containers.create(image)
        try:
            chunks, _ = container.get_archive("/usr/bin/etcd")
            data = b"".join(chunks)
        finally:
            container.remove(force=True)
    finally:
        client.close()
    directory = tmp_path_factory.mktemp("bin")
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        tar.extract("etcd", directory, filter="data")
    return str(directory / "etcd")


@pytest.fixture
def clusters(tmp_path, binary):
    made = []

    def make(system, network):
        nodes = specs(system, network=network, root=tmp_path)
        made.append(
            Processes(
                system, nodes, tmp_path, lambda _, argv: [binary if word == "/usr/bin/etcd" else word for word in argv]
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
    serves_transactions_and_locks(client)
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


def serves_transactions_and_locks(client):
    def do(f, value, node="n2"):
        outcome = client.invoke(f, value, target=node, timeout_ns=5 * SECOND)
        return outcome.status, outcome.value

    steps = [["append", "x", 1], ["r", "y", None], ["append", "y", 2], ["r", "x", None]]
    assert do("txn", steps) == ("ok", [["append", "x", 1], ["r", "y", []], ["append", "y", 2], ["r", "x", [1]]])
    assert do("txn", [["r", "y", None]], "n3") == ("ok", [["r", "y", [2]]])
    _, first = do("acquire", ["l", "a", 60_000])
    assert do("acquire", ["l", "b", 60_000], "n3") == ("fail", None)
    assert do("use", ["l", first]) == do("release", ["l", "a"]) == ("ok", first)
    status, second = do("acquire", ["l", "b", 300], "n1")
    assert (status, second > first) == ("ok", True)
    assert [do("use", ["l", token])[0] for token in (second, first)] == ["ok", "fail"]
    end = time.monotonic() + 20  # a lease that nobody renews runs out: after two seconds at least, and not much later
    while do("acquire", ["l", "c", 300])[0] != "ok":
        assert time.monotonic() < end
        time.sleep(0.2)


def test_the_unsafe_one_forms_a_cluster_of_its_own_after_a_restart(clusters, unsafe):
    cluster = clusters(unsafe, "127.89.2")
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
