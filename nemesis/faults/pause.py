"""pause: the node process is stopped by SIGSTOP and continued when the fault ends; its sockets stay open."""

from __future__ import annotations

from dethrone.nemesis.faults.processes import ProcessFault

FAULT = ProcessFault(kind="pause", line="SIGSTOP the node process, SIGCONT when the fault ends", signal=None)
