"""descriptors: the node process can open no more files and connections, as if it had used up its descriptors.

The limit of the running process is lowered to the first descriptor that is free, so each open, accept and connect fails
with EMFILE until the process closes something. What it has open works as before. Out of scope: children of the process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dethrone.harness.core.hoststate import HostCommand, HostState, Trouble, with_more
from dethrone.harness.core.interfaces import ClusterView, FaultTraits
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import PlannedFault
from dethrone.nemesis.faults.afflicted import Affliction

ON_HOST = r"""
import json, os, re, resource, sys, time

verb, pid, given, path = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]

def text(name):
    with open(f"/proc/{pid}/{name}") as file:
        return file.read()

def start():
    try:
        fields = text("stat").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" or fields[19] != given else given

def known():
    try:
        with open(path) as file:
            return json.load(file)
    except (OSError, ValueError):
        return None

def limits():
    return re.search(r"^Max open files +(\d+|unlimited) +(\d+|unlimited)", text("limits"), re.M).groups()

def free():  # the lowest of several moments: what is open for one moment only is free soon
    found = []
    for _ in range(10):
        used = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
        found.append(next(number for number in range(len(used) + 1) if number not in used))
        time.sleep(0.01)
    return min(found)

def become_its_user():  # whose processes it may limit; root of a container may limit no others
    for ids, become in (("Gid", os.setresgid), ("Uid", os.setresuid)):
        number = int(re.search(rf"^{ids}:\s+(\d+)", text("status"), re.M).group(1))
        if ids == "Gid" and os.geteuid() == 0:
            os.setgroups([])
        become(number, number, number)

def limit(soft):
    hard = limits()[1]
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, resource.RLIM_INFINITY if hard == "unlimited" else int(hard)))

undo, alive = known(), start()
if verb == "check":
    if undo is None or undo["start"] != given:
        sys.exit(1)
    if alive is None:  # it ended, perhaps of this very fault, and opens nothing any more
        sys.exit(0)
    sys.exit(0 if limits()[0] == str(undo["limit"]) and undo["limit"] < undo["soft"] else 1)
if verb == "begin":
    if alive is None:
        sys.exit("the process has ended")
    if undo is None or undo["start"] != alive:
        soft = limits()[0]
        undo = {"start": alive, "soft": 1 << 20 if soft == "unlimited" else int(soft), "limit": free()}
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w") as file:
            json.dump(undo, file)
    become_its_user()
    limit(undo["limit"])
elif undo is not None:
    if undo["start"] == alive and os.fork() == 0:
        become_its_user()
        limit(undo["soft"])
        os._exit(0)
    if undo["start"] == alive and os.wait()[1]:
        sys.exit(1)
    os.unlink(path)
"""
"""On the host: ``begin``, ``check`` or ``end``; the process; where its old limit is kept, which is written first."""


def _command() -> HostCommand:
    words = ("{python}", "-I", "-S", "-c", ON_HOST)
    rest = ("{pid}", "{start}", "{agent_dir}/descriptors-{run}")
    return HostCommand(begin=(*words, "begin", *rest), check=(*words, "check", *rest), end=(*words, "end", *rest))


TROUBLE = Trouble(
    kind="descriptors", says="can open no more descriptors", means=HostState(), commands=(_command(),), unmodelled=True
)


def _afflict(
    state: Mapping[str, HostState], victims: tuple[str, ...], params: Mapping[str, Any]
) -> Mapping[str, HostState]:
    del params  # it has none
    return with_more(state, dict.fromkeys(victims, HostState(troubles=(TROUBLE,))))


class Exhaustion(Affliction, frozen=True, kw_only=True):
    """The kind; a process that is down has no descriptors."""

    def resolve(
        self, fault: PlannedFault, view: ClusterView, rng: Rng
    ) -> tuple[tuple[str, ...], Mapping[str, Any]] | str:
        """Those of the victims that run."""
        found = Affliction.resolve(self, fault, view, rng)
        if isinstance(found, str):
            return found
        running = tuple(node for node in found[0] if view.state[node].suffered.down is None)
        return (running, found[1]) if running else "every victim is down: it has no descriptors"


FAULT = Exhaustion(
    kind="descriptors",
    line="leave the node process no free descriptor: each open, accept and connect fails",
    params=(),
    judge=lambda _: None,
    draws=lambda _rng, _hold_ns: {},
    afflict=_afflict,
    capabilities=frozenset({"commands", "descriptors"}),
    traits=FaultTraits(touches=frozenset({"descriptors"})),
)
