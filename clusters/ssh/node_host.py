"""One lent machine as a run's host: an agent's host, with the places and the caution that such a machine needs.

Guarantees: everything of a run lies below one directory of the machine; the dead man's switch is the hosts file's; a
node whose program is not there is refused with the program's name. Out of scope: putting the agent there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dethrone.clusters.agent.agent_host import AgentHost
from dethrone.clusters.agent.streams import Stream
from dethrone.clusters.ssh.hosts import Pattern, PidFile, SshHost, Target, restart_of
from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.interfaces import IN_A_CONTAINER, NodeStart, Places

LOOK_LIMIT_NS: Ns = 10 * SECOND


def places_in(directory: str, python: str) -> Places:
    """The places below a run's directory. ``python`` "": nodes are not ours, and the container's stands for it."""
    return Places(
        data_dir=f"{directory}/data",
        log_dir=f"{directory}/log",
        run_dir=f"{directory}/run",
        python=python or IN_A_CONTAINER.python,
        lib=f"{directory}/lib",
    )


class SshNodeHost(AgentHost):
    """See ``AgentHost``. ``lent``: the machine as its file has it."""

    def __init__(
        self,
        name: str,
        address: str,
        connect: Callable[[], Stream],
        *,
        lent: SshHost,
        places: Places,
        dead_man_ns: Ns,
        **more: Any,
    ) -> None:
        super().__init__(name, address, connect, **more)
        self.places = places
        self._lent = lent
        self.sets_timers = lent.target is None  # a target that runs already was configured by another user
        self._dead_man_ns = dead_man_ns

    def prepare(
        self, start: NodeStart, peers: Mapping[str, str], *, dead_man_ns: Ns, process: int | None = None
    ) -> None:
        """See ``Host``; the file's dead man's switch counts, not the caller's.

        Raises ConfigError: the node's program is not on the machine.
        """
        del dead_man_ns
        target = self._lent.target
        if target is not None:
            self._call("adopt", target=described(target), restart=list(restart_of(target)))
        elif self.run(("sh", "-c", 'command -v "$0"', start.command.argv[0]), timeout_ns=LOOK_LIMIT_NS)[0] != 0:
            raise ConfigError(
                f"{start.command.argv[0]} is not on the machine",
                where=f"{self.name} ({self._lent.address})",
                cause="over SSH nothing but nodes of ours is brought along",
                next_step=f"install it there; or write target in [hosts.{self.name}] if it runs there already",
            )
        super().prepare(start, peers, dead_man_ns=self._dead_man_ns, process=process)


def described(target: Target) -> dict[str, str]:
    """A target as the agent sees it."""
    way = "pid_file" if isinstance(target, PidFile) else "pattern" if isinstance(target, Pattern) else "unit"
    (value, _start) = msgspec.structs.astuple(target)
    return {"by": way, "value": value}
