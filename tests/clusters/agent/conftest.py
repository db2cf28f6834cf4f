"""Agents in network namespaces: n1 … n5 at NET.11 …, the test itself (``client``) at NET.1.

NET is a /24 of this process' own, so that two test runs at once do not meet.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from dethrone.clusters.agent import bundle
from dethrone.clusters.agent.agent_host import GIVE_UP_S, AgentHost
from dethrone.clusters.agent.streams import SocketStream, Stream
from dethrone.harness.core.interfaces import Command, HostNews, NodeStart
from tests.waiting import until

PLACE = tempfile.mkdtemp(prefix="dethrone-tests-agent-")
atexit.register(shutil.rmtree, PLACE, ignore_errors=True)
AGENT = bundle.put(Path(PLACE))
"""The one file, as it is on hosts."""
RUN = f"test-{os.getpid()}"
"""The run of all agents of this process: another test run must not take their marks for its own."""
PYTHON = os.environ.get("DETHRONE_AGENT_PYTHON", sys.executable)
"""The interpreter of agents and relays: any Python from 3.9 on."""


def in_an_agent(body: str) -> Any:
    """The last line that ``body`` prints, with the agent as ``agent`` and its processes as ``processes``."""
    program = (
        f"import sys; sys.path.insert(0, {str(AGENT.parent)!r})\n"
        "import agent, json, os, signal, threading, time\n"
        f"processes = agent.Processes()\n{body}"
    )
    done = subprocess.run([PYTHON, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def claim_net() -> tuple[socket.socket, str]:
    """A /24 of the range reserved for benchmarks that nothing here routes to, and the socket that claims it.

    An abstract socket's name belongs to one process at a time and goes with it.
    """
    routes = Path("/proc/net/route").read_text().split("\n")[1:]
    taken = {int(line.split()[1], 16).to_bytes(4, "little")[:3] for line in routes if line}
    for third in range(64, 192):
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0dethrone-tests-198.19.{third}")
        except OSError:
            claim.close()
            continue
        if bytes((198, 19, third)) not in taken:
            return claim, f"198.19.{third}"
        claim.close()
    raise RuntimeError("198.19.64.0 to 198.19.191.0 are all taken")


_CLAIM, NET = claim_net()
atexit.register(_CLAIM.close)
CLIENT = f"{NET}.1"

NODE = r"""
import os, signal, socket, sys, threading, time
directory, incarnation = sys.argv[1], int(sys.argv[2])
if "slow" in sys.argv: threading.Event().wait(0.3)
if "deaf" in sys.argv: signal.signal(signal.SIGTERM, signal.SIG_IGN)
trace = open(directory + "/trace.log", "ab", buffering=0)
path = directory + "/clock.sock"
if os.path.exists(path): os.unlink(path)
listener = socket.socket(socket.AF_UNIX); listener.bind(path); listener.listen(8)
def tell():
    while True:
        connection, _ = listener.accept()
        connection.sendall(b'{"mono_ns":%d,"wall_ns":%d}\n' % (time.monotonic_ns(), time.time_ns())); connection.close()
threading.Thread(target=tell, daemon=True).start()
pause, n = threading.Event(), 0
while True:
    n += 1
    trace.write(b"%d %d %d\n" % (incarnation, n, time.monotonic_ns()))
    pause.wait(0.01)
