"""The coordination service of ``zk-ephemeral`` played by a real ZooKeeper on the same host.

Brokers speak to it as to the target's own service. Each of their sessions is a session of ZooKeeper, kept alive by
their own pings and nothing else: ZooKeeper alone decides when one expires, who may create a node, which watches fire.
The process that is killed, paused or cut is both, the server and this.

Guarantees: a call is carried out once per number; a watch event is sent again with each ping until it was seen; a
session resumes after a restart (its password is on disk before it is sent), without its watches, as ``start`` says.
The core has no disk: ZooKeeper stores everything. Its answers come from threads, so a journal of it could not be
re-executed; none is written.

Source: ZooKeeper programmer's guide (sessions, watches); ``dethrone.clusters.targets.zk_ephemeral.service``, whose
words it speaks.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import select
import socket
import threading
from collections import deque
from collections.abc import Generator
from pathlib import Path
from typing import Any

import msgspec

from dethrone.clusters.node.frames import BadFrame, FrameReader, frame
from dethrone.clusters.systems import zookeeper_wire as wire
from dethrone.clusters.systems.zookeeper_wire import Reader
from dethrone.clusters.targets.client_api import Refused
from dethrone.clusters.targets.kit.target import KitTarget
from dethrone.clusters.targets.zk_ephemeral import messages as m
from dethrone.clusters.targets.zk_ephemeral.knobs import KNOBS, ZkKnobs
from dethrone.clusters.targets.zk_ephemeral.rules import Rules
from dethrone.clusters.targets.zk_ephemeral.service import ROLE
from dethrone.clusters.targets.zk_ephemeral.target import TARGET as SIMULATED
from dethrone.clusters.targets.zk_ephemeral.target import make_core
from dethrone.clusters.targets.zk_ephemeral.witness import ZkWitness
from dethrone.harness.core.clock import MS, Clocks
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.machine import (
    Core,
    CoreEvent,
    CoreStatus,
    DiskImage,
    Effect,
    Fired,
    LogEnd,
    Message,
    Note,
    Reply,
    Request,
    Send,
    SetTimer,
)
from dethrone.harness.core.rng import Rng

PORT = 2181
DIRECTORY = "DETHRONE_BRIDGE_DIR"
"""The environment variable that names the directory for what the bridge keeps."""

PARENTS = ("/leader", "/partitions", f"/partitions/{m.PARTITION}", "/brokers", "/brokers/ids")
LOOK, LOOK_NS = "look", 5 * MS
TRIES_MAX = 20
RETRY_S = 0.1
CONNECT_LIMIT_S = 2.0
_KINDS = {1: m.NODE_CREATED, 2: m.NODE_DELETED, 3: m.NODE_DATA_CHANGED}
_CODES = {0: m.OK, wire.NO_NODE: m.NO_NODE, wire.NODE_EXISTS: m.NODE_EXISTS, wire.BAD_VERSION: m.BAD_VERSION}

Step = tuple[int, bytes]
Talk = Generator[Step, "tuple[int, Reader]", m.Answer]


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A session as it is kept on disk."""

    number: int
    timeout_ms: int
    password: bytes
    client: str
    nonce: int


