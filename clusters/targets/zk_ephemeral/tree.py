"""The coordination service's durable content: a tree of nodes and the list of sessions, as records on disk.

Guarantees: `apply` is the only way in which the content changes, live and at a restart alike, so that a replayed file
gives the same tree. Out of scope: watches and ages of sessions: they are memory.

Source: docs/sources.md, zk-ephemeral: ZooKeeper's programmer's guide.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dethrone.clusters.targets.kit.files import Unreadable, file_of, record, split
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.machine import DiskImage

TREE = "tree"


class Started(msgspec.Struct, frozen=True, gc=False, tag="started"):
    """The service started for the ``start``-th time."""

    start: int


class Opened(msgspec.Struct, frozen=True, gc=False, tag="opened"):
    """A session of node ``client``."""

    session: int
    client: str
    timeout_ns: Ns
    nonce: int


class Ended(msgspec.Struct, frozen=True, gc=False, tag="ended"):
    """A session ended; its ephemeral nodes end with it."""

    session: int
    why: str


class Stored(msgspec.Struct, frozen=True, gc=False, tag="stored"):
    """A node was created or changed by call ``xid`` of ``session``."""

    path: str
    data: Any
    version: int
    owner: int
    session: int
    xid: int


class Removed(msgspec.Struct, frozen=True, gc=False, tag="removed"):
    """A node was deleted by a call."""

    path: str
    session: int
    xid: int


Change = Started | Opened | Ended | Stored | Removed

_ENCODE = msgspec.json.Encoder().encode
_DECODER = msgspec.json.Decoder(Change)


class Znode(msgspec.Struct, gc=False):
    """One node of the tree. ``owner``: the session of an ephemeral node, 0 for a persistent one."""

    data: Any
    version: int
    owner: int


class Known(msgspec.Struct):
    """One session as stored; ``xid``: the last call that changed something."""

    client: str
    timeout_ns: Ns
    nonce: int
    xid: int = 0


class Tree:
    """Nodes and sessions."""

    def __init__(self) -> None:
        self.nodes: dict[str, Znode] = {}
        self.sessions: dict[int, Known] = {}
        self.session_last = 0
        self.starts = 0

    def apply(self, change: Change) -> list[str]:
        """Carry out one change; the paths of nodes that went with it (the end of a session)."""
        if isinstance(change, Stored):
            self.nodes[change.path] = Znode(change.data, change.version, change.owner)
            self._touched(change.session, change.xid)
        elif isinstance(change, Removed):
            self.nodes.pop(change.path, None)
            self._touched(change.session, change.xid)
        elif isinstance(change, Opened):
            self.session_last = max(self.session_last, change.session)
            self.sessions[change.session] = Known(change.client, change.timeout_ns, change.nonce)
        elif isinstance(change, Ended):
            self.sessions.pop(change.session, None)
            gone = self.owned(change.session)
            for path in gone:
                del self.nodes[path]
            return gone
        else:
            self.starts = max(self.starts, change.start)
        return []

    def owned(self, session: int) -> list[str]:
        """The ephemeral nodes of a session."""
        return [path for path, node in self.nodes.items() if node.owner == session]

    def _touched(self, session: int, xid: int) -> None:
        known = self.sessions.get(session)
        if known is not None:
            known.xid = max(known.xid, xid)


def encode(changes: list[Change]) -> bytes:
    """Records for these changes."""
    return b"".join(record(_ENCODE(change)) for change in changes)


def load(disk: DiskImage) -> tuple[Tree, int, bool]:
    """The stored tree, where its file ends, and whether a torn tail follows. Raises `Unreadable`."""
    tree = Tree()
    content = file_of(disk, TREE)
    if content is None:
        return tree, 0, False
    bodies, torn = split(content, path=TREE)
    end = 0
    for body, end_of_record in bodies:
        try:
            tree.apply(_DECODER.decode(body))
        except msgspec.DecodeError as error:
            raise Unreadable(f"{TREE}: {error}") from error
        end = end_of_record
    return tree, end, torn
