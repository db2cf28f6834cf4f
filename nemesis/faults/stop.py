"""stop: the node process is asked to end by SIGTERM (the graceful path is different code) and stays down."""

from __future__ import annotations

from dethrone.harness.core.interfaces import FaultTraits
from dethrone.nemesis.faults.kill import KILLED
from dethrone.nemesis.faults.one_process import Divisible

FAULT = Divisible(
    kind="stop",
    line="SIGTERM the node process, start it again when the fault ends",
    signal="SIGTERM",
    traits=FaultTraits(
        harms="process",
        ends_process=True,
        takes_out=True,
        leaves_majority=True,
        shows=KILLED,
        touches=frozenset({"stopped"}),
    ),
)
