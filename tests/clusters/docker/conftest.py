"""Fixtures of the Docker world: an engine that answers, and runs that never stay behind."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import docker
import pytest

from dethrone.clusters.docker.containers import remove_run
from tests.clusters.engine import engine_client


@pytest.fixture(scope="session")
def client() -> Iterator[docker.DockerClient]:
    connected = engine_client()
    yield connected
    connected.close()


@pytest.fixture
def run_id(client: docker.DockerClient) -> Iterator[str]:
    """A name for a run of its own; whatever carries it goes when the test ends."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    yield name
    remove_run(client, name)
