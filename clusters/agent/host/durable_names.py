"""Which names of files are durable, and which a loss of power takes back: two models of a file system.

``Journal``, as ext4: changes of names and lengths become durable in their order; a sync of any file or directory does
that for all of them so far. A content that replaced another file by a rename, or by a truncation to nothing and a
close, becomes durable with that, as it is then: ext4 takes care of it.

``Entries``, the least that POSIX says: a sync of a directory makes the names in it durable, as they are when it begins,
and nothing else does. A length is durable with the content of its file, and no content is because of a name. But a
directory is never lost, or in two places, because it moved: once one that was durable has moved, or was removed, a sync
of a directory that has it, or had it, makes the places of all directories durable.

Guarantees: what a loss of power needs lies in the stash of the tree, and nothing else for long. Not thread-safe. Out of
scope: contents (``unsynced``), and who syncs (``volume``).
"""

from __future__ import annotations

import collections
from collections.abc import Mapping
from typing import Any, NamedTuple, Union

from dethrone.clusters.agent.host.file_nodes import FileNode
from dethrone.clusters.agent.host.file_tree import FileTree
from dethrone.clusters.agent.host.unsynced import Unsynced

Place = tuple[FileNode, bytes]
"""A directory, and a name in it."""


class NameMade(NamedTuple):
    """A name appeared."""

    seq: int
    node: FileNode
    place: Place


class NameMoved(NamedTuple):
    """A name became another one. ``flushed``: its content becomes durable with that."""

    seq: int
    node: FileNode
    old: Place
    new: Place
    flushed: bool


class LengthSet(NamedTuple):
    """A length was set."""

    seq: int
    node: FileNode
    changes: Unsynced
    length: int


class ContentFlushed(NamedTuple):
    """The content of a file that was emptied and closed becomes durable."""

    seq: int
    node: FileNode


Change = Union[NameMade, NameMoved, LengthSet, ContentFlushed]  # noqa: UP007 - Python 3.9
"""What a loss of power takes back, each as a whole."""


class Journal:
    """Changes of names and lengths in their order."""

    def __init__(self, tree: FileTree) -> None:
        self._tree = tree
        self._seq = 0
        self._changes: collections.deque[Change] = collections.deque()

    def made(self, node: FileNode, place: Place) -> None:
        """The file has a new name."""
        self._changes.append(NameMade(self._next(), node, place))

    def moved(self, node: FileNode, old: Place, new: Place, *, replaces: bool = False) -> None:
        """A name became another one. ``replaces``: the content of a file took the place of another file's."""
        self._changes.append(NameMoved(self._next(), node, old, new, replaces))

    def length_set(self, node: FileNode, changes: Unsynced, length: int) -> None:
        """The file has another length, other than by a write."""
        self._changes.append(LengthSet(self._next(), node, changes, length))

    def refilled(self, node: FileNode) -> None:
        """The file was truncated to nothing, perhaps written, and closed."""
        self._changes.append(ContentFlushed(self._next(), node))

    def sync_begins(self, _node: FileNode) -> Any:
        """A file or directory is about to be synced; answers what ``sync_ends`` takes."""
        return self._seq

    def sync_ends(self, _node: FileNode, upto: Any, *, durable: bool) -> None:
        """It has been; or it failed."""
        while durable and self._changes and self._changes[0].seq <= upto:
            self._commit(self._changes.popleft())

    def take_back(self) -> tuple[int, list[int]]:
        """Have all names as a loss of power leaves them: how many are not, and of each lost file its bytes."""
        changes = list(reversed(self._changes))
        self._changes.clear()
        return len(changes), [self._undo(change) for change in changes]

    def _next(self) -> int:
        self._seq += 1
        return self._seq

    def _commit(self, change: Change) -> None:
        """This change is durable, as all before it."""
        if isinstance(change, LengthSet):
            self._cut_is_durable(change)
        elif isinstance(change, ContentFlushed):
            self._flush(change.node)
        elif isinstance(change, NameMoved):
            if change.flushed:
                self._flush(change.node)
            if change.new[0] is self._tree.stash:
                self._tree.remove_name(change.node, change.new)
                self._tree.drop(change.node)

    def _undo(self, change: Change) -> int:
        """Take it back; the bytes of a file that is gone with that."""
        if isinstance(change, NameMade):
            return self._tree.remove_name(change.node, change.place)
        if isinstance(change, NameMoved):
            self._tree.move(change.node, change.new, change.old)
        return 0

    @staticmethod
    def _flush(node: FileNode) -> None:
        with node.lock:
            node.syncing = node.changes = None

    @staticmethod
    def _cut_is_durable(change: LengthSet) -> None:
        with change.node.lock:
            changes = change.changes
            while changes.into is not None:
                changes = changes.into
            changes.cut_is_durable(change.length)


