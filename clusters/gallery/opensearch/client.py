"""Sets and registers in an index of OpenSearch, by HTTP at the node that is asked.

An element is a document of its own, found by a search after a refresh. A register is one document, which is read by its
id and written only if nothing has changed it since (``if_seq_no``, ``if_primary_term``).

Guarantees: a request is sent once. The node that is asked sends it on to the primary, and again to the next one if
that is lost, so a conflict may be with the first attempt: it is doubt, as any other error is. Out of scope: choosing
the copy that answers a read.

    python3 client.py ADDRESS PORT MEMBERS      makes the index, and waits until all its copies are there
"""

from __future__ import annotations

import http.client
import json
import sys
from typing import Any

INDEX = "keep"
COPIES = 3
LIMIT_S = 5
WAITS = "timeout=3s"
"""How long a node looks for the primary."""
ELEMENTS_MAX = 10_000
"""The most that one search shows."""
OK, NOT_FOUND = range(200, 300), 404


class NotDoneError(Exception):
    """Nothing has happened."""


class Client:
    """Kept connections to the nodes."""

    not_done = (NotDoneError,)

    def __init__(self, nodes: dict[str, dict[str, Any]]) -> None:
        self._nodes = nodes
        self._open: dict[str, http.client.HTTPConnection] = {}

    def add(self, node: str, key: str, value: Any) -> None:
        """Store a document, the same if it is stored again."""
        self._done(node, "PUT", f"/{INDEX}/_doc/{key}.{value}?{WAITS}", {"set": key, "value": value})

    def read(self, node: str, key: str) -> list[Any]:
        """All documents of this set, once no copy has any that a search does not see."""
        refreshed = self._done(node, "POST", f"/{INDEX}/_refresh", None)
        asked = {"query": {"term": {"set": key}}, "size": ELEMENTS_MAX, "track_total_hits": True}
        found = self._done(node, "POST", f"/{INDEX}/_search", asked)
        hits = found["hits"]
        if refreshed["_shards"]["failed"] or found["_shards"]["failed"] or hits["total"]["value"] > len(hits["hits"]):
            raise ValueError("not all that the index holds was seen")
        return [hit["_source"]["value"] for hit in hits["hits"]]

    def get(self, node: str, key: str) -> Any:
        """The value of the document, as one of the copies has it."""
        return self._found(node, key)[0]

    def put(self, node: str, key: str, value: Any) -> None:
        """Replace the document that was read just now."""
        self._replace(node, key, value, self._found(node, key)[1])

    def cas(self, node: str, key: str, old: Any, value: Any) -> bool:
        """Replace the document that was read just now, if it holds ``old``.

        That it does not, is no claim about the register: the copy that was read may be old.
        """
        held, only = self._found(node, key)
        if held != old:
            raise NotDoneError("the copy that was read holds something else")
        self._replace(node, key, value, only)
        return True

    def _found(self, node: str, key: str) -> tuple[Any, str]:
        """What the register holds, and the condition that it is still the same document."""
        try:
            status, answer = self._ask(node, "GET", f"/{INDEX}/_doc/{key}", None)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NotDoneError(str(error)) from error
        if status == NOT_FOUND and answer.get("found") is False:
            return None, "op_type=create"
        if status not in OK:
            raise NotDoneError(f"{status}: {answer}")
        return answer["_source"]["value"], f"if_seq_no={answer['_seq_no']}&if_primary_term={answer['_primary_term']}"

    def _replace(self, node: str, key: str, value: Any, only: str) -> None:
        self._done(node, "PUT", f"/{INDEX}/_doc/{key}?{only}&{WAITS}", {"value": value})

    def _done(self, node: str, method: str, path: str, body: Any) -> dict[str, Any]:
        """The answer to what was done. ValueError: it may not have been."""
        status, answer = self._ask(node, method, path, body)
        if status not in OK:
            raise ValueError(f"{status}: {answer}")
        return answer

    def _ask(self, node: str, method: str, path: str, body: Any) -> tuple[int, dict[str, Any]]:
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
            return asked(self._open[node], method, path, body)
        except BaseException:
            self._open.pop(node).close()
            raise


def asked(connection: http.client.HTTPConnection, method: str, path: str, body: Any) -> tuple[int, dict[str, Any]]:
    """Status and answer, of JSON."""
    text = None if body is None else json.dumps(body)
    connection.request(method, path, text, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    return answer.status, dict(json.loads(answer.read()))


def make_index(address: str, port: str, members: str) -> None:
    """Make the index, unless it is there, once all members are; return when all copies are there."""
    connection = http.client.HTTPConnection(address, int(port), timeout=LIMIT_S)
    count = len(members.split(","))
    healthy = f"/_cluster/health?timeout=4s&wait_for_status=green&wait_for_nodes={count}"
    wanted = {
        "settings": {"number_of_shards": 1, "number_of_replicas": min(COPIES, count) - 1},
        "mappings": {"properties": {"set": {"type": "keyword"}, "value": {"type": "object", "enabled": False}}},
    }
    for method, path, body in (("GET", healthy, None), ("PUT", f"/{INDEX}", wanted), ("GET", healthy, None)):
        status, answer = asked(connection, method, path, body)
        if status not in OK and answer.get("error", {}).get("type") != "resource_already_exists_exception":
            raise ValueError(f"{status}: {answer}")


if __name__ == "__main__":
    make_index(*sys.argv[1:])
