"""A node that another user started: found by its pid file, its unit or a pattern, and left running.

Guarantees: a process is signalled only if its id and start time match; a restart by a supervisor is noticed; an agent
is never mistaken for a target. Out of scope: its exit code, which only its parent learns, and its trace log.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dethrone.clusters.agent.host.common import SECOND, Refused, complain, now_ns
from dethrone.clusters.agent.host.news import News
from dethrone.clusters.agent.host.node import NodeProcess, Seen
from dethrone.clusters.agent.host.patterns import MATCHED_MAX, Matcher
from dethrone.clusters.agent.host.processes import (
    SIGNAL_LIMIT_S,
    Processes,
    descendants,
    process_stat,
    same_process,
    thread_states,
)

WATCH_S = 0.01
"""How often a process that is not our child is checked."""
RETURN_LIMIT_S = 15.0
"""How long a target may take to appear after its start command ended."""
CGROUPS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd")
"""Where a unit's control group may be: version 2, both, version 1."""
OURS = re.compile(r"agent\.py ((serve|relay|heal|match|hand|lookout) --socket|disk --directory) ")
"""Command lines of agents, their helpers and relays, which are never a target."""


class Stranger:
    """A process that another user started, with the interface of ``Child``; only its parent learns its exit code."""

    def __init__(self, pid: int, start: int, on_exit: Callable[[Stranger], None]) -> None:
        self.pid = pid
        self.start = start
        self.code: int | None = None
        """None while it runs, then 0: its exit code is unknown."""
        self.done = threading.Event()
        self.alive_ns = now_ns()
        """The last known moment at which it still ran."""
        self.exited_ns = 0
        self._on_exit = on_exit
        threading.Thread(target=self._watch, name=f"watch-{pid}", daemon=True).start()

    def _watch(self) -> None:
        with end_of(self.pid) as await_end:
            while True:
                before = now_ns()
                if not same_process(self.pid, self.start):
                    break
                self.alive_ns = before
                await_end(WATCH_S)
        self.exited_ns = now_ns()
        self.code = 0
        try:
            self._on_exit(self)
        except Exception as error:  # noqa: BLE001 - as in the reaper
            complain("exit hook", error)
        self.done.set()


@contextlib.contextmanager
def end_of(pid: int) -> Iterator[Callable[[float], object]]:
    """A function that waits up to a limit (s), or until the process ends, if the kernel can report that."""
    try:
        descriptor = os.pidfd_open(pid)
    except (OSError, AttributeError):
        yield time.sleep
        return
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        yield lambda limit_s: poll.poll(limit_s * 1000)
    finally:
        os.close(descriptor)


def _boot_ahead_ns() -> int:
    """How far the clock that includes sleep (boot time) is ahead; an upper bound if this thread was delayed."""
    moment = now_ns()
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - moment


def began_ns(ticks: int) -> int:
    """When a process with this start time began, or a little earlier; ticks include sleep of the machine."""
    slept = min(_boot_ahead_ns() for _ in range(5))
    return ticks * SECOND // os.sysconf("SC_CLK_TCK") - slept


def find_target(target: Mapping[str, str], processes: Processes, matcher: Matcher) -> tuple[int, ...]:
    """The ids of a target's processes, the main one first; empty if there are none. Raises Refused if unknown.

    ``matcher`` matches the target's pattern, if it has one.
    """
    by, value = target["by"], target["value"]
    if by == "pid_file":
        try:
            with open(value, encoding="ascii", errors="replace") as file:  # noqa: PTH123
                word = file.read(64).strip()
        except OSError:
            return ()
        return (int(word),) if word.isdecimal() and process_stat(int(word)) is not None else ()
    if by == "unit":
        code, out, err = processes.tool(["systemctl", "show", "--property=MainPID,ControlGroup", "--", value])
        if code != 0:
            raise Refused(f"systemctl: {err.decode('utf-8', 'replace').strip()[:300]}")
        said = dict(line.split("=", 1) for line in out.decode().splitlines() if "=" in line)
        main = int(said.get("MainPID") or 0)
        group = said.get("ControlGroup") or ""
        others: list[int] = []
        if group:
            for root in CGROUPS:
                place = f"{root}{group}/cgroup.procs"
                with contextlib.suppress(OSError, ValueError), open(place, encoding="ascii") as file:  # noqa: PTH123
                    others += [int(line) for line in file]
        return (main, *(pid for pid in dict.fromkeys(others) if pid != main)) if main else ()
    running: dict[int, str] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208
        if not entry.isdigit() or int(entry) in {os.getpid(), os.getppid()}:
            continue
        with contextlib.suppress(OSError), open(f"/proc/{entry}/cmdline", "rb") as file:  # noqa: PTH123
            words = file.read(4 * MATCHED_MAX).rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")
            if words and not OURS.search(words):
                running[int(entry)] = words[:MATCHED_MAX]
    pids, found = list(running), {}
    for pid in [pids[number] for number in matcher.places(list(running.values()))]:
        stat = process_stat(pid)
        if stat is not None:
            found[pid] = stat.parent
    return tuple(sorted(found, key=lambda pid: (found[pid] in found, pid)))


