"""The node process that the agent started: its starts, its names, its signals and its exits.

Guarantees: a process's start is news before its exit; the state that ``heal`` needs is on disk after each change;
ending the process ends its whole group. Out of scope: processes that others started (``adopted``).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from dethrone.clusters.agent.host.clocks import FakeClock, HostClock
from dethrone.clusters.agent.host.commands import Commands
from dethrone.clusters.agent.host.common import Refused, boot_id, now_ns, replace_file
from dethrone.clusters.agent.host.confinement import Confined, allow_tracing, open_log, tracing_is_restricted
from dethrone.clusters.agent.host.cpu_limit import CpuLimit
from dethrone.clusters.agent.host.damage import DataFiles
from dethrone.clusters.agent.host.disks import NodeDisk
from dethrone.clusters.agent.host.groups import NodeGroups
from dethrone.clusters.agent.host.memory_limit import MemoryLimit
from dethrone.clusters.agent.host.news import News
from dethrone.clusters.agent.host.processes import (
    SIGNAL_LIMIT_S,
    Child,
    Processes,
    descendants,
    group_members,
    thread_states,
)
from dethrone.clusters.agent.host.tails import FatalSearch, Tails, last_lines, oom_kills
from dethrone.clusters.agent.host.vdso_clock import VdsoClock, is_without_libc


class Seen(NamedTuple):
    """The node process now: whether it is to run (without faults), whether it runs, whether it is stopped."""

    wanted: bool
    running: bool
    stopped: bool


class NodeProcess:
    """The node process: its starts, its names (pid, start time), its exits. It is restarted only on request."""

    ours = True
    """Whether the agent starts it, as a user of ours, and with files of ours."""

    def __init__(self, processes: Processes, clock: FakeClock, news: News, tails: Tails, state_path: str) -> None:
        self._processes = processes
        self._clock = clock
        self._news = news
        self._tails = tails
        self._state_path = state_path
        self.spec: Mapping[str, Any] | None = None
        self.confined = Confined(os.geteuid(), os.getegid(), (), own=False, why="")
        """Its user and capabilities."""
        self.child: Child | None = None
        self.incarnation = 0
        self.version = ""
        """As which of the versions in ``spec`` it starts the next time; "": as the first one."""
        self.wanted = False
        """Whether the node is to run without faults: from its first start until it is stopped for good."""
        self.asked = False
        """Whether the harness asked for the end of the running process."""
        self.host_clock: HostClock | None = None
        """The machine's clock, where it may be set."""
        self.commands: Commands | None = None
        """Faults by commands, which ``heal`` takes back."""
        self.shaper: Callable[[], Sequence[int] | None] = lambda: None
        """The process that shapes links, if there is one: its id and its start time."""
        self.vdso: VdsoClock | None = None
        """Its clocks, where they are skewed in its vDSO."""
        self.files: DataFiles | None = None
        """The files below its data directory, which may be damaged; None: they are another user's."""
        self.disk: NodeDisk | None = None
        """Its data directory behind a helper that makes it fail; None: it is another user's."""
        self.groups: NodeGroups | None = NodeGroups(self.remember)
        """Its control groups, where a run limits what it may use; None: another user started it."""
        self.cpu: CpuLimit | None = CpuLimit(self.groups, processes, self.members_now)
        """Its share of a processor."""
        self.memory: MemoryLimit | None = MemoryLimit(self.groups, processes)
        """Its memory."""
        self.fatal: FatalSearch | None = None
        self._logged_from = 0
        """The offset in the log at which the output of the running process begins."""
        self._oom_kills = 0
        tails.incarnation = lambda: self.incarnation

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self.child is not None and self.child.code is None

    def names(self) -> dict[str, Any]:
        """Identifies the process."""
        if self.child is None:
            return {}
        return {"pid": self.child.pid, "start_ticks": self.child.start, "incarnation": self.incarnation}

    def members_now(self) -> Sequence[int]:
        """The current processes of the node: the one that the agent started, and its descendants."""
        child = self.child
        return () if child is None or not self.running else (child.pid, *descendants(child.pid))

    def seen(self) -> Seen:
        """The process as it is now."""
        stopped = self.child is not None and self.running and "T" in thread_states(self.child.pid)
        return Seen(self.wanted, self.running, stopped)

    def unskewed(self) -> str:
        """Why its clocks cannot be skewed here, found out by trying as much as does no harm; "" if they can."""
        spec = self.spec or {}
        if self.host_clock is not None or (self.ours and spec.get("faketime") and self._clock.library):
            return ""
        return "no clock is skewed here" if self.vdso is None else self.vdso.refused(self.met_now())

    def met_now(self) -> Sequence[int]:
        """Its processes, also before it was to be started."""
        return self.members_now()

    def become(self, version: str) -> str:
        """Be this version from the next start on; "", or why that cannot be."""
        if self.spec is None or version not in self.spec["versions"]:
            return f"version: this host has no {version}"
        if self.running and version != self.version:
            return "version: the process still runs, and changes its version only at a start"
        self.version = version
        return ""

    def start(self) -> None:
        """Start the next incarnation. Raises OSError or Refused if that fails."""
        if self.spec is None:
            raise Refused("there is no node to start: prepare comes first")
        if self.running:
            raise Refused(f"the node runs already: {self.names()}")
        number = self.incarnation + 1
        version = self.version or self.spec["version"]
        command = self.spec["versions"][version] if version else self.spec["command"]
        rejoins = command["rejoining"] and os.path.exists(f"{self.spec['run_dir']}/rejoins")  # noqa: PTH110
        words = command["rejoining"] if rejoins else command["argv"]
        argv = [word.replace("{incarnation}", str(number)) for word in words]
        env = dict(os.environ)
        if self.confined.uid != os.geteuid():
            env.update(HOME=self.spec["run_dir"] or self.spec["data_dir"], USER="dethrone", LOGNAME="dethrone")
        env.update({name: value.replace("{incarnation}", str(number)) for name, value in command["env"].items()})
        libc = not is_without_libc(argv, env, command["cwd"])
        self._clock.preloaded = bool(self.spec["faketime"] and self._clock.library and libc)
        if self._clock.preloaded:
            env.update(self._clock.environment(env))
            self._clock.starting()
        entry = None if self._clock.preloaded or self.vdso is None else self.vdso.entry()
        in_child = entry.in_child if entry is not None else allow_tracing if tracing_is_restricted() else None
        if self.files is not None:
            self.files.starting(self.spec["data_dir"], copies=self.spec["keeps_copies"])
        before = now_ns()
        log = open_log(self.spec["log_path"], self.confined)
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self.incarnation, self.asked = number, False
        self._logged_from, self._oom_kills = os.fstat(log).st_size, oom_kills()
        started = threading.Event()

        def exited(child: Child) -> None:
            started.wait(SIGNAL_LIMIT_S)  # "started" comes first, even for a process that ends at once
            self._exited(child, number)

        groups = self.groups or NodeGroups(self.remember)
        try:
            with groups.entered() as enter:
                child = self._processes.spawn(
                    argv,
                    env=env,
                    cwd=command["cwd"],
                    files=(null, log, log),
                    on_exit=exited,
                    node=self.confined,
                    in_child=_both(enter, in_child),
                    in_thread=groups.enter_thread,
                )
        except (OSError, ValueError):
            self.incarnation -= 1
            raise
        finally:
            os.close(log)
            os.close(null)
            if entry is not None:
                entry.join()
        self.child, self.wanted = child, True
        self._note_start(number)
        known = {"version": version} if version else {}
        self._news.add("started", before, now_ns(), {"pid": child.pid, "incarnation": number, "asked": True, **known})
        started.set()
        self.remember()

    def _note_start(self, number: int) -> None:
        """Note next to the log where in it this incarnation begins: a mark in it might be taken for the node's."""
        path = "" if self.spec is None else self.spec["log_path"]
        with contextlib.suppress(OSError, Refused):
            starts = open_log(f"{path}.starts", self.confined)
            try:
                os.write(starts, f"{number} {self._logged_from}\n".encode())
            finally:
                os.close(starts)

    def _exited(self, child: Child, incarnation: int) -> None:
        self._clock.ended(child.pid)
        # Report what the process wrote before its end first.
        with contextlib.suppress(OSError):
            self._tails.pump()
        if self.fatal is not None:
            self.fatal.pump()
        data: dict[str, Any] = {"pid": child.pid, "incarnation": incarnation, "code": child.code, "asked": self.asked}
        if not self.asked and self.spec is not None:
            data["lines"] = last_lines(self.spec["log_path"], self._logged_from)
            data["detail"] = {"oom_kills": oom_kills() - self._oom_kills}
        self._news.add("exited", child.exited_ns, now_ns(), data)

    def limit(self, controllers: Sequence[str]) -> None:
        """Have the process start where these can be limited. Raises Refused if that is impossible."""
        if self.groups is None:
            raise Refused("what a process may use cannot be limited here: another user started it")
        self.groups.make(controllers)

    def signal(self, number: int) -> bool:
        """Signal the process's group; False if the process is gone."""
        return self.child is not None and self._processes.signal(self.child, number, group=True)

    def end(self, number: int, limit_s: float) -> bool:
        """Signal the process and wait for its exit; returns whether it, and with it its group, is gone."""
        child = self.child
        if child is None or not self.running:
            return True
        stopped = "T" in thread_states(child.pid)
        self.asked = True
        self.signal(number)
        if stopped and number != signal.SIGKILL:
            self.signal(signal.SIGCONT)  # a stopped process cannot obey
        if not child.done.wait(limit_s):
            return False
        self._end_rest(child)
        return True

    def exhaust(self) -> dict[str, Any]:
        """Have the kernel kill the process for lack of memory; what was seen. Raises Refused, OSError."""
        child = self.child
        if self.memory is None or child is None or not self.running:
            raise Refused("the memory of a process that another user started is not limited here")
        self.asked = True
        try:
            found = self.memory.exhaust(child.pid, child.done.wait)
        except BaseException:
            self.asked = child.code is not None
            raise
        if not child.done.is_set():
            self.end(signal.SIGKILL, SIGNAL_LIMIT_S)  # the kernel chose another process of the node
        self._end_rest(child)
        return {**found, "code": child.code}

    def _end_rest(self, child: Child) -> None:
        for member in group_members(child.pid) if self._group_left(child.pid) else ():
            with contextlib.suppress(OSError):
                os.kill(member, signal.SIGKILL)

    @staticmethod
    def _group_left(group: int) -> bool:
        try:
            os.killpg(group, 0)
        except OSError:
            return False
        return True

    def await_states(self, ready: Callable[[str], bool], limit_s: float) -> str:
        """Wait until the states of all threads of the group are ``ready``; returns the states last seen."""
        child = self.child
        if child is None:
            return ""
        members = group_members(child.pid)
        deadline = time.monotonic() + limit_s
        while True:
            states = "".join(thread_states(member) for member in members)
            if ready(states) or time.monotonic() > deadline or not self.running:
                return states
            time.sleep(0.0005)

    def remember(self) -> None:
        """Store the state that ``heal`` needs if this agent dies."""
        with contextlib.suppress(OSError):
            state: dict[str, Any] = {
                "node": self.names(),
                "faketime": self._clock.path if self._clock.preloaded else None,
            }
            state["rated"] = self._clock.rated
            if self.host_clock is not None and self.host_clock.base_ns is not None:
                state["wall_gap"] = {"ns": self.host_clock.base_ns, "boot": boot_id()}
            if self.shaper() is not None:
                state["links"] = self.shaper()
            if self.vdso is not None and self.vdso.held:
                state["vdso"] = self.vdso.held
            if self.commands is not None and self.commands.held:
                state["commands"] = self.commands.held
            if self.files is not None and self.files.undo is not None:
                state["damage"] = self.files.undo
            if self.disk is not None and self.disk.undo is not None:
                state["disk"] = self.disk.undo
            if self.groups is not None and self.groups.undo:
                state["groups"] = self.groups.undo
            state.update(self._more())
            replace_file(self._state_path, json.dumps(state).encode(), 0o600)

    def _more(self) -> Mapping[str, Any]:
        """More state that ``heal`` needs; see ``AdoptedNode``."""
        return {}


def _both(first: Callable[[], None] | None, second: Callable[[], None] | None) -> Callable[[], None] | None:
    """One after the other; None: nothing."""
    if first is None or second is None:
        return first or second
    return lambda: (first(), second())[0]