class Bridge:
    """All sessions. Heard by one thread (``hear``); speaks through ``said`` and ``noted``, which any thread fills."""

    def __init__(self, directory: Path, *, port: int = PORT) -> None:
        self.port = port
        self.said: deque[tuple[str, m.ZkMessage]] = deque()
        self.noted: deque[tuple[str, dict[str, Any]]] = deque()
        self.file = directory / "sessions.jsonl"
        self.lock = threading.Lock()
        directory.mkdir(parents=True, exist_ok=True)
        starts = directory / "starts"
        self.start = 1 + (int(starts.read_text()) if starts.exists() else 0)
        starts.write_text(str(self.start))
        self.asked: dict[tuple[str, int], Relay] = {}
        self.relays: dict[int, Relay] = {}
        for kept in self._read():
            self.relays[kept.number] = self.asked[kept.client, kept.nonce] = Relay(self, kept.client, kept)

    def hear(self, src: str, body: Any) -> None:
        """Hand a broker's message to its session."""
        if isinstance(body, m.Connect):
            relay = self.asked.get((src, body.nonce))
            if relay is None or relay.gone.is_set():
                kept = Kept(number=0, timeout_ms=body.timeout_ns // MS, password=b"", client=src, nonce=body.nonce)
                relay = self.asked[src, body.nonce] = Relay(self, src, kept)
            relay.hear(body)
        elif isinstance(body, m.Ping | m.Call):
            relay = self.relays.get(body.session)
            if relay is None or relay.gone.is_set():
                self.said.append((src, m.SessionExpired(body.session)))
            else:
                relay.hear(body)
        else:
            self.noted.append(("violation", {"what": "unknown message", "from": src}))

    def keep(self, relay: Relay, kept: Kept) -> None:
        """Remember a new session, on disk first."""
        with self.lock:
            with self.file.open("ab") as file:
                file.write(msgspec.json.encode(kept) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            self.relays[kept.number] = relay

    def _read(self) -> list[Kept]:
        if not self.file.exists():
            return []
        found = []
        for line in self.file.read_bytes().splitlines():
            with contextlib.suppress(msgspec.MsgspecError):  # the last line may be torn: it was never sent
                found.append(msgspec.json.decode(line, type=Kept))
        return found


class Relay:
    """One session, with a thread of its own once something is heard."""

    def __init__(self, bridge: Bridge, client: str, kept: Kept) -> None:
        self.bridge = bridge
        self.client = client
        self.kept = kept
        self.gone = threading.Event()
        self._inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._ear, self._bell = socket.socketpair()
        self._bell.setblocking(False)
        self._thread: threading.Thread | None = None
        self._sock: socket.socket | None = None
        self._frames = FrameReader()
        self._xid = 0
        self._call: m.Call | None = None
        self._talk: Talk | None = None
        self._last: m.Answer | None = None
        self._done = 0
        self._events: list[m.WatchFired] = []
        self._n = 0
        self._starts = 0
        self._closing = False

    @property
    def start(self) -> int:
        """Rises with every restart of the host and every new connection: watches do not outlive one."""
        return self.bridge.start * 1_000_000 + self._starts

    def hear(self, body: Any) -> None:
        """Never blocks."""
        self._inbox.put(body)
        with contextlib.suppress(BlockingIOError):
            self._bell.send(b"!")
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"session of {self.client}", daemon=True)
            self._thread.start()

    # --- the connection -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self.gone.is_set():
            try:
                self._connect()
                while not self.gone.is_set():
                    self._turn()
            except (OSError, BadFrame, ValueError):
                self._drop()
                select.select([], [], [], RETRY_S)  # libfaketime refuses an absolute sleep, which time.sleep is

    def _drop(self) -> None:
        if self._sock is not None:
            self._sock.close()
        self._sock = None
        self._talk = self._call = None  # the broker asks again; ZooKeeper says then whether it was done

    def _connect(self) -> None:
        kept = self.kept
        self._sock = socket.create_connection(("127.0.0.1", self.bridge.port), timeout=CONNECT_LIMIT_S)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._frames = FrameReader()
        again = wire.Session(kept.number, kept.timeout_ms, kept.password) if kept.number else None
        self._sock.sendall(frame(wire.connect(kept.timeout_ms, again)))
        session = Reader(self._first()).session()
        self._sock.settimeout(None)
        if session.number == 0:
            self._expired()
            return
        self._starts += 1
        self._events.clear()
        self._n = 0
        if again is None:
            for path in PARENTS:
                self._send(wire.CREATE, wire.create(path, b"", wire.PERSISTENT))
            self.kept = msgspec.structs.replace(kept, number=session.number, password=session.password)
            self.bridge.keep(self, self.kept)
            told = {"session": session.number, "client": self.client, "timeout_ms": session.timeout_ms}
            self.bridge.noted.append(("session_open", told))
            self._tell(m.Connected(session.number, kept.nonce, self.start))

    def _first(self) -> bytes:
        while True:
            data = self._sock.recv(65536) if self._sock is not None else b""
            if not data:
                raise ConnectionError
            frames = self._frames.feed(data)
            if frames:
                return frames[0]

    def _expired(self) -> None:
        self.gone.set()
        told = {"session": self.kept.number, "client": self.client}
        self.bridge.noted.append(("session_expired", told))
        self._tell(m.SessionExpired(self.kept.number))

    def _turn(self) -> None:
        if self._sock is None:
            raise ConnectionError
        ready, _, _ = select.select([self._sock, self._ear], [], [])
        if self._ear in ready:
            self._ear.recv(4096)
            while not self._inbox.empty():
                self._on(self._inbox.get())
        if self._sock in ready:
            data = self._sock.recv(65536)
            if not data:
                raise ConnectionError
            for payload in self._frames.feed(data):
                self._on_frame(Reader(payload))

    def _send(self, kind: int, body: bytes = b"", *, xid: int | None = None) -> None:
        if self._sock is None:
            raise ConnectionError
        if xid is None:
            self._xid += 1
            xid = self._xid
        self._sock.sendall(frame(wire.request(xid, kind, body)))

    def _tell(self, body: m.ZkMessage) -> None:
        self.bridge.said.append((self.client, body))

    # --- from the broker ------------------------------------------------------------------------------------------

    def _on(self, body: Any) -> None:
        if isinstance(body, m.Connect):
            self._tell(m.Connected(self.kept.number, body.nonce, self.start))
            return
        if body.start == self.start:
            self._events = [event for event in self._events if event.n > body.seen]
        if isinstance(body, m.Ping):
            self._send(wire.PING, xid=wire.OF_A_PING)
            for event in self._events:
                self._tell(event)
        elif body.xid == self._done and self._last is not None:
            self._tell(self._last)
        elif body.xid > self._done and (self._call is None or body.xid > self._call.xid):
            self._call = body
            self._talk = self._carry_out(body)
            self._send(*next(self._talk))

    # --- from ZooKeeper -------------------------------------------------------------------------------------------

    def _on_frame(self, answer: Reader) -> None:
        head = answer.header()
        if head.xid == wire.OF_A_PING:
            self._tell(m.Pong(self.kept.number, self.start))
        elif head.xid == wire.OF_A_WATCH:
            kind, path = answer.watch()
            if kind in _KINDS:
                self._n += 1
                self._events.append(m.WatchFired(self.kept.number, self._n, path, _KINDS[kind], self.start))
                self._tell(self._events[-1])
        elif head.xid == self._xid and self._talk is not None and self._call is not None:
            try:
                self._send(*self._talk.send((head.error, answer)))
            except StopIteration as end:
                self._done, self._last = self._call.xid, end.value
                self._talk = self._call = None
                self._tell(end.value)
                if isinstance(end.value, m.Answer) and end.value.code == m.OK and self._closing:
                    self.gone.set()

    def _carry_out(self, call: m.Call) -> Talk:
        """The requests of one call; its answer."""
        op = call.op
        if isinstance(op, m.CloseSession):
            yield wire.CLOSE, b""
            self._closing = True
            return self._answer(call, m.OK)
        for _ in range(TRIES_MAX):
            if isinstance(op, m.Create):
                how = wire.EPHEMERAL if op.ephemeral else wire.PERSISTENT
                error, _ = yield wire.CREATE2, wire.create(op.path, _bytes(op.data), how)
                if error == 0:
                    return self._answer(call, m.OK, op.data, 0, self.kept.number if op.ephemeral else 0)
            elif isinstance(op, m.SetNode):
                error, answer = yield wire.SET_DATA, wire.set_data(op.path, _bytes(op.data), op.version)
                if error == 0:
                    stat = answer.stat()
                    return self._answer(call, m.OK, op.data, stat.version, stat.owner)
            elif isinstance(op, m.Delete):
                error, _ = yield wire.DELETE, wire.delete(op.path, op.version)
                if error == 0:
                    return self._answer(call, m.OK)
            elif op.watch and isinstance(op, m.Exists):
                error, _ = yield wire.EXISTS, wire.watched(op.path)
            else:
                error = 0
            if error not in _CODES:
                raise ConnectionError(f"ZooKeeper's error {error}")
            if error == wire.NO_NODE:
                return self._answer(call, m.NO_NODE)
            body = wire.watched(op.path) if isinstance(op, m.GetNode) and op.watch else wire.unwatched(op.path)
            missing, answer = yield wire.GET_DATA, body
            if missing == 0:
                data, stat = answer.buffer(), answer.stat()
                return self._answer(call, _CODES[error], json.loads(data) if data else None, stat.version, stat.owner)
            if not isinstance(op, m.Create) and not (isinstance(op, m.Exists) and op.watch):
                return self._answer(call, m.NO_NODE)
            # It went between the two: what was refused may be made now, what was there is looked for again.
        raise ConnectionError(f"{op.path} came and went {TRIES_MAX} times")

    def _answer(self, call: m.Call, code: str, data: Any = None, version: int = -1, owner: int = 0) -> m.Answer:
        return m.Answer(call.session, call.xid, code, self.start, data, version, owner)


class BridgeCore:
    """The service as the node's loop meets it; see ``dethrone.harness.core.machine.Core``."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def boot(self, disk: DiskImage, now: Clocks, rng: Rng, out: list[Effect]) -> None:
        """Begin to look for answers."""
        del disk, rng
        out.append(Note("start", 0, ROLE, {"start": self._bridge.start, "sessions": len(self._bridge.relays)}))
        out.append(SetTimer(LOOK, now.mono + LOOK_NS))

    def handle(self, event: CoreEvent, now: Clocks, rng: Rng, out: list[Effect]) -> None:
        """Pass on what brokers say, and what ZooKeeper has answered."""
        del rng
        if isinstance(event, Message):
            self._bridge.hear(event.src, event.body)
        elif isinstance(event, Request):
            out.append(Reply(event.id, Refused("the coordination service")))
        elif isinstance(event, Fired):
            while self._bridge.noted:
                name, data = self._bridge.noted.popleft()
                out.append(Note(name, 0, ROLE, data))
            while self._bridge.said:
                out.append(Send(*self._bridge.said.popleft()))
            out.append(SetTimer(LOOK, now.mono + LOOK_NS))

    def status(self, now: Clocks) -> CoreStatus:
        """It neither leads nor follows."""
        del now
        living = {str(number): relay.client for number, relay in self._bridge.relays.items() if not relay.gone.is_set()}
        return CoreStatus(
            role=ROLE,
            term=0,
            leader=None,
            voted_for=None,
            log_end=LogEnd(),
            commit=0,
            extra={"start": self._bridge.start, "sessions": living},
        )


def _core(node: str, members: tuple[str, ...], knobs: ZkKnobs, rules: Rules) -> Core:
    """A bridge on the coordination service's host, a broker elsewhere."""
    if node != knobs.coordinator_of(members):
        return make_core(node, members, knobs, rules)
    directory = os.environ.get(DIRECTORY)
    if directory is None:
        raise ConfigError(
            "a real ZooKeeper cannot be simulated",
            where="the coordination service of zk-ephemeral-zookeeper",
            next_step="run it on real hosts (--on docker), or simulate zk-ephemeral, whose service is our own",
        )
    return BridgeCore(Bridge(Path(directory)))


TARGET = KitTarget(
    KNOBS,
    Rules,
    SIMULATED.planted,
    message=m.ZkMessage,
    core=_core,
    witness=lambda node, _: ZkWitness(node, serves=False),  # the service's disk is ZooKeeper's
)
"""The target whose coordination service is a bridge."""


def _bytes(data: Any) -> bytes:
    return json.dumps(data).encode()
