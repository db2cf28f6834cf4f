"""The Docker engine of tests: with one that answers they run, else they are skipped, but not in CI."""

from __future__ import annotations

import os
import uuid

import docker
import docker.types
import pytest

from dethrone.clusters.docker.client import connect
from dethrone.clusters.docker.network import _engine_ranges
from dethrone.clusters.subnets import candidates, routes
from dethrone.harness.core.errors import MissingCapability


def engine_client() -> docker.DockerClient:
    """A connection to the engine."""
    try:
        return connect()
    except MissingCapability as error:
        if os.environ.get("CI"):
            pytest.fail(f"CI needs a Docker engine: {error}")
        pytest.skip(str(error))


def make_network(
    client: docker.DockerClient, name: str, *, six: bool = False
) -> tuple[docker.models.networks.Network, str]:
    """A network of somebody else's with a range that nothing here uses, and that range. ``six``: with IPv6, too."""
    for subnet in candidates(name, [*_engine_ranges(client), *routes()]):
        pools = [docker.types.IPAMPool(subnet=subnet)]
        if six:
            token = uuid.uuid4().hex
            pools.append(docker.types.IPAMPool(subnet=f"fd{token[:2]}:{token[2:6]}:{token[6:10]}::/64"))
        addresses = docker.types.IPAMConfig(pool_configs=pools)
        try:
            made = client.networks.create(name, internal=True, check_duplicate=True, enable_ipv6=six, ipam=addresses)
        except docker.errors.APIError as error:
            if "overlap" in str(error.explanation).lower():
                continue
            raise
        return made, subnet
    raise AssertionError("no free range")
