"""kill:NAME, stop:NAME, restart:NAME, pause:NAME: one of several processes of a node is hit, and the others run on.

No description says what the rest of a node can do without one of its processes, so nothing is owed of such a node
meanwhile; and nothing is excused that is not excused of the whole node. Guarantees: pure; a process that is hit stays
so across restarts of its node until the fault ends. Out of scope: how the supervisor on the host does it; which
processes there are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.hoststate import HostCommand, HostState, Trouble, with_more
from dethrone.harness.core.interfaces import FaultTraits, Shown
from dethrone.nemesis.faults.processes import ProcessFault

_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
FREEZE = "SIGSTOP"
SAYS = {"SIGKILL": "is down", "SIGTERM": "is down, asked to end", FREEZE: "is frozen"}

ON_HOST = r"""
import json, os, socket, sys

verb, run_dir, name, kind, how = sys.argv[1:]
owner = os.stat(run_dir)
if os.geteuid() == 0 and owner.st_uid != 0:
    os.setgroups([])
    os.setresgid(owner.st_gid, owner.st_gid, owner.st_gid)
    os.setresuid(owner.st_uid, owner.st_uid, owner.st_uid)
path = f"{run_dir}/held/{name}.{kind}"

def said():  # None: no node runs
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(4)
        try:
            connection.connect(f"{run_dir}/processes.sock")
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        with connection.makefile("rb") as stream:
            return json.loads(stream.read())[name]

if verb == "begin":
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(how)
    said()
elif verb == "end":
    if os.path.lexists(path):
        os.unlink(path)
    said()
elif not os.path.lexists(path):
    sys.exit(1)
else:
    found = said()
    if found is None or not found["alive"]:
        sys.exit(0)
    sys.exit(0 if how == "SIGSTOP" and found["frozen"] else 1)
"""
"""On the host, as the node's user: ``begin``, ``check`` or ``end``; the node's directory, the process, the kind, and
the signal that it stands for, which is in the file."""


class OneProcess(ProcessFault, frozen=True, kw_only=True):
    """The kind ``KIND:NAME``. See ``dethrone.harness.core.interfaces.Fault``."""

    process: str
    base: str

    def apply(
        self, state: Mapping[str, HostState], victims: tuple[str, ...], params: Mapping[str, Any]
    ) -> Mapping[str, HostState]:
        """``state`` with this process of the victims down or frozen."""
        del params  # it has none
        return with_more(state, dict.fromkeys(victims, HostState(troubles=(self._trouble(),))))

    def _trouble(self) -> Trouble:
        words = ("{python}", "-I", "-S", "-c", ON_HOST)
        how = self.signal or FREEZE
        rest = ("{run_dir}", self.process, self.base, how)
        command = HostCommand(
            begin=(*words, "begin", *rest), check=(*words, "check", *rest), end=(*words, "end", *rest)
        )
        return Trouble(kind=self.kind, says=f"{self.process} {SAYS[how]}", means=HostState(), commands=(command,))


class Divisible(ProcessFault, frozen=True, kw_only=True):
    """A fault of the node process that may also hit one of several processes."""

    def of_process(self, process: str) -> OneProcess:
        """The kind that does the same to this process alone. ConfigError: that is no name of one."""
        if not _NAME.fullmatch(process):
            raise ConfigError(
                f"the fault {self.kind!r} hits no process {process!r}",
                next_step=f"write {self.kind}, or {self.kind}: and the name of a [[process]] of the description",
            )
        return OneProcess(
            kind=f"{self.kind}:{process}",
            line=f"as {self.kind}, of the process {process} alone",
            signal=self.signal,
            capabilities=frozenset({"commands"}),
            traits=FaultTraits(
                harms="process",
                lasts=self.traits.lasts,
                owes=(Shown(f"{self.kind}-of-{process}", "anybody", f"a fault {self.kind}:{process}"),),
                borne_as=(self.kind,),
                touches=self.traits.touches,
            ),
            process=process,
            base=self.kind,
        )
