"""What the Raft group of the stream is on this server: one line of JSON for each line of input.

    python3 status.py NAME MONITOR_PORT TRACE_FILE

It asks the server's monitor for ``/raftz``, which calls servers by ids, and has a name for all but its own. The
version is what ``/varz`` of the same process says, asked once: this program ends with it. In the trace file stands a
line for each term that the server was seen to lead: what it says of itself is taken under one lock, while a follower
may still name the leader of an earlier term. Out of scope: the meta group, which places streams, and a server that
holds no replica.
"""

from __future__ import annotations

import http.client
import json
import sys
from typing import Any

LIMIT_S = 0.3
ACCOUNT = "$G"


def asked(port: int, path: str) -> Any:
    """The answer. Raises OSError, HTTPException or ValueError."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    try:
        connection.request("GET", path)
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def understood(groups: dict[str, Any], own: str) -> dict[str, Any]:
    """The fields that count, of the only stream. LookupError: there is none here."""
    (group,) = [one for name, one in groups[ACCOUNT].items() if name.startswith("S-")]
    names = {group["id"]: own, **{peer: one["name"] for peer, one in group["peers"].items()}}
    return {
        "state": group["state"],
        "term": group["term"],
        "committed": group["committed"],
        "leader": names.get(group.get("leader", "")),
        "voted_for": names.get(group.get("voted_for", "")),
    }


def main(own: str, port: str, trace: str) -> None:
    """Answer until the input ends."""
    led, version = 0, None
    for _ in sys.stdin:
        try:
            version = version or asked(int(port), "/varz")["version"]
            found = {**understood(asked(int(port), f"/raftz?acc={ACCOUNT}"), own), "version": version}
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
