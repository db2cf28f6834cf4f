"""Processes of the host: reads them from ``/proc``; starts, signals and reaps our own.

Guarantees: a child is signalled only before its id can be reused; a tool ends within its limit, or is killed with its
group; every child and every orphan is reaped. Out of scope: which process is the node (``node``, ``adopted``).
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from dethrone.clusters.agent.host.common import complain, now_ns
from dethrone.clusters.agent.host.confinement import Confined

OUTPUT_MAX = 1 << 20
"""Limit on the bytes of stdout, and of stderr, that ``run`` returns."""
SIGNAL_LIMIT_S = 2.0
"""How long SIGKILL, SIGSTOP and SIGCONT may take to show their effect."""
TOOL_LIMIT_S = 5.0
"""How long iptables, ss and similar tools may take."""


class Stat(NamedTuple):
    """A process: its state letter, its parent, its process group and session, and its start time (ticks)."""

    state: str
    parent: int
    group: int
    session: int
    start: int


def process_stat(pid: int) -> Stat | None:
    """The process with this id; None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - pathlib costs more than the reading
            raw = file.read()
        fields = raw[raw.rindex(b")") + 2 :].split()
        return Stat(fields[0].decode(), int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))
    except (OSError, ValueError, IndexError):
        return None


def thread_states(pid: int) -> str:
    """The state letters of all threads of a process; "" if there is none."""
    letters = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - as above
            with open(f"/proc/{pid}/task/{task}/stat", "rb") as file:  # noqa: PTH123
                raw = file.read()
            letters.append(chr(raw[raw.rindex(b")") + 2]))
    except (OSError, ValueError, IndexError):
        pass
    return "".join(letters)


def has_memory(pid: int) -> bool:
    """Whether a process is there and has not ended, not even in part."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:  # noqa: PTH123 - as above
            return not file.read().startswith(b"0 ")
    except OSError:
        return False


def switches(pid: int) -> int:
    """The number of context switches of a process's threads; -1 if there is none."""
    total = 0
    try:
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - as above
            with open(f"/proc/{pid}/task/{task}/status", "rb") as file:  # noqa: PTH123
                total += sum(int(count) for count in re.findall(rb"ctxt_switches:\s*(\d+)", file.read()))
    except (OSError, ValueError):
        return -1
    return total


def all_processes() -> dict[int, Stat]:
    """Every process of the host, by its id."""
    pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]  # noqa: PTH208
    return {pid: stat for pid in pids if (stat := process_stat(pid)) is not None}


def group_members(group: int) -> list[int]:
    """The processes of that process group."""
    return [pid for pid, stat in all_processes().items() if stat.group == group and stat.state not in "ZX"]


def descendants(pid: int) -> list[int]:
    """The children of this process and their descendants, except those whose parent has ended."""
    children: dict[int, list[int]] = {}
    for child, stat in all_processes().items():
        children.setdefault(stat.parent, []).append(child)
    found = list(children.get(pid, ()))
    for one in found:  # grows as it is walked
        found += children.get(one, ())
    return found


class Child:
    """A process of ours. ``code``: exit code, or a signal's number negated; None while it runs."""

    def __init__(self, pid: int, on_exit: Callable[[Child], None] | None) -> None:
        self.pid = pid
        stat = process_stat(pid)
        self.start = stat.start if stat else 0
        self.code: int | None = None
        self.done = threading.Event()
        self.on_exit = on_exit
        self.exited_ns = 0