"""


class ProcessStream:
    """The pipes of a relay command: ``docker exec -i HOST … relay``, ``ssh HOST … relay``."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )

    @property
    def pid(self) -> int:
        """The relay command's process."""
        return self._process.pid

    def read(self) -> bytes:
        """See ``Stream``; if the relay ends with a message on stderr, that is the error."""
        if self._process.stdout is None:
            return b""
        data = os.read(self._process.stdout.fileno(), 256 << 10)
        if not data and self._process.stderr is not None:
            complaint = os.read(self._process.stderr.fileno(), 4096)
            if complaint:
                raise OSError(complaint.decode("utf-8", "replace").strip()[-400:])
        return data

    def write(self, data: bytes) -> None:
        """See ``Stream``."""
        if self._process.stdin is None:
            raise BrokenPipeError
        view = memoryview(data)
        while view:
            view = view[os.write(self._process.stdin.fileno(), view) :]

    def close(self) -> None:
        """See ``Stream``."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


class Box:
    """One agent, in a network namespace or not, and our link to it."""

    AGENT = str(AGENT)

    def __init__(self, name: str, directory: Path, *, address: str = "127.0.0.1", namespace: str | None = None) -> None:
        self.name, self.directory, self.address, self.namespace = name, directory, address, namespace
        directory.mkdir(parents=True, exist_ok=True)
        self.socket = str(directory / "agent.sock")
        self.news: list[HostNews] = []
        self.host: AgentHost | None = None
        self.agent: subprocess.Popen[bytes] | None = None
        self.relays: list[ProcessStream] = []

    def command(self, *argv: str) -> list[str]:
        return (["ip", "netns", "exec", self.namespace] if self.namespace else []) + list(argv)

    def serve(self, *more: str) -> None:
        argv = self.command(PYTHON, "-S", str(AGENT), "serve", "--socket", self.socket, "--run", RUN, *more)
        self.agent = subprocess.Popen(argv)

    def relay(self) -> Stream:
        stream = ProcessStream([PYTHON, "-S", str(AGENT), "relay", "--socket", self.socket])
        self.relays.append(stream)
        return stream

    def direct(self) -> Stream:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(self.socket)
        except OSError:
            connection.close()
            raise
        return SocketStream(connection)

    def raw(self) -> socket.socket:
        """A connection of its own, once the agent listens."""

        def connected() -> socket.socket:
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(5)
            try:
                connection.connect(self.socket)
            except OSError:
                connection.close()
                raise
            return connection

        return until(connected, what="the agent listens")

    def meet(self, connect: Callable[[], Stream] | None = None, **more: object) -> AgentHost:
        """Its agent, met within the usual time, however soon it counts as gone after that (``give_up_s``)."""
        self.raw().close()
        self.host = AgentHost(
            self.name,
            self.address,
            connect or self.direct,
            origin_ns=time.monotonic_ns(),
            news=self.news.append,
            meet_s=GIVE_UP_S,
            **more,
        )
        return self.host

    def start(self, *more: str, faketime: bool = False) -> NodeStart:
        return NodeStart(
            command=Command(argv=(sys.executable, "-S", "-c", NODE, str(self.directory), "{incarnation}", *more)),
            trace_path=str(self.directory / "trace.log"),
            log_path=str(self.directory / "node.log"),
            data_dir=str(self.directory / "data"),
            clock_socket=str(self.directory / "clock.sock"),
            faketime=faketime,
        )

    def run_node(self, *more: str, faketime: bool = False, dead_man_ns: int = 0) -> None:
        """Prepare the host and start its node, which has traced something when this returns."""
        self.host.prepare(self.start(*more, faketime=faketime), {}, dead_man_ns=dead_man_ns)
        self.start_node()

    def start_node(self) -> None:
        """Start the node and wait for its start and its first trace, which are told by two threads in either order."""
        self.host.start_node()
        until(lambda: self.kinds("started") and self.traced())

    def kinds(self, kind: str) -> list[HostNews]:
        return [news for news in list(self.news) if news.kind == kind]

    def traced(self) -> list[tuple[int, int]]:
        lines = [line for news in self.kinds("trace") for line in news.data["lines"]]
        return [(int(line.split()[0]), int(line.split()[1])) for line in lines]

    def end(self) -> None:
        if self.host is not None:
            self.host.close()
        if self.agent is not None:
            self.agent.terminate()
            try:
                self.agent.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.agent.kill()
                self.agent.wait()
        for relay in self.relays:
            relay.close()
        for news in self.kinds("started"):  # of agents that were killed
            with contextlib.suppress(OSError):
                os.killpg(news.data["pid"], signal.SIGKILL)


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    one = Box("n1", tmp_path / "n1")
    one.serve("--probe-port", "0", "--term-limit", "0.7")
    yield one
    one.end()


@pytest.fixture
def host(box):
    box.meet()
    box.host.prepare(box.start(), {"n2": "198.18.0.2"}, dead_man_ns=0)
    return box.host


@pytest.fixture
def running(box, host):
    box.start_node()
    return host


def batch(*lines: str, inside: str | None = None) -> None:
    where = [] if inside is None else ["-n", inside]
    subprocess.run(["ip", *where, "-batch", "-"], input="\n".join(lines) + "\n", text=True, check=True)


@pytest.fixture(scope="session")
def namespaces() -> Iterator[dict[str, str]]:
    """Five namespaces around a switch: node → namespace."""
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("iptables") is None:
        pytest.skip("needs root, ip and iptables")
    prefix = f"dt{os.getpid() % 100000}"
    switch = f"{prefix}s"
    names = {f"n{index}": f"{prefix}n{index}" for index in range(1, 6)}
    try:
        batch(f"netns add {switch}", *(f"netns add {space}" for space in names.values()))
        batch("link add name bridge0 type bridge", inside=switch)
        lines = [f"link add {prefix}c type veth peer name c netns {switch}"]
        lines += [f"address add {CLIENT}/24 dev {prefix}c", f"link set {prefix}c up"]
        lines += [f"link add {prefix}{node} type veth peer name {node} netns {switch}" for node in names]
        lines += [f"link set {prefix}{node} netns {space} name eth0" for node, space in names.items()]
        batch(*lines)
        inside = ["link set bridge0 up", "link set c master bridge0", "link set c up"]
        inside += [f"link set {node} master bridge0" for node in names] + [f"link set {node} up" for node in names]
        batch(*inside, inside=switch)
        for index, space in enumerate(names.values(), start=11):
            own = ["link set lo up", f"address add {NET}.{index}/24 dev eth0", "link set eth0 up"]
            own += [f"route add default via {CLIENT}"]
            batch(*own, inside=space)
        yield names
    finally:
        subprocess.run(["ip", "link", "del", f"{prefix}c"], check=False, stderr=subprocess.DEVNULL)
        for space in [switch, *names.values()]:
            subprocess.run(["ip", "netns", "del", space], check=False, stderr=subprocess.DEVNULL)


@pytest.fixture(scope="module", params=["auto"])
def five(namespaces: dict[str, str], tmp_path_factory: pytest.TempPathFactory, request) -> Iterator[dict[str, Box]]:
    """Five hosts, prepared, nodes not started."""
    directory = tmp_path_factory.mktemp("hosts")
    boxes = {
        node: Box(node, directory / node, address=f"{NET}.{index}", namespace=namespaces[node])
        for index, node in enumerate(namespaces, start=11)
    }
    try:
        for box in boxes.values():
            box.serve("--iptables", request.param)
        peers = {name: box.address for name, box in boxes.items()}
        for box in boxes.values():
            box.meet()
            box.host.prepare(box.start(faketime=True), peers, dead_man_ns=0)
        yield boxes
    finally:
        closing = [threading.Thread(target=box.end) for box in boxes.values()]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join()
