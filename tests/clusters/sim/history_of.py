"""Prints the digest of the history of one simulated run: ``history_of.py SYSTEM SEED FAULTS``. For any interpreter."""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path

from dethrone.harness.core import store
from dethrone.harness.core.history_files import segments
from dethrone.harness.engine.run.listener import Silence
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import draft
from dethrone.harness.engine.run.virtual_run import VirtualRun


def main() -> None:
    system, seed, faults = sys.argv[1], int(sys.argv[2]), tuple(sys.argv[3].split(","))
    options = RunOptions(
        system=system,
        backend="sim",
        seed=seed,
        faults=faults,
        time_limit_ns=20 * 10**9,
        stop_at_first_failure=False,
        conclusive=False,  # what it shows does not matter here, and not every kind has room
    )
    with tempfile.TemporaryDirectory() as directory:
        run = VirtualRun(options, draft(options, seed=seed), Path(directory), Silence(), run_id="digest", checkers={})
        run.direct()
        written = b"".join(one.path.read_bytes() for one in segments(Path(directory) / store.HISTORY))
        print(hashlib.sha256(written).hexdigest())


if __name__ == "__main__":
    main()
