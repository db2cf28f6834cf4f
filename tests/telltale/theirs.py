"""Containers of somebody else's that run the tell-tale: on a front and a back network, with IPv6 on the front one."""

from __future__ import annotations

import io
import tarfile
import urllib.request
import uuid
from pathlib import Path

import docker
import docker.types

from tests.clusters.engine import make_network
from tests.waiting import until

NODES = ("n1", "n2", "n3")
NODE = Path(__file__).parent / "plugin" / "node.py"


class Theirs:
    """Three containers on two networks. ``label`` names them; ``close`` removes all of it."""

    def __init__(self, client: docker.DockerClient, image: str) -> None:
        self.client = client
        self.name = f"telltale-{uuid.uuid4().hex[:8]}"
        self.label = f"example.cluster={self.name}"
        self.containers: list[docker.models.containers.Container] = []
        self.networks: list[docker.models.networks.Network] = []
        self.six = True
        """Whether the engine could make a network with IPv6."""
        try:
            self._start(image)
        except BaseException:
            self.close()
            raise

    def _start(self, image: str) -> None:
        front, back = self._network("front", six=True), self._network("back", six=False)
        # The alphabet decides which network a single one would be: members meet on the back one, which comes first.
        members = {node: back.replace(".0/24", f".{10 + index}") for index, node in enumerate(NODES, start=1)}
        words = ",".join(f"{node}={address}" for node, address in members.items())
        for index, node in enumerate(NODES, start=1):
            api = self.client.api
            made = api.create_container(
                image,
                entrypoint=["python3", "-S", "/telltale.py"],
                command=[node, words, "/run", "/var/tmp", "/tmp"],
                name=f"{self.name}-{node}",
                labels=dict([self.label.split("=")]),
                host_config=api.create_host_config(network_mode=f"{self.name}-back"),
                networking_config={
                    "EndpointsConfig": {
                        f"{self.name}-back": api.create_endpoint_config(ipv4_address=members[node]),
                    }
                },
            )
            api.put_archive(made["Id"], "/", _packed("telltale.py", NODE))
            address = front.replace(".0/24", f".{10 + index}")
            api.connect_container_to_network(made["Id"], f"{self.name}-front", ipv4_address=address)
            api.start(made["Id"])
            self.containers.append(self.client.containers.get(made["Id"]))
        until(lambda: all(map(_answers, members.values())), what="all nodes answer")

    def _network(self, name: str, *, six: bool) -> str:
        made, subnet = make_network(self.client, f"{self.name}-{name}", six=six)
        self.networks.append(made)
        return subnet

    def close(self) -> None:
        """Remove containers and networks."""
        for container in self.containers:
            container.remove(force=True, v=True)
        for network in self.networks:
            network.remove()


def _packed(name: str, path: Path) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.add(path, arcname=name)
    return packed.getvalue()


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}:7413/status", timeout=1) as answer:
            return bool(answer.read())
    except OSError:
        return False
