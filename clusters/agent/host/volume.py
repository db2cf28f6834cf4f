"""A directory whose files can lose what was not synced: everything is written through, and can be taken back.

Names, lengths and content are what the directory's own file system holds at any moment, so a volume whose process is
killed has lost nothing. What a loss of power would take is remembered next to it: per file (``unsynced``), and for
names and lengths as one of two models says (``durable_names``). Content is durable as it was when its file was synced.

Guarantees: thread-safe; a file that replaced another one is there at any moment; what is removed lies in a directory of
ours until that is durable (``file_tree``). Modes, owners and times are never taken back. Out of scope: who asks
(``fuse_server``), extended attributes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
from collections.abc import Iterator
from typing import Any

from dethrone.clusters.agent.host.durable_names import MODELS, Place
from dethrone.clusters.agent.host.file_nodes import FileNode
from dethrone.clusters.agent.host.file_tree import STASH, FileTree, readable
from dethrone.clusters.agent.host.unsynced import Unsynced


class Volume:
    """See the module. ``root``: an open directory, which stays reachable when something is mounted over it.

    ``model``: a name of ``MODELS``, which says what syncs make durable.
    """

    def __init__(self, root: int, model: str) -> None:
        self._lock = threading.RLock()
        self.off = False
        """The power is off: nothing is written any more."""
        self.tree = FileTree(root)
        self.model = model
        self._names = MODELS[model](self.tree)

    # --- names ----------------------------------------------------------------------------------------------------

    def lookup(self, parent: FileNode, name: bytes) -> tuple[FileNode, os.stat_result]:
        """The file of this name. Raises OSError."""
        with self._lock:
            return self.tree.lookup(parent, name)

    def create(
        self, parent: FileNode, name: bytes, flags: int, mode: int, owner: tuple[int, int]
    ) -> tuple[FileNode, os.stat_result, int]:
        """Make a file and open it; or open the one that is there, unless O_EXCL says otherwise. Raises OSError."""
        with self._lock:
            self._check_power()
            path = self.tree.below(parent, name)
            flags = readable(flags) | os.O_NOFOLLOW
            try:
                fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, mode, dir_fd=self.tree.fd)
            except FileExistsError:
                if flags & os.O_EXCL:
                    raise
                node, seen = self.lookup(parent, name)
                return node, seen, self.open(node, flags)
            self._own(fd, owner)
            seen = os.fstat(fd)
            node = self.tree.known(seen, parent, name)
            node.changes = Unsynced(0)
            node.fds.add(fd)
            self._names.made(node, (parent, name))
            return node, seen, fd

    def make(
        self, parent: FileNode, name: bytes, mode: int, owner: tuple[int, int], *, target: bytes | None = None
    ) -> tuple[FileNode, os.stat_result]:
        """Make a directory, a link (``target``), a socket, a pipe or an empty file. Raises OSError."""
        with self._lock:
            self._check_power()
            path = self.tree.below(parent, name)
            if target is not None:
                os.symlink(target, path, dir_fd=self.tree.fd)
            elif stat.S_ISDIR(mode):
                os.mkdir(path, stat.S_IMODE(mode), dir_fd=self.tree.fd)
            elif stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
                raise OSError(errno.EPERM, "devices are not made here")
            else:
                os.mknod(path, mode, dir_fd=self.tree.fd)
            if owner != (os.geteuid(), os.getegid()):
                os.chown(path, *owner, dir_fd=self.tree.fd, follow_symlinks=False)
            seen = os.stat(path, dir_fd=self.tree.fd, follow_symlinks=False)
            node = self.tree.known(seen, parent, name)
            if stat.S_ISREG(mode):
                node.changes = Unsynced(0)
            self._names.made(node, (parent, name))
            return node, seen

    def link(self, node: FileNode, parent: FileNode, name: bytes) -> tuple[FileNode, os.stat_result]:
        """Give the file another name. Raises OSError."""
        with self._lock:
            self._check_power()
            self.tree.link(node, (parent, name))
            self._names.made(node, (parent, name))
            return self.tree.lookup(parent, name)

    def unlink(self, parent: FileNode, name: bytes) -> None:
        """Take a name away: a file's, or that of an empty directory. Raises OSError."""
        with self._lock:
            self._check_power()
            node, _ = self.lookup(parent, name)
            if node.is_directory and os.listdir(self.tree.visible(node)):
                raise OSError(errno.ENOTEMPTY, "the directory is not empty")
            self._move(node, (parent, name), self.tree.stash_place())

    def rename(self, parent: FileNode, name: bytes, new_parent: FileNode, new_name: bytes, *, replace: bool) -> None:
        """Rename, in one step; what had the new name is gone if ``replace``. Raises OSError."""
        with self._lock:
            self._check_power()
            node, _ = self.lookup(parent, name)
            other = self.tree.find(new_parent, new_name)
            old, new = (parent, name), (new_parent, new_name)
            if other is not None and not replace:
                raise FileExistsError(errno.EEXIST, "the name is taken")
            if other is node:
                return
            if other is not None and other.is_directory and not node.is_directory:
                raise IsADirectoryError(errno.EISDIR, "a directory has the name")
            if other is not None and node.is_directory and not other.is_directory:
                raise NotADirectoryError(errno.ENOTDIR, "a file has the name")
            if other is None:
                self._move(node, old, new)
            elif other.is_directory:
                self.unlink(*new)
                self._move(node, old, new)
            else:
                self._replace(other, node, old, new)

    def _replace(self, other: FileNode, node: FileNode, old: Place, new: Place) -> None:
        """Rename a file over another one, which lies in the stash before it has lost its name."""
        kept = self.tree.stash_place()
        self.tree.link(other, kept)
        try:
            self.tree.move(node, old, new)
        except OSError:
            self.tree.remove_name(other, kept)
            raise
        other.places.remove(new)
        self._names.moved(other, new, kept)
        self._names.moved(node, old, new, replaces=stat.S_ISREG(self.status(node).st_mode))

    def entries(self, node: FileNode) -> list[tuple[int, int, bytes]]:
        """(inode number, kind, name) of all that a directory holds. Raises OSError."""
        with self._lock, os.scandir(self.tree.visible(node)) as found:
            listed = [
                (one.inode(), stat.S_IFMT(one.stat(follow_symlinks=False).st_mode) >> 12, one.name) for one in found
            ]
        if node is self.tree.root:
            listed = [one for one in listed if one[2] != STASH]
        return [(node.ino, 4, b"."), (node.ino, 4, b".."), *sorted(listed, key=lambda one: one[2])]

    # --- files ----------------------------------------------------------------------------------------------------

    def open(self, node: FileNode, flags: int) -> int:
        """Open a file, so that it can be read even if it is to be written. Raises OSError."""
        with self._lock:
            fd = self.tree.open(node, flags)
            node.fds.add(fd)
            return fd

    def close(self, node: FileNode, fd: int) -> None:
        """Close it."""
        with self._lock:
            if node.emptied:
                node.emptied = False
                self._names.refilled(node)
            node.fds.discard(fd)
            os.close(fd)
            self.tree.drop(node)

    def write(self, node: FileNode, fd: int, at: int, data: Any) -> int:
        """Write; returns the length. Raises OSError."""
        with node.lock:
            if self.off:
                raise OSError(errno.EIO, "the power is off")
            changes = node.changes
            if changes is None:
                changes = node.changes = Unsynced(os.fstat(fd).st_size)
            changes.writing(at, len(data), lambda start, length: os.pread(fd, length, start))
            done = os.pwrite(fd, data, at)
            while done < len(data):
                done += os.pwrite(fd, data[done:], at + done)
            return done

    def cut(self, node: FileNode, length: int) -> None:
        """Set the length of a file. Raises OSError."""
        with self._lock, self.tree.opened(node) as fd, node.lock:
            self._check_power()
            before = os.fstat(fd).st_size
            changes = node.forgotten(before)
            changes.cutting(length, lambda start, count: os.pread(fd, count, start))
            os.ftruncate(fd, length)
            node.emptied = node.emptied or (length == 0 and before > 0)
            if length != before:
                self._names.length_set(node, changes, length)

    def allocate(self, node: FileNode, fd: int, at: int, length: int) -> None:
        """Reserve blocks, and make the file longer if it is too short. Raises OSError."""
        with self._lock, node.lock:
            self._check_power()
            before = os.fstat(fd).st_size
            changes = node.forgotten(before)
            os.posix_fallocate(fd, at, length)
            if at + length > before:
                self._names.length_set(node, changes, at + length)

    def sync(self, node: FileNode, fd: int, *, data_only: bool = False) -> None:
        """Make a file durable, and what else its model makes durable with that. Raises OSError."""
        with self._syncing(node):
            (os.fdatasync if data_only else os.fsync)(fd)

    def sync_names(self, node: FileNode) -> None:
        """Make a directory durable, and what else its model makes durable with that. Raises OSError."""
        with self._lock:
            self._check_power()
            fd = os.open(self.tree.visible(node), os.O_RDONLY | os.O_DIRECTORY)
        try:
            with self._syncing(node):
                os.fsync(fd)
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def _syncing(self, node: FileNode) -> Iterator[None]:
        """What is unsynced as it begins is durable after it, unless it fails or power is lost meanwhile."""
        with node.turn:
            with self._lock:
                self._check_power()
                seen = self._names.sync_begins(node)
                with node.lock:
                    node.syncing, node.changes = node.changes, None
            done = False
            try:
                yield
                done = True
            finally:
                with self._lock:
                    durable = done and not self.off
                    with node.lock:
                        node.sync_ends(durable=durable)
                    self._names.sync_ends(node, seen, durable=durable)
            self._check_power()

    def status(self, node: FileNode) -> os.stat_result:
        """What stat says. Raises OSError."""
        with self._lock:
            what, more = self.target(node)
            return os.stat(what, **more)

    def target(self, node: FileNode) -> tuple[Any, dict[str, Any]]:
        """What functions that change a mode, owner or time take for this file."""
        for fd in node.fds:
            return fd, {}
        return self.tree.path(node), {"dir_fd": self.tree.fd, "follow_symlinks": False}

    def remember(self, node: FileNode) -> None:
        """A client knows this file."""
        with self._lock:
            node.lookups += 1

    def forget(self, ident: int, lookups: int) -> None:
        """A client no longer knows this file."""
        with self._lock:
            node = self.tree.nodes.get(ident)
            if node is not None:
                node.lookups -= lookups
                self.tree.drop(node)

    # --- loss of power --------------------------------------------------------------------------------------------

    def lose_power(self, torn: Any = None) -> dict[str, Any]:
        """Take everything back that was not synced; nothing can be written afterwards. Raises OSError.

        ``torn``: (length of a file's first unsynced write) → the bytes of it that survive.
        """
        with self._lock:
            self.off = True
            names, gone = self._names.take_back()
            torn_bytes = 0
            for node in list(self.tree.nodes.values()):
                with node.lock:
                    node.sync_ends(durable=False)
                    changes, node.changes = node.changes, None
                    if changes is None or not self.tree.exists(node):
                        continue
                    size, survived = self._revert(node, changes, torn)
                gone.append(size)
                torn_bytes += survived
            self.tree.clear_stash()
            lost = {"names": names, "files": sum(map(bool, gone)), "bytes": sum(gone), "torn_bytes": torn_bytes}
            return {"model": self.model, **lost}

    def _revert(self, node: FileNode, changes: Unsynced, torn: Any) -> tuple[int, int]:
        """Bytes that were taken back, and bytes of a torn write that were not."""
        fd = self.tree.open(node, os.O_RDWR)
        try:
            present = os.fstat(fd).st_size
            part = b""
            if torn is not None and changes.first is not None:
                at, length = changes.first
                part = os.pread(fd, torn(length), at)
            lost = max(0, present - changes.size)
            os.ftruncate(fd, min(present, changes.size))
            for start, data in changes.synced():
                os.pwrite(fd, data, start)
                lost += len(data)
            os.ftruncate(fd, changes.size)
            if part:
                os.pwrite(fd, part, at)
        finally:
            os.close(fd)
        return lost, len(part)

    # --- small parts ----------------------------------------------------------------------------------------------

    def _move(self, node: FileNode, old: Place, new: Place) -> None:
        self.tree.move(node, old, new)
        self._names.moved(node, old, new)

    @staticmethod
    def _own(fd: int, owner: tuple[int, int]) -> None:
        if owner != (os.geteuid(), os.getegid()):
            os.fchown(fd, *owner)

    def _check_power(self) -> None:
        if self.off:
            raise OSError(errno.EIO, "the power is off")
