"""The ``sim`` backend: nodes are protocol cores in virtual time, on this one thread, thousands of times faster.

Guarantees: nothing outside the process is touched; every fault that needs what ``CAPABILITIES`` names takes effect as
asked. Out of scope: systems that are foreign programs: they have no core to simulate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dethrone.clusters.sim.settings import fill
from dethrone.clusters.sim.world import SimWorld
from dethrone.harness.core import registry
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.errors import ClusterError, ConfigError, MissingCapability
from dethrone.harness.core.hoststate import HostState
from dethrone.harness.core.interfaces import (
    Available,
    BackendTraits,
    DeploySpec,
    Evidence,
    Host,
    HostNews,
    No,
    Owned,
    System,
    Yes,
)
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.world import Simulable, VirtualWorld

CAPABILITIES = frozenset(
    {"iptables", "signals", "faketime", "links", "power", "disks", "files", "monotonic", "commands", "cpu", "memory"}
)
"""What faults may need here: cuts; signals; wall clocks; the quality of links; losses of power; troubles of disks;
damage to files; monotonic clocks; what commands of a kind's own amount to; shares of a processor; lack of memory."""


def _refuse(plan: Plan) -> None:
    """Raise ConfigError for a schedule that shapes what clients send, refuses connections where there are none, or
    takes back names of files."""
    faults = [fault for step in plan.schedule.steps for fault in step.faults]
    if any(fault.params.get("way") == "new-only" for fault in faults) and not _connects(plan.system):
        raise ConfigError(
            f"new connections between simulated nodes of {plan.system} cannot be refused",
            cause="its transport is request and response, and simulated without connections",
            next_step='leave way = "new-only" out, or use --on local or docker',
        )
    if any(fault.kind == "link" and fault.params.get("of") in {"clients", "all"} for fault in faults):
        raise ConfigError(
            "the links of clients cannot be bad in simulation",
            cause="simulated clients call nodes without a network in between",
            next_step='leave `of` out of the parameters of "link", or use --on local or docker',
        )
    if any(fault.params.get("model") == "posix" for fault in faults):
        raise ConfigError(
            'a powerloss with model = "posix" cannot happen in simulation',
            cause="names of simulated files become durable in their order, as in a journal",
            next_step="leave `model` out of its parameters, or use --on docker or local",
        )


def _connects(name: str) -> bool:
    system = registry.load(registry.SYSTEMS, name)
    return not isinstance(system, Simulable) or system.target().transport == "tcp"


class SimBackend:
    """See ``dethrone.harness.core.interfaces.Backend`` and ``dethrone.harness.core.world.VirtualBackend``."""

    name = "sim"

    def available(self) -> Available:
        """Always."""
        return Yes()

    @property
    def traits(self) -> BackendTraits:
        """Of virtual time: more can be done to hosts that are not there."""
        return BackendTraits(capabilities=CAPABILITIES, refuse=_refuse)

    def simulates(self, system: System) -> Available:
        """Systems whose nodes are protocol cores."""
        if isinstance(system, Simulable):
            return Yes()
        return No(
            f"{system.name} is a program of its own, not a protocol core",
            "use --on docker, or simulate a target of ours",
        )

    def settings(self, words: Mapping[str, str]) -> Mapping[str, str]:
        """All settings with defaults filled in. Raises ConfigError."""
        return fill(words)

    def world(self, system: System, plan: Plan) -> VirtualWorld:
        """A new world at its moment 0."""
        if not isinstance(system, Simulable):
            raise MissingCapability(f"{system.name} cannot be simulated")
        return SimWorld(system, plan)

    def deploy(
        self,
        spec: DeploySpec,
        *,
        origin_ns: Ns,
        news: Callable[[HostNews], None],
        progress: Callable[[str], None],
    ) -> Mapping[str, Host]:
        """There are no hosts to deploy: always ClusterError."""
        del origin_ns, news, progress
        raise ClusterError("the simulator has no hosts", where=spec.run_id, next_step="ask it for a world")

    def introduce(self, hosts: Mapping[str, Host]) -> Mapping[str, str]:
        """There are no hosts that could meet."""
        del hosts
        return {}

    def converge_all(self, hosts: Mapping[str, Host], wants: Mapping[str, HostState]) -> Mapping[str, Evidence]:
        """There are no hosts to converge."""
        del hosts, wants
        return {}

    def destroy(self, run_id: str) -> None:
        """Nothing is left of a simulated run."""
        del run_id

    def leftovers(self) -> Sequence[Owned]:
        """None, ever."""
        return ()

    def doctor(self) -> Sequence[tuple[str, Available]]:
        """One row."""
        return [("simulated nodes", Yes())]


BACKEND = SimBackend()
