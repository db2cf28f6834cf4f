"""HTTP in front of one server of MongoDB: its state in the replica set, registers and lists, at this server only.

    GET /status              state, term and whom the set follows, of one moment (replSetGetStatus)
    PUT /registers/KEY       done once the write concern is met; GET; and POST [OLD, NEW], which says if it was done
    POST /lists/KEY          append; GET

    bridge.py ADDRESS PORT HTTP WRITE_CONCERN       serves
    bridge.py ADDRESS PORT set-up MEMBERS TIMEOUT   initiates the replica set, unless it is

Guarantees: nothing is sent twice (``retryWrites`` is off); reads are linearizable. A server that is no primary refuses
before it does anything (421); every other error is 504, which is doubt.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LIMIT_MS = 3000
STATUS_LIMIT_MS = 400
NOT_PRIMARY = (10107, 13435)
"""NotWritablePrimary, NotPrimaryNoSecondaryOk (src/mongo/base/error_codes.yml)."""
INITIALIZED = 23


class Server:
    """One server, and no other: it finds no primary."""

    def __init__(self, address: str, port: int, concern: str) -> None:
        import pymongo

        words: dict[str, Any] = {"directConnection": True, "retryWrites": False, "retryReads": False}
        words |= dict.fromkeys(("serverSelectionTimeoutMS", "connectTimeoutMS", "socketTimeoutMS"), LIMIT_MS)
        self.client: Any = pymongo.MongoClient(address, port, **words)
        self._concern: Any = int(concern) if concern.isdecimal() else concern

    def status(self) -> dict[str, Any]:
        """State, term and the member that is primary, as this one knows it."""
        said = self.client.admin.command("replSetGetStatus", maxTimeMS=STATUS_LIMIT_MS)
        names = {one["stateStr"]: one["name"] for one in said["members"]}
        [own] = [one["stateStr"] for one in said["members"] if one.get("self")]
        return {"state": own, "term": said["term"], "primary": names.get("PRIMARY")}

    def find(self, table: str, key: str, absent: Any) -> Any:
        """What a majority has, at the primary."""
        asked = {"find": table, "filter": {"_id": key}, "limit": 1, "readConcern": {"level": "linearizable"}}
        found = self.client.keep.command({**asked, "maxTimeMS": LIMIT_MS})["cursor"]["firstBatch"]
        return found[0]["value"] if found else absent

    def update(self, table: str, chosen: dict[str, Any], change: dict[str, Any], *, upsert: bool) -> int:
        """How many documents were changed or made, once the write concern is met. ValueError: it is not."""
        concern = {"w": self._concern, "j": True, "wtimeout": LIMIT_MS}
        one = {"q": chosen, "u": change, "upsert": upsert}
        done = self.client.keep.command({"update": table, "updates": [one], "writeConcern": concern})
        if "writeConcernError" in done or "writeErrors" in done:
            raise ValueError(str(done.get("writeConcernError") or done["writeErrors"]))
        return int(done["n"])

    def put(self, key: str, value: Any) -> dict[str, Any]:
        """Set the register."""
        return {"changed": self.update("registers", {"_id": key}, {"$set": {"value": value}}, upsert=True)}

    def cas(self, key: str, old: Any, value: Any) -> dict[str, Any]:
        """Whether the register was ``old`` and is ``value`` now."""
        chosen, change = {"_id": key, "value": old}, {"$set": {"value": value}}
        if old is not None:
            return {"done": self.update("registers", chosen, change, upsert=False) == 1}
        if self.find("registers", key, None) is not None:
            return {"done": False}
        return {"done": self.update("registers", chosen, change, upsert=True) == 1}

    def append(self, key: str, value: Any) -> dict[str, Any]:
        """Append to the list."""
        return {"changed": self.update("lists", {"_id": key}, {"$push": {"value": value}}, upsert=True)}


def set_up(server: Server, members: str, timeout_ms: str) -> None:
    """Initiate the replica set, unless it is."""
    import pymongo.errors

    hosts = [{"_id": number, "host": host} for number, host in enumerate(members.split(","))]
    settings = {"electionTimeoutMillis": int(timeout_ms), "heartbeatIntervalMillis": int(timeout_ms) // 2}
    try:
        server.client.admin.command("replSetInitiate", {"_id": "keep", "members": hosts, "settings": settings})
    except pymongo.errors.OperationFailure as error:
        if error.code != INITIALIZED:
            raise


def handler(server: Server) -> type[BaseHTTPRequestHandler]:
    """What answers requests by asking this server."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            _, table, *rest = self.path.split("/")
            absent: Any = [] if table == "lists" else None
            self._answer(server.status if table == "status" else lambda: server.find(table, rest[0], absent))

        def do_PUT(self) -> None:
            key, value = self._sent()
            self._answer(lambda: server.put(key, value))

        def do_POST(self) -> None:
            key, value = self._sent()
            appends = self.path.startswith("/lists/")
            self._answer(lambda: server.append(key, value) if appends else server.cas(key, *value))

        def log_message(self, *_: object) -> None:
            """Nothing: polls would fill the log."""

        def _sent(self) -> tuple[str, Any]:
            return self.path.rpartition("/")[2], json.loads(self.rfile.read(int(self.headers["Content-Length"])))

        def _answer(self, ask: Callable[[], Any]) -> None:
            try:
                code, said = 200, ask()
            except Exception as error:  # noqa: BLE001 - each kind of pymongo's errors is doubt, but one
                known = (getattr(error, "details", None) or {}).get("code")
                code, said = 421 if known in NOT_PRIMARY else 504, repr(error)
            body = json.dumps(said).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


def main(address: str, port: str, what: str, *more: str) -> None:
    """Serve, or set up."""
    if what == "set-up":
        set_up(Server(address, int(port), "majority"), *more)
    else:
        ThreadingHTTPServer((address, int(what)), handler(Server(address, int(port), *more))).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
