"""The disk of a node, as a host can make it fail: a helper serves the data directory where a run asks for it.

Guarantees: what removes the mount is on disk before it is made; a file system in user space that is not ours is neither
mounted over nor removed; trouble counts as in force, or as over, only if a file of ours suffers it, or does not; a loss
of power is followed by a new mount, so nothing of it is left in the kernel's cache. Out of scope: what exactly is lost
(``volume``).
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import selectors
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from dethrone.clusters.agent.host.common import SECOND, Refused, now_ns
from dethrone.clusters.agent.host.mounts import is_ours, mounted, unmount_ours
from dethrone.clusters.agent.host.processes import Child, Processes, same_process

DISK_WOES = {
    "full": {"write": errno.ENOSPC},
    "readonly": {"write": errno.EROFS},
    "eio": {"write": errno.EIO, "sync": errno.EIO},
    "slow": {},
}
"""Kind of a trouble → which operations fail, and with what, unless it names some (``of``)."""
DISK_ACCESSES = {"reads": "read", "writes": "write", "syncs": "sync"}
DISK_TRIES = 20
"""How many of ours are tried for each that must fail, where only a share does: the node's own count, too."""
DISK_PROBE = ".dethrone-probe"
DISK_LIMIT_S = 20.0
"""How long a helper may take to mount, to answer and to end: a loss of power writes back what is to be left."""
SLOW_PROBE_NS = SECOND // 4
"""A slow sync is awaited for no longer; one that takes so long is slow enough."""


