"""A ZooKeeper of one server in memory, for the client's tests: sessions, nodes, sequence numbers, versions.

``mute`` names the kinds of requests that it carries out and does not answer, ``deaf`` those that it neither carries out
nor answers, ``errors`` those that it refuses, with which error.
"""

from __future__ import annotations

import contextlib
import socketserver
import struct
import threading

from dethrone.clusters.systems import zookeeper_wire as wire
from dethrone.clusters.systems.zookeeper_wire import Reader
from tests.served import served


class Server:
    """Start it with ``with``; ``port`` on the loopback address."""

    def __init__(self):
        self.nodes = {}
        """Path → [data, version, czxid, session of an ephemeral node or 0]."""
        self.zxid = 1 << 32
        self.sequence = 0
        self.sessions = 0
        self.shortest_ms, self.longest_ms = 100, 60_000
        self.mute, self.deaf, self.errors = set(), set(), {}
        self.asked = []
        self.watches = {}
        """Path → the writers of the sessions that wait for its next change."""
        self.passwords = {}
        self.ended = set()
        """Sessions that have expired."""
        self.lock = threading.Lock()

    def __enter__(self):
        owner = self

        class Guest(socketserver.StreamRequestHandler):
            def handle(self):
                owner.serve(self.rfile, self.wfile)

        self.door = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Guest)
        self.door.daemon_threads = True
        self.door.block_on_close = False
        self.port = self.door.server_address[1]
        self.serving = contextlib.ExitStack()
        self.serving.enter_context(served(self.door))
        return self

    def __exit__(self, *_):
        self.serving.close()

    def serve(self, rfile, wfile):
        first = Reader(frame(rfile))
        first.number()
        first.long()
        timeout_ms = min(self.longest_ms, max(self.shortest_ms, first.number()))
        wanted, password = first.long(), first.buffer()
        with self.lock:
            if wanted:
                known = self.passwords.get(wanted) == password and wanted not in self.ended
                session = wanted if known else 0
            else:
                self.sessions += 1
                session = self.sessions
                password = self.passwords[session] = session.to_bytes(16, "big")
        if "connect" in self.deaf:
            return
        answer(wfile, struct.pack(">iiqi", 0, timeout_ms, session, 16) + password + b"\0")
        while (data := frame(rfile)) is not None and session and session not in self.ended:
            request = Reader(data)
            xid, kind = request.number(), request.number()
            with self.lock:
                self.asked.append(kind)
                self.writer = wfile
                if kind in self.deaf:
                    continue
                error, body = self.carry_out(session, kind, request)
            if kind not in self.mute:
                answer(wfile, struct.pack(">iqi", xid, self.zxid, error) + body)
            if kind == wire.CLOSE:
                return

    def carry_out(self, session, kind, request):
        if kind in self.errors:
            return self.errors[kind], b""
        if kind == wire.PING:
            return 0, b""
        if kind == wire.CLOSE:
            self.nodes = {path: node for path, node in self.nodes.items() if node[3] != session}
            return 0, b""
        path = request.text()
        if kind in {wire.CREATE, wire.CREATE2}:
            return self.create(session, kind, path, request)
        if kind == wire.GET_CHILDREN:
            if path not in self.nodes:
                return wire.NO_NODE, b""
            names = [name[len(path) + 1 :] for name in sorted(self.nodes) if name.startswith(f"{path}/")]
            return 0, struct.pack(">i", len(names)) + b"".join(text(name) for name in names)
        if kind == wire.SYNC:
            return 0, text(path)
        node = self.nodes.get(path)
        if kind in {wire.EXISTS, wire.GET_DATA} and request.flag() and (node is not None or kind == wire.EXISTS):
            self.watches.setdefault(path, []).append(self.writer)
        if node is None:
            return wire.NO_NODE, b""
        if kind == wire.EXISTS:
            return 0, stat(node)
        if kind == wire.GET_DATA:
            return 0, struct.pack(">i", len(node[0])) + node[0] + stat(node)
        if kind == wire.SET_DATA:
            data, version = request.buffer(), request.number()
            if version not in {wire.ANY_VERSION, node[1]}:
                return wire.BAD_VERSION, b""
            self.zxid += 1
            node[0], node[1] = data, node[1] + 1
            self.fire(path, 3)
            return 0, stat(node)
        if request.number() not in {wire.ANY_VERSION, node[1]}:
            return wire.BAD_VERSION, b""
        del self.nodes[path]
        self.fire(path, 2)
        return 0, b""

    def fire(self, path, kind):
        for writer in self.watches.pop(path, ()):
            answer(writer, struct.pack(">iqiii", wire.OF_A_WATCH, -1, 0, kind, 3) + text(path))

    def expire(self, session):
        with self.lock:
            self.ended.add(session)
            for path in [path for path, node in self.nodes.items() if node[3] == session]:
                del self.nodes[path]
                self.fire(path, 2)

    def create(self, session, kind, path, request):
        data = request.buffer()
        for _ in range(request.number()):
            request.number(), request.text(), request.text()
        how = request.number()
        folder = path.rpartition("/")[0]
        if folder and folder not in self.nodes:
            return wire.NO_NODE, b""
        if how & 2:
            path = f"{path}{self.sequence:0{wire.SEQUENCE_DIGITS}}"
            self.sequence += 1
        if path in self.nodes:
            return wire.NODE_EXISTS, b""
        self.zxid += 1
        self.nodes[path] = [data, 0, self.zxid, session if how & 1 else 0]
        self.fire(path, 1)
        return 0, text(path) + (stat(self.nodes[path]) if kind == wire.CREATE2 else b"")


def frame(rfile):
    """The next frame; None at the end."""
    head = rfile.read(4)
    return rfile.read(int.from_bytes(head, "big")) if len(head) == 4 else None


def answer(wfile, payload):
    wfile.write(len(payload).to_bytes(4, "big") + payload)


def text(word):
    return struct.pack(">i", len(word.encode())) + word.encode()


def stat(node):
    data, version, czxid, session = node
    return struct.pack(">qqqqiiiqiiq", czxid, czxid, 0, 0, version, 0, 0, session, len(data), 0, czxid)
