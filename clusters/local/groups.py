"""Control groups for local hosts whose nodes' use of this machine is limited: made by root, shown to one host each.

Guarantees: what was made is on disk before it is made; a group is below the harness' own, or, in version 2, below the
nearest one that hands its controllers on, so that limits of the harness stay in force; only groups that the run's list
names, with the run's name in theirs, are removed. Out of scope: what happens in them, which is the agent's.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from dethrone.clusters.agent.host.common import Refused
from dethrone.clusters.agent.host.groups import (
    AGENT_GROUP,
    GROUPS,
    LENT_GROUPS,
    NODE_GROUP,
    Group,
    offers,
    own_group,
)
from dethrone.harness.core.errors import ClusterError, MissingCapability

LIST = "groups"
"""The file with the run's groups, next to its hosts' directories."""
REMOVE_LIMIT_S = 10.0
"""How long processes that were killed may take to leave a group: one that waits for a slow disk ends late."""


def base_of(controller: str, *, root: str = GROUPS, proc: str = "/proc/self/cgroup", pid: int = 0) -> Group:
    """The group below which those of hosts are made. Raises Refused with the reason where there is none."""
    group = own_group(controller, root=root, proc=proc, pid=pid)
    while group.unified and controller not in _handed_on(group):
        above = Group(str(Path(group.path).parent), unified=True)
        if group.path == root or not Path(above.path, "cgroup.procs").exists():
            raise Refused(f"no control group above this process hands {controller} on")
        group = above
    if not os.access(group.path, os.W_OK):
        raise Refused(f"{group.path} cannot be written")
    return group


def _handed_on(group: Group) -> Sequence[str]:
    try:
        return group.read("cgroup.subtree_control").split()
    except OSError:
        return ()


def why_not(controller: str) -> str:
    """Why hosts made by this process cannot be limited so; "" if they can be."""
    try:
        base_of(controller)
    except Refused as refused:
        return str(refused)
    return ""


def make(
    controllers: Sequence[str], nodes: Sequence[str], *, run_id: str, place: Path, owner: int
) -> dict[str, dict[str, Group]]:
    """Node → controller → its host's group, which ``owner`` may write. ``place``: of the hosts' directories."""
    try:
        bases = {controller: base_of(controller) for controller in controllers}
    except Refused as refused:
        raise MissingCapability(
            "what nodes use cannot be limited on this machine",
            where="backend local",
            cause=str(refused),
            next_step="list in --faults the wanted kinds without cpu and memory, or use --on docker or --on sim",
        ) from None
    found = {
        node: {
            controller: Group(f"{base.path}/{_name(run_id)}{node}", base.unified) for controller, base in bases.items()
        }
        for node in nodes
    }
    paths = sorted({group.path for groups in found.values() for group in groups.values()})
    (place / LIST).write_text(json.dumps(paths), encoding="utf-8")
    for groups in found.values():
        for controller, group in groups.items():
            Path(group.path).mkdir(exist_ok=True)
            if not offers(group, controller):
                raise ClusterError(f"the group above does not hand {controller} on", where=group.path)
            for name in ("", "cgroup.procs", "tasks", "cgroup.subtree_control"):
                with contextlib.suppress(FileNotFoundError):
                    os.chown(Path(group.path, name), owner, owner)
    return found


def shown(groups: Mapping[str, Group]) -> list[Sequence[object]]:
    """The steps by which a host sees its groups where its agent looks for them."""
    return [("lend", f"{LENT_GROUPS}/{controller}", group.path) for controller, group in groups.items()]


def join(groups: Mapping[str, Group], pid: int) -> None:
    """Version 2: a host's processes may be moved below its group only from within it."""
    for path in {group.path for group in groups.values() if group.unified}:
        Group(path, unified=True).write("cgroup.procs", str(pid))


def remove(state_dir: Path, run_id: str) -> None:
    """Remove the run's groups, whose processes have ended. ClusterError if some stay."""
    file = state_dir / "hosts" / LIST
    try:
        if file.lstat().st_uid != os.geteuid():
            return
        paths = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return
    ours = [Path(path) for path in paths if isinstance(path, str) and Path(path).name.startswith(_name(run_id))]
    deadline = time.monotonic() + REMOVE_LIMIT_S
    for path in ours:
        for one in (path / NODE_GROUP, path / AGENT_GROUP, path):
            _rmdir(one, deadline)


def _rmdir(path: Path, deadline: float) -> None:
    while True:
        try:
            path.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise ClusterError(
                    "a control group of a local run cannot be removed",
                    where=str(path),
                    cause=f"{error.strerror}: a process is in it that is not ours",
                    next_step=f"end what {path}/cgroup.procs names, then `dethrone heal`",
                ) from error
            time.sleep(0.01)
        else:
            return


def _name(run_id: str) -> str:
    return f"dethrone-{run_id}-"
