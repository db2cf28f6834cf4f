"""Files of a ``Volume``: which names they have now, and what of their content is not durable yet.

Out of scope: where they lie (``file_tree``), and what makes anything durable (``volume``, ``durable_names``).
"""

from __future__ import annotations

import threading

from dethrone.clusters.agent.host.unsynced import Unsynced


class FileNode:
    """One file or directory. ``places``: (its directory, its name), several with hard links, none once removed."""

    __slots__ = (
        *("changes", "emptied", "fds", "ident", "ino", "is_directory", "lock", "lookups", "places"),
        *("syncing", "turn"),
    )

    def __init__(self, ident: int, ino: int, *, is_directory: bool) -> None:
        self.ident = ident
        self.ino = ino
        self.is_directory = is_directory
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

    def sync_ends(self, *, durable: bool) -> None:
        """What was to be durable with it is; or it is unsynced again."""
        older, self.syncing = self.syncing, None
        if older is not None and not durable:
            self.changes = older if self.changes is None else older.merged(self.changes)

    def moved(self, old: tuple[FileNode, bytes], new: tuple[FileNode, bytes]) -> None:
        """A name of it became another one."""
        self.places[self.places.index(old)] = new
