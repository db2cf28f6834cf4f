"""A node of PySyncObj with a journal: lists by key, replicated, behind HTTP.

    node.py SELF_ADDRESS:PORT OTHER,OTHER HTTP_PORT DATA_DIR

GET /status, GET /read/KEY (through the log, so that no old value is read), POST /append/KEY with a JSON value. 503: the
library says that it has not taken the command. What it has taken and then lost sight of is 500: it may yet happen.
"""

from __future__ import annotations

import json
import queue
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

from pysyncobj import FAIL_REASON, SyncObj, SyncObjConf, replicated

ROLES = ("follower", "candidate", "leader")
WAIT_S = 5.0
NOT_TAKEN = (FAIL_REASON.QUEUE_FULL, FAIL_REASON.MISSING_LEADER)


class Lists(SyncObj):
    """Lists that all nodes hold."""

    def __init__(self, me: str, others: list[str], data: Path) -> None:
        self._lists: dict[str, list[object]] = {}
        self._asked: queue.SimpleQueue[queue.SimpleQueue[dict[str, object]]] = queue.SimpleQueue()
        conf = SyncObjConf(journalFile=str(data / "journal"), commandsWaitLeader=False, onStateChanged=self._changed)
        super().__init__(me, others, conf)
        self.addOnTickCallback(self._answer)

    @replicated
    def append(self, key: str, value: object) -> None:
        """Add to the end of a list."""
        self._lists.setdefault(key, []).append(value)

    @replicated
    def read(self, key: str) -> list[object]:
        """The list, at this place of the log."""
        return list(self._lists.get(key, ()))

    def status(self) -> dict[str, object]:
        """Role and term of one moment after the question: taken by the thread that changes them."""
        answer: queue.SimpleQueue[dict[str, object]] = queue.SimpleQueue()
        self._asked.put(answer)
        return answer.get(timeout=WAIT_S)

    def _answer(self) -> None:
        while not self._asked.empty():
            now = self.getStatus()
            leader = now["leader"]
            self._asked.get().put(
                {
                    "role": ROLES[now["state"]],
                    "term": now["raft_term"],
                    "leader": None if leader is None else leader.id,
                    "commit": now["commit_idx"],
                    "version": now["version"],
                }
            )

    def _changed(self, before: int, now: int) -> None:
        if ROLES[now] == "leader":
            _trace("elected", term=self.raftCurrentTerm)
        elif ROLES[before] == "leader":
            _trace("stepped_down")


def _trace(event: str, **fields: object) -> None:
    sys.stdout.write(json.dumps({"dethrone": 1, "event": event, **fields}) + "\n")
    sys.stdout.flush()


class Handler(BaseHTTPRequestHandler):
    """One request of a client."""

    lists: Lists
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Status, or a list."""
        if self.path == "/status":
            self._send(200, self.lists.status())
        else:
            self._run(self.lists.read, unquote(self.path.rpartition("/")[2]))

    def do_POST(self) -> None:
        """Append."""
        value = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._run(self.lists.append, unquote(self.path.rpartition("/")[2]), value)

    def _run(self, command: Callable[..., object], *words: object) -> None:
        done: queue.SimpleQueue[tuple[object, int]] = queue.SimpleQueue()
        command(*words, callback=lambda result, error: done.put((result, error)))
        try:
            result, error = done.get(timeout=WAIT_S)
        except queue.Empty:
            self._send(500, "no answer")
            return
        if error == FAIL_REASON.SUCCESS:
            self._send(200, result)
        else:
            self._send(503 if error in NOT_TAKEN else 500, error)

    def _send(self, code: int, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing: every request of every client would be a line."""


if __name__ == "__main__":
    me, others, port, data = sys.argv[1:]
    Handler.lists = Lists(me, [one for one in others.split(",") if one], Path(data))
    ThreadingHTTPServer(("", int(port)), Handler).serve_forever()
