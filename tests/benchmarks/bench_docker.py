"""Five hosts in Docker: up, cut and heal in force and probed, node killed and back, down.

    python -m tests.benchmarks.bench_docker [rounds]

Prints medians and worst cases in ms; judges nothing.
"""

from __future__ import annotations

import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dethrone.harness.core.hoststate import HEALTHY, HostState, healthy_cluster, with_cuts
from dethrone.harness.core.interfaces import DeploySpec, Evidence, Host
from dethrone.harness.core.ledger import Ledger
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import draft
from dethrone.harness.engine.run.runner import node_specs, prepare_host

NODES = ("n1", "n2", "n3", "n4", "n5")
LEFT, RIGHT = NODES[:2], NODES[2:]
HALVES = frozenset({(a, b) for a in LEFT for b in RIGHT} | {(b, a) for a in LEFT for b in RIGHT})


def timed(work: Callable[[], object]) -> float:
    """How long, in ms."""
    begin = time.perf_counter()
    work()
    return (time.perf_counter() - begin) * 1000


def show(what: str, found: list[float]) -> None:
    """One line."""
    print(f"{what}: median {statistics.median(found):.1f} ms, worst {max(found):.1f} ms of {len(found)}")


Converge = Callable[[Mapping[str, Host], Mapping[str, HostState]], Mapping[str, Evidence]]


def faults(converge: Converge, hosts: Mapping[str, Host], rounds: int) -> None:
    """Print the figures of faults on running nodes."""
    whole = healthy_cluster(NODES)
    cut = with_cuts(whole, HALVES)
    cuts, heals, kills, pauses = [], [], [], []

    def to(wants: Mapping[str, HostState]) -> None:
        confirmed(converge(hosts, wants))

    def kill_and_start() -> None:
        to({"n1": HostState(down="SIGKILL")})
        to({"n1": HEALTHY})

    for _ in range(rounds):
        cuts.append(timed(lambda: to(cut)))
        heals.append(timed(lambda: to(whole)))
    for _ in range(rounds):
        kills.append(timed(kill_and_start))
        pauses.append(timed(lambda: to({"n2": HostState(frozen=True)})))
        to({"n2": HEALTHY})
    show("decision → halves cut on five hosts, probed from inside", cuts)
    show("decision → healed on five hosts, probed from inside", heals)
    show("node killed and started again, both proved", kills)
    show("node paused, proved", pauses)


def destroy(backend: Any, run_id: str, hosts: Mapping[str, Host]) -> float:
    """How long five hosts take to go, in ms."""
    for host in hosts.values():
        host.close()
    return timed(lambda: backend.destroy(run_id))


def measure(options: RunOptions, times: int) -> tuple[list[float], list[float]]:
    """How long five hosts take up and down, in ms; prints the figures of faults on the last ones."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    drafted = draft(options, seed=1)
    backend: Any = drafted.backend
    image, ups, downs = drafted.system.image(), [], []
    with tempfile.TemporaryDirectory(prefix="dethrone-") as place:
        for left in reversed(range(times + 1)):
            ledger = Ledger(Path(place), f"bench-{secrets.token_hex(4)}")
            state = str(ledger.directory)
            spec = DeploySpec(run_id=ledger.run_id, nodes=NODES, image=image, base=None, state_dir=state)
            begin = time.perf_counter()
            hosts = backend.deploy(spec, origin_ns=time.monotonic_ns(), news=lambda _: None, progress=lambda _: None)
            ups.append((time.perf_counter() - begin) * 1000)
            try:
                if not left:
                    for name, node in node_specs(drafted.plan, hosts).items():
                        prepare_host(drafted.system, hosts[name], node)
                        hosts[name].start_node()
                    time.sleep(2)  # nodes import and elect; nothing is measured yet
                    faults(backend.converge_all, hosts, rounds)
            finally:
                downs.append(destroy(backend, ledger.run_id, hosts))
                ledger.close(clean=True)
    return ups[1:], downs  # the first may compile or ship the code


def main() -> None:
    """Print the figures."""
    ups, downs = measure(RunOptions(system="raft", faults=()), 4)
    show("five hosts up", ups)
    show("five hosts torn down", downs)


def confirmed(evidence: Mapping[str, Evidence]) -> None:
    """A figure of a fault that did not take is worth nothing."""
    bad = {host: found.why for host, found in evidence.items() if not found.confirmed}
    if bad:
        raise SystemExit(f"not confirmed: {bad}")


if __name__ == "__main__":
    main()
