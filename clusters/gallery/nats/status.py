"""What the Raft group of the stream is on this server: one line of JSON for each line of input.

    python3 status.py MONITOR_PORT TRACE_FILE

It asks the server's monitor for ``/raftz``, which calls servers by the ids of its own; here they have their names. In
the trace file stands a line for each term that the server was seen to lead: what it says of itself is taken under one
lock, while a follower may still name the leader of an earlier term. Out of scope: the meta group, which places streams,
and a server that holds no replica.
"""

from __future__ import annotations

import http.client
import json
import sys
from typing import Any

LIMIT_S = 0.3
ACCOUNT = "$G"


def asked(port: int) -> Any:
    """The answer. Raises OSError, HTTPException or ValueError."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    try:
        connection.request("GET", f"/raftz?acc={ACCOUNT}")
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def understood(groups: dict[str, Any]) -> dict[str, Any]:
    """The fields that count, of the only stream. LookupError: there is none here."""
    (group,) = [one for name, one in groups[ACCOUNT].items() if name.startswith("S-")]
    names = {peer: one["name"] for peer, one in group["peers"].items()}
    return {
        "state": group["state"],
        "term": group["term"],
        "committed": group["committed"],
        "leader": names.get(group.get("leader", "")),
        "voted_for": names.get(group.get("voted_for", "")),
    }


def main(port: str, trace: str) -> None:
    """Answer until the input ends."""
    led = 0
    for _ in sys.stdin:
        try:
            found = understood(asked(int(port)))
            if found["state"] == "LEADER" and found["term"] > led:
                led = found["term"]
                with open(trace, "a", encoding="utf-8") as file:  # noqa: PTH123 - it runs alone on a host
                    file.write(json.dumps({"dethrone": 1, "event": "elected", "term": led}) + "\n")
        except (OSError, http.client.HTTPException, ValueError, LookupError) as error:
            found = {"error": str(error)}
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
