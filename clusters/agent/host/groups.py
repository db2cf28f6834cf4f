"""Control groups of the node's process, below the agent's own: what the kernel limits there hits the node alone.

Guarantees: versions 1 and 2, each controller in the hierarchy that has it; the node is born in its group, and so are
its children; only groups of our names below a group of the agent's own are made, changed and removed; the agent is
never in the node's group. Out of scope: the limits themselves (``cpu_limit``, ``memory_limit``).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dethrone.clusters.agent.host.common import Refused
from dethrone.clusters.agent.host.mounts import mounted

GROUPS = "/sys/fs/cgroup"
LENT_GROUPS = "/run/dethrone-groups"
"""Where a backend shows a host the groups that it made for it: one directory a controller."""
NODE_GROUP, AGENT_GROUP = "dethrone-node", "dethrone-agent"
EMPTY_LIMIT_S = 2.0
"""How long a group may take to be empty, once its processes were killed."""
MOVES_MAX = 20
"""How often processes are moved out of a group that others may start in meanwhile."""
_REMOUNT_BIND = 0x20 | 0x1000


class Group(NamedTuple):
    """A control group for one controller. ``unified``: of version 2."""

    path: str
    unified: bool

    def read(self, name: str) -> str:
        """One of its files. Raises OSError."""
        with open(f"{self.path}/{name}", encoding="ascii", errors="replace") as file:  # noqa: PTH123
            return file.read()

    def write(self, name: str, value: str) -> None:
        """Write one of its files. Raises OSError."""
        fd = os.open(f"{self.path}/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, value.encode())
        finally:
            os.close(fd)

    def members(self) -> set[int]:
        """The processes in it. Raises OSError."""
        return {int(word) for word in self.read("cgroup.procs").split()}

    def number(self, name: str, key: str) -> int:
        """A number of a file with a key on each line; 0 if it is not there. Raises OSError."""
        for line in self.read(name).splitlines():
            words = line.split()
            if len(words) == 2 and words[0] == key:
                return int(words[1])
        return 0


def group_places(text: str, controller: str, root: str = GROUPS) -> list[Group]:
    """Where a process may see its group of a controller, the likeliest first; ``text``: its ``/proc/PID/cgroup``.

    A container sees its own group where others see the root, under any name.
    """
    found: list[Group] = []
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        unified = number == "0" and not names
        if not unified and controller not in names.split(","):
            continue
        tops = [root, f"{root}/unified"] if unified else [f"{root}/{names}", f"{root}/{controller}"]
        below = [path.rstrip("/"), ""]
        found += [Group(f"{top}{end}", unified) for end in dict.fromkeys(below) for top in dict.fromkeys(tops)]
    return sorted(found, key=lambda group: group.unified)  # a controller is in one version; in a hybrid, in version 1


def own_group(controller: str, *, root: str = GROUPS, proc: str = "/proc/self/cgroup", pid: int = 0) -> Group:
    """The group of this process for a controller. Raises Refused where there is none that it can see."""
    try:
        with open(proc, encoding="ascii", errors="replace") as file:  # noqa: PTH123
            text = file.read()
    except OSError as error:
        raise Refused(f"{proc}: {error.strerror}") from None
    for group in group_places(text, controller, root):
        with contextlib.suppress(OSError, ValueError):
            if (pid or os.getpid()) in group.members() and offers(group, controller):
                return group
    raise Refused(f"this kernel shows no control group for {controller}")


def offers(group: Group, controller: str) -> bool:
    """Whether the kernel can limit by this controller there. Raises OSError."""
    return not group.unified or controller in group.read("cgroup.controllers").split()


def kernel_limits(controller: str, *, proc: str = "/proc/cgroups", root: str = GROUPS) -> bool:
    """Whether this machine's kernel has the controller, in either version."""
    with contextlib.suppress(OSError):
        if controller in Group(root, unified=True).read("cgroup.controllers").split():
            return True
    with contextlib.suppress(OSError), open(proc, encoding="ascii") as file:  # noqa: PTH123
        return any(line.split()[0] == controller and line.split()[-1] == "1" for line in file if line.strip())
    return False


