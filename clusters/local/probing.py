"""Whether a host can be made by this user on this machine, found out by making one that is let go at once.

Guarantees: nothing stays. Out of scope: the network between hosts, and an agent.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from dethrone.clusters.local import labels
from dethrone.clusters.local.room import steps, this_machine
from dethrone.clusters.local.spawning import Becoming


def probe(ids: Mapping[str, int]) -> None:
    """Make a host's namespaces and root directory. Raises ClusterError with the machine's reason.

    ``ids``: who its users are on this machine, with a user namespace of its own; empty: without one.
    """
    with tempfile.TemporaryDirectory(prefix="dethrone-") as directory:
        place = Path(directory)
        for part in ("root", "agent", "run", "data", "log"):
            (place / part).mkdir()
        made = steps(this_machine(), box=directory, programs={})
        trying = Becoming(
            "probe",
            {"kind": "probe", "name": "probe", "root": str(place / "root"), "steps": made, "ids": dict(ids)},
            env=labels.environment(os.environ, run_id="probe", state_dir=directory, node="probe"),
        )
        try:
            trying.begun()
            trying.made()
        finally:
            trying.close()
