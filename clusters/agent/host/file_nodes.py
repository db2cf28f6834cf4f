"""Files of a ``Volume``, and the changes of names and lengths that are not durable yet, in the order of its journal.

Out of scope: what makes a change, and what makes it durable (``volume``).
"""

from __future__ import annotations

import threading
from typing import Union

from dethrone.clusters.agent.host.unsynced import Unsynced


class FileNode:
    """One file or directory. ``places``: (its directory, its name), several with hard links, none once removed."""

    __slots__ = ("changes", "emptied", "fds", "ident", "ino", "lock", "lookups", "places", "syncing", "turn")

    def __init__(self, ident: int, ino: int) -> None:
        self.ident = ident
        self.ino = ino
        self.places: list[tuple[FileNode, bytes]] = []
        self.fds: set[int] = set()
        self.lookups = 0
        self.lock = threading.Lock()
        self.turn = threading.Lock()
        """Held during a sync: one at a time."""
        self.changes: Unsynced | None = None
        self.syncing: Unsynced | None = None
        """Changes that a sync under way is about to make durable."""
        self.emptied = False
        """It was truncated to nothing, and not closed since."""

    def forgotten(self, length: int) -> Unsynced:
        """The changes that a loss of power takes back; begun if there are none yet. ``length``: the present one."""
        if self.changes is None:
            self.changes = Unsynced(length)
        return self.changes


class NameMade:
    """A name appeared."""

    __slots__ = ("name", "node", "parent", "seq")

    def __init__(self, node: FileNode, parent: FileNode, name: bytes) -> None:
        self.seq, self.node, self.parent, self.name = 0, node, parent, name


class NameMoved:
    """A name became another one. ``flushed``: its content becomes durable with that."""

    __slots__ = ("flushed", "new", "node", "old", "seq")

    def __init__(
        self, node: FileNode, old: tuple[FileNode, bytes], new: tuple[FileNode, bytes], *, flushed: bool = False
    ) -> None:
        self.seq, self.node, self.old, self.new, self.flushed = 0, node, old, new, flushed


class LengthSet:
    """A length was set."""

    __slots__ = ("changes", "length", "node", "seq")

    def __init__(self, node: FileNode, changes: Unsynced, length: int) -> None:
        self.seq, self.node, self.changes, self.length = 0, node, changes, length


class ContentFlushed:
    """The content of a file that was emptied and closed becomes durable."""

    __slots__ = ("node", "seq")

    def __init__(self, node: FileNode) -> None:
        self.seq, self.node = 0, node


Change = Union[NameMade, NameMoved, LengthSet, ContentFlushed]  # noqa: UP007 - Python 3.9
"""What a loss of power takes back, each as a whole."""


def replace_place(node: FileNode, old: tuple[FileNode, bytes], new: tuple[FileNode, bytes]) -> None:
    """A name of the file became another one."""
    node.places[node.places.index(old)] = new
