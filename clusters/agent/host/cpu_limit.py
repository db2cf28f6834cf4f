"""The share of a processor that the node's process may use, as a quota of its control group: CPU starvation.

Guarantees: a quota counts as in force only if it reads back and a process of ours in the same group got no more than
it; as lifted, only if none reads back. Out of scope: the group (``groups``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from dethrone.clusters.agent.host.common import MS, Refused, now_ns
from dethrone.clusters.agent.host.groups import Group, NodeGroups
from dethrone.clusters.agent.host.processes import Processes

CPU_PERIOD_US = 100_000
"""What the quota is of: the kernel's usual period, and the one that containers are limited by."""
SPIN_NS = 250 * MS
"""How long a process of ours tries to use the whole processor: two periods and a half."""
SPINS_MAX = 5
"""One that a busy machine holds back may use a bit more than its share and reach its quota in no period."""
SPIN_LIMIT_S = 20.0
SPIN = """
import sys, time
with open(sys.argv[1], "w") as file:
    file.write("0")
began, used = time.monotonic_ns(), time.process_time_ns()
while time.monotonic_ns() - began < int(sys.argv[2]):
    pass
print(time.process_time_ns() - used, time.monotonic_ns() - began)
"""
"""It enters the group when its interpreter is up, so that only the measurement itself is slow."""


def quota_us(percent: int) -> int:
    """Of a period, for this share of one processor."""
    return CPU_PERIOD_US * percent // 100


def parse_quota(text: str, *, unified: bool) -> int:
    """The quota (µs) in ``cpu.max`` (version 2) or ``cpu.cfs_quota_us`` (version 1); -1: none."""
    word = text.split(maxsplit=1)[0] if text.split() else "-1"
    return -1 if unified and word == "max" else int(word)


class CpuLimit:
    """The quota of one node. Used by one thread at a time, but for ``put_back``. ``members``: the node's processes."""

    def __init__(self, groups: NodeGroups, processes: Processes, members: Callable[[], Sequence[int]]) -> None:
        self._groups = groups
        self._processes = processes
        self._members = members
        self.percent: int | None = None
        """What is in force, as far as we know."""
        self.lost: list[str] = []
        """What was found not to be in force since the last convergence."""
        self._good_ns = now_ns()
        self._proved = True

    def apply(self, percent: int | None) -> dict[str, Any]:
        """Bring the quota in force, or lift it; what was seen. Raises Refused, OSError."""
        if percent is None and self.percent is None:
            return {}
        self._proved = False
        group = self._groups.group("cpu")
        before = group.number("cpu.stat", "nr_throttled")
        self.percent = percent
        self._write(group)
        self._good_ns = now_ns()
        found: dict[str, Any] = {"quota_us": self._quota(group), "period_us": CPU_PERIOD_US}
        if found["quota_us"] != self._wanted_us():
            raise Refused(f"the quota is {found['quota_us']} µs, not {self._wanted_us()} µs")
        outside = self._groups.outside("cpu", self._members())
        self._proved = percent is None
        if percent is None:
            return found
        if outside:
            raise Refused(f"processes of the node are not in its control group: {outside[:5]}")
        found.update(self._measured(group, percent, before))
        self._proved = True
        return found

    def stands(self, percent: int | None) -> bool:
        """Whether this is in force, and was proved to be."""
        return percent == self.percent and self._proved

    def lapsed(self) -> list[str]:
        """Why the quota is no longer as it was made."""
        if self.percent is None:
            return []
        try:
            quota, outside = self._quota(self._groups.group("cpu")), self._groups.outside("cpu", self._members())
        except (OSError, Refused) as error:
            return [f"the node's CPU quota cannot be read: {error}"]
        if outside:
            return [f"processes of the node left its control group: {outside[:5]}"]
        return (
            [] if quota == self._wanted_us() else [f"the node's CPU quota was {quota} µs, not {self._wanted_us()} µs"]
        )

    def put_back(self) -> tuple[str, int, str]:
        """Bring a quota in force again that was lost: why, since when at most, and why it is not put back."""
        whys, good_ns, still = self.lapsed(), self._good_ns, ""
        if not whys:
            self._good_ns = now_ns()
            return "", good_ns, ""
        try:
            self._write(self._groups.group("cpu"))
        except (OSError, Refused) as error:
            still = str(error)
        still = still or "; ".join(self.lapsed())
        self.lost = [*self.lost[-7:], *whys]
        return "; ".join(whys), good_ns, still

    def _wanted_us(self) -> int:
        return -1 if self.percent is None else quota_us(self.percent)

    def _write(self, group: Group) -> None:
        wanted = self._wanted_us()
        if group.unified:
            group.write("cpu.max", f"{'max' if wanted < 0 else wanted} {CPU_PERIOD_US}")
            return
        if wanted > 0:
            group.write("cpu.cfs_period_us", str(CPU_PERIOD_US))
        group.write("cpu.cfs_quota_us", str(wanted))

    @staticmethod
    def _quota(group: Group) -> int:
        return parse_quota(group.read("cpu.max" if group.unified else "cpu.cfs_quota_us"), unified=group.unified)

    def _measured(self, group: Group, percent: int, before: int) -> dict[str, Any]:
        """What a process of ours got under the quota; ``before``: the throttled periods until then. Raises Refused."""
        quota_ns, period_ns = quota_us(percent) * 1000, CPU_PERIOD_US * 1000
        for _ in range(SPINS_MAX):
            used_ns, wall_ns = self._spin(group)
            throttled = group.number("cpu.stat", "nr_throttled") - before
            if used_ns > quota_ns * (wall_ns // period_ns + 2):
                raise Refused(f"a process in the group used {used_ns} ns of {wall_ns} ns, more than {percent} %")
            if throttled or used_ns <= quota_ns * wall_ns // period_ns:
                return {"spin_used_ns": used_ns, "spin_wall_ns": wall_ns, "throttled_periods": throttled}
        raise Refused("the kernel throttled nothing although the quota was used up")

    def _spin(self, group: Group) -> tuple[int, int]:
        """Processor time and time that a process of ours in the group used, as it tries to use all. Raises Refused."""
        argv = [sys.executable, "-I", "-S", "-c", SPIN, f"{group.path}/cgroup.procs", str(SPIN_NS)]
        code, out, err = self._processes.tool(argv, limit_s=SPIN_LIMIT_S)
        words = out.split()
        if code or len(words) != 2:
            said = err.decode("utf-8", "replace").strip()[-200:]
            raise Refused(f"no process of ours could measure the quota: it ended with {code}: {said}")
        return int(words[0]), int(words[1])
