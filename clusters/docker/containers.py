"""Containers as hosts: made, started, removed and listed by label.

Guarantees: a container of ours has our labels, a fixed address on its run's network, no IPv6, NET_ADMIN and what its
agent needs to mount or to make control groups as its only extra capabilities, a limit on memory and processes, and the
agent as its first process; removal and listing look at labels only. Out of scope: what the agent does.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import docker
import docker.errors
import docker.types
import msgspec

from dethrone.clusters.deploying import together
from dethrone.clusters.docker.client import explained
from dethrone.clusters.docker.labels import LIB, MEMORY, NODE, OF_A_RUN, OWNER, RUN, STATE, owned_by
from dethrone.clusters.docker.network import RunNetwork
from dethrone.harness.core.errors import ClusterError
from dethrone.harness.core.interfaces import Owned

MEMORY_BYTES = 2 << 30
PIDS = 4096
"""What one host may take of the machine, if its system does not say otherwise: it must not take all of it."""
REMOVE_LIMIT_S = 20.0
IPV6_SETTINGS = Path("/proc/sys/net/ipv6/conf/all/disable_ipv6")
WITHOUT_IPV6 = {f"net.ipv6.conf.{which}.disable_ipv6": "1" for which in ("all", "default")}
"""A host of ours has no second family by which it could be reached; a kernel without IPv6 has no such setting."""
DETACH_LIMIT_S = 3.0
"""How long a network may stay in use after the last container of its run is gone."""


CPU_SHARES = 8192
"""Eight times what a program has by default."""


class Box(msgspec.Struct, frozen=True, kw_only=True):
    """One host to be: its node's name and its fixed address."""

    node: str
    address: str


def start_box(
    client: docker.DockerClient,
    box: Box,
    *,
    image: str,
    command: Sequence[str],
    network: RunNetwork,
    names: Mapping[str, str],
    run_id: str,
    state_dir: str,
    memory_bytes: int | None = None,
    pids: int | None = None,
    mounts: bool = False,
    groups: bool = False,
) -> str:
    """Make and start one container; its id. ``names``: every node and its address, for the hosts file.

    ``mounts``: its agent may serve the node's data directory, which takes more rights; ``groups``: it may
    limit what the node uses, which takes some of these; the node has none of them.
    """
    api = client.api
    rights = ["NET_ADMIN", *(["SYS_ADMIN"] if mounts or groups else []), *(["SYS_NICE"] if mounts else [])]
    more: dict[str, Any] = {"security_opt": ["apparmor=unconfined"]} if mounts or groups else {}
    if mounts:
        more["devices"] = ["/dev/fuse"]
    with explained("starting a host", where=box.node):
        made = api.create_container(
            image,
            entrypoint=["/usr/bin/env"],
            command=list(command),
            name=f"dethrone-{run_id}-{box.node}",
            hostname=box.node,
            environment={"PYTHONPATH": LIB, "PYTHONDONTWRITEBYTECODE": "1"},
            labels={OWNER: "run", RUN: run_id, STATE: state_dir, NODE: box.node},
            host_config=api.create_host_config(
                network_mode=network.name,
                cap_add=rights,
                **more,
                **_weighed(client),
                mem_limit=memory_bytes or MEMORY_BYTES,
                memswap_limit=memory_bytes or MEMORY_BYTES,  # of memory and swap together: no swap
                pids_limit=pids or PIDS,
                tmpfs={MEMORY: f"mode=755,size={(memory_bytes or MEMORY_BYTES) // 2}"},
                sysctls=WITHOUT_IPV6 if IPV6_SETTINGS.exists() else {},
                extra_hosts=dict(names),
                log_config=docker.types.LogConfig(type="json-file", config={"max-size": "4m"}),
            ),
            networking_config={"EndpointsConfig": {network.name: api.create_endpoint_config(ipv4_address=box.address)}},
        )
        identity = str(made["Id"])
        api.start(identity)
    return identity


