"""A busy machine on demand: processes that burn CPU, that write and sync, that hold memory.

    python tests/load_generator.py --cpu 3 --fsync 3 --for 60        a load of 6, half CPU, half fsync

``with Load(cpu=3, fsync=3, limit_s=60): …`` does the same around a block. Promises: every worker ends by itself at its
deadline and as soon as the process that started it is gone, even after ``kill -9``; files have no name, so nothing
stays behind; sizes are bounded. Out of scope: any measurement.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

SMALL_BYTES = 256 << 10
LARGE_BYTES = 64 << 20
"""A syncing worker appends small pieces and syncs each; every ``LARGE_EVERY``-th piece is a large one.

The blocks are new each time, so a journaling file system must write them out before it commits what other processes
sync: that is how one busy process stalls the syncs of all others, for longer than small pieces alone would.
"""
LARGE_EVERY = 16
FILE_BYTES = 128 << 20
"""A worker's file never grows much beyond this: it is truncated, and filled again."""
CHUNK_S = 0.02
"""How often a burning worker looks at its deadline."""
TOUCH_S = 0.2
"""How often a worker that holds memory touches each page of it."""
PAGE = 4096
END_LIMIT_S = 10.0


class Load:
    """Workers around a block: ``cpu`` burners, ``fsync`` writers below ``directory``, one that holds ``memory_mib``."""

    def __init__(
        self, *, cpu: int = 0, fsync: int = 0, memory_mib: int = 0, limit_s: float, directory: Path | None = None
    ) -> None:
        if min(cpu, fsync, memory_mib) < 0 or limit_s <= 0:
            raise ValueError("a load has no negative part, and a limit above 0 seconds")
        place = str(directory or tempfile.gettempdir())
        kinds = [("cpu", 0)] * cpu + [("fsync", 0)] * fsync + [("memory", memory_mib)] * bool(memory_mib)
        self._commands = [
            [
                sys.executable,
                "-S",
                __file__,
                "--worker",
                kind,
                "--size",
                str(size),
                "--for",
                str(limit_s),
                "--in",
                place,
            ]
            for kind, size in kinds
        ]
        self._workers: list[subprocess.Popen[bytes]] = []

    @property
    def alive(self) -> int:
        """How many workers run now."""
        return sum(worker.poll() is None for worker in self._workers)

    def start(self) -> None:
        """Start all workers."""
        self._workers = [
            subprocess.Popen([*command, "--parent", str(os.getpid())], stdin=subprocess.DEVNULL)
            for command in self._commands
        ]

    def stop(self) -> None:
        """End all workers. A sync under way must return first, so a worker may take as long as the disk does."""
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.wait(END_LIMIT_S)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class _Until:
    """True while a worker is to go on: its deadline has not passed and its parent lives."""

    def __init__(self, limit_s: float, parent: int) -> None:
        self._end = time.monotonic() + limit_s
        self._parent = parent

    def __bool__(self) -> bool:
        return time.monotonic() < self._end and os.getppid() == self._parent


def burn(until: _Until) -> None:
    """Use one processor."""
    while until:
        pause = time.monotonic() + CHUNK_S
        while time.monotonic() < pause:
            sum(range(1000))


def write_and_sync(until: _Until, directory: str) -> None:
    """Write and sync, one after the other, with no pause."""
    data = memoryview(os.urandom(LARGE_BYTES))
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        count = at = 0
        while until:
            count += 1
            at += os.pwrite(file.fileno(), data if count % LARGE_EVERY == 0 else data[:SMALL_BYTES], at)
            os.fsync(file.fileno())
            if at >= FILE_BYTES:
                os.ftruncate(file.fileno(), 0)
                at = 0


def hold_memory(until: _Until, mib: int) -> None:
    """Hold memory and keep all of it in use."""
    held = bytearray(mib << 20)
    count = 0
    while until:
        count = (count + 1) % 256
        for at in range(0, len(held), PAGE):
            held[at] = count
        time.sleep(TOUCH_S)


def main(words: Sequence[str] | None = None) -> int:
    """The command line; see the top of this file."""
    parser = argparse.ArgumentParser(description="Load this machine for a while.")
    parser.add_argument("--cpu", type=int, default=0, metavar="N", help="processes that burn CPU")
    parser.add_argument("--fsync", type=int, default=0, metavar="N", help="processes that write and sync")
    parser.add_argument("--memory-mib", type=int, default=0, metavar="M", help="memory that is held and touched")
    parser.add_argument("--for", type=float, required=True, dest="limit_s", metavar="SECONDS")
    parser.add_argument("--in", dest="directory", default=tempfile.gettempdir(), help="where the unnamed files lie")
    parser.add_argument("--worker", choices=("cpu", "fsync", "memory"), help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--parent", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args(words)
    if given.worker is None:
        with Load(
            cpu=given.cpu,
            fsync=given.fsync,
            memory_mib=given.memory_mib,
            limit_s=given.limit_s,
            directory=Path(given.directory),
        ) as load:
            end = time.monotonic() + given.limit_s
            while load.alive and time.monotonic() < end:
                time.sleep(0.1)
        return 0
    until = _Until(given.limit_s, given.parent)
    if given.worker == "cpu":
        burn(until)
    elif given.worker == "fsync":
        write_and_sync(until, given.directory)
    else:
        hold_memory(until, given.size)
    return 0


if __name__ == "__main__":
    sys.exit(main())
