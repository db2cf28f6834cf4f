"""What a node with PostgreSQL and Patroni is: one line of JSON for each line of input.

    python3 status.py NAME ADDRESS PORT TRACE_FILE

It asks Patroni's REST API. ``/health`` asks the server for role and timeline in one query, and of a primary both come
out of one number, so they belong together; at a standby the timeline is one that Patroni keeps. ``/cluster`` reads in
etcd, at another moment, whose lease holds: a standby may name the new primary while it is on the old timeline. In the
trace file therefore stands a line for each timeline in which the server was seen to be primary. Out of scope: whether
the server is in reach of clients.
"""

from __future__ import annotations

import http.client
import json
import sys
import time
from typing import Any

LIMIT_S = 0.4


def asked(address: str, port: int, path: str, *, deadline: float) -> Any:
    """The answer. Raises OSError, HTTPException or ValueError."""
    connection = http.client.HTTPConnection(address, port, timeout=max(0.01, deadline - time.monotonic()))
    try:
        connection.request("GET", path)
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def leader_in(cluster: dict[str, Any]) -> str | None:
    """Who holds the lease."""
    return next((one["name"] for one in cluster["members"] if one["role"] == "leader"), None)


def status(name: str, address: str, port: int) -> dict[str, Any]:
    """One answer. Raises OSError, HTTPException, ValueError or LookupError."""
    deadline = time.monotonic() + LIMIT_S
    own = asked(address, port, "/health", deadline=deadline)
    found = {"role": own["role"], "timeline": own["timeline"], "state": own["state"], "leader": None}
    if own["role"] == "primary":
        return {**found, "leader": name}
    try:
        return {**found, "leader": leader_in(asked(address, port, "/cluster", deadline=deadline))}
    except (OSError, http.client.HTTPException, ValueError, LookupError):  # etcd does not answer
        return found


def main(name: str, address: str, port: str, trace: str) -> None:
    """Answer until the input ends."""
    led = 0
    for _ in sys.stdin:
        try:
            found = status(name, address, int(port))
            if found["role"] == "primary" and found["timeline"] > led:
                led = found["timeline"]
                with open(trace, "a", encoding="utf-8") as file:  # noqa: PTH123 - it runs alone on a host
                    file.write(json.dumps({"dethrone": 1, "event": "elected", "term": led}) + "\n")
        except (OSError, http.client.HTTPException, ValueError, LookupError) as error:
            found = {"error": str(error)}
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
