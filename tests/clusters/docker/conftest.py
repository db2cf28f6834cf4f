"""Fixtures of the Docker world: an engine that answers, and runs that never stay behind."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from dethrone.clusters.docker.containers import remove_run
from dethrone.harness.core.ledger import Ledger
from tests.clusters.engine import engine_client


@pytest.fixture(scope="session")
def client() -> Iterator[docker.DockerClient]:
    connected = engine_client()
    yield connected
    connected.close()


HELD = Path(tempfile.gettempdir()) / f"dethrone-tests-{os.getpid()}"
"""Where the runs of these tests have their ledgers: a test that heals next to them must see that they live."""


def state_of(run_id: str) -> str:
    """The state directory that a run's objects name; ``test-1234-b`` lives as long as ``test-1234``."""
    return str(HELD / "runs" / "-".join(run_id.split("-")[:2]))


@pytest.fixture
def run_id(client: docker.DockerClient) -> Iterator[str]:
    """A name for a live run of its own; whatever carries it goes when the test ends."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    ledger = Ledger(HELD, name)
    yield name
    remove_run(client, name)
    ledger.close(clean=True)
