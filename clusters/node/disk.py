"""One thread that carries out disk batches, in order, below the node's data directory.

Guarantees: batches are carried out one after another in the order of ``submit``; within one, operations in order up
to the first error, which ends that batch only; ``Fsync`` makes content and directory entries durable, ``Rename``
its directory. Results come back through ``results`` and one wake-up each. Out of scope: reading, apart from the image
at the start.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath
from queue import SimpleQueue

import msgspec

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.machine import Disk, DiskOp, Fsync, Rename, Unlink, Unreadable, Write


class Done(msgspec.Struct, frozen=True, gc=False):
    """One batch was carried out (``error`` None) or ended early. ``sync_ns``: time within its ``syncs`` syncs.

    ``longest_ns``: of one of them, which began at ``longest_at`` (monotonic clock).
    """

    token: int
    ops: tuple[DiskOp, ...]
    error: str | None
    sync_ns: Ns
    syncs: int
    longest_ns: Ns = 0
    longest_at: Ns = 0


def read_image(root: Path, *, leave_out: Iterable[Path] = ()) -> dict[str, bytes | Unreadable]:
    """Every file below ``root`` by its relative path; a file that cannot be read is the word ``unreadable``.

    Creates ``root`` if it is absent. ``leave_out`` names files that are not the core's (trace, journal).
    """
    root.mkdir(parents=True, exist_ok=True)
    skipped = {path.resolve() for path in leave_out}
    image: dict[str, bytes | Unreadable] = {}
    for path in sorted(root.rglob("*")):
        if path.is_dir() or not (path.is_file() or path.is_symlink()) or path.resolve() in skipped:
            continue
        name = path.relative_to(root).as_posix()
        try:
            image[name] = path.read_bytes()
        except OSError:
            image[name] = "unreadable"
    return image


class DirectoryWriter:
    """Carries out operations below ``root`` on the calling thread; remembers which directory entries are durable."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._durable: set[str] = set()

    def carry_out(self, batch: Disk) -> Done:
        """Do what the batch says. Never raises an OSError: it becomes ``error``."""
        files: dict[str, int] = {}
        syncs, sync_ns, longest_ns, longest_at = 0, 0, 0, 0
        error: str | None = None
        op: DiskOp | None = None
        try:
            for op in batch.ops:
                if isinstance(op, Write):
                    self._write(op, files)
                elif isinstance(op, Unlink):
                    self._unlink(op, files)
                else:
                    began = time.monotonic_ns()
                    if isinstance(op, Fsync):
                        self._fsync(op, files)
                    else:
                        self._rename(op, files)
                    took = time.monotonic_ns() - began
                    syncs, sync_ns = syncs + 1, sync_ns + took
                    if took > longest_ns:
                        longest_ns, longest_at = took, began
        except (OSError, ValueError) as failure:
            error = f"{type(op).__name__.lower()}: {failure}"
        finally:
            for fd in files.values():
                with contextlib.suppress(OSError):
                    os.close(fd)
        return Done(batch.token, batch.ops, error, sync_ns, syncs, longest_ns, longest_at)

    def _path(self, name: str) -> Path:
        pure = PurePosixPath(name)
        if pure.is_absolute() or ".." in pure.parts or not pure.parts:
            raise ValueError(f"the path {name!r} leaves the data directory")
        return self._root / pure

    def _open(self, name: str, files: dict[str, int]) -> int:
        # One descriptor a file and batch: a write-back error is then certainly reported to the fsync that follows.
        fd = files.get(name)
        if fd is None:
            path = self._path(name)
            flags = os.O_RDWR | os.O_CLOEXEC
            try:
                fd = os.open(path, flags)
            except FileNotFoundError:
                path.parent.mkdir(parents=True, exist_ok=True)
                fd = os.open(path, flags | os.O_CREAT, 0o644)
                self._durable.discard(name)
            files[name] = fd
        return fd

    def _write(self, op: Write, files: dict[str, int]) -> None:
        fd = self._open(op.path, files)
        at = os.fstat(fd).st_size if op.offset is None else op.offset
        data = memoryview(op.data)
        while data:
            written = os.pwrite(fd, data, at)
            at += written
            data = data[written:]
        if op.truncate:
            os.ftruncate(fd, at)

    def _fsync(self, op: Fsync, files: dict[str, int]) -> None:
        os.fsync(self._open(op.path, files))
        if op.path not in self._durable:
            self._fsync_directories(op.path)
            self._durable.add(op.path)

    def _rename(self, op: Rename, files: dict[str, int]) -> None:
        for name in (op.src, op.dst):
            if (fd := files.pop(name, None)) is not None:
                os.close(fd)
        self._path(op.dst).parent.mkdir(parents=True, exist_ok=True)
        self._path(op.src).replace(self._path(op.dst))
        self._durable -= {op.src, op.dst}
        if not op.sync:
            return
        self._fsync_directories(op.dst)
        self._durable.add(op.dst)
        if PurePosixPath(op.src).parent != PurePosixPath(op.dst).parent:
            self._fsync_directories(op.src)

    def _unlink(self, op: Unlink, files: dict[str, int]) -> None:
        if (fd := files.pop(op.path, None)) is not None:
            os.close(fd)
        self._path(op.path).unlink(missing_ok=True)
        self._durable.discard(op.path)

    def _fsync_directories(self, name: str) -> None:
        directory = self._path(name).parent
        while True:
            fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
            if directory == self._root:
                return
            directory = directory.parent


class DiskThread:
    """Carries batches out behind the loop's back; ``wake`` is called (on the thread) after each result."""

    def __init__(self, root: Path, wake: Callable[[], None]) -> None:
        self._writer = DirectoryWriter(root)
        self._wake = wake
        self._queue: SimpleQueue[Disk | None] = SimpleQueue()
        self.results: deque[Done | BaseException] = deque()
        """What the loop takes from the left. An exception is a bug of this module, never an answer of the disk."""
        self._thread = threading.Thread(target=self._run, name="disk", daemon=True)
        self._thread.start()

    def submit(self, batch: Disk) -> None:
        """Queue a batch."""
        self._queue.put(batch)

    def stop(self, limit_s: float) -> bool:
        """Finish what is queued; False if that takes longer than ``limit_s`` (a hanging disk)."""
        self._queue.put(None)
        self._thread.join(limit_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (batch := self._queue.get()) is not None:
            try:
                self.results.append(self._writer.carry_out(batch))
            except BaseException as error:  # noqa: BLE001 - re-raised on the loop's thread, which ends the node
                self.results.append(error)
            self._wake()