class BorrowedNode(NodeProcess):
    """A node that another user started."""

    ours = False

    def take_over(self, like: NodeProcess) -> None:
        """Have what the agent has for any node, and nothing for what is the other user's: its files and its groups."""
        self.host_clock, self.commands, self.shaper = like.host_clock, like.commands, like.shaper
        self.vdso = like.vdso
        self.groups = self.cpu = self.memory = None


class BesideNode(BorrowedNode):
    """A node that something next to the agent starts, signals and ends, such as an engine: only its clocks are ours."""

    def __init__(self, like: NodeProcess, pid: int, *, processes: Processes, news: News) -> None:
        """Raises Refused if there is no such process."""
        super().__init__(processes, like._clock, news, like._tails, like._state_path)  # noqa: SLF001 - it takes its place
        self.take_over(like)
        stat = process_stat(pid)
        if stat is None:
            raise Refused(f"there is no process {pid} here")
        self.child = Stranger(pid, stat.start, lambda _: None)  # type: ignore[assignment]

    def seen(self) -> Seen:
        """See ``NodeProcess``: nothing is to be done to the process itself."""
        return Seen(wanted=False, running=self.running, stopped=False)

    def end(self, number: int, limit_s: float) -> bool:
        """See ``NodeProcess``: the agent ends nothing here."""
        del number, limit_s
        return True

    def _more(self) -> Mapping[str, Any]:
        return {"adopted": []}


