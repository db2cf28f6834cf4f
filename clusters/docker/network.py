"""A network of its own for each run, with fixed addresses.

Guarantees: a bridge of its own with a free /24 out of 198.18.0.0/15, the range reserved for benchmarks, so that no
address in use is shadowed; nothing on it reaches the outside; two runs that start at the same moment get
different ranges. Out of scope: everything that happens on the network later.
"""

from __future__ import annotations

from collections.abc import Sequence

import docker
import docker.errors
import docker.types

from dethrone.clusters.docker.client import explained
from dethrone.clusters.docker.labels import OWNER, RUN, STATE
from dethrone.clusters.subnets import RunRange, candidates, check_room, none_free, routes


class RunNetwork(RunRange, frozen=True, kw_only=True):
    """A network that was made for one run."""

    id: str
    name: str


def create_network(client: docker.DockerClient, *, run_id: str, state_dir: str, nodes: int) -> RunNetwork:
    """Make the run's network. Raises ClusterError when every range is taken."""
    check_room(nodes)
    name = f"dethrone-{run_id}"
    with explained("making a network"):
        for subnet in candidates(run_id, [*_engine_ranges(client), *routes()]):
            made = _try(client, name, subnet, labels={OWNER: "run", RUN: run_id, STATE: state_dir})
            if made is not None:
                return RunNetwork(id=made, name=name, subnet=subnet)
    raise none_free(where="this machine's routes and the engine's networks", see="`ip route` and `docker network ls`")


def _try(client: docker.DockerClient, name: str, subnet: str, *, labels: dict[str, str]) -> str | None:
    """The id of the new network; None if the range was taken meanwhile."""
    pool = docker.types.IPAMPool(subnet=subnet, gateway=RunRange(subnet=subnet).gateway)
    try:
        network = client.networks.create(
            name,
            driver="bridge",
            internal=True,
            check_duplicate=True,
            labels=labels,
            ipam=docker.types.IPAMConfig(pool_configs=[pool]),
        )
    except docker.errors.APIError as error:
        if "overlap" in str(error.explanation).lower():
            return None
        raise
    return str(network.id)


def _engine_ranges(client: docker.DockerClient) -> list[str]:
    found: list[str] = []
    for network in client.networks.list():
        configs: Sequence[dict[str, str]] = ((network.attrs or {}).get("IPAM") or {}).get("Config") or ()
        found += [config["Subnet"] for config in configs if ":" not in config.get("Subnet", ":")]
    return found
