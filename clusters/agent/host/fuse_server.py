"""Serves a ``Volume`` to the kernel through /dev/fuse, without any library: requests in, answers out.

Guarantees: the page cache is in use (shared mappings work) and written through: each write is here before it returns,
and what is written to a shared mapping comes when it is synced or written back; a sync that waits holds up no other
request; trouble of the disk (``DiskWoes``) is answered before anything is done. Out of scope: mounting (``mounts``),
extended attributes, locks (the kernel keeps them).

Source: the protocol is that of the kernel's ``include/uapi/linux/fuse.h``, version 7.31; see also fuse(4).
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import threading
import time
from collections.abc import Callable, Mapping
from typing import Optional

from dethrone.clusters.agent.host.common import SECOND, complain
from dethrone.clusters.agent.host.file_nodes import FileNode
from dethrone.clusters.agent.host.volume import Volume

FUSE_MAJOR, FUSE_MINOR = 7, 31
FUSE_WRITE_MAX = 1 << 20
FUSE_CACHED_S = 3600
"""How long the kernel may believe what it was answered: nothing changes but through it."""
FUSE_WORKERS_MAX = 64
"""Limit on requests that wait at once."""

_FUSE_IN = struct.Struct("<IIQQIIIHH")
"""Length, operation, number, node, user, group, process, length of extensions, padding."""
_FUSE_OUT = struct.Struct("<IiQ")
_FUSE_ATTR = struct.Struct("<QQQQQQIIIIIIIIII")
_FUSE_ENTRY = struct.Struct("<QQQQII")
_FUSE_OPENED = struct.Struct("<QII")
_FUSE_MOVED = struct.Struct("<QQIIQII")
"""Of a read or write: handle, offset, size, flags, lock owner, flags of the file, padding."""
_FUSE_SET = struct.Struct("<IIQQQQQQIIIIIIII")
_FUSE_DIRENT = struct.Struct("<QQII")

_ASYNC_READ, _BIG_WRITES, _PARALLEL_DIROPS, _MAX_PAGES = 1 << 0, 1 << 5, 1 << 18, 1 << 22
_KEEP_CACHE = 2
_SET_MODE, _SET_UID, _SET_GID, _SET_SIZE, _SET_ATIME, _SET_MTIME = 1, 2, 4, 8, 16, 32
_SET_ATIME_NOW, _SET_MTIME_NOW = 128, 256
_RENAME_NOREPLACE = 1

_WAITING = frozenset({20, 30})
"""Syncs, of files and directories: the only operations that may take long."""

Answer = Optional[bytes]  # noqa: UP045 - Python 3.9
"""What is answered behind the header; None: nothing at all."""
_Does = Callable[[int, memoryview, "tuple[int, int]"], Answer]


class DiskWoes:
    """What is wrong with the disk now. Thread-safe.

    ``fails``: operation (``read``, ``write``, ``sync``) → errno; ``share``: how many of a million of them fail;
    ``latency_ns``: of each sync.
    """

    def __init__(
        self, fails: Mapping[str, int] | None = None, *, share_ppm: int = 1_000_000, latency_ns: int = 0
    ) -> None:
        self._fails = dict(fails or {})
        self._share_ppm = share_ppm
        self._latency_ns = latency_ns
        self.calm = not self._fails and not latency_ns
        """Nothing is wrong."""
        self._lock = threading.Lock()
        self._asked = 0
        self.hit: dict[str, int] = {}
        """How often each operation suffered."""
        self._over = threading.Event()

    def suffer(self, operation: str, interrupted: threading.Event | None = None) -> None:
        """Wait, and fail, as the disk does now. Raises OSError."""
        if self.calm:
            return
        if operation == "sync" and self._latency_ns:
            self._count("slow")
            deadline = self._latency_ns / SECOND
            if interrupted is None:
                self._over.wait(deadline)
            else:
                self._await(interrupted, deadline)
        code = self._fails.get(operation)
        if code and self._drawn():
            self._count(operation)
            raise OSError(code, os.strerror(code))

    def end(self) -> None:
        """It is over: what waits goes through."""
        self._over.set()

    def _await(self, interrupted: threading.Event, deadline_s: float) -> None:
        waited = 0.0
        while waited < deadline_s and not self._over.is_set():
            if interrupted.wait(min(0.01, deadline_s - waited)):
                raise InterruptedError(errno.EINTR, "the process was interrupted")
            waited += 0.01

    def _drawn(self) -> bool:
        """Spread evenly: of each million the share fails, in the same places each time."""
        with self._lock:
            before = self._asked * self._share_ppm // 1_000_000
            self._asked += 1
            return self._asked * self._share_ppm // 1_000_000 > before

    def _count(self, what: str) -> None:
        with self._lock:
            self.hit[what] = self.hit.get(what, 0) + 1


class FuseServer:
    """Answers the requests of one mount until it is unmounted. ``device``: /dev/fuse, open, as it was mounted."""

    def __init__(self, device: int, volume: Volume) -> None:
        self._device = device
        self._volume = volume
        self.woes = DiskWoes()
        self._listings: dict[int, list[tuple[int, int, bytes]]] = {}
        self._listed = 0
        self._waiting: dict[int, threading.Event] = {}
        self._lock = threading.Lock()
        self._workers = self._busy = 0
        self.gone = threading.Event()
        """It was unmounted."""
        self._does: dict[int, _Does] = {
            1: self._lookup,
            2: self._forget,
            3: self._getattr,
            4: self._setattr,
            5: self._readlink,
            6: self._symlink,
            8: self._mknod,
            9: self._mkdir,
            10: self._unlink,
            11: self._unlink,
            12: self._rename,
            13: self._link,
            14: self._open,
            15: self._read,
            16: self._write,
            17: self._statfs,
            18: self._release,
            20: self._fsync,
            25: self._flush,
            26: self._init,
            27: self._opendir,
            28: self._readdir,
            29: self._releasedir,
            30: self._fsyncdir,
            35: self._create,
            36: self._interrupt,
            38: self._destroy,
            42: self._batch_forget,
            43: self._fallocate,
            45: self._rename2,
        }

    def replace_woes(self, woes: DiskWoes) -> dict[str, int]:
        """Something else is wrong from now on, or nothing; answers how often each operation suffered before."""
        before, self.woes = self.woes, woes
        before.end()
        return dict(before.hit)

    def serve(self) -> None:
        """Serve until it is unmounted."""
        self._employ()
        self._employ()
        self.gone.wait()

    def _employ(self) -> None:
        with self._lock:
            if self._workers >= FUSE_WORKERS_MAX:
                return
            self._workers += 1
        threading.Thread(target=self._work, name="fuse", daemon=True).start()

    def _work(self) -> None:
        buffer = bytearray(FUSE_WRITE_MAX + 4096)
        whole = memoryview(buffer)
        while not self.gone.is_set():
            try:
                length = os.readv(self._device, [buffer])
            except OSError as error:
                if error.errno in {errno.EINTR, errno.EAGAIN, errno.ENOENT}:
                    continue
                self.gone.set()  # ENODEV: it was unmounted
                return
            self._serve_one(whole[:length])

    def _serve_one(self, request: memoryview) -> None:
        _, operation, number, node, uid, gid, _, _, _ = _FUSE_IN.unpack_from(request)
        code = 0
        answer: Answer = b""
        does = self._does.get(operation)
        if does is None:
            code = -errno.ENOSYS
        else:
            try:
                body = request[_FUSE_IN.size :]
                if operation in _WAITING:
                    answer = self._wait_for(number, does, node, body)
                else:
                    answer = does(node, body, (uid, gid))
            except OSError as error:
                code = -(error.errno or errno.EIO)
            except Exception as error:  # noqa: BLE001 - a client must get an answer
                complain("disk", error)
                code = -errno.EIO
        if answer is None:
            return
        said = b"" if code else answer
        try:
            os.write(self._device, _FUSE_OUT.pack(_FUSE_OUT.size + len(said), code, number) + said)
        except OSError as error:
            if error.errno not in {errno.ENOENT, errno.ENODEV}:  # interrupted, or unmounted
                complain("disk", error)

    # --- the kernel -----------------------------------------------------------------------------------------------

    def _init(self, _: int, body: memoryview, __: tuple[int, int]) -> bytes:
        major, minor, read_ahead, offered = struct.unpack_from("<IIII", body)
        if major != FUSE_MAJOR or minor < FUSE_MINOR:
            raise OSError(errno.EPROTO, f"the kernel speaks FUSE {major}.{minor}")
        flags = offered & (_ASYNC_READ | _BIG_WRITES | _PARALLEL_DIROPS | _MAX_PAGES)
        pages = FUSE_WRITE_MAX // 4096
        limits = struct.pack("<HHIIHHII6I", 64, 48, FUSE_WRITE_MAX, 1, pages, 0, 0, 0, *[0] * 6)
        return struct.pack("<IIII", FUSE_MAJOR, FUSE_MINOR, read_ahead, flags) + limits

    def _destroy(self, _: int, __: memoryview, ___: tuple[int, int]) -> bytes:
        return b""

    def _interrupt(self, _: int, body: memoryview, __: tuple[int, int]) -> None:
        (number,) = struct.unpack_from("<Q", body)
        with self._lock:
            waiting = self._waiting.get(number)
        if waiting is not None:
            waiting.set()

    def _forget(self, node: int, body: memoryview, _: tuple[int, int]) -> None:
        self._volume.forget(node, *struct.unpack_from("<Q", body))

    def _batch_forget(self, _: int, body: memoryview, __: tuple[int, int]) -> None:
        (count,) = struct.unpack_from("<I", body)
        for node, lookups in struct.iter_unpack("<QQ", body[8 : 8 + 16 * count]):
            self._volume.forget(node, lookups)

    # --- names ----------------------------------------------------------------------------------------------------

    def _lookup(self, node: int, body: memoryview, _: tuple[int, int]) -> bytes:
        return self._entry(*self._volume.lookup(self._node(node), _name(body)))

    def _mkdir(self, node: int, body: memoryview, owner: tuple[int, int]) -> bytes:
        mode, _ = struct.unpack_from("<II", body)
        self.woes.suffer("write")
        return self._entry(*self._volume.make(self._node(node), _name(body[8:]), stat.S_IFDIR | mode & 0o7777, owner))

    def _mknod(self, node: int, body: memoryview, owner: tuple[int, int]) -> bytes:
        (mode,) = struct.unpack_from("<I", body)
        self.woes.suffer("write")
        return self._entry(*self._volume.make(self._node(node), _name(body[16:]), mode, owner))

    def _symlink(self, node: int, body: memoryview, owner: tuple[int, int]) -> bytes:
        name, target = bytes(body).split(b"\0")[:2]
        self.woes.suffer("write")
        made = self._volume.make(self._node(node), name, stat.S_IFLNK, owner, target=target)
        return self._entry(*made)

    def _link(self, node: int, body: memoryview, _: tuple[int, int]) -> bytes:
        (old,) = struct.unpack_from("<Q", body)
        self.woes.suffer("write")
        return self._entry(*self._volume.link(self._node(old), self._node(node), _name(body[8:])))

    def _unlink(self, node: int, body: memoryview, _: tuple[int, int]) -> bytes:
        self._volume.unlink(self._node(node), _name(body))
        return b""

    def _rename(self, node: int, body: memoryview, _: tuple[int, int]) -> bytes:
        (new_parent,) = struct.unpack_from("<Q", body)
        return self._renamed(node, new_parent, bytes(body[8:]), 0)

    def _rename2(self, node: int, body: memoryview, _: tuple[int, int]) -> bytes:
        new_parent, flags = struct.unpack_from("<QI", body)
        return self._renamed(node, new_parent, bytes(body[16:]), flags)

    def _renamed(self, node: int, new_parent: int, names: bytes, flags: int) -> bytes:
        if flags & ~_RENAME_NOREPLACE:
            raise OSError(errno.EINVAL, "names are not exchanged here")
        old, new = names.split(b"\0")[:2]
        self.woes.suffer("write")
        self._volume.rename(self._node(node), old, self._node(new_parent), new, replace=not flags)
        return b""

    def _readlink(self, node: int, _: memoryview, __: tuple[int, int]) -> bytes:
        path, more = self._volume.target(self._node(node))
        target: bytes = os.readlink(path, dir_fd=more.get("dir_fd"))
        return target

    def _opendir(self, node: int, _: memoryview, __: tuple[int, int]) -> bytes:
        listing = self._volume.entries(self._node(node))
        with self._lock:
            self._listed += 1
            self._listings[self._listed] = listing
            return _FUSE_OPENED.pack(self._listed, 0, 0)

    def _readdir(self, node: int, body: memoryview, _: tuple[int, int]) -> bytes:
        handle, offset, size, *_more = _FUSE_MOVED.unpack_from(body)
        if offset == 0:  # read again from its begin: as it is now
            self._listings[handle] = self._volume.entries(self._node(node))
        out = bytearray()
        for index, (ino, kind, name) in enumerate(self._listings[handle][offset:], start=offset + 1):
            one = _FUSE_DIRENT.pack(ino, index, len(name), kind) + name
            one += bytes(-len(one) % 8)
            if len(out) + len(one) > size:
                break
            out += one
        return bytes(out)

    def _releasedir(self, _: int, body: memoryview, __: tuple[int, int]) -> bytes:
        self._listings.pop(struct.unpack_from("<Q", body)[0], None)
        return b""

    # --- files ----------------------------------------------------------------------------------------------------

    def _create(self, node: int, body: memoryview, owner: tuple[int, int]) -> bytes:
        flags, mode = struct.unpack_from("<II", body)
        self.woes.suffer("write")
        found, seen, fd = self._volume.create(self._node(node), _name(body[16:]), flags, mode & 0o7777, owner)
        return self._entry(found, seen) + _FUSE_OPENED.pack(fd, _KEEP_CACHE, 0)

    def _open(self, node: int, body: memoryview, _: tuple[int, int]) -> bytes:
        (flags,) = struct.unpack_from("<I", body)
        return _FUSE_OPENED.pack(self._volume.open(self._node(node), flags), _KEEP_CACHE, 0)

    def _read(self, _: int, body: memoryview, __: tuple[int, int]) -> bytes:
        handle, offset, size, *_more = _FUSE_MOVED.unpack_from(body)
        self.woes.suffer("read")
        return os.pread(handle, size, offset)

    def _write(self, node: int, body: memoryview, _: tuple[int, int]) -> bytes:
        handle, offset, size, *_more = _FUSE_MOVED.unpack_from(body)
        self.woes.suffer("write")
        found = self._node(node)
        done = self._volume.write(found, handle, offset, body[_FUSE_MOVED.size : _FUSE_MOVED.size + size])
        return struct.pack("<II", done, 0)

    def _flush(self, _: int, __: memoryview, ___: tuple[int, int]) -> bytes:
        return b""

    def _release(self, node: int, body: memoryview, _: tuple[int, int]) -> bytes:
        self._volume.close(self._node(node), struct.unpack_from("<Q", body)[0])
        return b""

    def _fsync(self, node: int, body: memoryview, _: tuple[int, int]) -> bytes:
        handle, flags = struct.unpack_from("<QI", body)
        self._volume.sync(self._node(node), handle, data_only=bool(flags & 1))
        return b""

    def _fsyncdir(self, node: int, _: memoryview, __: tuple[int, int]) -> bytes:
        self._volume.sync_names(self._node(node))
        return b""

    def _wait_for(self, number: int, does: _Does, node: int, body: memoryview) -> Answer:
        """Sync, while another thread takes further requests. Raises OSError."""
        with self._lock:
            self._busy += 1
            alone = self._busy >= self._workers
        if alone:
            self._employ()
        try:
            if not self.woes.calm:
                interrupted = threading.Event()
                self._waiting[number] = interrupted
                self.woes.suffer("sync", interrupted)
            return does(node, body, (0, 0))
        finally:
            with self._lock:
                self._busy -= 1
                self._waiting.pop(number, None)

    def _fallocate(self, node: int, body: memoryview, _: tuple[int, int]) -> bytes:
        handle, offset, length, mode = struct.unpack_from("<QQQI", body)
        if mode:
            raise OSError(errno.EOPNOTSUPP, "space is only reserved at the end")
        self.woes.suffer("write")
        self._volume.allocate(self._node(node), handle, offset, length)
        return b""

    def _statfs(self, _: int, __: memoryview, ___: tuple[int, int]) -> bytes:
        found = os.statvfs(self._volume.tree.fd)
        return struct.pack(
            "<QQQQQIIII6I",
            *(found.f_blocks, found.f_bfree, found.f_bavail, found.f_files, found.f_ffree),
            *(found.f_bsize, found.f_namemax, found.f_frsize, 0, *[0] * 6),
        )

    # --- attributes -----------------------------------------------------------------------------------------------

    def _getattr(self, node: int, _: memoryview, __: tuple[int, int]) -> bytes:
        return self._attr(self._volume.status(self._node(node)))

    def _setattr(self, node: int, body: memoryview, _: tuple[int, int]) -> bytes:
        (valid, _pad, _handle, size, _owner, atime, mtime, _ctime, atime_ns, mtime_ns, _ctime_ns, mode, _pad2, uid, gid,
         _pad3) = _FUSE_SET.unpack_from(body)  # fmt: skip
        found = self._node(node)
        if valid & _SET_SIZE:
            self.woes.suffer("write")
            self._volume.cut(found, size)
        path, more = self._volume.target(found)
        if valid & (_SET_UID | _SET_GID):
            os.chown(path, uid if valid & _SET_UID else -1, gid if valid & _SET_GID else -1, **more)
        if valid & _SET_MODE:
            os.chmod(path, mode & 0o7777, dir_fd=more.get("dir_fd"))
        if valid & (_SET_ATIME | _SET_MTIME):
            before, now = self._volume.status(found), time.time_ns()
            asked = (now if valid & _SET_ATIME_NOW else atime * SECOND + atime_ns) if valid & _SET_ATIME else None
            made = (now if valid & _SET_MTIME_NOW else mtime * SECOND + mtime_ns) if valid & _SET_MTIME else None
            times = (before.st_atime_ns if asked is None else asked, before.st_mtime_ns if made is None else made)
            os.utime(path, ns=times, **more)
        return self._attr(self._volume.status(found))

    def _node(self, ident: int) -> FileNode:
        node = self._volume.tree.nodes.get(ident)
        if node is None:
            raise OSError(errno.ESTALE, "this file is no longer known")
        return node

    def _entry(self, node: FileNode, seen: os.stat_result) -> bytes:
        self._volume.remember(node)
        return _FUSE_ENTRY.pack(node.ident, 0, FUSE_CACHED_S, FUSE_CACHED_S, 0, 0) + _attributes(seen)

    @staticmethod
    def _attr(seen: os.stat_result) -> bytes:
        return struct.pack("<QII", FUSE_CACHED_S, 0, 0) + _attributes(seen)


def _name(body: memoryview) -> bytes:
    """The name that ends with a zero byte."""
    return bytes(body).partition(b"\0")[0]


def _attributes(seen: os.stat_result) -> bytes:
    times = (seen.st_atime_ns, seen.st_mtime_ns, seen.st_ctime_ns)
    return _FUSE_ATTR.pack(
        seen.st_ino,
        seen.st_size,
        seen.st_blocks,
        *(ns // SECOND for ns in times),
        *(ns % SECOND for ns in times),
        *(seen.st_mode, seen.st_nlink, seen.st_uid, seen.st_gid, 0, seen.st_blksize, 0),
    )
