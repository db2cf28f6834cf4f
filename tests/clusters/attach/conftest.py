"""A cluster of etcd that somebody else started with plain Docker: no shell and no tools in it, addresses fixed."""

from __future__ import annotations

import contextlib
import email.utils
import http.client
import time
import urllib.request
import uuid
from collections.abc import Iterator

import docker
import pytest

from dethrone.clusters.docker.image import ensure_image
from dethrone.clusters.docker.recipe_files import ingredients_of
from dethrone.clusters.systems.etcd import SYSTEM
from dethrone.harness.core.interfaces import NodeSpec
from tests.clusters.attach.attached import Attached
from tests.clusters.engine import engine_client, make_network
from tests.waiting import until

STRIPPED = "dethrone-test/etcd-without-shell"
_STRIP = "rm -f /usr/bin/python3* /usr/sbin/*tables* /sbin/*tables* /usr/bin/ip /bin/ip /bin/bash /bin/dash /bin/sh"


class Theirs:
    """Three containers of somebody else's, their label and their network."""

    def __init__(self, client: docker.DockerClient, image: str) -> None:
        self.client = client
        self.name = f"theirs-{uuid.uuid4().hex[:8]}"
        self.label = f"example.cluster={self.name}"
        self.containers: list[docker.models.containers.Container] = []
        self.network, subnet = make_network(client, self.name)
        addresses = {f"n{index}": subnet.replace(".0/24", f".{10 + index}") for index in (1, 2, 3)}
        knobs = SYSTEM.knobs({"election_timeout_ms": "500", "heartbeat_interval_ms": "50"}, profile=None, variant=None)
        for node, address in addresses.items():
            spec = NodeSpec(
                name=node, address=address, members=addresses, knobs=knobs, profile="etcd", variant=None, seed=1,
                data_dir="/data", log_dir="/log", run_dir="/run/x", python="", lib="",
            )  # fmt: skip
            argv = [word for word in SYSTEM.command(spec).argv if not word.startswith("--cors")]
            endpoint = client.api.create_endpoint_config(ipv4_address=address)
            made = client.api.create_container(
                image,
                entrypoint=argv[:1],
                command=argv[1:],
                name=f"{self.name}-{node}",
                labels=dict([self.label.split("=")]),
                host_config=client.api.create_host_config(network_mode=self.name),
                networking_config={"EndpointsConfig": {self.name: endpoint}},
            )
            client.api.start(made["Id"])
            self.containers.append(client.containers.get(made["Id"]))
        self.addresses = addresses
        until(lambda: all(self.healthy(node) for node in addresses))

    def healthy(self, node: str) -> bool:
        with urllib.request.urlopen(f"http://{self.addresses[node]}:2379/health", timeout=1) as answer:
            return b"true" in answer.read()

    def ahead_s(self, node: str) -> int:
        """By how many seconds, to the nearest ten, the clock of its process is ahead, as the date of its answers says.

        An answer about health may be an error: it has a date as well.
        """
        connection = http.client.HTTPConnection(self.addresses[node], 2379, timeout=5)
        with contextlib.closing(connection):
            connection.request("GET", "/health")
            said = connection.getresponse().headers["Date"]
        return round((email.utils.parsedate_to_datetime(said).timestamp() - time.time()) / 10) * 10

    def states(self) -> list[tuple[str, str]]:
        """Id and status of each."""
        for container in self.containers:
            container.reload()
        return [(container.id, container.status) for container in self.containers]

    def rules(self, image: str) -> str:
        """What iptables says in each of their networks."""
        said = b""
        for container in self.containers:
            said += self.client.containers.run(
                image,
                ["/bin/sh", "-c", "iptables-nft-save; iptables-legacy-save"],
                network_mode=f"container:{container.id}",
                cap_add=["NET_ADMIN"],
                remove=True,
            )
        return said.decode()

    def close(self) -> None:
        for container in self.containers:
            container.remove(force=True, v=True)
        self.network.remove()


@pytest.fixture(scope="session")
def client() -> Iterator[docker.DockerClient]:
    connected = engine_client()
    yield connected
    connected.close()


@pytest.fixture(scope="session")
def image(client: docker.DockerClient) -> str:
    """The image of hosts, which has tools."""
    return ensure_image(client)


@pytest.fixture(scope="session")
def without_shell(client: docker.DockerClient) -> Iterator[str]:
    """An image with etcd and nothing that could help to break it."""
    base = ensure_image(client, packages=ingredients_of("etcd").packages)
    tag = uuid.uuid4().hex[:8]
    container = client.containers.run(base, ["/bin/sh", "-c", _STRIP], detach=True, network_mode="none")
    try:
        assert container.wait(timeout=60)["StatusCode"] == 0
        container.commit(STRIPPED, tag=tag)
    finally:
        container.remove(force=True)
    yield f"{STRIPPED}:{tag}"
    client.images.remove(f"{STRIPPED}:{tag}")


@pytest.fixture(scope="session")
def theirs(client: docker.DockerClient, without_shell: str) -> Iterator[Theirs]:
    cluster = Theirs(client, without_shell)
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def attached(theirs, tmp_path_factory) -> Iterator[Attached]:
    """A run's hosts next to theirs."""
    one = Attached(theirs.label, tmp_path_factory.mktemp("state"))
    try:
        yield one
    finally:
        one.close()
