"""What a run leaves of its nodes: logs, traces and journals, copied from the hosts into the run directory.

Promises: a host that does not answer costs its files and one line of trouble, nothing else. Leaves out the history.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.core import store
from harness.core.clock import SECOND
from harness.core.errors import HarnessError
from harness.core.protocols import Host, NodeSpec, System

TAIL_BYTES = 4000
LIST_BOUND_NS = 5 * SECOND


def collect(system: System, hosts: Mapping[str, Host], nodes: Mapping[str, NodeSpec], run_dir: Path) -> list[str]:
    """Copy every file of the log directory and the trace of each host; answers what went wrong, a line a host."""
    with ThreadPoolExecutor(max_workers=8) as pool:
        answers = pool.map(lambda name: _collect_one(system, hosts[name], nodes[name], run_dir), hosts)
    return [answer for answer in answers if answer]


def _collect_one(system: System, host: Host, node: NodeSpec, run_dir: Path) -> str:
    target = run_dir / store.NODES / node.name
    try:
        target.mkdir(parents=True, exist_ok=True)
        paths = {f"{node.log_dir}/node.log"}
        code, listing, _ = host.run(["find", node.log_dir, "-type", "f", "-size", "-64M"], timeout_ns=LIST_BOUND_NS)
        if code == 0:
            paths |= set(listing.decode().split("\n")) - {""}
        trace = system.trace_path(node)
        if trace:
            paths.add(trace)
        for path in sorted(paths):
            try:
                content = host.read_file(path)
            except HarnessError:
                continue  # a node that never started has no log; its absence is seen in the directory
            (target / Path(path).name).write_bytes(content)
    except (HarnessError, OSError) as error:
        return f"the files of {node.name} could not be collected: {error}"
    return ""


def log_tail(run_dir: Path, node: str) -> str:
    """The last lines of a node's log, for an error message; empty if there is none."""
    path = run_dir / store.NODES / node / "node.log"
    try:
        return path.read_bytes()[-TAIL_BYTES:].decode("utf-8", "replace")
    except OSError:
        return ""
