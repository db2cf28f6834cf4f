"""Operations and observations that the engine records a second, against an echo target on loopback, none lost.

    python -m tests.benchmarks.bench_ops [seconds] [client processes]

The echo server is a process of its own; the engine's parts are the real ones: pump, client threads, director's record,
history file. Prints figures; judges nothing but the count of what was lost.
"""

from __future__ import annotations

import queue
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from dethrone.harness.core import world as w
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.events import SCHEMA, Begin, Invoke, Return
from dethrone.harness.core.history_files import read_history
from dethrone.harness.core.history_writer import HistoryWriter
from dethrone.harness.core.interfaces import ClusterView, NodeSpec, OpOutcome, OpPlan
from dethrone.harness.engine.run.live_world import LiveWorld
from dethrone.harness.engine.run.op_pacing import OpPump

VIEW = ClusterView(nodes=("n1",), leader=None, roles={}, terms={}, state={})


def serve_echo() -> None:
    """Answer every message of 16 bytes with itself; prints the port first."""
    server = socket.create_server(("127.0.0.1", 0))
    print(server.getsockname()[1], flush=True)
    selector = selectors.DefaultSelector()
    selector.register(server, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is server:
                connection, _ = server.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                selector.register(connection, selectors.EVENT_READ)
                continue
            data = key.fileobj.recv(4096)  # type: ignore[union-attr]
            if not data:
                selector.unregister(key.fileobj)
                key.fileobj.close()  # type: ignore[union-attr]
                continue
            key.fileobj.sendall(data)  # type: ignore[union-attr]


class EchoClient:
    """One connection, 16 bytes there and back."""

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def invoke(self, f: str, value: Any, *, target: str, timeout_ns: int) -> OpOutcome:
        """One echo."""
        del f, target, timeout_ns
        self.sock.sendall(b"%016d" % value)
        return OpOutcome(status="ok", value=int(self.sock.recv(16)), node="n1")

    def close(self) -> None:
        """Drop the connection."""
        self.sock.close()


class EchoSystem:
    """Only what the live world asks of it here."""

    name = "echo"

    def __init__(self, port: int) -> None:
        self.port = port

    def client(self, nodes: object) -> EchoClient:
        """A new client."""
        del nodes
        return EchoClient(self.port)

    def status_call(self, node: object) -> None:
        """No status."""
        del node


class Numbers:
    """1, 2, 3 …"""

    def __init__(self) -> None:
        self.last = 0

    def next(self, process: int, now: int, view: ClusterView) -> OpPlan:
        """The next number."""
        del process, now, view
        self.last += 1
        return OpPlan(f="echo", value=self.last, target="n1")

    def returned(self, process: int, op: OpPlan, result: Return) -> None:
        """Nothing to remember."""


def record(seconds: float, processes: int) -> tuple[float, int]:
    """Operations a second, and how many were lost."""
    with (
        subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True) as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        assert server.stdout is not None
        system: Any = EchoSystem(int(server.stdout.readline()))
        nodes: dict[str, NodeSpec] = {}
        origin = time.monotonic_ns()
        no_hosts: Any = None
        world = LiveWorld(
            system=system,
            backend=no_hosts,
            hosts={},
            nodes=nodes,
            origin_ns=origin,
            processes=processes,
            observe_interval_ns=SECOND,
            inbox=queue.SimpleQueue(),
        )
        path = Path(folder, "history")
        writer = HistoryWriter(path)
        writer.write([Begin(seq=0, t=0, schema=SCHEMA, system="echo", nodes=("n1",), seed=0)])
        pump = OpPump(processes=processes, rate_per_s=0)
        pump.use(Numbers())
        end = world.now() + int(seconds * SECOND)
        seq = 1
        while True:
            now = world.now()
            if now >= end and not pump.in_flight:
                break
            events: list[Any] = []
            actions = []
            if now < end:
                for op, process, thread, plan in pump.due(now, VIEW):
                    events.append(
                        Invoke(seq=seq, t=now, op=op, process=process, f=plan.f, value=plan.value, target=plan.target)
                    )
                    seq += 1
                    actions.append(w.InvokeOp(op, thread, plan, SECOND))
            writer.write(events)
            for action in actions:
                world.submit(action)
            returns = []
            for done in world.wait(now + SECOND // 10):
                assert isinstance(done, w.OpDone)
                event = Return(seq=seq, t=done.at, op=done.op, status=done.outcome.status, value=done.outcome.value)
                seq += 1
                returns.append(event)
                pump.returned(event)
            writer.write(returns)
        world.close()
        writer.end(t=world.now(), reason="complete")
        server.kill()
        history = read_history(path)
        invoked = {event.op: event.value for event in history.of(Invoke)}
        answered = {event.op: event.value for event in history.of(Return)}
        lost = sum(answered.get(op) != value for op, value in invoked.items())
        return len(answered) / seconds, lost


def main() -> None:
    """Print the figures."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    processes = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    rate, lost = record(seconds, processes)
    print(f"ops recorded against an echo target, {processes} clients: {rate:,.0f} a second, {lost} lost")


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve_echo()
    else:
        main()
