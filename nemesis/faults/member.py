"""member: a node is removed from the members of its cluster and ended; when the fault ends, it is added again.

The node's host asks the other members, by the means that the system has for it, and polls them at both ends: removed is
what they no longer list, added what all that answer list again. A system may need a node that returns to be a new one:
then what it stored is removed first. Guarantees: pure; one node at a time, and only while nothing else is wrong with
any host; only of an odd number of voters, since then a majority of the others is as large as one of all, so that every
quorum stays what it was. Out of scope: how a host does it (``dethrone.clusters.systems.membership``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.hoststate import HostCommand, HostState, Trouble, with_more
from dethrone.harness.core.interfaces import ClusterView, FaultTraits, Shown
from dethrone.harness.core.interfaces.faults import AS_PROCESS_FAULT
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import PlannedFault
from dethrone.nemesis.faults.kind import FaultKind
from dethrone.nemesis.parameters import check_known

ON_HOST = r"""
import os, sys
run_dir = sys.argv[-1]
owner = os.stat(run_dir)
if os.geteuid() == 0 and owner.st_uid != 0:
    os.setgroups([])
    os.setresgid(owner.st_gid, owner.st_gid, owner.st_gid)
    os.setresuid(owner.st_uid, owner.st_uid, owner.st_uid)
with open(f"{run_dir}/membership.py") as file:
    exec(compile(file.read(), file.name, "exec"))
"""
"""On the host: the system's program for changes of members, run as the node's user."""


def _trouble() -> Trouble:
    words = ("{python}", "-I", "-S", "-c", ON_HOST)
    command = HostCommand(
        begin=(*words, "begin", "{run_dir}"), check=(*words, "check", "{run_dir}"), end=(*words, "end", "{run_dir}")
    )
    return Trouble(kind="member", says="is no member of its cluster", means=HostState(), commands=(command,))


REMOVED = HostState(down="SIGKILL", troubles=(_trouble(),))
"""The host asks first and ends the process then; at the end it asks before it starts the process."""


class Member(FaultKind, frozen=True, kw_only=True):
    """See ``dethrone.harness.core.interfaces.Fault``."""

    def check(self, fault: PlannedFault, *, nodes: int) -> None:
        """Raise ConfigError for what every kind refuses, and for an even number of nodes."""
        FaultKind.check(self, fault, nodes=nodes)
        if nodes % 2 == 0:
            raise ConfigError(
                f"the fault {self.kind!r} needs an odd number of nodes, not {nodes}",
                cause="of an even number, a majority of those that are left is smaller, and no quorum could be judged",
                next_step=f"give --nodes {nodes + 1}",
            )

    def draw(self, rng: Rng, *, nodes: int, hold_ns: Ns, knobs: Mapping[str, Any]) -> PlannedFault:
        """The leader half the time, else a follower. Knob: ``victims``."""
        del nodes  # one is removed, however many there are
        check_known(self.kind, knobs, ("victims",))
        victims = knobs.get("victims") or ("leader" if rng.chance(1, 2) else "follower")
        return PlannedFault(kind=self.kind, victims=victims, hold_ns=hold_ns)

    def resolve(
        self, fault: PlannedFault, view: ClusterView, rng: Rng
    ) -> tuple[tuple[str, ...], Mapping[str, Any]] | str:
        """The one voter, while a leader answers and nothing is wrong with any host."""
        found = FaultKind.resolve(self, fault, view, rng)
        if isinstance(found, str):
            return found
        voters = view.voters or view.nodes
        troubled = [node for node in view.nodes if not view.state[node].healthy]
        if len(found[0]) != 1:
            return f"one node is removed at a time, not {', '.join(found[0])}"
        if found[0][0] not in voters or len(voters) % 2 == 0:
            return f"{found[0][0]} is not one of an odd number of voters"
        if troubled:
            return f"members change only while nothing else is wrong, and another fault has hit {', '.join(troubled)}"
        return found if view.leader is not None else "no leader answers, and a change of members needs one"

    def apply(
        self, state: Mapping[str, HostState], victims: tuple[str, ...], params: Mapping[str, Any]
    ) -> Mapping[str, HostState]:
        """``state`` with the victims removed, and down."""
        del params  # it has none
        return with_more(state, dict.fromkeys(victims, REMOVED))


FAULT = Member(
    kind="member",
    line="remove a node from the members of the cluster and end it, add it again when the fault ends",
    capabilities=frozenset({"signals", "commands", "members"}),
    traits=FaultTraits(
        ends_process=True,
        takes_out=True,
        removes=True,
        owes=(
            Shown("leader-removed", "leader", "a member fault of the leader"),
            Shown("follower-removed", "follower", "a member fault of a follower"),
        ),
        borne_as=AS_PROCESS_FAULT,
        touches=frozenset({"killed"}),
        nodes_min=3,
    ),
)