def _weighed(client: docker.DockerClient) -> dict[str, Any]:
    """A container's share of processors that are busy: more than a program's, as its processes compute little and must
    not wait.

    Processors are shared out among control groups: below the engine's, all containers together get as much as one
    process outside. Where systemd keeps the groups, they are its slices, and stay so.
    """
    beside = {"cgroup_parent": "/"} if client.info().get("CgroupDriver") == "cgroupfs" else {}
    return {"cpu_shares": CPU_SHARES, **beside}


def last_words(client: docker.DockerClient, container: str) -> str:
    """What a container said last and how it ended, for an error message; empty if that cannot be known."""
    with contextlib.suppress(docker.errors.APIError):
        state = client.api.inspect_container(container)["State"]
        logs: bytes = client.api.logs(container, tail=8)
        ended = "" if state.get("Running") else f"it ended with {state.get('ExitCode')}: "
        return ended + logs.decode(errors="replace").strip()
    return ""


def remove_run(client: docker.DockerClient, run_id: str, *, limit_s: float = REMOVE_LIMIT_S) -> None:
    """Remove the containers, then the networks, that carry this run's label. Nothing there: nothing done."""
    deadline = time.monotonic() + limit_s
    with explained(f"removing run {run_id}"):
        containers = client.api.containers(all=True, filters=owned_by(run_id))
        together(lambda entry: _remove_container(client, str(entry["Id"]), deadline), containers)
        networks = client.api.networks(filters=owned_by(run_id))
        detached = time.monotonic() + DETACH_LIMIT_S
        together(lambda entry: _remove_network(client, str(entry["Id"]), detached), networks)


def list_owned(client: docker.DockerClient) -> list[Owned]:
    """Containers and networks of any run that carry our labels."""
    with explained("listing what is ours"):
        filters = {"label": [OF_A_RUN, RUN]}
        containers = [
            _owned("container", str(entry["Id"]), str((entry.get("Names") or ["?"])[0]).lstrip("/"), entry)
            for entry in client.api.containers(all=True, filters=filters)
        ]
        networks = [
            _owned("network", str(entry["Id"]), str(entry["Name"]), entry)
            for entry in client.api.networks(filters=filters)
        ]
    return containers + networks


def _owned(kind: str, identity: str, name: str, entry: Mapping[str, object]) -> Owned:
    labels = entry.get("Labels")
    known = labels if isinstance(labels, dict) else {}
    return Owned(
        backend="docker",
        kind=kind,
        id=identity,
        name=name,
        run_id=str(known.get(RUN, "")),
        state_dir=str(known.get(STATE, "")),
    )


def _remove_container(client: docker.DockerClient, identity: str, deadline: float) -> None:
    """Remove it by force and wait until it is gone, even if another process removes it."""
    while True:
        try:
            client.api.remove_container(identity, force=True, v=True)
            return
        except docker.errors.NotFound:
            return
        except docker.errors.APIError as error:
            if error.status_code != 409 or time.monotonic() > deadline:  # 409: another process is removing it
                raise
        time.sleep(0.02)


def _remove_network(client: docker.DockerClient, identity: str, deadline: float) -> None:
    while True:
        try:
            client.api.remove_network(identity)
            return
        except docker.errors.NotFound:
            return
        except docker.errors.APIError as error:
            busy = "active endpoints" in str(error.explanation)
            if not busy or time.monotonic() > deadline:
                attached = _attached(client, identity) if busy else []
                if not attached:
                    raise
                raise ClusterError(
                    "a network of ours cannot be removed: containers that are not ours are attached to it",
                    where=identity[:12],
                    cause=f"other containers are connected: {', '.join(attached)}",
                    next_step=f"`docker network disconnect {identity[:12]} {attached[0]}`, then `dethrone heal`",
                ) from error
        time.sleep(0.05)


def _attached(client: docker.DockerClient, network: str) -> list[str]:
    entries = client.api.inspect_network(network).get("Containers") or {}
    return sorted(str(entry.get("Name", "?")) for entry in entries.values())