class Entries:
    """For each directory the names that are not durable as they are now, with what has the name durably."""

    def __init__(self, tree: FileTree) -> None:
        self._tree = tree
        self._durable: dict[FileNode, dict[bytes, FileNode | None]] = {}
        self._held: collections.Counter[FileNode] = collections.Counter()
        """How often a file is in these."""
        self._fresh: set[FileNode] = set()
        """Directories that were never durable."""
        self._loose: set[FileNode] = set()
        """Files that have lost a name, now or durably: perhaps nothing needs them any more."""
        self._syncs = 0

    def made(self, node: FileNode, place: Place) -> None:
        """The file has a new name."""
        if node.is_directory:
            self._fresh.add(node)
        self._changed(place, None, node)

    def moved(self, node: FileNode, old: Place, new: Place, *, replaces: bool = False) -> None:
        """A name became another one. ``replaces``: the content of a file took the place of another file's."""
        del replaces
        self._changed(old, node, None)
        if new[0] is self._tree.stash:
            self._loose.add(node)
        else:
            self._changed(new, None, node)
        self._sweep()

    def length_set(self, node: FileNode, changes: Unsynced, length: int) -> None:
        """The file has another length, other than by a write."""

    def refilled(self, node: FileNode) -> None:
        """The file was truncated to nothing, perhaps written, and closed."""

    def sync_begins(self, node: FileNode) -> Any:
        """A file or directory is about to be synced; answers what ``sync_ends`` takes."""
        self._syncs += 1
        return {name: self._tree.find(node, name) for name in self._durable.get(node, ())}

    def sync_ends(self, node: FileNode, seen: Any, *, durable: bool) -> None:
        """It has been; or it failed."""
        self._syncs -= 1
        if durable:
            self._settle(node, seen)
        self._sweep()

    def take_back(self) -> tuple[int, list[int]]:
        """Have all names as a loss of power leaves them: how many are not, and of each lost file its bytes."""
        tree = self._tree
        differ = [(place, name, node) for place, names in self._durable.items() for name, node in names.items()]
        for directory, name, _ in differ:
            present = tree.find(directory, name)
            if present is not None:
                tree.move(present, (directory, name), tree.stash_place())
        waiting = differ
        while True:  # what is put back may be the directory of what is put back next
            ready = [one for one in waiting if not tree.in_stash(one[0])]
            waiting = [one for one in waiting if tree.in_stash(one[0])]
            for directory, name, node in ready:
                self._put_back(node, (directory, name))
            if not ready:
                break
        for known in (self._durable, self._held, self._fresh, self._loose):
            known.clear()
        return len(differ), tree.empty_stash()

    def _put_back(self, node: FileNode | None, place: Place) -> None:
        if node is not None and node.is_directory:
            self._tree.move(node, node.places[0], place)
        elif node is not None:
            self._tree.link(node, place)

    def _changed(self, place: Place, before: FileNode | None, after: FileNode | None) -> None:
        """A name belongs to another file than before, or to none."""
        directory, name = place
        self._set(place, self._durable.get(directory, {}).get(name, before), after)

    def _settle(self, directory: FileNode, seen: Mapping[bytes, FileNode | None]) -> None:
        """These names in the directory are durable."""
        skeleton = False
        for name, node in seen.items():
            now = self._tree.find(directory, name)
            before = self._durable.get(directory, {}).get(name, now)
            if before is not node:
                skeleton = skeleton or self._was_durable(before) or self._was_durable(node)
                self._set((directory, name), node, now)
        if skeleton:
            self._settle_directories()

    def _settle_directories(self) -> None:
        """All directories are durable where they are now."""
        for directory, names in list(self._durable.items()):
            for name, node in list(names.items()):
                now = self._tree.find(directory, name)
                there = now if now is not None and now.is_directory else None
                if there is not None or (node is not None and node.is_directory):
                    self._set((directory, name), there, now)

    def _was_durable(self, node: FileNode | None) -> bool:
        """Whether it is a directory that once was durable, so that it must stay somewhere."""
        return node is not None and node.is_directory and node not in self._fresh

    def _set(self, place: Place, durable: FileNode | None, now: FileNode | None) -> None:
        """Durably the name belongs to this file, now to that one."""
        directory, name = place
        names = self._durable.setdefault(directory, {})
        self._release(names.pop(name, None))
        if durable is not now:
            names[name] = durable
            if durable is not None:
                self._held[durable] += 1
        if durable is not None:
            self._fresh.discard(durable)
        if not names:
            del self._durable[directory]

    def _release(self, node: FileNode | None) -> None:
        if node is not None:
            self._held[node] -= 1
            self._loose.add(node)

    def _sweep(self) -> None:
        """Remove for good what has no name, now or durably. A sync under way may make one durable that is gone now."""
        while self._loose and not self._syncs:
            node = self._loose.pop()
            if self._held[node] > 0:
                continue
            del self._held[node]
            for place in [place for place in node.places if place[0] is self._tree.stash]:
                self._tree.remove_name(node, place)
                for name in list(self._durable.get(node, ())):
                    self._set((node, name), None, None)
                self._fresh.discard(node)
            self._tree.drop(node)


Names = Union[Journal, Entries]  # noqa: UP007 - Python 3.9
MODELS: Mapping[str, type[Names]] = {"journal": Journal, "posix": Entries}
"""Name of a model → what keeps it."""
