"""A directory whose files can lose what was not synced: everything is written through, and can be taken back.

Names, lengths and content are what the directory's own file system holds at any moment, so a volume whose process is
killed has lost nothing. What a loss of power would take is remembered next to it: per file (``unsynced``), and for
names a journal of changes in their order. A sync of any file or directory makes all changes of names and lengths
before it durable, as ext4's journal does; a content that replaced another file by a rename, or by a truncation to
nothing and a close, becomes durable with them, as it is then: ext4 takes care of that. Anything else that was not
synced is lost.

Guarantees: thread-safe; a file that replaced another one is there at any moment; what is removed lies in a directory of
ours (``STASH``) until that is durable. Modes, owners and times are never taken back. Out of scope: who asks
(``fuse_server``), extended attributes.
"""

from __future__ import annotations

import collections
import contextlib
import errno
import os
import stat
import threading
from collections.abc import Iterator
from typing import Any

from dethrone.clusters.agent.host.file_nodes import (
    Change,
    ContentFlushed,
    FileNode,
    LengthSet,
    NameMade,
    NameMoved,
    replace_place,
)
from dethrone.clusters.agent.host.unsynced import Unsynced

STASH = b".dethrone-unsynced"
"""Below the directory: files whose removal is not durable yet. Clients do not see it."""


