"""The ``docker`` backend: a run's hosts are containers on a network of their own.

Guarantees: hosts that are deployed have fixed addresses, an agent that answered, and no node running; a deployment that
fails or is interrupted removes what it made; ``destroy`` and ``leftovers`` look at labels only, so nothing that is not
ours is ever touched; a member of the engine's group needs no root. Out of scope: starting an engine, which
``make engine`` does, and everything that happens on a host, which is the agent's.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence

import docker

from dethrone.clusters.agent import confirm
from dethrone.clusters.agent.agent_host import AgentHost
from dethrone.clusters.agent.host.groups import kernel_limits
from dethrone.clusters.agent.host.hand import why_no_vdso
from dethrone.clusters.deploying import all_or_nothing, check_names, together
from dethrone.clusters.docker import client as engine
from dethrone.clusters.docker import doctor
from dethrone.clusters.docker.brought import with_files
from dethrone.clusters.docker.client import connect
from dethrone.clusters.docker.containers import Box, list_owned, remove_run, start_box
from dethrone.clusters.docker.image import ensure_image
from dethrone.clusters.docker.labels import MEMORY
from dethrone.clusters.docker.meeting import AGENT, meet
from dethrone.clusters.docker.network import create_network
from dethrone.clusters.docker.recipe_files import ingredients_of
from dethrone.clusters.docker.ship import ship
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.errors import ClusterError
from dethrone.harness.core.interfaces import (
    OF_GROUPS,
    OF_MOUNTS,
    USUAL_CAPABILITIES,
    Available,
    BackendTraits,
    DeploySpec,
    Host,
    HostNews,
    Owned,
)

FUSE = doctor.FUSE
SOCKET = "/run/dethrone-agent/agent.sock"
"""Where the agent listens inside a container: not in a directory of the node's."""

NODE_USER = "7003"
"""As whom nodes run inside a container: a user that Debian has not, so that no file is its own."""

_CONNECTIONS = 64


class DockerBackend(confirm.AgentBackend):
    """See ``dethrone.harness.core.interfaces.Backend``. Thread-safe; keeps one connection a deployed run."""

    name = "docker"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clients: dict[str, docker.DockerClient] = {}

    @property
    def traits(self) -> BackendTraits:
        """Hosts of our own: the defaults, without a vDSO that cannot be changed (of the kernel here, as a rule); and
        disks that fail, where the kernel has FUSE."""
        able = OF_MOUNTS if FUSE.exists() else frozenset[str]()
        able |= {"descriptors", "members"}
        able |= frozenset(controller for controller in OF_GROUPS if kernel_limits(controller))
        without = {"vdso"} if why_no_vdso() else set[str]()
        return BackendTraits(
            memory_dir=f"{MEMORY}/data", brings=True, capabilities=(USUAL_CAPABILITIES | able) - without
        )

    def available(self) -> Available:
        """Whether an engine answers this user."""
        return engine.available()

    def deploy(
        self,
        spec: DeploySpec,
        *,
        origin_ns: Ns,
        news: Callable[[HostNews], None],
        progress: Callable[[str], None],
    ) -> Mapping[str, Host]:
        """Hosts up, agents connected, no node started; the image is built if it is not there."""
        check_names(spec)
        client = connect(connections=_CONNECTIONS)
        hosts: list[AgentHost] = []

        def undo() -> None:
            with contextlib.closing(client):
                remove_run(client, spec.run_id)

        with all_or_nothing(hosts, undo):
            wanted = ingredients_of(spec.image)
            image = ensure_image(
                client,
                base=spec.base,
                packages=wanted.packages,
                artifacts=wanted.artifacts,
                debian=wanted.debian,
                progress=progress,
            )
            image = with_files(client, image, spec.files, progress=progress)
            image = ship(client, image, progress=progress)
            network = create_network(client, run_id=spec.run_id, state_dir=spec.state_dir, nodes=len(spec.nodes))
            boxes = [Box(node=node, address=network.address(index)) for index, node in enumerate(spec.nodes)]
            names = {box.node: box.address for box in boxes}

            def bring_up(box: Box) -> None:
                container = start_box(
                    client,
                    box,
                    image=image,
                    command=[*AGENT, *_serving(spec.run_id)],
                    network=network,
                    names=names,
                    run_id=spec.run_id,
                    state_dir=spec.state_dir,
                    memory_bytes=spec.memory_bytes,
                    pids=spec.pids,
                    mounts=bool(spec.needs & OF_MOUNTS),
                    groups=bool(spec.needs & OF_GROUPS),
                )
                host = meet(
                    client,
                    container,
                    node=box.node,
                    address=box.address,
                    gateway=network.gateway,
                    socket=SOCKET,
                    run_id=spec.run_id,
                    origin_ns=origin_ns,
                    news=news,
                    failure=lambda cause: ClusterError(
                        "a host came up but its agent does not answer",
                        where=f"{box.node} ({box.address})",
                        cause=cause,
                        next_step="run `dethrone doctor`, then repeat the run",
                    ),
                )
                hosts.append(host)

            together(bring_up, boxes)
        with self._lock:
            self._clients[spec.run_id] = client
        found = {host.name: host for host in hosts}
        return {node: found[node] for node in spec.nodes}

    def destroy(self, run_id: str) -> None:
        """Remove that run's containers and network. Idempotent; works for runs of other processes, too."""
        with self._lock:
            client = self._clients.pop(run_id, None)
        with contextlib.closing(client or connect(connections=_CONNECTIONS)) as used:
            remove_run(used, run_id)

    def leftovers(self) -> Sequence[Owned]:
        """Containers and networks with our labels, of any run."""
        with contextlib.closing(connect()) as client:
            return list_owned(client)

    def probe(self) -> Mapping[str, Available]:
        """See ``dethrone.harness.core.interfaces.Probing``: tried in containers that live for a second."""
        return doctor.capabilities()

    def doctor(self) -> Sequence[tuple[str, Available]]:
        """What hosts can do here; see ``dethrone.clusters.docker.doctor``."""
        return doctor.rows()


def _serving(run_id: str) -> list[str]:
    return ["serve", "--socket", SOCKET, "--run", run_id, "--node-user", NODE_USER, "--make-account"]


BACKEND = DockerBackend()
