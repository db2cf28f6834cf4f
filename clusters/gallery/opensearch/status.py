"""What a node believes of its cluster: one line of JSON for each line of input.

    python3 status.py NAME ADDRESS PORT [MANAGER]

It asks the node for the cluster state that it holds itself (``local=true``), one immutable object: its cluster manager
published it in its term. A node says nothing before it holds a state, and none in which the index has a primary: it
has just started, or the cluster has. MANAGER is what the cluster calls its manager: ``cluster_manager`` [OpenSearch] or
``master`` (Elasticsearch). Out of scope: the term of an election of which no state was published.
"""

from __future__ import annotations

import http.client
import json
import sys
from typing import Any

LIMIT_S = 0.4
INDEX = "keep"
PATH = (
    "/_cluster/state/{manager}_node,nodes,metadata?local=true"
    "&filter_path={manager}_node,nodes.*.name,metadata.cluster_coordination.term,"
    "metadata.indices.*.in_sync_allocations"
)
MANAGER = "cluster_manager"


class Node:
    """One node, over a kept connection."""

    def __init__(self, address: str, port: int, manager: str = MANAGER) -> None:
        self._path = PATH.format(manager=manager)
        self._connection = http.client.HTTPConnection(address, port, timeout=LIMIT_S)

    def state(self) -> dict[str, Any]:
        """The cluster state. Raises OSError, HTTPException or ValueError."""
        try:
            self._connection.request("GET", self._path)
            return dict(json.loads(self._connection.getresponse().read()))
        except BaseException:
            self._connection.close()
            raise


def understood(state: dict[str, Any], own: str, called: str = MANAGER) -> dict[str, Any]:
    """The fields that count. LookupError: the node holds no state with an index in use yet."""
    metadata = state["metadata"]
    if not all(metadata["indices"][INDEX]["in_sync_allocations"].values()):
        raise LookupError("no copy of the index is in use yet")
    manager = state.get(f"{called}_node")
    name = None if manager is None else state["nodes"][manager]["name"]
    role = "cluster_manager" if name == own else "member"
    return {"role": role, "term": metadata["cluster_coordination"]["term"], "cluster_manager": name}


def main(own: str, address: str, port: str, manager: str = MANAGER) -> None:
    """Answer until the input ends."""
    node = Node(address, int(port), manager)
    for _ in sys.stdin:
        try:
            found = understood(node.state(), own, manager)
        except (OSError, http.client.HTTPException, ValueError, LookupError) as error:
            found = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
