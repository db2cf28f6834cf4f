"""Lists and sets in a JetStream stream: a subject for each key, a message for each value.

Guarantees: a message is published once; each request has an inbox of its own. Out of scope: finding the leader, to
which the server that is asked forwards.

    python3 client.py ADDRESS PORT MEMBERS      makes the stream, with a replica on each member
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import secrets
import socket
import sys
from typing import Any

STREAM = "values"
NO_MESSAGE = 10037
NO_STREAM = 10059


class NotDoneError(Exception):
    """Nothing has happened."""


class Connection:
    """To one server (https://docs.nats.io/reference/reference-protocols/nats-protocol)."""

    def __init__(self, address: str, port: int, *, timeout_s: float = 5) -> None:
        self._socket = socket.create_connection((address, port), timeout=timeout_s)
        self._lines = self._socket.makefile("rb")
        self._numbers = itertools.count(1)
        self._inbox = f"_INBOX.{secrets.token_hex(11)}"
        options = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True, "protocol": 1}
        self._socket.sendall(b"CONNECT " + json.dumps(options).encode() + b"\r\nPING\r\n")
        while self._line() != b"PONG":
            pass

    def close(self) -> None:
        """Hang up."""
        with contextlib.suppress(OSError):
            self._lines.close()
            self._socket.close()

    def request(self, subject: str, asked: Any) -> dict[str, Any]:
        """The answer. NotDoneError: no server took the message."""
        number = next(self._numbers)
        inbox, body = f"{self._inbox}.{number}", json.dumps(asked).encode()
        head = f"SUB {inbox} {number}\r\nUNSUB {number} 1\r\nPUB {subject} {inbox} {len(body)}\r\n"
        self._socket.sendall(head.encode() + body + b"\r\n")
        while True:
            verb, *words = self._line().split()
            if verb == b"PING":
                self._socket.sendall(b"PONG\r\n")
            elif verb == b"-ERR":
                raise ValueError(b" ".join(words).decode())
            elif verb in (b"MSG", b"HMSG"):
                size = int(words[-1])
                headers = int(words[-2]) if verb == b"HMSG" else 0
                data = self._lines.read(size + 2)[:size]
                if int(words[1]) != number:
                    continue
                if data[:headers].startswith(b"NATS/1.0 503"):
                    raise NotDoneError("no server takes this message")
                return dict(json.loads(data[headers:]))

    def _line(self) -> bytes:
        line = self._lines.readline()
        if not line:
            raise ConnectionError("the server hung up")
        return line.strip()


class Client:
    """Kept connections to the servers."""

    not_done = (NotDoneError,)

    def __init__(self, nodes: dict[str, dict[str, Any]]) -> None:
        self._nodes = nodes
        self._open: dict[str, Connection] = {}

    def append(self, node: str, key: str, value: Any) -> None:
        """Publish, and wait until the stream acknowledges."""
        answer = self._request(node, f"{STREAM}.{key}", value)
        if "error" in answer:
            raise ValueError(answer["error"])

    add = append

    def read(self, node: str, key: str) -> list[Any]:
        """All messages of this subject, one after another, by the leader of the stream; none if the stream is gone."""
        found: list[Any] = []
        place = 0
        while True:
            asked = {"seq": place + 1, "next_by_subj": f"{STREAM}.{key}"}
            answer = self._request(node, f"$JS.API.STREAM.MSG.GET.{STREAM}", asked)
            if answer.get("error", {}).get("err_code") in (NO_MESSAGE, NO_STREAM):
                return found
            if "error" in answer:
                raise ValueError(answer["error"])
            place = answer["message"]["seq"]
            found.append(json.loads(base64.b64decode(answer["message"]["data"])))

    def transfer(self, node: str, target: str) -> None:
        """The leader of the stream steps down in favour of another server."""
        answer = self._request(node, f"$JS.API.STREAM.LEADER.STEPDOWN.{STREAM}", {"placement": {"preferred": target}})
        if not answer.get("success"):
            raise ValueError(answer.get("error", answer))

    def _request(self, node: str, subject: str, asked: Any) -> dict[str, Any]:
        if node not in self._open:
            try:
                self._open[node] = Connection(self._nodes[node]["address"], self._nodes[node]["client"])
            except OSError as error:
                raise NotDoneError(str(error)) from error
        try:
            return self._open[node].request(subject, asked)
        except NotDoneError:
            raise
        except BaseException:
            self._open.pop(node).close()
            raise


def make_stream(address: str, port: str, members: str) -> None:
    """Make the stream, unless it is there. Raises what a client may raise."""
    wanted = {"name": STREAM, "subjects": [f"{STREAM}.*"], "storage": "file", "num_replicas": len(members.split(","))}
    answer = Connection(address, int(port)).request(f"$JS.API.STREAM.CREATE.{STREAM}", wanted)
    if "error" in answer:
        raise ValueError(answer["error"])


if __name__ == "__main__":
    make_stream(*sys.argv[1:])
