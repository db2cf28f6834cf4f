"""What a node with PostgreSQL and Patroni is: one line of JSON for each line of input.

    python3 status.py NAME ADDRESS REST_PORT ETCD_PORT TRACE_FILE
    python3 status.py settled ADDRESS REST_PORT SYNCHRONOUS    exits with 0 once a standby may take over

Patroni's REST API (``/health``) asks the server for role and timeline in one query, and of a primary both come out of
one number, so they belong together; at a standby the timeline is one that Patroni keeps. Who holds the lease, the etcd
member of this node says, at another moment: a standby may name the new primary while it is on the old timeline. (For
``/cluster`` Patroni asks a majority of etcd; a few such questions that wait occupy all threads of its API.) In the
trace file therefore stands a line for each timeline in which the server was seen to be primary. A server that starts
or stops serves no client, and has the timeline that it had last. Out of scope: whether it is in reach of clients.
"""

from __future__ import annotations

import base64
import http.client
import json
import sys
from typing import Any

LIMIT_S = 0.2
IDLE = ("stopping", "stopped", "starting", "crashed")
LEASE = b"/service/keep/leader"


def asked(address: str, port: int, path: str, given: Any = None) -> Any:
    """The answer to a GET, or to a POST of what is given. Raises OSError, HTTPException or ValueError."""
    connection = http.client.HTTPConnection(address, port, timeout=LIMIT_S)
    try:
        connection.request("GET" if given is None else "POST", path, None if given is None else json.dumps(given))
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def holder(address: str, port: int) -> str | None:
    """Who holds the lease, as far as this member of etcd knows. Raises as ``asked`` does."""
    found = asked(address, port, "/v3/kv/range", {"key": base64.b64encode(LEASE).decode(), "serializable": True})
    return next((base64.b64decode(one["value"]).decode() for one in found.get("kvs", ())), None)


def status(name: str, address: str, rest: int, etcd: int, *, last: int) -> dict[str, Any]:
    """One answer. ``last``: the timeline of the one before; 0: unknown.

    Raises OSError, HTTPException, ValueError or LookupError.
    """
    own = asked(address, rest, "/health")
    if own["state"] in IDLE and "timeline" not in own and last:
        return {"role": own["state"], "timeline": last, "leader": None}
    found = {"role": own["role"], "timeline": own["timeline"], "leader": None}
    if own["role"] == "primary":
        return {**found, "leader": name}
    try:
        return {**found, "leader": holder(address, etcd)}
    except (OSError, http.client.HTTPException, ValueError, LookupError):  # etcd does not answer
        return found


def settled(address: str, rest: str, synchronous: str) -> int:
    """0: there is a primary, and a synchronous standby if only such a one may follow it; 1: not yet."""
    try:
        roles = {member["role"] for member in asked(address, int(rest), "/cluster")["members"]}
    except (OSError, http.client.HTTPException, ValueError, LookupError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return int(not roles >= {"leader", "sync_standby" if synchronous == "true" else "replica"})


def main(name: str, address: str, rest: str, etcd: str, trace: str) -> None:
    """Answer until the input ends."""
    led = last = 0
    for _ in sys.stdin:
        try:
            found = status(name, address, int(rest), int(etcd), last=last)
            last = found["timeline"] or last
            if found["role"] == "primary" and found["timeline"] > led:
                led = found["timeline"]
                with open(trace, "a", encoding="utf-8") as file:  # noqa: PTH123 - it runs alone on a host
                    file.write(json.dumps({"dethrone": 1, "event": "elected", "term": led}) + "\n")
        except (OSError, http.client.HTTPException, ValueError, LookupError) as error:
            found = {"error": str(error)}
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1] == "settled":
        sys.exit(settled(*sys.argv[2:]))
    main(*sys.argv[1:])
