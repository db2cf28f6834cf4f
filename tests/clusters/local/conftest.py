"""Local hosts for tests: deployed below a temporary ledger directory, always taken away."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dethrone.clusters.local.backend import LocalBackend
from dethrone.harness.core.interfaces import Command, DeploySpec, Host, HostNews, NodeStart
from dethrone.harness.core.ledger import Ledger
from tests.waiting import until

NODE = """
import os, signal, socket, threading, time
path = "/run/dethrone/clock.sock"
if os.path.exists(path): os.unlink(path)
listener = socket.socket(socket.AF_UNIX); listener.bind(path); listener.listen(8)
def tell():
    while True:
        connection, _ = listener.accept()
        clocks = time.monotonic_ns(), time.time_ns()
        connection.sendall(b'{"mono_ns":%d,"wall_ns":%d}\\n' % clocks); connection.close()
threading.Thread(target=tell, daemon=True).start()
server = socket.create_server(("", 7002))
while True:
    connection, _ = server.accept()
    connection.sendall(socket.gethostname().encode()); connection.close()
"""
"""A node that tells its name on a port, and its clocks."""


def ask(address: str, limit_s: float = 3.0) -> str:
    """What the node at that address says of itself."""
    with socket.create_connection((address, 7002), timeout=limit_s) as connection:
        return connection.recv(100).decode()


class Deployed:
    """Hosts of one run, and how to make and remove them."""

    def __init__(self, state: Path) -> None:
        self.backend = LocalBackend()
        self.run_id = f"test-{secrets.token_hex(4)}"
        self.ledger = Ledger(state, self.run_id)  # its lock keeps `heal` away
        self.state = self.ledger.directory
        self.news: list[HostNews] = []
        self.hosts: dict[str, Host] = {}

    def spec(
        self, *nodes: str, image: str = "node", base: str | None = None, needs: frozenset[str] = frozenset()
    ) -> DeploySpec:
        return DeploySpec(
            run_id=self.run_id, nodes=nodes, image=image, base=base, state_dir=str(self.state), needs=needs
        )

    def deploy(self, *nodes: str, image: str = "node", needs: frozenset[str] = frozenset()) -> dict[str, Host]:
        self.hosts = dict(
            self.backend.deploy(
                self.spec(*nodes, image=image, needs=needs),
                origin_ns=time.monotonic_ns(),
                news=self.news.append,
                progress=lambda _: None,
            )
        )
        return self.hosts

    def prepare(self, *, faketime: bool = False, fails: bool = False, limits: tuple[str, ...] = ()) -> None:
        """Every host knows the others and has a node that runs."""
        start = NodeStart(
            command=Command(argv=("/opt/dethrone/venv/bin/python", "-S", "-c", NODE)),
            log_path="/var/log/dethrone/node.log",
            data_dir="/var/lib/dethrone/data",
            clock_socket="/run/dethrone/clock.sock",
            faketime=faketime,
            run_dir="/run/dethrone",
            fails=fails,
            limits=limits,
        )
        peers = {name: host.address for name, host in self.hosts.items()}
        for host in self.hosts.values():
            host.prepare(start, peers, dead_man_ns=0)
            host.start_node()
        for host in self.hosts.values():
            until(lambda at=host.address: ask(at))

    def shell(self, node: str, script: str) -> tuple[int, str]:
        code, out, err = self.hosts[node].run(["/bin/sh", "-c", script], timeout_ns=10_000_000_000)
        return code, (out + err).decode(errors="replace")

    def left(self) -> list[str]:
        """What is there of this run."""
        return [f"{one.kind} {one.name}" for one in self.backend.leftovers() if one.run_id == self.run_id]

    def end(self) -> None:
        for host in self.hosts.values():
            host.close()
        self.backend.destroy(self.run_id)

    def close(self) -> None:
        self.end()
        self.ledger.close(clean=True)


@pytest.fixture(scope="session")
def root() -> None:
    """Only root may run the test."""
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("iptables") is None:
        pytest.skip("needs root, ip and iptables")


@pytest.fixture
def deployed(root: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployed]:
    monkeypatch.setenv("DETHRONE_STATE_DIR", str(tmp_path / "state"))
    one = Deployed(tmp_path / "state")
    yield one
    one.close()


@pytest.fixture(scope="module")
def three(root: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    """Three hosts with nodes that run, for tests that leave them healthy."""
    one = Deployed(tmp_path_factory.mktemp("state"))
    try:
        one.deploy("n1", "n2", "n3")
        one.prepare(faketime=True)
        yield one
    finally:
        one.close()


@pytest.fixture
def name_at() -> Callable[..., str]:
    """What the node at an address says of itself."""
    return ask
