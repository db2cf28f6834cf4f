"""kill: the node process is ended by SIGKILL and stays down until the fault ends."""

from __future__ import annotations

from dethrone.nemesis.faults.processes import ProcessFault

FAULT = ProcessFault(kind="kill", line="kill -9 the node process, start it again when the fault ends", signal="SIGKILL")