class NodeDisk:
    """The data directory of one node behind a helper of ours. Used by one thread at a time, but for ``put_back``.

    ``remember``: stores ``undo``; ``argv``: the command line of a helper, but for its directory.
    """

    def __init__(self, processes: Processes, run: str, argv: list[str], remember: Callable[[], None]) -> None:
        self._processes = processes
        self._run = run
        self._argv = argv
        self._remember = remember
        self._directory = ""
        self.model = ""
        """What a sync makes durable, as its helper knows it."""
        self._helper: Child | None = None
        self._orders = self._answers = -1
        self._losses = 0
        self._moving = threading.Lock()
        """Held while the directory is not served for a moment."""
        self._good_ns = now_ns()
        self._reported = False
        self._woes: Mapping[str, Any] | None = None
        self.undo: dict[str, Any] | None = None
        """What removes the mount without this agent."""

    @property
    def served(self) -> bool:
        """Whether the directory is behind a helper."""
        return self.undo is not None

    @property
    def in_trouble(self) -> bool:
        """Whether something is wrong with it now."""
        return self._woes is not None

    def mount(self, directory: str, model: str) -> None:
        """Serve the directory from now on. ``model``: what syncs make durable. Raises Refused if it cannot be."""
        if self.served:
            return
        there = mounted(directory)
        if there and there[-1].kind.startswith("fuse"):
            whose = "another run's" if is_ours(there[-1], None) else "another program's"
            raise Refused(f"{directory} is a mount of {whose} ({there[-1].source}): it is left alone")
        self._directory, self.model = directory, model
        with self._moving:
            self.undo = {"directory": directory, "run": self._run}
            self._remember()
            self._start()

    def unmount(self) -> None:
        """Serve it no longer. What was written stays. Raises Refused, OSError."""
        if not self.served:
            return
        with self._moving:
            self._stop()
            self._woes = self.undo = None
            self._remember()

    def afflict(self, trouble: Mapping[str, Any] | None) -> dict[str, Any]:
        """Make the disk fail as the trouble says, or make it well; what a file of ours suffered. Raises Refused."""
        if trouble is None and self._woes is None:
            return {}
        fails = _fails(trouble)
        latency_ns, percent = (0, 100) if trouble is None else (trouble["latency_ns"], trouble["percent"])
        before, self._woes = self._woes, trouble
        counted = self._order(do="woes", fails=fails, share_ppm=10_000 * percent, latency_ns=latency_ns)
        return {**counted, **self._probe(trouble, next(iter(fails or _fails(before)), "write"))}

    def lapsed(self) -> str:
        """Why the disk is no longer as it was made; "" if it is."""
        if self._helper is None or not same_process(self._helper.pid, self._helper.start):
            return "the helper that serves the disk has ended"
        there = mounted(self._directory)
        if not there or not is_ours(there[-1], self._run):
            return f"{self._directory} is no longer served by our helper"
        return ""

    def put_back(self) -> tuple[str, int, str]:
        """What was lost, reported once: a node that had files open there cannot go back to them."""
        with self._moving:
            why = self.lapsed() if self.served else ""
        if not why:
            self._good_ns = now_ns()
        if not why or self._reported:
            return "", self._good_ns, ""
        self._reported = True
        return why, self._good_ns, "the files that the node has open are lost to it: it must start again"

    def lose_power(self, *, torn: bool) -> dict[str, Any]:
        """Lose what was not synced, and mount again. No process may use the disk. Raises Refused."""
        self._losses += 1
        with self._moving:
            lost = self._order(do="lose_power", torn=f"{self._run} {self._losses}" if torn else None)
            if self._woes is not None:  # what hangs fails now, instead of becoming durable or keeping the mount busy
                self._order(do="woes", fails={}, share_ppm=1_000_000, latency_ns=0)
            self._stop()
            self._start()
        if self._woes is not None:
            self.afflict(self._woes)
        return lost

    # --- the helper -----------------------------------------------------------------------------------------------

    def _start(self) -> None:
        orders, theirs = os.pipe()
        ours, answers = os.pipe()
        try:
            argv = [*self._argv, "--directory", self._directory, "--run", self._run, "--model", self.model]
            self._helper = self._processes.spawn(argv, files=(orders, answers, 2))
        except OSError as error:
            os.close(theirs)
            os.close(ours)
            raise Refused(f"the disk's helper could not be started: {error.strerror or error}") from None
        finally:
            os.close(orders)
            os.close(answers)
        self._orders, self._answers = theirs, ours
        try:
            self._answer()
        except Refused as refused:
            self._close()
            self.undo = None
            self._remember()
            raise Refused(f"the disk cannot be served here: {refused}") from None

    def _stop(self) -> None:
        """Unmount, and wait for the helper's end."""
        if unmount_ours(self._directory, self._run) and self._helper is not None:
            self._helper.done.wait(DISK_LIMIT_S)
        self._close()

    def _close(self) -> None:
        for fd in (self._orders, self._answers):
            if fd >= 0:
                os.close(fd)
        self._orders = self._answers = -1

    def _order(self, **order: Any) -> dict[str, Any]:
        if self._orders < 0 or self.lapsed():
            raise Refused(self.lapsed() or "the disk is not served by a helper")
        try:
            os.write(self._orders, json.dumps(order).encode() + b"\n")
        except OSError as error:
            raise Refused(f"the disk's helper: {error.strerror or error}") from None
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        deadline, said = time.monotonic() + DISK_LIMIT_S, b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._answers, selectors.EVENT_READ)
            while not said.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise Refused(f"the disk's helper did not answer within {DISK_LIMIT_S:g} s")
                data = os.read(self._answers, 1 << 16)
                if not data:
                    raise Refused("the disk's helper ended")
                said += data
        answer = json.loads(said)
        if "ok" not in answer:
            raise Refused(str(answer.get("error"))[:300])
        return dict(answer["ok"])

    # --- the proof ------------------------------------------------------------------------------------------------

    def _probe(self, trouble: Mapping[str, Any] | None, access: str) -> dict[str, Any]:
        """What an access of ours suffers there now; raises Refused if that is not the trouble."""
        kind = None if trouble is None else trouble["kind"]
        percent = 100 if trouble is None else trouble["percent"]
        code = 0
        for _ in range(1 if percent == 100 else DISK_TRIES * 100 // percent):
            code = code or self._access(access)
        if code != _fails(trouble).get(access, 0):
            said = os.strerror(code) if code else "no error"
            raise Refused(f"a {access} gave {said}, which is not what a disk that is {kind or 'well'} does")
        found: dict[str, Any] = {"probe": errno.errorcode[code] if code else "written"}
        if trouble is not None and kind == "slow":
            least_ns = min(trouble["latency_ns"], SLOW_PROBE_NS)
            found["sync_ns"] = self._timed_sync(least_ns)
            if found["sync_ns"] < least_ns:
                raise Refused(f"a sync took {found['sync_ns']} ns, less than {least_ns}")
        return found

    def _access(self, access: str) -> int:
        """Write or read a file of ours, or sync the directory; the number of the error, 0 without one."""
        path, flags = os.path.join(self._directory, DISK_PROBE), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        if access == "sync":  # what is synced comes back with a loss of power: no file of ours is
            path, flags = self._directory, os.O_RDONLY | os.O_DIRECTORY
        fd = -1
        try:
            fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
            if access == "sync":
                os.fsync(fd)
            else:
                os.pwrite(fd, b"probe", 0)
            if access == "read":
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)  # else the kernel answers from its cache
                os.pread(fd, 5, 0)
        except OSError as error:
            return error.errno or errno.EIO
        finally:
            if fd >= 0:
                os.close(fd)
            if access != "sync":
                with contextlib.suppress(OSError):
                    os.unlink(path)
        return 0

    def _timed_sync(self, least_ns: int) -> int:
        """How long a sync of the directory takes, awaited for a little longer than ``least_ns``."""
        done = threading.Event()
        began = now_ns()

        def sync() -> None:
            with contextlib.suppress(OSError):
                fd = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                try:
                    os.fsync(fd)
                finally:
                    os.close(fd)
            done.set()

        threading.Thread(target=sync, name="probe-sync", daemon=True).start()
        done.wait(least_ns / SECOND * 1.2)
        return now_ns() - began


def _fails(trouble: Mapping[str, Any] | None) -> dict[str, int]:
    """Operation → the number of its error."""
    if trouble is None:
        return {}
    named = DISK_ACCESSES.get(trouble["of"])
    return dict(DISK_WOES[trouble["kind"]]) if named is None else {named: errno.EIO}


def helper_argv() -> list[str]:
    """The command line of a helper: this file, by this interpreter."""
    return [sys.executable, "-S", sys.argv[0], "disk"]


def remove_disk(undo: Mapping[str, Any]) -> str:
    """Unmount what an agent mounted, also if its helper is dead, and twice; "" or what is left. Raises KeyError."""
    directory = str(undo["directory"])
    try:
        while unmount_ours(directory, str(undo["run"])):
            pass
    except OSError as error:
        return f"{directory} is still mounted ({error.strerror}): run `umount -l {directory}` on the host as root"
    return ""