class AdoptedNode(BorrowedNode):
    """A node that another user started: found, signalled, restarted as the hosts file says, and left running.

    A restart that the harness did not ask for (by a supervisor) is reported as ``started`` with ``asked`` false.
    """

    def __init__(
        self, like: NodeProcess, target: Mapping[str, str], restart: Sequence[str], *, processes: Processes, news: News
    ) -> None:
        super().__init__(processes, like._clock, news, like._tails, like._state_path)  # noqa: SLF001 - it takes its place
        self.take_over(like)
        self._target = target
        self._restart = list(restart)
        self._tools = processes
        self._matcher = Matcher(target["value"], processes)
        self._told = news
        self._finding = threading.Lock()
        self._starting = False
        """Whether a start is under way: a process found meanwhile counts as asked for, in whichever thread."""
        self._met: Stranger | None = None
        self.members: list[tuple[int, int]] = []
        """All processes of the target, (id, start time)."""
        threading.Thread(target=self._watch, name="target", daemon=True).start()

    def start(self) -> None:
        """Find the target the first time; later, run its start command unless it already runs again."""
        self._starting = True
        try:
            if self._find():
                self.wanted = True
            else:
                self._start_again()
        finally:
            self._starting = False

    def _start_again(self) -> None:
        """Run the start command, and wait for the target."""
        if self.incarnation == 0 or not self._restart:
            what = "does not run" if self.incarnation == 0 else "has ended, and has no start command"
            raise Refused(f"the target ({self._target['by']} {self._target['value']}) {what}")
        code, _, err = self._tools.tool(self._restart, limit_s=RETURN_LIMIT_S)
        deadline = time.monotonic() + RETURN_LIMIT_S
        while not self._find():
            if time.monotonic() > deadline:
                said = err.decode("utf-8", "replace").strip()[-200:]
                raise Refused(f"the target does not run after its start command (exit code {code}): {said}")
            time.sleep(0.02)

    def _find(self) -> bool:
        """Look for the target; returns whether it runs."""
        with self._finding:
            if self.running:
                return True
            if self._met is not None:
                self._met.done.wait(SIGNAL_LIMIT_S)  # report its end first
            before = now_ns()
            found = self._look()
            if not found:
                return False
            if self._met is not None:  # its start time counts, not the moment at which it was noticed
                before = max(self._met.alive_ns, min(before, began_ns(found[0][1])))
            self.members = found
            self.incarnation += 1
            self.asked = False
            number = self.incarnation
            told = threading.Event()

            def exited(child: Stranger) -> None:
                told.wait(SIGNAL_LIMIT_S)
                if self.fatal is not None:
                    self.fatal.pump()
                data = {"pid": child.pid, "incarnation": number, "code": None, "asked": self.asked}
                self._told.add("exited", child.alive_ns, now_ns(), data)

            if number > 1 and self.vdso is not None:
                self.vdso.started_outside("it was started by another program than the agent")
            self._met = Stranger(*self.members[0], exited)
            self.child = self._met  # type: ignore[assignment]
            data = {"pid": self.members[0][0], "incarnation": number, "asked": self._starting}
            self._told.add("started", before, now_ns(), data)
            told.set()
            self.remember()
            return True

    def _watch(self) -> None:
        """Notice when another program restarts the target."""
        while True:
            time.sleep(0.1)
            if self.wanted and not self.running:
                with contextlib.suppress(Refused, OSError):
                    self._find()

    def members_now(self) -> Sequence[int]:
        """See ``NodeProcess``: those that were found, and what they have started since."""
        found = self._alive()
        return tuple(dict.fromkeys([*found, *(pid for one in found for pid in descendants(one))]))

    def met_now(self) -> Sequence[int]:
        """See ``NodeProcess``."""
        return self.members_now() or [pid for pid, _ in self._look()]

    def _more(self) -> Mapping[str, Any]:
        return {"adopted": self.members}

    def _look(self) -> list[tuple[int, int]]:
        """All processes of the target now, the main one first."""
        pids = find_target(self._target, self._tools, self._matcher)
        return [(pid, stat.start) for pid in pids if (stat := process_stat(pid)) is not None and stat.state not in "ZX"]

    def _look_again(self) -> None:
        """Add processes that the target has started since it was found."""
        with self._finding, contextlib.suppress(Refused, OSError):
            found = self._look()
            more = [one for one in found if one not in self.members]
            if more and self.members and self.members[0] in found:
                self.members = [*self.members, *more]
                self.remember()

    def _alive(self) -> list[int]:
        return [pid for pid, start in self.members if same_process(pid, start)]

    def signal(self, number: int) -> bool:
        """Signal all processes of the target; False if none is left."""
        self._look_again()
        return self._signal(self.members, number)

    @staticmethod
    def _signal(members: Sequence[tuple[int, int]], number: int) -> bool:
        alive = [pid for pid, start in members if same_process(pid, start)]
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        return bool(alive)

    def end(self, number: int, limit_s: float) -> bool:
        """Signal the target and wait until all its processes are gone; returns whether they are."""
        if not self._alive():
            return True
        stopped = any("T" in thread_states(pid) for pid in self._alive())
        self._look_again()
        child, ending = self.child, self.members  # without those that a supervisor starts next
        self.asked = True
        self._signal(ending, number)
        if stopped and number != signal.SIGKILL:
            self._signal(ending, signal.SIGCONT)
        deadline = time.monotonic() + limit_s
        while any(same_process(pid, start) for pid, start in ending):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.001)
        return child is None or child.done.wait(SIGNAL_LIMIT_S)

    def await_states(self, ready: Callable[[str], bool], limit_s: float) -> str:
        """See ``NodeProcess``."""
        deadline = time.monotonic() + limit_s
        while True:
            states = "".join(thread_states(pid) for pid in self._alive())
            if ready(states) or time.monotonic() > deadline or not self.running:
                return states
            time.sleep(0.0005)

    def leave(self) -> None:
        """The run is over: thaw the target and leave it running."""
        self.wanted = False
        for pid in self._alive():
            if "T" in thread_states(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
