"""What a process is, and for which deadlines its threads wait: whether a skewed clock would falsify its waits. Pure,
but for reading ``/proc``.

A program that waits for "200 ms from now" as an absolute time reads its own clock, which is skewed, and lets the kernel
wait on its own, which is not: the wait takes 200 ms plus the skew. Programs that wait for a span of time are safe. So a
skew of wall time is refused to a process with a thread that waits until a wall time, and a rate of monotonic time is
given to programs of Go alone, whose runtime waits for spans. Steps of monotonic time are refused to all of them:
deadlines that a program keeps in its own memory are then missed by the step, at the begin or at the end.

Guarantees: a reason names the call, or the runtime. Out of scope: waits that end between two looks.

Sources: futex(2), clock_nanosleep(2), timerfd_create(2), mq_receive(3); tried with Go 1.26, OpenJDK 17, CPython 3.11
and glibc 2.36 (``tests/clusters/agent/test_waits.py``).
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
from typing import NamedTuple

SYS_FUTEX, SYS_CLOCK_NANOSLEEP, SYS_RESTART, SYS_FUTEX_WAITV = 202, 230, 219, 449
SYS_MQ_SEND, SYS_MQ_RECEIVE = 242, 243
FUTEX_REALTIME, FUTEX_PRIVATE = 256, 128
FUTEX_UNTIL = {9: "FUTEX_WAIT_BITSET", 11: "FUTEX_WAIT_REQUEUE_PI", 13: "FUTEX_LOCK_PI2"}
FUTEX_LOCK_PI = 6
TIMER_ABSTIME = 1
IS_WALL = frozenset({0, 8, 11})
RUNTIMES = {
    "go": "a static Go program",
    "go-libc": "a Go program that uses libc",
    "jvm": "a Java virtual machine",
    "cpython": "CPython",
    "libc": "a program that uses libc",
    "static": "a static program",
}


class Until(NamedTuple):
    """A thread waits until a time of this clock (``wall`` or ``mono``), by that call."""

    thread: int
    clock: str
    call: str


def _kind(clock: int) -> str:
    return "wall" if clock in IS_WALL else "mono"


def waits_until(thread: int, number: int, arguments: tuple[int, ...]) -> Until | None:
    """What a thread in this system call waits until; None: it does not wait for a time, or for a span of it."""
    first, second, third, fourth, fifth = arguments[:5]
    if number in {SYS_FUTEX, SYS_RESTART}:  # an interrupted wait continues as ``restart_syscall``, with its arguments
        operation = second & ~(FUTEX_REALTIME | FUTEX_PRIVATE)
        if second >> 9 or not fourth or first % 4 or first < 1 << 12:
            return None
        if operation in FUTEX_UNTIL:
            return Until(thread, "wall" if second & FUTEX_REALTIME else "mono", FUTEX_UNTIL[operation])
        if operation == FUTEX_LOCK_PI and number == SYS_FUTEX:
            return Until(thread, "wall", "FUTEX_LOCK_PI")
    elif number == SYS_CLOCK_NANOSLEEP and second & TIMER_ABSTIME:
        return Until(thread, _kind(first), "clock_nanosleep(TIMER_ABSTIME)")
    elif number == SYS_FUTEX_WAITV and fourth:
        return Until(thread, _kind(fifth), "futex_waitv")
    elif number in {SYS_MQ_SEND, SYS_MQ_RECEIVE} and fifth:
        return Until(thread, "wall", "mq_timedsend" if number == SYS_MQ_SEND else "mq_timedreceive")
    del third
    return None


def waits_seen(pid: int) -> list[Until]:
    """What the threads of a process that is not held wait until now, armed timers of its descriptors included."""
    out = timers_until(pid)
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/task/{thread}/syscall", "rb") as file:  # noqa: PTH123
                words = file.read().split()
                if len(words) > 6:  # "running" has no arguments
                    found = waits_until(int(thread), int(words[0]), tuple(int(word, 16) for word in words[1:7]))
                    out += [found] if found is not None else []
    return out


def timers_until(pid: int) -> list[Until]:
    """Its timers (timerfd) that are armed for an absolute time."""
    out = []
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
            with contextlib.suppress(OSError, KeyError, ValueError):
                if os.readlink(f"/proc/{pid}/fd/{name}") != "anon_inode:[timerfd]":  # noqa: PTH115
                    continue
                with open(f"/proc/{pid}/fdinfo/{name}", encoding="ascii") as file:  # noqa: PTH123
                    said = dict(line.split(": ", 1) for line in file if ": " in line)
                armed = re.findall(r"\d+", said["it_value"]) != ["0", "0"]
                if armed and int(said["settime flags"], 8) & 1:  # TFD_TIMER_ABSTIME
                    out.append(Until(pid, _kind(int(said["clockid"])), "timerfd_settime(TFD_TIMER_ABSTIME)"))
    return out


def runtime_of(pid: int) -> str:
    """Which of ``RUNTIMES`` this process is, by its program and the libraries that it has mapped."""
    try:
        with open(f"/proc/{pid}/exe", "rb") as file:  # noqa: PTH123
            interpreter, go = _program(file.read(1 << 16))
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            mapped = {os.path.basename(line.split(None, 5)[5].strip()) for line in file if line.count(" ") > 5}  # noqa: PTH119
    except (OSError, IndexError):
        return "libc"
    if "libjvm.so" in mapped:
        return "jvm"
    if any(re.match(r"(lib)?python3?(\.\d+)*(\.so.*)?$", name) for name in mapped):
        return "cpython"
    if go:
        return "go-libc" if interpreter else "go"
    return "libc" if interpreter else "static"


def program_kind(path: str) -> str:
    """``static`` for a program file that asks for no interpreter, else ``other``."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            head = file.read(1 << 16)
    except OSError:
        return "other"
    return "static" if head[:4] == b"\x7fELF" and not _program(head)[0] else "other"


def _program(head: bytes) -> tuple[bool, bool]:
    """Whether an ELF program asks for an interpreter, and whether Go made it (it has a note of Go's)."""
    interpreter = go = False
    try:
        place, (size, count) = struct.unpack_from("<Q", head, 32)[0], struct.unpack_from("<HH", head, 54)
        for number in range(count):
            kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", head, place + number * size)
            interpreter = interpreter or kind == 3  # PT_INTERP
            go = go or (kind == 4 and b"\x04\0\0\0Go\0\0" in head[offset : offset + length])  # PT_NOTE
    except struct.error:
        pass
    return interpreter, go


def refusal(runtime: str, waits: list[Until], *, wall: bool, mono_rate: bool, mono_step: bool) -> str:
    """Why these clocks of a process may not be skewed; "": they may be."""
    what = RUNTIMES[runtime]
    if mono_step:
        return (
            "monotonic time of a running process is not stepped: timers that it has set would end too early or too "
            "late by the step, at its begin or at its end"
        )
    if mono_rate and runtime != "go":
        return (
            f"{what} may wait until a monotonic time that it computes from the skewed clock and the kernel waits for "
            "on its own, so its timed waits would not take their length; only static Go programs wait for spans of time"
        )
    for one in waits:
        if (one.clock == "wall" and wall) or (one.clock == "mono" and mono_rate):
            clock = "wall" if one.clock == "wall" else "monotonic"
            return (
                f"thread {one.thread} of {what} waits until a {clock} time ({one.call}), which the kernel counts on "
                "its own clock: the wait would be wrong by the skew"
            )
    return ""
