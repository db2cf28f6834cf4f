"""Fixtures of the Docker world: an engine that answers, and runs that never stay behind."""

from __future__ import annotations

import contextlib
import os
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from dethrone.clusters.docker.backend import DockerBackend
from dethrone.clusters.docker.containers import remove_run
from dethrone.harness.core.interfaces import Command, DeploySpec, Host, NodeStart
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


@contextlib.contextmanager
def one_host(run_id: str, program: str, needs: frozenset[str], **more: Any) -> Iterator[Host]:
    """A host whose node is this Python program, with what the run needs; ``more``: fields of its start."""
    backend = DockerBackend()
    if not backend.traits.capabilities >= needs:
        pytest.skip(f"this machine does not offer {', '.join(sorted(needs))}")
    spec = DeploySpec(run_id=run_id, nodes=("n1",), image="node", base=None, state_dir=state_of(run_id), needs=needs)
    hosts = backend.deploy(spec, origin_ns=0, news=lambda _: None, progress=lambda _: None)
    start = NodeStart(
        command=Command(argv=("/opt/dethrone/venv/bin/python", "-S", "-c", program)),
        log_path="/var/log/dethrone/node.log",
        data_dir="/var/lib/dethrone/data",
        run_dir="/run/dethrone",
        **more,
    )
    with contextlib.closing(hosts["n1"]) as host:
        host.prepare(start, {"n1": host.address}, dead_man_ns=0)
        host.start_node()
        yield host
    backend.destroy(run_id)
