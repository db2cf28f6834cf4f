"""Real node processes on loopback addresses for tests: start, kill, ask, wait by condition with a bound."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.waiting import until

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[2]


_PORTS = itertools.count(os.getpid() * 37)


def free_port() -> int:
    """A port below the range from which the kernel takes ports for outgoing connections: those must not meet it."""
    for number in _PORTS:
        port = 12_000 + number % 18_000
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("unreachable")


wait_for = until


class Client:
    """One connection to a node's client port."""

    def __init__(self, address: str, port: int, limit_s: float = 5.0) -> None:
        self.sock = socket.create_connection((address, port), timeout=limit_s)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.last_id = 0

    def send(self, **fields: Any) -> int:
        self.last_id += 1
        data = json.dumps({"id": self.last_id, **fields}).encode()
        self.sock.sendall(len(data).to_bytes(4, "big") + data)
        return self.last_id

    def read(self) -> Any:
        length = int.from_bytes(self._exactly(4), "big")
        return json.loads(self._exactly(length))

    def ask(self, type_: str, **fields: Any) -> Any:
        self.send(request={"type": type_, **fields})
        answer = self.read()
        return answer.get("reply", answer)

    def status(self) -> Any:
        self.send(status=True)
        return self.read()["status"]

    def close(self) -> None:
        self.sock.close()

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self.sock.recv(count - len(data))
            if not more:
                raise ConnectionError("closed by the node")
            data += more
        return data


class Node:
    """One node's place: its files outlive its processes."""

    def __init__(self, cluster: Cluster, name: str, address: str) -> None:
        self.cluster, self.name, self.address = cluster, name, address
        self.home = cluster.root / name
        self.home.mkdir()
        self.incarnation = 0
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def trace_path(self) -> Path:
        return self.home / "trace.jsonl"

    @property
    def journal_path(self) -> Path:
        return self.home / "journal.jsonl"

    @property
    def data(self) -> Path:
        return self.home / "data"

    def start(self, **overrides: Any) -> None:
        self.incarnation += 1
        config = {
            **self.cluster.config,
            "node": self.name,
            "members": {each.name: each.address for each in self.cluster.nodes.values()},
            "bind": self.address,
            "data_dir": str(self.data),
            "trace_path": str(self.trace_path),
            "journal_path": str(self.journal_path),
            "clock_socket": str(self.home / "clock"),
            "link_socket": str(self.home / "links"),
            "incarnation": self.incarnation,
            **overrides,
        }
        path = self.home / "node.json"
        path.write_text(json.dumps(config))
        environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{HERE}"}
        with (self.home / "stderr").open("ab") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "dethrone.clusters.node.main", "--config", str(path)],
                env=environment,
                stderr=stderr,
            )

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.wait()

    def wait(self) -> int:
        assert self.process is not None
        return self.process.wait(timeout=10)

    def client(self) -> Client:
        def connect() -> Client | None:
            assert self.process is not None
            assert self.process.poll() is None, (self.home / "stderr").read_text()
            try:
                return Client(self.address, self.cluster.config["client_port"])
            except OSError:
                return None

        return wait_for(connect, what=f"{self.name} listens")

    def status(self) -> Any:
        client = self.client()
        try:
            return client.status()
        finally:
            client.close()

    def trace(self) -> list[Any]:
        """All complete lines."""
        if not self.trace_path.exists():
            return []
        text = self.trace_path.read_bytes()
        return [json.loads(line) for line in text.split(b"\n")[:-1] if line]

    def events(self, name: str) -> list[Any]:
        return [line for line in self.trace() if line["event"] == name]


class Cluster:
    """``size`` nodes n1, n2, … on 127.<a>.<b>.1…, all with the same two ports."""

    def __init__(self, root: Path, size: int, **config: Any) -> None:
        self.root = root
        peer_port, client_port = free_port(), free_port()
        self.config = {"peer_port": peer_port, "client_port": client_port, "seed": 7, **config}
        net = f"127.{os.getpid() % 250 + 1}.{peer_port % 250 + 1}"
        self.nodes: dict[str, Node] = {}
        for number in range(1, size + 1):
            name = f"n{number}"
            self.nodes[name] = Node(self, name, f"{net}.{number}")

    def start(self, **overrides: Any) -> None:
        for node in self.nodes.values():
            node.start(**overrides)

    def close(self) -> None:
        for node in self.nodes.values():
            if node.process is not None and node.process.poll() is None:
                node.process.kill()
                node.process.wait()
