"""The target's processes on a machine where another user started them: which they are.

Guarantees: pure, but that a process of its own matches a pattern, within a limit; the question is an argument vector,
the answer a value; no process is an error, for a fault that hits nothing is a run without faults; neither the asking
command nor the agent is ever taken for the target. Out of scope: asking (a ``Connection`` or an agent does) and
signalling.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from dethrone.clusters.agent.host.adopted import OURS
from dethrone.clusters.ssh.hosts import Pattern, PidFile, Target, Unit
from dethrone.clusters.ssh.matching import matching
from dethrone.harness.core.errors import ClusterError


def question(target: Target) -> tuple[str, ...]:
    """The command whose output ``answer`` understands."""
    match target:
        case PidFile(path):
            return ("cat", "--", path)
        case Unit(name):
            # Control group, not MainPID alone: a unit may be several processes, and a restart changes them.
            return ("systemctl", "show", "--property=LoadState,ActiveState,MainPID,ControlGroup", "--", name)
        case Pattern():
            return ("ps", "-ww", "-eo", "pid=,ppid=,args=")


def answer(target: Target, code: int, out: str, err: str, *, where: str, ours: Collection[int] = ()) -> tuple[int, ...]:
    """The process ids, ascending, without ``ours``. Raises ClusterError where there is none.

    Of a unit it is the main process; the unit's whole control group is the agent's to walk.
    """
    match target:
        case PidFile(path):
            if code != 0:
                raise _none(f"the pid file {path} cannot be read", err, where, "start the target, or name its pid file")
            word = out.strip()
            if re.fullmatch(r"\d{1,10}", word) is None or int(word) < 2:
                raise _none(f"the pid file {path} holds no process id", repr(word[:60]), where, f"look at {path}")
            found = [int(word)]
        case Unit(name):
            found = [_main_process(name, code, out, err, where)]
        case Pattern(regex):
            if code != 0:
                raise _none("the processes cannot be listed", err, where, "install procps on the host")
            commands = _commands(out)
            pids = list(commands)
            found = [pids[place] for place in matching(regex, list(commands.values()), where=where)]
            if not set(found) - set(ours):
                raise _none(
                    f"the pattern {regex!r} matches no process",
                    "the target does not run, or is called otherwise",
                    where,
                    "see `ps -eo args` on the host and correct target.pattern",
                )
    taken = sorted(set(found) - set(ours))
    if not taken:
        raise _none("the target's process is one of ours", "the pid file is stale", where, "correct the target")
    return tuple(taken)


def _main_process(name: str, code: int, out: str, err: str, where: str) -> int:
    said = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
    if code != 0:
        raise _none(f"systemd does not report the unit {name}", err, where, "see `systemctl status` on the host")
    if said.get("LoadState") == "not-found":
        raise _none(f"there is no unit {name}", "", where, "`systemctl list-units` on the host has the names")
    pid = said.get("MainPID", "0")
    if not pid.isdecimal() or int(pid) < 2:
        raise _none(
            f"the unit {name} has no process",
            f"it is {said.get('ActiveState', '?')}",
            where,
            f"`systemctl start {name}`",
        )
    return int(pid)


def _commands(listing: str) -> dict[int, str]:
    """Process → command line, of a listing of ``ps``. Kernel threads (children of process 2) are no targets."""
    found = {}
    for line in listing.splitlines():
        parts = line.split(None, 2)
        if len(parts) < 3 or not parts[0].isdecimal():
            continue
        pid, parent, args = int(parts[0]), parts[1], parts[2]
        if pid >= 2 and parent != "2" and OURS.search(args) is None:
            found[pid] = args
    return found


def _none(what: str, cause: str, where: str, next_step: str) -> ClusterError:
    return ClusterError(what, where=where, cause=cause.strip()[-300:], next_step=next_step)
