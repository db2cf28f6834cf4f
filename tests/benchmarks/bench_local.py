"""Five local hosts (namespaces, as root): up, cut and heal in force and probed, node killed and back, down.

    python -m tests.benchmarks.bench_local [rounds]

Prints medians and worst cases in ms, beside the figure to reach for the first; judges nothing.
"""

from __future__ import annotations

import secrets
import sys
import tempfile
import time
from pathlib import Path

from dethrone.harness.core.interfaces import DeploySpec
from dethrone.harness.core.ledger import Ledger
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import draft
from dethrone.harness.engine.run.runner import node_specs, prepare_host
from tests.benchmarks.bench_docker import NODES, destroy, faults, show

UP_MS = 1500
"""The figure to reach."""


def main() -> None:
    """Print the figures."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    drafted = draft(RunOptions(system="raft", backend="local", faults=()), seed=1)
    backend = drafted.backend
    ups, downs = [], []
    with tempfile.TemporaryDirectory(prefix="dethrone-") as place:
        for attempt in range(6):
            ledger = Ledger(Path(place), f"bench-{secrets.token_hex(4)}")
            spec = DeploySpec(
                run_id=ledger.run_id,
                nodes=NODES,
                image=drafted.system.image(),
                base=None,
                state_dir=str(ledger.directory),
            )
            begin = time.perf_counter()
            hosts = backend.deploy(spec, origin_ns=time.monotonic_ns(), news=lambda _: None, progress=lambda _: None)
            up = (time.perf_counter() - begin) * 1000
            try:
                if attempt:  # the first may compile the code
                    ups.append(up)
                if attempt == 5:
                    for name, node in node_specs(drafted.plan, hosts).items():
                        prepare_host(drafted.system, hosts[name], node)
                        hosts[name].start_node()
                    time.sleep(2)  # nodes import and elect; nothing is measured yet
                    faults(backend.converge_all, hosts, rounds)
            finally:
                downs.append(destroy(backend, ledger.run_id, hosts))
                ledger.close(clean=True)
    show(f"five local hosts up (to reach: {UP_MS} ms)", ups)
    show("five local hosts torn down", downs)


if __name__ == "__main__":
    main()
