"""Registers and sets as keys of Consul, over HTTP at the server that is asked, which forwards to the leader.

Guarantees: a request is sent once; reads are ``consistent``, so the leader asks a quorum first. Out of scope: refusals
after which nothing can happen: each answer but a 200 is doubt.
"""

from __future__ import annotations

import base64
import http.client
import json
from typing import Any

LIMIT_S = 5
OK, NOT_FOUND = 200, 404


class NotDoneError(Exception):
    """Nothing has happened."""


class Client:
    """Kept connections to the servers."""

    not_done = (NotDoneError,)

    def __init__(self, nodes: dict[str, dict[str, Any]]) -> None:
        self._nodes = nodes
        self._open: dict[str, http.client.HTTPConnection] = {}

    def put(self, node: str, key: str, value: Any) -> None:
        """Set the key."""
        self._set(node, key, value)

    def get(self, node: str, key: str) -> Any:
        """The value of the key; None: there is no such key."""
        return self._held(node, key)[0]

    def cas(self, node: str, key: str, old: Any, value: Any) -> bool:
        """Set the key if it was ``old``, and was not set again since that was read."""
        held, index = self._held(node, key)
        if held != old:
            return False
        if not self._set(node, key, value, f"?cas={index}"):
            raise NotDoneError("the key was set in between")
        return True

    def add(self, node: str, key: str, value: Any) -> None:
        """Set a key of the element's own."""
        self._set(node, f"{key}/{value}", value)

    def read(self, node: str, key: str) -> list[Any]:
        """The elements, by their keys."""
        status, answer = self._ask(node, "GET", f"/v1/kv/{key}/?keys&consistent")
        if status not in (OK, NOT_FOUND):
            raise ValueError(f"{status}: {answer!r}")
        return [json.loads(name.rpartition("/")[2]) for name in json.loads(answer)] if status == OK else []

    def _held(self, node: str, key: str) -> tuple[Any, int]:
        """What the key holds, and the index at which it was set; 0: it is not there."""
        try:
            status, answer = self._ask(node, "GET", f"/v1/kv/{key}?consistent")
        except (OSError, http.client.HTTPException) as error:
            raise NotDoneError(str(error)) from error
        if status == NOT_FOUND:
            return None, 0
        if status != OK:
            raise NotDoneError(f"{status}: {answer!r}")
        (found,) = json.loads(answer)
        return json.loads(base64.b64decode(found["Value"])), found["ModifyIndex"]

    def _set(self, node: str, key: str, value: Any, only: str = "") -> bool:
        """Whether it was done. ValueError: that is not known."""
        status, answer = self._ask(node, "PUT", f"/v1/kv/{key}{only}", json.dumps(value))
        if status != OK:
            raise ValueError(f"{status}: {answer!r}")
        return bool(json.loads(answer))

    def _ask(self, node: str, method: str, path: str, body: str | None = None) -> tuple[int, bytes]:
        """Status and answer. NotDoneError: there is no connection."""
        if node not in self._open:
            place = self._nodes[node]
            connection = http.client.HTTPConnection(place["address"], place["http"], timeout=LIMIT_S)
            try:
                connection.connect()
            except OSError as error:
                raise NotDoneError(str(error)) from error
            self._open[node] = connection
        try:
            self._open[node].request(method, path, body)
            answer = self._open[node].getresponse()
            return answer.status, answer.read()
        except BaseException:
            self._open.pop(node).close()
            raise
