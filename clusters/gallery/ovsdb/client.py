"""Registers and sets in an OVSDB database, one transaction for each operation (RFC 7047, 4.1.3).

Guarantees: a transaction is sent once. Out of scope: finding the leader: followers forward what changes something.
"""

from __future__ import annotations

import contextlib
import json
import socket
from typing import Any

DATABASE = "kv"


class NotDoneError(Exception):
    """Nothing has happened."""


class UnmetError(Exception):
    """What a transaction waits for does not hold: nothing has happened."""


class Client:
    """Kept connections to the servers."""

    not_done = (NotDoneError,)

    def __init__(self, nodes: dict[str, dict[str, Any]]) -> None:
        self._nodes = nodes
        self._open: dict[str, socket.socket] = {}

    def put(self, node: str, key: str, value: Any) -> None:
        """Replace the row of this key."""
        self._transact(node, _delete(key), _insert(key, value))

    def get(self, node: str, key: str) -> Any:
        """What the row holds, as the server knows it."""
        rows = self._transact(node, _select("registers", key))[0]["rows"]
        return json.loads(rows[0]["value"]) if rows else None

    def cas(self, node: str, key: str, old: Any, value: Any) -> bool:
        """Replace the row only if it holds ``old``.

        That it does not, the server says by its own copy, which may be old, as reads may be: that is no claim about
        the register.
        """
        held = [] if old is None else [{"value": json.dumps(old)}]
        wait = {"op": "wait", "timeout": 0, "table": "registers", "where": [["key", "==", key]], "columns": ["value"]}
        try:
            self._transact(node, {**wait, "until": "==", "rows": held}, _delete(key), _insert(key, value))
        except UnmetError:
            raise NotDoneError("this server's copy holds something else") from None
        return True

    def add(self, node: str, key: str, value: Any) -> None:
        """A new row of this set."""
        row = {"key": key, "value": json.dumps(value)}
        self._transact(node, {"op": "insert", "table": "members", "row": row})

    def read(self, node: str, key: str) -> list[Any]:
        """All rows of this set."""
        return [json.loads(row["value"]) for row in self._transact(node, _select("members", key))[0]["rows"]]

    def _transact(self, node: str, *operations: dict[str, Any]) -> list[Any]:
        """The results. UnmetError: a ``wait`` did not hold; NotDoneError; ValueError: any other error."""
        sock = self._connection(node)
        try:
            asked = {"id": 1, "method": "transact", "params": [DATABASE, *operations]}
            sock.sendall(json.dumps(asked).encode())
            answer = _answer(sock)
        except BaseException:
            self._drop(node)
            raise
        errors = [str(one.get("error")) for one in answer["result"] or [] if one and one.get("error")]
        if "timed out" in errors:
            raise UnmetError
        if errors or answer["error"]:
            raise ValueError(errors or answer["error"])
        return list(answer["result"])

    def _connection(self, node: str) -> socket.socket:
        if node not in self._open:
            try:
                place = self._nodes[node]
                self._open[node] = socket.create_connection((place["address"], place["db"]), timeout=5)
            except OSError as error:
                raise NotDoneError(str(error)) from error
        return self._open[node]

    def _drop(self, node: str) -> None:
        with contextlib.suppress(OSError):
            self._open.pop(node).close()


def _answer(sock: socket.socket) -> dict[str, Any]:
    """The answer to the transaction; the server's own questions (``echo``) are answered meanwhile."""
    text = ""
    while True:
        data = sock.recv(1 << 16)
        if not data:
            raise ConnectionError("the server hung up")
        text += data.decode()
        while text:
            try:
                message, end = json.JSONDecoder().raw_decode(text)
            except ValueError:
                break
            text = text[end:].lstrip()
            if message.get("method") == "echo":
                sock.sendall(json.dumps({"id": message["id"], "result": message["params"], "error": None}).encode())
            elif message.get("id") == 1:
                return dict(message)


def _delete(key: str) -> dict[str, Any]:
    return {"op": "delete", "table": "registers", "where": [["key", "==", key]]}


def _insert(key: str, value: Any) -> dict[str, Any]:
    return {"op": "insert", "table": "registers", "row": {"key": key, "value": json.dumps(value)}}


def _select(table: str, key: str) -> dict[str, Any]:
    return {"op": "select", "table": table, "where": [["key", "==", key]], "columns": ["value"]}
