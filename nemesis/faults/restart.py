"""restart: the node process is ended by SIGKILL and started again at once."""

from __future__ import annotations

from dethrone.harness.core.interfaces import FaultTraits, Shown
from dethrone.nemesis.faults.one_process import Divisible

FAULT = Divisible(
    kind="restart",
    line="kill -9 the node process and start it again at once",
    signal="SIGKILL",
    traits=FaultTraits(
        harms="process",
        lasts="at-once",
        ends_process=True,
        takes_out=True,
        owes=(Shown("restarted", "anybody", "a restart fault"),),
        touches=frozenset({"killed", "stopped"}),
    ),
)
