"""memory: the node process may use less memory than it does, so the kernel kills it; it stays down until the end."""

from __future__ import annotations

from dethrone.harness.core.interfaces import FaultTraits
from dethrone.harness.core.interfaces.faults import AS_PROCESS_FAULT
from dethrone.nemesis.faults.kill import KILLED
from dethrone.nemesis.faults.processes import ProcessFault

FAULT = ProcessFault(
    kind="memory",
    line="limit memory below what the node process uses: the kernel kills it; it starts again when the fault ends",
    signal="OOM",
    capabilities=frozenset({"memory"}),
    traits=FaultTraits(
        harms="process",
        ends_process=True,
        takes_out=True,
        leaves_majority=True,
        shows=KILLED,
        borne_as=AS_PROCESS_FAULT,
        touches=frozenset({"memory"}),
    ),
)
