"""A candidate of kazoo's recipe Election, next to a ZooKeeper server, that keeps lists while it leads.

    node.py NAME ZOO_CFG CLIENT_PORT HTTP_PORT SESSION_TIMEOUT_S LISTENS

GET /status; at the leader only (421 elsewhere) POST /append/KEY with a JSON value and GET /read/KEY. It serves once it
has seen a contender. The leader takes itself for the only writer, which is what elections are for: it writes a list
without asking whether it has changed. A term is the sequence number of the contender that leads, plus one: ZooKeeper
gives each number once, and the lowest leads.

LISTENS: the leader function ends as soon as the client's connection is in doubt, as kazoo's documentation recommends;
``false``: it does not look at the connection, as in the example of the recipe.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import KazooException

ELECTION, LISTS = "/election", "/lists"
LOOK_EVERY_S, AGAIN_AFTER_S = 0.1, 0.2


class Candidate:
    """One contender, for as long as its process lives."""

    def __init__(self, name: str, servers: str, timeout_s: float, *, listens: bool) -> None:
        self._name, self._listens = name, listens
        self._lock = threading.Lock()  # of role, term and leader, which are reported together
        self._leading, self._term, self._leader = False, 0, ""
        self.informed = threading.Event()  # that there is a contender, and so a term
        self._over = threading.Event()
        self._writing = threading.Lock()
        self._held: dict[str, list[object]] = {}
        self._client = KazooClient(servers, timeout=timeout_s)
        self._client.add_listener(self._changed)
        self._client.start(timeout=None)  # a node that comes back while it is cut off waits
        self._election = self._client.Election(ELECTION, name)
        for work in (self._contend, self._look):
            threading.Thread(target=work, daemon=True).start()

    def status(self) -> dict[str, object]:
        """Of one moment."""
        with self._lock:
            return {
                "role": "leader" if self._leading else "candidate",
                "term": self._term,
                "leader": self._leader,
                "incarnation": int(os.environ.get("DETHRONE_INCARNATION", "0")),
            }

    def append(self, key: str, value: object) -> bool:
        """Whether it was done; False: this is not the leader. Raises KazooException: it may have been done."""
        with self._writing:
            if not self._leads():
                return False
            before = self._held.pop(key, None)
            if before is None:
                before = self._stored(key)
            self._client.set(f"{LISTS}/{key}", json.dumps([*before, value]).encode())
            self._held[key] = [*before, value]
            return True

    def read(self, key: str) -> list[object] | None:
        """The list; None: this is not the leader."""
        return self._stored(key) if self._leads() else None

    def _leads(self) -> bool:
        with self._lock:
            return self._leading

    def _stored(self, key: str) -> list[object]:
        path = f"{LISTS}/{key}"
        self._client.ensure_path(path)
        self._client.sync(path)
        return list(json.loads(self._client.get(path)[0] or b"[]"))

    # --- the election ---

    def _changed(self, state: str) -> None:
        if self._listens and state != KazooState.CONNECTED:
            self._over.set()

    def _contend(self) -> None:
        while True:
            self._over.clear()  # before it contends: a session may end between its election and its function
            try:
                self._election.run(self._lead)
            except KazooException:
                time.sleep(AGAIN_AFTER_S)

    def _lead(self) -> None:
        if self._over.is_set():
            return
        with self._writing:
            self._held.clear()
        with self._lock:
            self._leading, self._term, self._leader = True, _term(self._election.lock.node), self._name
            _trace("elected", term=self._term)
        self.informed.set()
        self._over.wait()
        with self._lock:
            self._leading, self._leader = False, ""
            _trace("stepped_down")

    def _look(self) -> None:
        """Whom this node follows: the lowest contender."""
        while True:
            time.sleep(LOOK_EVERY_S)
            try:
                self._client.sync(ELECTION)
                first = min(self._client.get_children(ELECTION), key=_term)
                leader, term = self._client.get(f"{ELECTION}/{first}")[0].decode(), _term(first)
            except (KazooException, ValueError):  # no connection; no contender
                leader, term = "", 0
            with self._lock:
                if not self._leading:
                    self._leader, self._term = leader, max(term, self._term)
            if term:
                self.informed.set()


def _term(contender: str) -> int:
    return int(contender[-10:]) + 1


def _trace(event: str, **fields: object) -> None:
    sys.stdout.write(json.dumps({"dethrone": 1, "event": event, **fields}) + "\n")
    sys.stdout.flush()


class Handler(BaseHTTPRequestHandler):
    """One request of a client."""

    candidate: Candidate
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Status, or a list."""
        if self.path == "/status":
            self._send(200, self.candidate.status())
            return
        try:
            found = self.candidate.read(unquote(self.path.rpartition("/")[2]))
        except KazooException as error:
            self._send(500, repr(error))
        else:
            self._send(421 if found is None else 200, found)

    def do_POST(self) -> None:
        """Append."""
        value = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            done = self.candidate.append(unquote(self.path.rpartition("/")[2]), value)
        except KazooException as error:
            self._send(500, repr(error))
        else:
            self._send(200 if done else 421, done)

    def _send(self, code: int, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing: every request of every client would be a line."""


if __name__ == "__main__":
    own, config, client_port, http_port, timeout, listens = sys.argv[1:]
    found = re.findall(r"^server\.\d+=([^:]+):", Path(config).read_text(encoding="utf-8"), re.MULTILINE)
    servers = ",".join(f"{address}:{client_port}" for address in found)
    Handler.candidate = Candidate(own, servers, float(timeout), listens=listens == "true")
    Handler.candidate.informed.wait()
    ThreadingHTTPServer(("", int(http_port)), Handler).serve_forever()
