"""Processes, files and ports of the host: what is read of them, and what is done to them.

Guarantees: a child dies with this process; freezing takes what a process forks meanwhile, too; what is started after
``stay_together`` stays in this process group. Out of scope: which processes are the node's.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Collection, Sequence

ANSWER_LIMIT_S = 0.3
SIGNAL_LIMIT_S = 2.0
OUTPUT_MAX, SHOWN_MAX = 1 << 20, 4096
PR_SET_PDEATHSIG, PR_SET_SECCOMP = 1, 22
SECCOMP_MODE_FILTER, SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO = 2, 0x7FFF0000, 0x00050000
MOVES = {"x86_64": (0xC000003E, 112, 109), "aarch64": (0xC00000B7, 157, 154)}
"""The kernel's number of a machine (linux/audit.h), and there those of setsid and setpgid."""


class CannotStart(Exception):  # noqa: N818 - names the thing found
    """A command that cannot be executed."""


def stat_of(pid: int) -> tuple[str, int, int] | None:
    """State letter, parent and process group of a process; None: there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            fields = file.read().rpartition(b")")[2].split()
        return fields[0].decode(), int(fields[1]), int(fields[2])
    except (OSError, ValueError, IndexError):
        return None


def living() -> dict[int, tuple[str, int, int]]:
    """All processes of the host that have not ended."""
    found = {int(name): stat_of(int(name)) for name in os.listdir("/proc") if name.isdigit()}  # noqa: PTH208
    return {pid: stat for pid, stat in found.items() if stat is not None and stat[0] not in "ZX"}


def tree(pid: int) -> list[int]:
    """A process and its descendants."""
    stats = living()
    out = [pid] if pid in stats else []
    for one in out:  # grows as it is walked
        out += [child for child, (_, parent, _) in stats.items() if parent == one]
    return out


def thread_states(pid: int) -> str:
    """The state letters of the threads of a process."""
    out = ""
    with contextlib.suppress(OSError, IndexError):
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            with open(f"/proc/{pid}/task/{task}/stat", "rb") as file:  # noqa: PTH123
                out += file.read().rpartition(b")")[2].split()[0].decode()
    return out


def send(pids: Collection[int], number: int) -> None:
    """Signal these processes, as far as they are there."""
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def freeze(pid: int) -> list[int]:
    """Stop a process and its descendants; those that were stopped. What it forked meanwhile is stopped, too."""
    stopped: list[int] = []
    while fresh := [one for one in tree(pid) if one not in stopped]:
        send(fresh, signal.SIGSTOP)
        stopped += fresh
    return stopped


def await_that(condition: Callable[[], bool], limit_s: float) -> bool:
    """Whether it came true in time."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


_LIBC = ctypes.CDLL(None)


def die_with_parent() -> None:
    """In a child, before it becomes the program."""
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def stay_together() -> str:
    """Keep this process and all that it starts in one process group; why not, or "".

    A daemon leaves the group of who started it, and faults of the node would miss it. From now on setsid and setpgid
    do nothing, and say that they did.
    """
    if os.uname().machine not in MOVES:
        return f"it is not known how on {os.uname().machine}"
    machine, *moves = MOVES[os.uname().machine]
    load, equal, give = 0x20, 0x15, 0x06
    steps = [(load, 0, 0, 4), (equal, 0, 3, machine), (load, 0, 0, 0), (equal, 2, 0, moves[0]), (equal, 1, 0, moves[1])]
    steps += [(give, 0, 0, SECCOMP_RET_ALLOW), (give, 0, 0, SECCOMP_RET_ERRNO)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    rules = ctypes.create_string_buffer(struct.pack("HP", len(steps), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    place = ctypes.c_ulong(ctypes.addressof(rules))
    if libc.prctl(PR_SET_SECCOMP, ctypes.c_ulong(SECCOMP_MODE_FILTER), place) < 0:
        return os.strerror(ctypes.get_errno())
    return ""


def tell(text: str) -> None:
    """A line in the node's output."""
    with contextlib.suppress(OSError):
        os.write(1, f"dethrone: {text}\n".encode())


def spawn(argv: Sequence[str], output: int) -> subprocess.Popen[bytes]:
    """Start a child in this process group that dies with this process. Raises CannotStart."""
    try:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call, and there is one thread
        )
    except OSError as error:
        raise CannotStart(f"{argv[0]} cannot be started: {error.strerror}") from error


def lives(pid: int) -> bool:
    """Whether there is such a process, and it has not ended."""
    stat = stat_of(pid)
    return stat is not None and stat[0] not in "ZX"


def size_of(path: str) -> int:
    """Of a file, in bytes; 0: there is none."""
    try:
        return os.stat(path).st_size  # noqa: PTH116
    except OSError:
        return 0


def text_from(path: str, offset: int) -> str:
    """The end of a file after ``offset``, bounded."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            file.seek(max(offset, size_of(path) - OUTPUT_MAX))
            return file.read(OUTPUT_MAX).decode("utf-8", "replace")
    except OSError:
        return ""


def listens(address: str, port: int, path: str | None) -> bool:
    """Whether a process accepts connections there and, with ``path``, answers a GET of it with 200."""
    try:
        with socket.create_connection((address, port), timeout=ANSWER_LIMIT_S) as connection:
            if path is None:
                return True
            connection.sendall(f"GET {path} HTTP/1.0\r\nHost: {address}:{port}\r\n\r\n".encode())
            return connection.recv(SHOWN_MAX).split(b" ")[1:2] == [b"200"]
    except OSError:
        return False
