"""Holding a running process still, and looking at its threads and its memory meanwhile (ptrace, x86-64).

Guarantees: a process is held for as short as its work takes, and let go in every case, even if this process dies:
no register of it is ever changed; signals that come meanwhile reach it. Only a process with a single thread of its own
may hold others: what it waits for must not be reaped by another thread. Out of scope: what is done meanwhile.

Source: ptrace(2).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import struct
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from dethrone.clusters.agent.host.common import Refused

PTRACE_CONT, PTRACE_GETREGS, PTRACE_DETACH = 7, 12, 17
PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207
PTRACE_O_TRACEEXEC, PTRACE_EVENT_EXEC, PTRACE_EVENT_STOP = 0x10, 4, 128
WALL_CHILDREN = 0x40000000
"""``__WALL``: threads, too."""
HOLD_LIMIT_S = 1.0
"""How long the threads of a process may take to stop."""
SPINS = 100
"""How often it is asked for a stop before any pause."""
LEAVES_MAX = 60
"""How often threads run on for a moment to get out of a place: 18 ms of waiting in all."""
STACK_SEEN = 16 << 10
"""How much of a thread's stack is searched for a place to which a signal handler returns."""
USER_CODE = 0x33
"""Code segment of user code of 64 bits."""
ARGUMENTS = ("rdi", "rsi", "rdx", "r10", "r8", "r9")
"""Where the arguments of a system call are."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)


class Registers(ctypes.Structure):
    """``struct user_regs_struct`` of x86-64."""

    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in (
            *("r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi"),
            *("orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs"),
        )
    )


def ptrace(request: int, thread: int, address: int | None = None, data: Any = None) -> int:
    """The system call. Raises OSError."""
    ctypes.set_errno(0)
    done = int(_libc.ptrace(request, thread, address, data))
    if done == -1 and ctypes.get_errno():
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return done


class Stop(NamedTuple):
    """How a thread stopped: the signal that it is about to receive, or the event (``PTRACE_EVENT_…``), or its end."""

    signal: int
    event: int
    gone: bool = False


def next_stop(thread: int, limit_s: float = HOLD_LIMIT_S) -> Stop:
    """Wait until a held thread stops or ends. Raises Refused after the limit."""
    deadline = time.monotonic() + limit_s
    turn = 0
    while True:
        try:
            found, status = os.waitpid(thread, WALL_CHILDREN | os.WNOHANG)
        except ChildProcessError:
            return Stop(0, 0, gone=True)
        if found and os.WIFSTOPPED(status):
            return Stop(os.WSTOPSIG(status), status >> 16)
        if found:
            return Stop(0, 0, gone=True)
        if time.monotonic() > deadline:
            raise Refused(f"thread {thread} does not stop: it is in state {_state(thread)}")
        turn += 1
        time.sleep(0.00005 if turn > SPINS else 0)


def _status(thread: int) -> dict[str, str]:
    with contextlib.suppress(OSError), open(f"/proc/{thread}/status", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        return {key: value.strip() for key, _, value in (line.partition(":") for line in file)}
    return {}


def _state(thread: int) -> str:
    return _status(thread).get("State", "gone")


class Stuck(Refused):
    """A process could not be held, and cannot be let go but by the end of this process."""


class HeldProcess:
    """All threads of a process, stopped. ``registers``: of each."""

    def __init__(self, pid: int, memory: int) -> None:
        self.pid = pid
        self._memory = memory
        self.registers: dict[int, Registers] = {}
        self._signals: dict[int, int] = {}
        """What a thread was about to receive when it stopped."""
        self._paused = False
        """Whether it had been stopped by a signal already, which it stays."""

    def hold(self) -> None:
        """Stop all threads. Raises Refused if that cannot be done; those that stopped are let go by ``release``."""
        for _ in range(100):
            new = [thread for thread in self._threads() if thread not in self.registers]
            if not new:
                return
            for thread in new:
                self._seize(thread)
            for thread in new:
                if thread in self.registers:
                    self._stopped(thread, next_stop(thread))
        raise Refused(f"process {self.pid} starts threads faster than they can be stopped")

    def _threads(self) -> list[int]:
        try:
            return [int(entry) for entry in os.listdir(f"/proc/{self.pid}/task")]  # noqa: PTH208
        except FileNotFoundError:
            raise Refused(f"process {self.pid} is gone") from None

    def _seize(self, thread: int) -> None:
        try:
            ptrace(PTRACE_SEIZE, thread)
            ptrace(PTRACE_INTERRUPT, thread)
        except OSError as error:
            if _status(thread).get("State", "Z")[0] in "ZX":
                return
            refuse_traced(self.pid, thread)
            raise Refused(f"process {self.pid} may not be traced here: {error.strerror}") from error
        self.registers[thread] = Registers()

    def _stopped(self, thread: int, stop: Stop) -> None:
        """A thread has stopped, or is gone."""
        if stop.gone:
            self.registers.pop(thread, None)
            return
        if not stop.event and stop.signal != signal.SIGTRAP:
            self._signals[thread] = stop.signal
        self._paused = self._paused or (stop.event == PTRACE_EVENT_STOP and stop.signal != signal.SIGTRAP)
        self._read(thread)

    def _read(self, thread: int) -> None:
        try:
            ptrace(PTRACE_GETREGS, thread, None, ctypes.byref(self.registers[thread]))
        except OSError as error:
            if error.errno != errno.ESRCH:
                raise
            self.registers.pop(thread, None)

    def release(self) -> bool:
        """Let all threads continue; False: one never stopped, and only the end of this process lets go of it."""
        left = []
        for thread in self.registers:
            try:
                ptrace(PTRACE_DETACH, thread, None, self._signals.get(thread, 0))
            except OSError:
                left.append(thread)
        deadline = time.monotonic() + HOLD_LIMIT_S
        while self._paused and time.monotonic() < deadline:
            if all(_state(thread)[0] in "TtZXg" for thread in self.registers):
                break
        self.registers = {}
        return not any(_status(thread).get("TracerPid") == str(os.getpid()) for thread in left)

    # --- memory -----------------------------------------------------------------------------------------------

    def read(self, address: int, size: int) -> bytes:
        """Bytes of its memory, fewer where it ends. Raises OSError."""
        return os.pread(self._memory, size, address)

    def write(self, address: int, data: bytes) -> None:
        """Change its memory, also where it may only be read. Raises OSError."""
        if os.pwrite(self._memory, data, address) != len(data):
            raise OSError(errno.EIO, "its memory was written in part")

    def patch_memory(self, patch: Any) -> None:
        """Call ``patch`` with this process, whose memory is a new one."""
        self._memory = os.open(f"/proc/{self.pid}/mem", os.O_RDWR | os.O_CLOEXEC)
        try:
            patch(self)
        finally:
            os.close(self._memory)

    # --- places -----------------------------------------------------------------------------------------------

    def leave(self, inside: Any) -> bool:
        """Take threads out of the places that ``inside`` (an address → bool) names; False: let go, and try again.

        A thread runs on, for a moment, until it stands elsewhere; the others stay. No thread is taken on by single
        steps: the kernel leaves a step's trap to the thread if this process dies meanwhile, and the trap ends it.
        """
        for turn in range(LEAVES_MAX):
            within = [thread for thread, registers in self.registers.items() if inside(registers.rip)]
            if not within:
                return not any(inside(at) for one in self.registers.values() for at in self._returns(one.rsp))
            if any(thread in self._signals for thread in within):
                return False
            for thread in within:
                ptrace(PTRACE_CONT, thread)
            time.sleep(min(turn * 0.00001, 0.002))
            for thread in within:
                ptrace(PTRACE_INTERRUPT, thread)
            for thread in within:
                self._stopped(thread, next_stop(thread))
            self.hold()  # a thread that ran may have started others
        return False

    def _returns(self, stack: int) -> Iterator[int]:
        """Where signal handlers on this stack will return to: a frame has the place, flags and segment in a row."""
        try:
            data = self.read(stack & ~7, STACK_SEEN)
        except OSError:
            return
        words = struct.unpack(f"<{len(data) // 8}Q", data[: len(data) // 8 * 8])
        for number in range(len(words) - 2):
            if words[number + 2] & 0xFFFF == USER_CODE and words[number + 1] < 1 << 22:
                yield words[number]


WRAPPERS = frozenset(
    {"sh", "bash", "dash", "busybox", "env", "nice", "ionice", "setpriv", "timeout", "taskset", "tini"}
)
"""Programs that are followed until they execute another one."""
EXEC_LIMIT_S = 5.0
"""How long a start may take from one program to the next."""


def patch_at_exec(pid: int, patch: Any) -> int:
    """Let a process that stopped itself continue, and call ``patch`` (a HeldProcess) before its next program begins.

    A program that only executes another one is followed. Returns how often it was called. Raises Refused.
    """
    deadline = time.monotonic() + EXEC_LIMIT_S
    while _state(pid)[0] != "T":
        if time.monotonic() > deadline or not _status(pid):
            raise Refused(f"process {pid} does not wait for its start: it is in state {_state(pid)}")
        time.sleep(0.0002)
    ptrace(PTRACE_SEIZE, pid, None, PTRACE_O_TRACEEXEC)
    process = HeldProcess(pid, -1)
    calls = 0
    try:
        os.kill(pid, signal.SIGCONT)
        while True:
            stop = next_stop(pid, EXEC_LIMIT_S)
            if stop.gone:
                raise Refused(f"process {pid} ended at its start")
            process.registers = {pid: Registers()}
            if stop.event == PTRACE_EVENT_EXEC:
                calls += 1
                process.patch_memory(patch)
                if os.path.basename(os.readlink(f"/proc/{pid}/exe")) not in WRAPPERS:  # noqa: PTH115, PTH119
                    return calls
            received = 0 if stop.event or stop.signal == signal.SIGTRAP else stop.signal
            process.registers = {}
            ptrace(PTRACE_CONT, pid, None, received)
    finally:
        if not process.registers:  # it runs: it is let go where it stops next
            with contextlib.suppress(OSError, Refused):
                ptrace(PTRACE_INTERRUPT, pid)
                process.registers = {} if next_stop(pid).gone else {pid: Registers()}
        process.release()


def refuse_traced(pid: int, thread: int = 0) -> None:
    """Raises Refused if another process traces this one (or that thread of it)."""
    tracer = _status(thread or pid).get("TracerPid", "0")
    if tracer not in {"0", str(os.getpid())}:
        raise Refused(f"process {pid} is held by another debugger (process {tracer})")


def memory_of(pid: int) -> int:
    """Its memory, open to be changed: the kernel asks for the same right as to trace it. Raises Refused."""
    try:
        return os.open(f"/proc/{pid}/mem", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        raise Refused(f"process {pid} is gone") from None
    except OSError as error:
        raise Refused(f"the memory of process {pid} may not be written here: {error.strerror}") from error


@contextlib.contextmanager
def held(pid: int) -> Iterator[HeldProcess]:
    """Hold a process; it is let go at the end. Raises Refused if it cannot be held."""
    memory = memory_of(pid)
    process = HeldProcess(pid, memory)
    try:
        process.hold()
        yield process
    except OSError as error:
        what = "is gone" if error.errno in {errno.ESRCH, errno.EIO} and not _status(pid) else str(error.strerror)
        raise Refused(f"process {pid}: {what}") from error
    finally:
        free = process.release()
        os.close(memory)
        if not free:
            raise Stuck(f"process {pid} does not stop, so its clocks cannot be changed: it is in state {_state(pid)}")
