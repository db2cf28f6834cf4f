"""The agent's loop: one thread that reads requests, hands them to lanes, and sends answers and news.

Guarantees: wrong input never ends it; it serves root and the agent's own user, but not the node; a session's request is
executed once, however often it arrives. Out of scope: what verbs do (``verbs``).
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import selectors
import signal
import socket
import struct
import threading
import time
from collections.abc import Mapping
from typing import Any

from dethrone.clusters.agent.host.addresses import own_addresses
from dethrone.clusters.agent.host.adopted import AdoptedNode
from dethrone.clusters.agent.host.common import Refused, boot_id, complain, now_ns
from dethrone.clusters.agent.host.confinement import permitted
from dethrone.clusters.agent.host.connections import Connection, Lane, Session, Verb
from dethrone.clusters.agent.host.lost_rules import watch_links, watch_rules
from dethrone.clusters.agent.host.noise import TICK_S
from dethrone.clusters.agent.host.processes import Processes, process_stat
from dethrone.clusters.agent.host.requests import integer_of, object_of, text_of
from dethrone.clusters.agent.host.tails import TRACE_GAP_S
from dethrone.clusters.agent.host.verbs import Host, Settings

VERSION = 2
"""Version of the protocol; a link refuses an agent of another version. 2: peers have addresses of both families."""
LINE_MAX = 4 << 20
"""Longest request line, bytes; longer ones end the connection (files travel in chunks)."""
SESSIONS_MAX = 8
CONNECTIONS_MAX = 32
TURNED_AWAY_MAX = 100
"""The most refused connections that the agent logs."""
NEWS_WINDOW = 1 << 20
"""A connection with this many unsent bytes gets no more news."""


class Server:
    """Listens, reads requests, hands them to lanes, sends answers and news; it owns the ``Host``."""

    def __init__(self, path: str, run: str, settings: Settings) -> None:
        self.run = run
        self._turned_away = 0
        self._epoch = os.urandom(8).hex()
        self._wake_r, self._wake_w = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._awake = False
        directory = os.path.dirname(os.path.abspath(path))  # noqa: PTH100, PTH120
        os.makedirs(directory, mode=0o755, exist_ok=True)  # noqa: PTH103
        processes = Processes()
        self._listener = self._listen(path)
        self._host = Host(path, run, settings, processes=processes, wake=self.wake)
        self._selector = selectors.DefaultSelector()
        self._connections: set[Connection] = set()
        self._sessions: collections.OrderedDict[str, Session] = collections.OrderedDict()
        self._sessions_lock = threading.Lock()
        self._lanes = {name: Lane(name) for name in ("state", "probe", "files", "measure")}
        self._ending = False
        self._pump_at = 0.0
        self._tail_quiet = False

    @staticmethod
    def _listen(path: str) -> socket.socket:
        if os.path.exists(path):  # noqa: PTH110
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
                try:
                    other.connect(path)
                except OSError:
                    os.unlink(path)  # noqa: PTH108 - left by an agent that was killed
                else:
                    raise SystemExit(f"an agent listens at {path} already")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        os.chmod(path, 0o600)  # noqa: PTH101
        listener.listen(16)
        listener.setblocking(False)
        return listener

    # --- the loop -------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Wake the loop; any thread may call this."""
        if not self._awake:
            self._awake = True
            with contextlib.suppress(BlockingIOError, InterruptedError):
                os.write(self._wake_w, b"w")

    def serve(self) -> None:
        """Serve until SIGTERM or SIGINT; then end the node and remove the rules."""
        signal.set_wakeup_fd(self._wake_w, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)
        for watch in (watch_rules, watch_links):
            threading.Thread(target=watch, args=(self._host,), name=watch.__name__, daemon=True).start()
        signal.signal(signal.SIGHUP, lambda *_: None)  # a handler, not "ignore", which children would inherit
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._wake_r, selectors.EVENT_READ, self._woken)
        for probing in self._host.probes.sockets.values():
            self._selector.register(probing, selectors.EVENT_READ, self._host.probes.receive)
        if self._host.tails.inotify >= 0:
            self._selector.register(self._host.tails.inotify, selectors.EVENT_READ, self._grown)
        while not self._ending:
            for key, mask in self._selector.select(self._patience()):
                if isinstance(key.data, Connection):
                    self._exchange(key.data, mask)
                else:
                    key.data()
            self._every_turn()
        self._host.finish()

    def _patience(self) -> float:
        if not self._host.tails.active:
            return 0.25
        if self._tail_quiet:
            return max(0.0, self._pump_at - time.monotonic())
        return TICK_S if self._host.tails.inotify < 0 else 0.25

    def _every_turn(self) -> None:
        now = time.monotonic()
        if self._host.tails.active and now >= self._pump_at:
            if self._tail_quiet:
                self._tail_quiet = False
                self._selector.register(self._host.tails.inotify, selectors.EVENT_READ, self._grown)
            self._pump()
        silence = self._host.dead_man.due()
        if silence:
            with contextlib.suppress(Refused):
                self._lanes["state"].put(lambda: self._host.abandoned(silence))
        for connection in list(self._connections):
            if connection.subscribed and connection.unsent < NEWS_WINDOW and not connection.closed:
                connection.cursor, lines = self._host.news.after(connection.cursor, NEWS_WINDOW)
                if lines:
                    connection.send(lines)
            self._interest(connection)

    def _pump(self) -> None:
        # Rare looks lose nothing: a growing file wakes us; this only finds files that were replaced.
        self._pump_at = time.monotonic() + (0.2 if self._host.tails.inotify >= 0 else TICK_S)
        try:
            self._host.tails.pump()
        except OSError as error:
            complain("trace log", error)

    def _grown(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._host.tails.inotify, 65536)
        self._pump()
        if self._host.tails.active:
            # A busy log is read at most every TRACE_GAP_S; the kernel keeps the wake-up until then.
            self._selector.unregister(self._host.tails.inotify)
            self._tail_quiet = True
            self._pump_at = time.monotonic() + TRACE_GAP_S

    def _woken(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_r, 4096)
        # Cleared after the read: this turn also serves every thread that found the flag set.
        self._awake = False

    def _accept(self) -> None:
        try:
            connected, _ = self._listener.accept()
        except OSError:
            return
        why = self._not_trusted(connected)
        if why or len(self._connections) >= CONNECTIONS_MAX:
            connected.close()
            if why and self._turned_away < TURNED_AWAY_MAX:
                self._turned_away += 1
                complain("a connection was refused", Refused(why))
            return
        connected.setblocking(False)
        connection = Connection(connected, self.wake)
        self._connections.add(connection)
        self._selector.register(connected, selectors.EVENT_READ, connection)

    def _not_trusted(self, connected: socket.socket) -> str:
        """Why the process that connected is refused; "": it is trusted.

        From outside this host's process namespace (process 0), only the host's creator can reach the socket. From
        inside, root and our own user are trusted, except the node and processes with fewer capabilities than ours.
        """
        raw = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iII"))
        pid, uid, _ = struct.unpack("iII", raw)
        if pid == 0:
            return ""
        if uid not in {0, os.geteuid()}:
            return f"process {pid} has uid {uid}"
        seen, child = process_stat(pid), self._host.node.child
        if (
            child is not None
            and not isinstance(self._host.node, AdoptedNode)
            and seen is not None
            and seen.session == child.pid
        ):
            return f"process {pid} is of the node"
        theirs, ours = permitted(pid), permitted()
        if theirs is not None and ours is not None and ours & ~theirs:
            return f"process {pid} has fewer capabilities than the agent"
        return ""

    def _interest(self, connection: Connection) -> None:
        if connection.closed:
            self._drop(connection)
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.unsent else 0)
        if self._selector.get_key(connection.socket).events != wanted:
            self._selector.modify(connection.socket, wanted, connection)

    def _drop(self, connection: Connection) -> None:
        if connection in self._connections:
            self._connections.discard(connection)
            self._selector.unregister(connection.socket)
            with self._sessions_lock:
                if connection.session is not None and connection.session.connection is connection:
                    connection.session.connection = None
            connection.close()

    def _exchange(self, connection: Connection, mask: int) -> None:
        if mask & selectors.EVENT_WRITE:
            connection.flush()
        if not mask & selectors.EVENT_READ:
            return
        try:
            data = connection.socket.recv(256 << 10)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            connection.closed = True
            return
        if connection.session is not None:
            self._host.dead_man.hear()
        connection.unread += data
        if b"\n" not in data:
            connection.closed = connection.closed or len(connection.unread) > LINE_MAX
            return
        *lines, rest = bytes(connection.unread).split(b"\n")
        connection.unread = bytearray(rest)
        for line in lines:
            if line.strip():
                self._handle(connection, line)

    # --- requests -------------------------------------------------------------------------------------------------

    def _handle(self, connection: Connection, line: bytes) -> None:
        number: int | None = None
        try:
            try:
                request = object_of(json.loads(line), "a request")
            except (ValueError, RecursionError) as error:
                raise Refused(f"not a line of JSON: {error}") from None
            number = integer_of(request, "id", low=0, high=2**62)
            verb = text_of(request, "do")
            if verb == "hello":
                self._answer(connection, number, {"ok": self._hello(connection, request)})
                return
            if verb not in self._host.verbs:
                raise Refused(f"no such verb: {verb[:80]}")
            if connection.session is not None and self._asked_before(connection, connection.session, number):
                return
            lane, function = self._host.verbs[verb]
            if not lane:
                self._serve(connection, number, function, request)
                return
            self._lanes[lane].put(lambda: self._serve(connection, number, function, request))
        except Exception as error:  # noqa: BLE001 - wrong input must never end the agent
            self._answer(connection, number, failed(error))

    def _asked_before(self, connection: Connection, session: Session, number: int) -> bool:
        with self._sessions_lock:
            answer = session.answer(number)
            if answer is None and number not in session.pending:
                session.pending.add(number)
                return False
        if answer is not None:
            connection.send(answer)
        return True

    def _serve(self, connection: Connection, number: int | None, verb: Verb, request: Mapping[str, Any]) -> None:
        try:
            answer: Mapping[str, Any] = {"ok": verb(request)}
        except Exception as error:  # noqa: BLE001 - wrong input must never end the agent
            answer = failed(error)
        self._answer(connection, number, answer)

    def _answer(self, connection: Connection, number: int | None, answer: Mapping[str, Any]) -> None:
        line = json.dumps({"id": number, **answer}).encode() + b"\n"
        session = connection.session
        to: Connection | None = connection
        if session is not None and number is not None:
            with self._sessions_lock:
                session.keep(number, line)
                to = session.connection
        if to is not None:
            to.send(line)

    def _hello(self, connection: Connection, request: Mapping[str, Any]) -> Mapping[str, Any]:
        name = text_of(request, "session")
        run = request.get("run")
        if run is not None and run != self.run:
            raise Refused(f"this agent serves run {self.run}, not {run!r:.80}")
        after = integer_of(request, "after", low=0, high=2**62)
        with self._sessions_lock:
            session = self._sessions.pop(name, None) or Session()
            self._sessions[name] = session
            while len(self._sessions) > SESSIONS_MAX:
                self._sessions.popitem(last=False)
            session.connection = connection
        connection.session = session
        self._host.dead_man.hear()
        for other in self._connections:
            other.subscribed = False  # news have one reader: the latest
        connection.cursor, connection.subscribed = min(after, self._host.news.last), True
        return {
            "version": VERSION,
            "run": self.run,
            "epoch": self._epoch,
            "probe_port": self._host.probes.port,
            "boot": boot_id(),
            "mono_ns": now_ns(),
            "news": self._host.news.last,
            "running": self._host.node.running,
            "incarnation": self._host.node.incarnation,
            "found": self._host.found,
            "addresses": own_addresses(),
        }

    def _end(self, *_: object) -> None:
        self._ending = True


def failed(error: Exception) -> dict[str, str]:
    """The answer to a request that could not be served."""
    if isinstance(error, (Refused, OSError)):
        return {"error": str(error)}
    complain("request", error)
    return {"error": f"internal: {type(error).__name__}: {error}"[:500]}