class NodeGroups:
    """The control groups of one node. Used by one thread at a time. ``remember``: stores ``undo``."""

    def __init__(
        self, remember: Callable[[], None], *, root: str = GROUPS, lent: str = LENT_GROUPS, proc: str = ""
    ) -> None:
        self._remember = remember
        self._root, self._lent, self._proc = root, lent, proc or "/proc/self/cgroup"
        self.made: dict[str, Group] = {}
        """Controller → the node's group for it."""
        self._agents: dict[str, Group] = {}
        self.undo: dict[str, Any] = {}
        """What lifts the limits without this agent: controller → path and version."""

    def make(self, controllers: Sequence[str]) -> None:
        """Make the groups. Raises Refused where that is impossible, with the reason."""
        for controller in controllers:
            if controller in self.made:
                continue
            base = self._base(controller)
            self._make_writable(base)
            group = Group(f"{base.path}/{NODE_GROUP}", base.unified)
            self.undo[controller] = list(group)
            self._remember()
            try:
                if base.unified:
                    self._hand_on(base, controller)
                with contextlib.suppress(FileExistsError):
                    os.mkdir(group.path, 0o755)  # noqa: PTH102
                if not os.access(f"{group.path}/cgroup.procs", os.W_OK):
                    raise Refused(f"{group.path} cannot be written")
            except OSError as error:
                raise Refused(f"no control group for {controller} in {base.path}: {error.strerror or error}") from None
            self.made[controller] = group

    def _base(self, controller: str) -> Group:
        lent = f"{self._lent}/{controller}"
        if os.path.isdir(lent):  # noqa: PTH112
            return Group(lent, os.path.exists(f"{lent}/cgroup.controllers"))  # noqa: PTH110
        return own_group(controller, root=self._root, proc=self._proc)

    @staticmethod
    def _make_writable(base: Group) -> None:
        """A container is shown its own group read-only; its agent may change that, where a run needs it."""
        if os.access(base.path, os.W_OK):
            return
        above = [one.path for one in mounted() if f"{base.path}/".startswith(f"{one.path.rstrip('/')}/")]
        place = max(above, key=len, default=base.path)
        library = ctypes.CDLL(None, use_errno=True)
        if library.mount(None, os.fsencode(place), None, ctypes.c_ulong(_REMOUNT_BIND), None):
            raise Refused(f"{base.path} cannot be written: {os.strerror(ctypes.get_errno())}")

    def _hand_on(self, base: Group, controller: str) -> None:
        """Version 2: only a group without processes of its own hands a controller on, so ours move below it."""
        if controller in base.read("cgroup.subtree_control").split():
            return
        if not offers(base, controller):
            raise Refused(f"the group above {base.path} does not hand {controller} on")
        agents = Group(f"{base.path}/{AGENT_GROUP}", unified=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(agents.path, 0o755)  # noqa: PTH102
        for turn in range(MOVES_MAX):
            for pid in sorted(base.members()):
                with contextlib.suppress(ProcessLookupError):
                    agents.write("cgroup.procs", str(pid))
            try:
                base.write("cgroup.subtree_control", f"+{controller}")
            except OSError:  # busy: a process was started there meanwhile
                if turn == MOVES_MAX - 1:
                    raise
            else:
                return

    # --- the way in -----------------------------------------------------------------------------------------------

    def enter_thread(self) -> None:
        """Version 1: put the calling thread there; what it starts begins there. Raises OSError."""
        for group in self.made.values():
            if not group.unified:
                group.write("tasks", "0")

    @contextlib.contextmanager
    def entered(self) -> Iterator[Callable[[], None] | None]:
        """Version 2: what a new process does to get there before it executes its program; None: nothing."""
        paths = {group.path for group in self.made.values() if group.unified}
        fds = [os.open(f"{path}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC) for path in sorted(paths)]

        def enter() -> None:
            for fd in fds:
                os.write(fd, b"0")

        try:
            yield enter if fds else None
        finally:
            for fd in fds:
                os.close(fd)

    def outside(self, controller: str, pids: Sequence[int]) -> list[int]:
        """Those of these living processes that are not in the group. Raises Refused, OSError."""
        inside = self.group(controller).members()
        return [pid for pid in pids if pid not in inside and os.path.exists(f"/proc/{pid}")]  # noqa: PTH110

    def group(self, controller: str) -> Group:
        """The node's group for this controller. Raises Refused if the run did not ask for it."""
        if controller not in self.made:
            raise Refused(f"the node has no control group of its own for {controller} on this host")
        return self.made[controller]

    # --- the end --------------------------------------------------------------------------------------------------

    def remove(self) -> None:
        """Lift all limits, and remove the groups if they are empty."""
        for group in self.made.values():
            lift(group)
            deadline = time.monotonic() + EMPTY_LIMIT_S
            while time.monotonic() < deadline:
                try:
                    os.rmdir(group.path)  # noqa: PTH106
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.005)
                else:
                    break
        self.made, self.undo = {}, {}


UNLIMITED = {
    False: {"cpu.cfs_quota_us": "-1", "memory.memsw.limit_in_bytes": "-1", "memory.limit_in_bytes": "-1"},
    True: {"cpu.max": "max", "memory.max": "max", "memory.swap.max": "max"},
}
"""By version: file → what stands for no limit, in an order in which the kernel accepts it."""


def lift(group: Group) -> str:
    """Limit nothing in this group any more; "" or what could not be lifted. A group that is gone limits nothing."""
    whys = []
    for name, value in UNLIMITED[group.unified].items():
        try:
            group.write(name, value)
        except FileNotFoundError:
            continue
        except OSError as error:
            whys.append(f"{group.path}/{name} still limits: {error.strerror}")
    return "; ".join(whys)


def lift_groups(undo: Mapping[str, Sequence[Any]]) -> str:
    """Lift what an agent that is gone limited; "" or what is left. Raises ValueError, TypeError."""
    whys = []
    for path, unified in undo.values():
        if os.path.basename(str(path)) != NODE_GROUP:  # noqa: PTH119
            raise ValueError(f"{path} is no group of ours")
        whys.append(lift(Group(str(path), bool(unified))))
    return "; ".join(dict.fromkeys(filter(None, whys)))
