"""The memory of the node, limited below what it uses until the kernel kills it: a squeeze that ends in an OOM kill.

Guarantees: it counts as done only if the kernel counted a kill in the node's own control group; the limit is lifted in
any case, and the agent is not in the group. Out of scope: the group (``groups``).
"""

from __future__ import annotations

import contextlib
import errno
import sys
from collections.abc import Callable
from typing import Any

from dethrone.clusters.agent.host.common import Refused
from dethrone.clusters.agent.host.groups import Group, NodeGroups, lift
from dethrone.clusters.agent.host.processes import Processes

TIGHTEN_MAX = 50
"""How often a limit is set to what is used now, which may be more by then."""
SQUEEZE_S = 1.0
"""How long the node has until it needs a page by itself; then a process of ours in the group needs some."""
OOM_LIMIT_S = 10.0
OOM_FIRST = "1000"
"""``oom_score_adj`` of what the kernel kills before anything else of the group."""
PRESS = """
import sys
with open(sys.argv[1], "w") as file:
    file.write("0")
kept = []
for _ in range(256):
    kept.append(bytearray(b"x" * (1 << 20)))
    try:
        with open(f"/proc/{sys.argv[2]}/stat") as file:
            if file.read().rpartition(")")[2].split()[0] in "ZX":
                break
    except OSError:
        break
"""
"""It enters the group when its interpreter is up, and takes memory, a MiB at a time, until the node is dead."""


class MemoryLimit:
    """The memory of one node. Used by one thread at a time."""

    def __init__(self, groups: NodeGroups, processes: Processes) -> None:
        self._groups = groups
        self._processes = processes

    def exhaust(self, pid: int, gone: Callable[[float], bool]) -> dict[str, Any]:
        """Limit the node's memory below what it uses, until it is gone; what was seen. Raises Refused, OSError.

        ``pid``: the process that the kernel shall kill; ``gone``: waits so long (s) for its end.
        """
        group = self._groups.group("memory")
        if self._groups.outside("memory", [pid]):
            raise Refused("the process is not in its control group")
        before = oom_count(group)
        found: dict[str, Any] = {}
        try:
            found["used_bytes"], found["limit_bytes"] = self._tighten(group)
            found["pressed"] = not gone(SQUEEZE_S)
            if found["pressed"]:
                self._press(group, pid)
                gone(OOM_LIMIT_S)
        finally:
            why = lift(group)
        found["oom_kills"] = oom_count(group) - before
        if why:
            raise Refused(why)
        if not found["oom_kills"]:
            raise Refused(f"the kernel killed nothing for lack of memory ({found})")
        return found

    @staticmethod
    def _tighten(group: Group) -> tuple[int, int]:
        """What was used last before a limit was accepted, and that limit (bytes), which is no more than that.

        Version 2 takes any limit, and kills; version 1 none below what cannot be reclaimed.
        """
        name, swap = ("memory.max", "memory.swap.max") if group.unified else ("memory.limit_in_bytes", "")
        if swap:
            with contextlib.suppress(FileNotFoundError):  # of a kernel without swap
                group.write(swap, "0")
        used = _used(group)
        limit = used // 2
        for turn in range(TIGHTEN_MAX):
            try:
                group.write(name, str(limit))
            except OSError as error:
                if error.errno != errno.EBUSY or turn == TIGHTEN_MAX - 1:
                    raise
                limit = used = _used(group)
            else:
                break
        if not group.unified:
            with contextlib.suppress(OSError):  # of a kernel that does not count swap
                group.write("memory.memsw.limit_in_bytes", str(limit))
        return used, limit

    def _press(self, group: Group, pid: int) -> None:
        with open(f"/proc/{pid}/oom_score_adj", "w", encoding="ascii") as file:  # noqa: PTH123
            file.write(OOM_FIRST)
        argv = [sys.executable, "-I", "-S", "-c", PRESS, f"{group.path}/cgroup.procs", str(pid)]
        self._processes.tool(argv, limit_s=OOM_LIMIT_S)  # it may be killed, too: what counts is the node


def oom_count(group: Group) -> int:
    """How many processes of the group the kernel has killed for lack of memory. Raises OSError."""
    return group.number("memory.events" if group.unified else "memory.oom_control", "oom_kill")


def _used(group: Group) -> int:
    return int(group.read("memory.current" if group.unified else "memory.usage_in_bytes"))