class Volume:
    """See the module. ``root``: an open directory, which stays reachable when something is mounted over it."""

    def __init__(self, root: int) -> None:
        self.root_fd = root
        self._lock = threading.RLock()
        self._idents = 1
        self._seq = 0
        self._stashed = 0
        self._journal: collections.deque[Change] = collections.deque()
        self.off = False
        """The power is off: nothing is written any more."""
        self.root = FileNode(1, os.fstat(root).st_ino)
        self.nodes: dict[int, FileNode] = {1: self.root}
        self._by_ino = {self.root.ino: self.root}
        self.clear_stash()
        with contextlib.suppress(FileExistsError):
            os.mkdir(STASH, 0o700, dir_fd=root)
        self._stash = FileNode(0, os.stat(STASH, dir_fd=root).st_ino)
        self._stash.places = [(self.root, STASH)]

    def clear_stash(self) -> None:
        """Remove what is only kept for a loss of power."""
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(b"/proc/self/fd/%d/%s" % (self.root_fd, STASH)):
                self._remove(STASH + b"/" + name)

    # --- names ----------------------------------------------------------------------------------------------------

    def lookup(self, parent: FileNode, name: bytes) -> tuple[FileNode, os.stat_result]:
        """The file of this name. Raises OSError."""
        with self._lock:
            path = self._below(parent, name)
            seen = os.stat(path, dir_fd=self.root_fd, follow_symlinks=False)
            return self._known(seen, parent, name), seen

    def create(
        self, parent: FileNode, name: bytes, flags: int, mode: int, owner: tuple[int, int]
    ) -> tuple[FileNode, os.stat_result, int]:
        """Make a file and open it; or open the one that is there, unless O_EXCL says otherwise. Raises OSError."""
        with self._lock:
            self._check_power()
            path = self._below(parent, name)
            flags = _readable(flags) | os.O_NOFOLLOW
            try:
                fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, mode, dir_fd=self.root_fd)
            except FileExistsError:
                if flags & os.O_EXCL:
                    raise
                node, seen = self.lookup(parent, name)
                return node, seen, self.open(node, flags)
            self._own(fd, owner)
            seen = os.fstat(fd)
            node = self._known(seen, parent, name)
            node.changes = Unsynced(0)
            node.fds.add(fd)
            self._note(NameMade(node, parent, name))
            return node, seen, fd

    def make(
        self, parent: FileNode, name: bytes, mode: int, owner: tuple[int, int], *, target: bytes | None = None
    ) -> tuple[FileNode, os.stat_result]:
        """Make a directory, a link (``target``), a socket, a pipe or an empty file. Raises OSError."""
        with self._lock:
            self._check_power()
            path = self._below(parent, name)
            if target is not None:
                os.symlink(target, path, dir_fd=self.root_fd)
            elif stat.S_ISDIR(mode):
                os.mkdir(path, stat.S_IMODE(mode), dir_fd=self.root_fd)
            elif stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
                raise OSError(errno.EPERM, "devices are not made here")
            else:
                os.mknod(path, mode, dir_fd=self.root_fd)
            if owner != (os.geteuid(), os.getegid()):
                os.chown(path, *owner, dir_fd=self.root_fd, follow_symlinks=False)
            seen = os.stat(path, dir_fd=self.root_fd, follow_symlinks=False)
            node = self._known(seen, parent, name)
            if stat.S_ISREG(mode):
                node.changes = Unsynced(0)
            self._note(NameMade(node, parent, name))
            return node, seen

    def link(self, node: FileNode, parent: FileNode, name: bytes) -> tuple[FileNode, os.stat_result]:
        """Give the file another name. Raises OSError."""
        with self._lock:
            self._check_power()
            path = self._below(parent, name)
            fd = self.root_fd
            os.link(self.path(node), path, src_dir_fd=fd, dst_dir_fd=fd, follow_symlinks=False)
            node.places.append((parent, name))
            self._note(NameMade(node, parent, name))
            return node, os.stat(path, dir_fd=fd, follow_symlinks=False)

    def unlink(self, parent: FileNode, name: bytes) -> None:
        """Take a name away: a file's, or that of an empty directory. Raises OSError."""
        with self._lock:
            self._check_power()
            node, seen = self.lookup(parent, name)
            if stat.S_ISDIR(seen.st_mode) and os.listdir(self._visible(node)):
                raise OSError(errno.ENOTEMPTY, "the directory is not empty")
            self._move(node, (parent, name), self._stash_place())

    def rename(self, parent: FileNode, name: bytes, new_parent: FileNode, new_name: bytes, *, replace: bool) -> None:
        """Rename, in one step; what had the new name is gone if ``replace``. Raises OSError."""
        with self._lock:
            self._check_power()
            node, seen = self.lookup(parent, name)
            path = self._below(new_parent, new_name)
            flushed = False
            try:
                other, there = self.lookup(new_parent, new_name)
            except FileNotFoundError:
                pass
            else:
                if not replace:
                    raise FileExistsError(errno.EEXIST, "the name is taken")
                if other is node:
                    return
                place = self._stash_place()
                if stat.S_ISDIR(there.st_mode):
                    if not stat.S_ISDIR(seen.st_mode):
                        raise IsADirectoryError(errno.EISDIR, "a directory has the name")
                    self.unlink(new_parent, new_name)
                else:
                    if stat.S_ISDIR(seen.st_mode):
                        raise NotADirectoryError(errno.ENOTDIR, "a file has the name")
                    kept, fd = self._below(*place), self.root_fd
                    os.link(path, kept, src_dir_fd=fd, dst_dir_fd=fd, follow_symlinks=False)
                    replace_place(other, (new_parent, new_name), place)
                    self._note(NameMoved(other, (new_parent, new_name), place))
                    flushed = stat.S_ISREG(seen.st_mode)
            self._move(node, (parent, name), (new_parent, new_name), flushed=flushed)

    def entries(self, node: FileNode) -> list[tuple[int, int, bytes]]:
        """(inode number, kind, name) of all that a directory holds. Raises OSError."""
        with self._lock, os.scandir(self._visible(node)) as found:
            listed = [
                (one.inode(), stat.S_IFMT(one.stat(follow_symlinks=False).st_mode) >> 12, one.name) for one in found
            ]
        if node is self.root:
            listed = [one for one in listed if one[2] != STASH]
        return [(node.ino, 4, b"."), (node.ino, 4, b".."), *sorted(listed, key=lambda one: one[2])]

    # --- files ----------------------------------------------------------------------------------------------------

    def open(self, node: FileNode, flags: int) -> int:
        """Open a file, so that it can be read even if it is to be written. Raises OSError."""
        with self._lock:
            fd = self._open(node, flags)
            node.fds.add(fd)
            return fd

    def close(self, node: FileNode, fd: int) -> None:
        """Close it."""
        with self._lock:
            if node.emptied:
                node.emptied = False
                self._note(ContentFlushed(node))
            node.fds.discard(fd)
            os.close(fd)
            self._drop(node)

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
        with self._lock, self._opened(node) as fd, node.lock:
            self._check_power()
            before = os.fstat(fd).st_size
            changes = node.forgotten(before)
            changes.cutting(length, lambda start, count: os.pread(fd, count, start))
            os.ftruncate(fd, length)
            node.emptied = node.emptied or (length == 0 and before > 0)
            if length != before:
                self._note(LengthSet(node, changes, length))

    def allocate(self, node: FileNode, fd: int, at: int, length: int) -> None:
        """Reserve blocks, and make the file longer if it is too short. Raises OSError."""
        with self._lock, node.lock:
            self._check_power()
            before = os.fstat(fd).st_size
            changes = node.forgotten(before)
            os.posix_fallocate(fd, at, length)
            if at + length > before:
                self._note(LengthSet(node, changes, at + length))

    def sync(self, node: FileNode, fd: int, *, data_only: bool = False) -> None:
        """Make a file durable, and with it all changes of names and lengths so far. Raises OSError."""
        with node.turn:
            with self._lock:
                upto = self._seq
                with node.lock:
                    self._check_power()
                    node.syncing, node.changes = node.changes, None
            try:
                (os.fdatasync if data_only else os.fsync)(fd)
            except OSError:
                self.sync_failed(node)
                raise
            with self._lock:
                self._check_power()
                node.syncing = None
                self._commit(upto)

    def sync_failed(self, node: FileNode) -> None:
        """Nothing that a sync was to make durable is."""
        with node.lock:
            older, node.syncing = node.syncing, None
            if older is not None:
                node.changes = older if node.changes is None else older.merged(node.changes)

    def sync_names(self, node: FileNode) -> None:
        """Make a directory durable. Raises OSError."""
        with self._lock:
            self._check_power()
            upto = self._seq
            fd = os.open(self._visible(node), os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        with self._lock:
            self._check_power()
            self._commit(upto)

    def status(self, node: FileNode) -> os.stat_result:
        """What stat says. Raises OSError."""
        with self._lock:
            what, more = self.target(node)
            return os.stat(what, **more)

    def target(self, node: FileNode) -> tuple[Any, dict[str, Any]]:
        """What functions that change a mode, owner or time take for this file."""
        for fd in node.fds:
            return fd, {}
        return self.path(node), {"dir_fd": self.root_fd, "follow_symlinks": False}

    def path(self, node: FileNode) -> bytes:
        """Where it lies now, below the root. Raises OSError for a file that is gone."""
        parts = []
        while node is not self.root:
            if not node.places:
                raise FileNotFoundError(errno.ENOENT, "it was removed")
            node, name = node.places[0]
            parts.append(name)
        return b"/".join(reversed(parts)) or b"."

    def remember(self, node: FileNode) -> None:
        """A client knows this file."""
        with self._lock:
            node.lookups += 1

    def forget(self, ident: int, lookups: int) -> None:
        """A client no longer knows this file."""
        with self._lock:
            node = self.nodes.get(ident)
            if node is not None:
                node.lookups -= lookups
                self._drop(node)

    # --- loss of power --------------------------------------------------------------------------------------------

    def lose_power(self, torn: Any = None) -> dict[str, int]:
        """Take everything back that was not synced; nothing can be written afterwards. Raises OSError.

        ``torn``: (length of a file's first unsynced write) → the bytes of it that survive.
        """
        with self._lock:
            self.off = True
            names, lost, files, kept = len(self._journal), 0, 0, 0
            while self._journal:
                gone = self._take_back(self._journal.pop())
                lost, files = lost + gone, files + bool(gone)
            for node in list(self.nodes.values()):
                with node.lock:
                    self._merge(node)
                    changes, node.changes = node.changes, None
                    if changes is None or not self._exists(node):
                        continue
                    gone, survived = self._revert(node, changes, torn)
                files, lost, kept = files + bool(gone), lost + gone, kept + survived
            self.clear_stash()
            return {"names": names, "files": files, "bytes": lost, "torn_bytes": kept}

    def _merge(self, node: FileNode) -> None:
        older, node.syncing = node.syncing, None
        if older is not None:
            node.changes = older if node.changes is None else older.merged(node.changes)

    def _revert(self, node: FileNode, changes: Unsynced, torn: Any) -> tuple[int, int]:
        """Bytes that were taken back, and bytes of a torn write that were not."""
        fd = self._open(node, os.O_RDWR)
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

    def _take_back(self, change: Change) -> int:
        """Undo it; the bytes of a file that is gone with that."""
        gone = 0
        if isinstance(change, NameMade):
            path = self._below(change.parent, change.name)
            seen = os.stat(path, dir_fd=self.root_fd, follow_symlinks=False)
            gone = seen.st_size if stat.S_ISREG(seen.st_mode) and seen.st_nlink == 1 else 0
            self._remove_name(change.node, (change.parent, change.name))
        elif isinstance(change, NameMoved):
            fd = self.root_fd
            os.rename(self._below(*change.new), self._below(*change.old), src_dir_fd=fd, dst_dir_fd=fd)
            replace_place(change.node, change.new, change.old)
        return gone

    # --- the journal ----------------------------------------------------------------------------------------------

    def _note(self, change: Change) -> None:
        self._seq += 1
        change.seq = self._seq
        self._journal.append(change)

    def _commit(self, upto: int) -> None:
        """All changes of names and lengths up to this one are durable."""
        journal = self._journal
        while journal and journal[0].seq <= upto:
            change = journal.popleft()
            if isinstance(change, LengthSet):
                self._cut_is_durable(change)
            elif isinstance(change, ContentFlushed):
                self._flush(change.node)
            elif isinstance(change, NameMoved):
                if change.flushed:
                    self._flush(change.node)
                if change.new[0] is self._stash:
                    self._remove_name(change.node, change.new)
                    self._drop(change.node)

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

    def _move(
        self, node: FileNode, old: tuple[FileNode, bytes], new: tuple[FileNode, bytes], *, flushed: bool = False
    ) -> None:
        fd = self.root_fd
        os.rename(self._below(*old), self._below(*new), src_dir_fd=fd, dst_dir_fd=fd)
        replace_place(node, old, new)
        self._note(NameMoved(node, old, new, flushed=flushed))

    # --- small parts ----------------------------------------------------------------------------------------------

    def _known(self, seen: os.stat_result, parent: FileNode, name: bytes) -> FileNode:
        """The node of what was found under a name."""
        node = self._by_ino.get(seen.st_ino)
        if node is None:
            self._idents += 1
            node = FileNode(self._idents, seen.st_ino)
            self.nodes[node.ident] = self._by_ino[seen.st_ino] = node
        if (parent, name) not in node.places:
            node.places.append((parent, name))
        return node

    def _drop(self, node: FileNode) -> None:
        """Forget a file that no client and no loss of power can ask for."""
        if not node.places and not node.fds and self._by_ino.get(node.ino) is node:
            del self._by_ino[node.ino]  # its number may be another file's from now on
        if node.lookups <= 0 and not node.fds and not node.places:
            self.nodes.pop(node.ident, None)

    def _stash_place(self) -> tuple[FileNode, bytes]:
        self._stashed += 1
        return self._stash, b"%d" % self._stashed

    def _below(self, parent: FileNode, name: bytes) -> bytes:
        if name in {b".", b".."} or b"/" in name or (parent is self.root and name == STASH):
            raise FileNotFoundError(errno.ENOENT, "this name is not for clients")
        return name if parent is self.root else self.path(parent) + b"/" + name

    def _visible(self, node: FileNode) -> bytes:
        """A path of a directory that works even where something is mounted over the root."""
        return b"/proc/self/fd/%d/%s" % (self.root_fd, self.path(node))

    def _remove_name(self, node: FileNode, place: tuple[FileNode, bytes]) -> None:
        """Remove one name of a file. One with other names, that no client asked for, stays open to be found."""
        path = self._below(*place)
        last = len(node.places) == 1 and (node.changes or node.syncing) is not None
        if last and os.stat(path, dir_fd=self.root_fd, follow_symlinks=False).st_nlink > 1:
            node.fds.add(self._open(node, os.O_RDWR))
        self._remove(path)
        node.places.remove(place)

    @staticmethod
    def _exists(node: FileNode) -> bool:
        return bool(node.places) or any(os.fstat(fd).st_nlink for fd in node.fds)

    def _remove(self, path: bytes) -> None:
        try:
            os.unlink(path, dir_fd=self.root_fd)
        except (IsADirectoryError, PermissionError):
            os.rmdir(path, dir_fd=self.root_fd)

    def _open(self, node: FileNode, flags: int) -> int:
        if not node.places and node.fds:
            return os.open(b"/proc/self/fd/%d" % next(iter(node.fds)), _readable(flags))
        return os.open(self.path(node), _readable(flags) | os.O_NOFOLLOW, dir_fd=self.root_fd)

    @contextlib.contextmanager
    def _opened(self, node: FileNode) -> Iterator[int]:
        fd = self._open(node, os.O_RDWR)
        try:
            yield fd
        finally:
            os.close(fd)

    @staticmethod
    def _own(fd: int, owner: tuple[int, int]) -> None:
        if owner != (os.geteuid(), os.getegid()):
            os.fchown(fd, *owner)

    def _check_power(self) -> None:
        if self.off:
            raise OSError(errno.EIO, "the power is off")


def _readable(flags: int) -> int:
    """The same flags, without those that the kernel has acted on already; what can be written can be read."""
    wanted = flags & ~(os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOCTTY | os.O_DIRECT | os.O_ACCMODE) | os.O_CLOEXEC
    return wanted | (os.O_RDONLY if flags & os.O_ACCMODE == os.O_RDONLY else os.O_RDWR)
