"""pause: the node process is stopped by SIGSTOP and continued when the fault ends; its sockets stay open."""

from __future__ import annotations

from dethrone.harness.core.interfaces import FaultTraits, Shown
from dethrone.nemesis.faults.one_process import Divisible

FAULT = Divisible(
    kind="pause",
    line="SIGSTOP the node process, SIGCONT when the fault ends",
    signal=None,
    traits=FaultTraits(
        harms="process",
        takes_out=True,
        owes=(
            Shown("leader-paused", "leader", "pause the leader"),
            Shown("follower-paused", "follower", "pause a follower"),
        ),
        touches=frozenset({"frozen"}),
    ),
)
