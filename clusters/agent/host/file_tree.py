"""Where the files of a ``Volume`` lie: each by its number and its names, and those that only a loss of power needs.

Guarantees: what has no name any more lies in a directory of ours (``STASH``), which no client reaches; a file is found
as long as it has a name or is open. Not thread-safe. Out of scope: which names are durable (``durable_names``).
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator

from dethrone.clusters.agent.host.file_nodes import FileNode

STASH = b".dethrone-unsynced"
"""Below the directory: files whose removal is not durable yet. Clients do not see it."""


class FileTree:
    """See the module. ``root``: an open directory, which stays reachable when something is mounted over it."""

    def __init__(self, root: int) -> None:
        self.fd = root
        self._idents = 1
        self._stashed = 0
        self.root = FileNode(1, os.fstat(root).st_ino, is_directory=True)
        self.nodes: dict[int, FileNode] = {1: self.root}
        self._by_ino = {self.root.ino: self.root}
        self.clear_stash()
        with contextlib.suppress(FileExistsError):
            os.mkdir(STASH, 0o700, dir_fd=root)
        self.stash = FileNode(0, os.stat(STASH, dir_fd=root).st_ino, is_directory=True)
        self.stash.places = [(self.root, STASH)]

    # --- what is where --------------------------------------------------------------------------------------------

    def lookup(self, parent: FileNode, name: bytes) -> tuple[FileNode, os.stat_result]:
        """The file of this name. Raises OSError."""
        seen = os.stat(self.below(parent, name), dir_fd=self.fd, follow_symlinks=False)
        return self.known(seen, parent, name), seen

    def find(self, parent: FileNode, name: bytes) -> FileNode | None:
        """The file of this name, if there is one. Raises OSError."""
        try:
            return self.lookup(parent, name)[0]
        except FileNotFoundError:
            return None

    def known(self, seen: os.stat_result, parent: FileNode, name: bytes) -> FileNode:
        """The node of what was found under a name."""
        node = self._by_ino.get(seen.st_ino)
        if node is None:
            self._idents += 1
            node = FileNode(self._idents, seen.st_ino, is_directory=stat.S_ISDIR(seen.st_mode))
            self.nodes[node.ident] = self._by_ino[seen.st_ino] = node
        if (parent, name) not in node.places:
            node.places.append((parent, name))
        return node

    def drop(self, node: FileNode) -> None:
        """Forget a file that no client and no loss of power can ask for."""
        if not node.places and not node.fds and self._by_ino.get(node.ino) is node:
            del self._by_ino[node.ino]  # its number may be another file's from now on
        if node.lookups <= 0 and not node.fds and not node.places:
            self.nodes.pop(node.ident, None)

    def path(self, node: FileNode) -> bytes:
        """Where it lies now, below the root. Raises OSError for a file that is gone."""
        parts = []
        while node is not self.root:
            if not node.places:
                raise FileNotFoundError(errno.ENOENT, "it was removed")
            node, name = node.places[0]
            parts.append(name)
        return b"/".join(reversed(parts)) or b"."

    def below(self, parent: FileNode, name: bytes) -> bytes:
        """The path of a name. Raises OSError for one that is not for clients, or in a directory that is gone."""
        if name in {b".", b".."} or b"/" in name or (parent is self.root and name == STASH):
            raise FileNotFoundError(errno.ENOENT, "this name is not for clients")
        return name if parent is self.root else self.path(parent) + b"/" + name

    def visible(self, node: FileNode) -> bytes:
        """A path of a directory that works even where something is mounted over the root."""
        return b"/proc/self/fd/%d/%s" % (self.fd, self.path(node))

    def in_stash(self, directory: FileNode) -> bool:
        """Whether no client can reach what is in this directory."""
        while directory is not self.root:
            if directory is self.stash or not directory.places:
                return True
            directory = directory.places[0][0]
        return False

    @staticmethod
    def exists(node: FileNode) -> bool:
        """Whether any name leads to it, perhaps one that no client asked for."""
        return bool(node.places) or any(os.fstat(fd).st_nlink for fd in node.fds)

    def open(self, node: FileNode, flags: int) -> int:
        """Open a file, so that it can be read even if it is to be written. Raises OSError."""
        if not node.places and node.fds:
            return os.open(b"/proc/self/fd/%d" % next(iter(node.fds)), readable(flags))
        return os.open(self.path(node), readable(flags) | os.O_NOFOLLOW, dir_fd=self.fd)

    @contextlib.contextmanager
    def opened(self, node: FileNode) -> Iterator[int]:
        """A descriptor of it, for reading and writing. Raises OSError."""
        fd = self.open(node, os.O_RDWR)
        try:
            yield fd
        finally:
            os.close(fd)

    # --- changes --------------------------------------------------------------------------------------------------

    def move(self, node: FileNode, old: tuple[FileNode, bytes], new: tuple[FileNode, bytes]) -> None:
        """Turn a name into another one. Raises OSError."""
        os.rename(self.below(*old), self.below(*new), src_dir_fd=self.fd, dst_dir_fd=self.fd)
        node.moved(old, new)

    def link(self, node: FileNode, place: tuple[FileNode, bytes]) -> None:
        """Give the file another name. Raises OSError."""
        fd = self.fd
        os.link(self.path(node), self.below(*place), src_dir_fd=fd, dst_dir_fd=fd, follow_symlinks=False)
        node.places.append(place)

    def stash_place(self) -> tuple[FileNode, bytes]:
        """A free name in the stash."""
        self._stashed += 1
        return self.stash, b"%d" % self._stashed

    def remove_name(self, node: FileNode, place: tuple[FileNode, bytes]) -> int:
        """Remove one name of a file; the bytes that are gone with it. Raises OSError.

        A file with other names, that no client asked for, stays open to be found.
        """
        path = self.below(*place)
        seen = os.stat(path, dir_fd=self.fd, follow_symlinks=False)
        last = len(node.places) == 1 and (node.changes or node.syncing) is not None
        if last and seen.st_nlink > 1:
            node.fds.add(self.open(node, os.O_RDWR))
        (os.rmdir if node.is_directory else os.unlink)(path, dir_fd=self.fd)
        node.places.remove(place)
        return seen.st_size if stat.S_ISREG(seen.st_mode) and seen.st_nlink == 1 else 0

    def empty_stash(self) -> list[int]:
        """Remove for good all that no client can reach; of each file how many bytes are gone with it."""
        kept = [(node, place) for node in self.nodes.values() for place in node.places if self.in_stash(place[0])]
        gone = [self.remove_name(node, place) for node, place in kept if not node.is_directory]
        for node, place in kept:
            if node.is_directory:
                node.places.remove(place)
        self.clear_stash()
        return gone

    def clear_stash(self) -> None:
        """Remove what is only kept for a loss of power."""
        with contextlib.suppress(FileNotFoundError):
            for one in list(os.scandir(b"/proc/self/fd/%d/%s" % (self.fd, STASH))):
                if one.is_dir(follow_symlinks=False):
                    shutil.rmtree(one.path)
                else:
                    os.unlink(one.path)


def readable(flags: int) -> int:
    """The same flags, without those that the kernel has acted on already; what can be written can be read."""
    wanted = flags & ~(os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOCTTY | os.O_DIRECT | os.O_ACCMODE) | os.O_CLOEXEC
    return wanted | (os.O_RDONLY if flags & os.O_ACCMODE == os.O_RDONLY else os.O_RDWR)
