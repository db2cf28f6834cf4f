"""kill: the node process is ended by SIGKILL and stays down until the fault ends."""

from __future__ import annotations

from dethrone.harness.core.interfaces import FaultTraits, Shown
from dethrone.nemesis.faults.one_process import Divisible

KILLED = (
    Shown("leader-killed", "leader", "kill the leader"),
    Shown("follower-killed", "follower", "kill a follower"),
)

FAULT = Divisible(
    kind="kill",
    line="kill -9 the node process, start it again when the fault ends",
    signal="SIGKILL",
    traits=FaultTraits(
        harms="process",
        ends_process=True,
        takes_out=True,
        leaves_majority=True,
        owes=KILLED,
        touches=frozenset({"killed"}),
    ),
)
