"""restart: the node process is ended by SIGKILL and started again at once."""

from __future__ import annotations

from dethrone.nemesis.faults.processes import ProcessFault

FAULT = ProcessFault(
    kind="restart", line="kill -9 the node process and start it again at once", signal="SIGKILL", at_once=True
)
