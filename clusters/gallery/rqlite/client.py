"""Registers and sets in two tables of rqlite, over HTTP at the node that is asked, which forwards to the leader.

Guarantees: a statement is sent once; reads are ``strong``: they go through the log. Out of scope: errors
after which nothing can happen: each is doubt.

    python3 client.py ADDRESS PORT      makes the tables
"""

from __future__ import annotations

import http.client
import json
import sys
from typing import Any

LIMIT_S = 5
OK = 200
TABLES = (
    "CREATE TABLE IF NOT EXISTS registers (name TEXT PRIMARY KEY, value TEXT)",
    "CREATE TABLE IF NOT EXISTS elements (name TEXT, value TEXT, PRIMARY KEY (name, value))",
)
PUT = "INSERT INTO registers VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
CREATE = "INSERT INTO registers VALUES (?, ?) ON CONFLICT DO NOTHING"
REPLACE = "UPDATE registers SET value = ?2 WHERE name = ?1 AND value = ?3"
GET = "SELECT value FROM registers WHERE name = ?"
ADD = "INSERT INTO elements VALUES (?, ?) ON CONFLICT DO NOTHING"
READ = "SELECT value FROM elements WHERE name = ?"


class NotDoneError(Exception):
    """Nothing has happened."""


class Client:
    """Kept connections to the nodes."""

    not_done = (NotDoneError,)

    def __init__(self, nodes: dict[str, dict[str, Any]]) -> None:
        self._nodes = nodes
        self._open: dict[str, http.client.HTTPConnection] = {}

    def put(self, node: str, key: str, value: Any) -> None:
        """Set the register."""
        self._changed(node, PUT, key, json.dumps(value))

    def get(self, node: str, key: str) -> Any:
        """The register; None: it was never set."""
        return next(iter(self._rows(node, GET, key)), None)

    def cas(self, node: str, key: str, old: Any, value: Any) -> bool:
        """Whether one row was changed, or made where there was none."""
        if old is None:
            return self._changed(node, CREATE, key, json.dumps(value)) == 1
        return self._changed(node, REPLACE, key, json.dumps(value), json.dumps(old)) == 1

    def add(self, node: str, key: str, value: Any) -> None:
        """Add an element."""
        self._changed(node, ADD, key, json.dumps(value))

    def read(self, node: str, key: str) -> list[Any]:
        """All elements."""
        return self._rows(node, READ, key)

    def _changed(self, node: str, *statement: Any) -> int:
        """How many rows were changed. ValueError: that is not known."""
        return int(self._result(node, "/db/execute", statement).get("rows_affected", 0))

    def _rows(self, node: str, *statement: Any) -> list[Any]:
        """The first column of what was found."""
        found = self._result(node, "/db/query?level=strong", statement)
        return [json.loads(row[0]) for row in found.get("values", [])]

    def _result(self, node: str, path: str, statement: tuple[Any, ...]) -> dict[str, Any]:
        if node not in self._open:
            place = self._nodes[node]
            connection = http.client.HTTPConnection(place["address"], place["http"], timeout=LIMIT_S)
            try:
                connection.connect()
            except OSError as error:
                raise NotDoneError(str(error)) from error
            self._open[node] = connection
        try:
            return result(self._open[node], path, statement)
        except BaseException:
            self._open.pop(node).close()
            raise


def result(connection: http.client.HTTPConnection, path: str, *statements: tuple[Any, ...]) -> dict[str, Any]:
    """What came of the last one. ValueError: the node says that there was an error, which is also said with a 200."""
    connection.request("POST", path, json.dumps(statements), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != OK:
        raise ValueError(f"{answer.status}: {body!r}")
    results = json.loads(body)["results"]
    if errors := [one["error"] for one in results if "error" in one]:
        raise ValueError(errors[0])
    return dict(results[-1])


if __name__ == "__main__":
    own, port = sys.argv[1:]
    result(http.client.HTTPConnection(own, int(port), timeout=LIMIT_S), "/db/execute", *((one,) for one in TABLES))