class Processes:
    """Starts processes and reaps them all, including orphans of others, as a container's first process must."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._children: dict[int, Child] = {}
        self._spawned = threading.Event()
        threading.Thread(target=self._reap, name="reaper", daemon=True).start()

    def spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str = "/",
        files: tuple[int, int, int],
        on_exit: Callable[[Child], None] | None = None,
        node: Confined | None = None,
        in_child: Callable[[], None] | None = None,
        in_thread: Callable[[], None] = lambda: None,
    ) -> Child:
        """Start a process in its own session with default signals, confined as ``node``. Raises OSError on failure.

        ``in_child``: what the new process does last before it executes the program. ``in_thread``: what the thread
        that starts a node does first.
        """
        more: dict[str, Any] = {}
        if node is not None and node.uid != os.geteuid():
            more = {"user": node.uid, "group": node.gid, "extra_groups": []}

        def begin() -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                list(argv),
                stdin=files[0],
                stdout=files[1],
                stderr=files[2],
                env=None if env is None else dict(env),
                cwd=cwd,
                start_new_session=True,
                preexec_fn=in_child,  # noqa: PLW1509 - a write and a signal: nothing that could wait for a lock
                **more,
            )

        with self._lock:
            process = begin() if node is None else in_thread_of(node, in_thread, begin)
            process.returncode = 0  # only we reap: a Popen that reaps could take another process's id
            child = Child(process.pid, on_exit)
            self._children[child.pid] = child
        self._spawned.set()
        return child

    def signal(self, child: Child, number: int, *, group: bool) -> bool:
        """Signal a child, or its whole group, unless it is gone. An id cannot be reused before the child is reaped."""
        with self._lock:
            if child.pid not in self._children:
                return False
            with contextlib.suppress(ProcessLookupError):
                (os.killpg if group else os.kill)(child.pid, number)
            return True

    def tool(
        self,
        argv: Sequence[str],
        *,
        given: bytes = b"",
        limit_s: float = TOOL_LIMIT_S,
        cap: int = OUTPUT_MAX,
        node: Confined | None = None,
    ) -> tuple[int, bytes, bytes]:
        """Run a command, confined as ``node``: exit code, stdout, stderr.

        124: it ran out of time and was killed; 127: it could not be started.
        """
        deadline = time.monotonic() + limit_s
        if given:
            stdin = os.memfd_create("dethrone-input")
            os.write(stdin, given)
            os.lseek(stdin, 0, os.SEEK_SET)
        else:
            stdin = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        out_r, out_w = os.pipe()
        err_r, err_w = os.pipe()
        try:
            child = self.spawn(argv, files=(stdin, out_w, err_w), node=node)
        except (OSError, ValueError) as error:
            os.close(out_r)
            os.close(err_r)
            return 127, b"", f"{argv[0]}: {error}".encode()
        finally:
            os.close(out_w)
            os.close(err_w)
            os.close(stdin)
        output = {out_r: bytearray(), err_r: bytearray()}
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(out_r, selectors.EVENT_READ)
                selector.register(err_r, selectors.EVENT_READ)
                while selector.get_map():
                    left = deadline - time.monotonic()
                    # A command's background children may hold the pipes open, so its end is enough; but check it before
                    # reading the pipes, or its last output may be missed.
                    ended = child.done.is_set()
                    events = selector.select(0 if ended or left <= 0 else min(left, 0.2))
                    if not events and (left <= 0 or ended):
                        break
                    for key, _ in events:
                        data = os.read(key.fd, 65536)
                        if not data:
                            selector.unregister(key.fd)
                        elif len(output[key.fd]) < cap:
                            output[key.fd] += data[: cap - len(output[key.fd])]
        finally:
            os.close(out_r)
            os.close(err_r)
        if not child.done.wait(max(0.0, deadline - time.monotonic())):
            self.signal(child, signal.SIGKILL, group=True)
            child.done.wait(SIGNAL_LIMIT_S)
            return 124, bytes(output[out_r]), bytes(output[err_r]) or b"did not end in time"
        return child.code or 0, bytes(output[out_r]), bytes(output[err_r])

    def _reap(self) -> None:
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            except ChildProcessError:
                # No child to wait for. A first process may still inherit orphans of foreign processes (docker exec).
                self._spawned.wait(1.0)
                self._spawned.clear()
                continue
            if found is None:
                continue
            with self._lock:
                try:
                    reaped, status = os.waitpid(found.si_pid, os.WNOHANG)
                except ChildProcessError:
                    reaped = 0
                if not reaped:  # its program could not be executed, and ``spawn`` reaped it
                    continue
                child = self._children.pop(found.si_pid, None)
                if child is not None:
                    child.exited_ns = now_ns()
                    signalled = os.WIFSIGNALED(status)
                    child.code = -os.WTERMSIG(status) if signalled else os.WEXITSTATUS(status)
            if child is None:
                continue
            if child.on_exit is not None:
                try:
                    child.on_exit(child)
                except Exception as error:  # noqa: BLE001 - the reaper outlives every hook
                    complain("exit hook", error)
            child.done.set()


def in_thread_of(
    node: Confined, enter: Callable[[], None], begin: Callable[[], subprocess.Popen[bytes]]
) -> subprocess.Popen[bytes]:
    """Start a process from a confined thread, whose user, capabilities and control groups it inherits."""
    begun: list[subprocess.Popen[bytes]] = []
    failed: list[Exception] = []

    def work() -> None:
        try:
            enter()
            node.enter()
            begun.append(begin())
        except Exception as error:  # noqa: BLE001 - raised again after the join
            failed.append(error)

    thread = threading.Thread(target=work, name="confined")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return begun[0]


def same_process(pid: int, start: int) -> bool:
    """Whether the process with this id and start time is alive."""
    stat = process_stat(pid)
    return stat is not None and stat.start == start and stat.state not in "ZX"
