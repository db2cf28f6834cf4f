"""What the file system of ours costs a system without any fault: etcd's puts a second with it and without it.

    python -m tests.benchmarks.bench_mount [--pairs 10] [--seconds 4] [--clients 16,1] [--system etcd-3.7] [--on docker]

Two clusters of three nodes stand next to each other, their data on the machine's disk; the data directories of one are
mounted as a run with `disk` or `powerloss` does it. Clients put through all nodes, one put at a time each, at one
cluster and then at the other, in turns that begin with either. Prints the medians of puts a second and of the pairs'
ratios; judges nothing.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import http.client
import json
import multiprocessing
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dethrone.clusters.systems.etcd import CLIENT_PORT
from dethrone.harness.core.interfaces import DeploySpec, NodeSpec
from dethrone.harness.core.ledger import Ledger
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import draft
from dethrone.harness.engine.run.runner import node_specs, prepare_host

NODES = ("n1", "n2", "n3")
MOUNTED = frozenset({"disks", "power"})
VALUE_BYTES = 100
READY_S = 30


@contextlib.contextmanager
def cluster(options: RunOptions, place: Path, needs: frozenset[str]) -> Iterator[list[str]]:
    """The addresses of a cluster that takes puts."""
    drafted = draft(options, seed=1)
    backend: Any = drafted.backend
    ledger = Ledger(place, f"bench-{secrets.token_hex(4)}")
    spec = DeploySpec(
        run_id=ledger.run_id,
        nodes=NODES,
        image=drafted.system.image(),
        base=None,
        state_dir=str(ledger.directory),
        needs=needs,
    )
    try:
        hosts = backend.deploy(spec, origin_ns=time.monotonic_ns(), news=lambda _: None, progress=lambda _: None)
        nodes: Mapping[str, NodeSpec] = node_specs(drafted.plan, hosts)
        for name, node in nodes.items():
            prepare_host(drafted.system, hosts[name], node, fails=bool(needs))
            hosts[name].start_node()
        addresses = [node.address for node in nodes.values()]
        _until_ready(addresses)
        yield addresses
        for host in hosts.values():
            host.close()
    finally:
        backend.destroy(ledger.run_id)
        ledger.close(clean=True)


def _until_ready(addresses: Sequence[str]) -> None:
    end = time.monotonic() + READY_S
    for address in addresses:
        while True:
            try:
                put_for(address, b"ready", 0)
                break
            except OSError as error:
                if time.monotonic() > end:
                    raise SystemExit(f"{address} takes no put within {READY_S} s: {error}") from error
                time.sleep(0.2)


def put_for(address: str, key: bytes, seconds: float) -> int:
    """How many puts one client is through with in this time, at least one."""
    value = base64.b64encode(secrets.token_bytes(VALUE_BYTES)).decode()
    body = json.dumps({"key": base64.b64encode(key).decode(), "value": value})
    done, end = 0, time.monotonic() + seconds
    connection = http.client.HTTPConnection(address, CLIENT_PORT, timeout=10)
    with contextlib.closing(connection):
        while not done or time.monotonic() < end:
            connection.request("POST", "/v3/kv/put", body)
            answer = connection.getresponse()
            answer.read()
            if answer.status != http.HTTPStatus.OK:
                raise OSError(f"no put: {answer.status} {answer.reason}")
            done += 1
    return done


def puts_a_second(pool: Any, addresses: Sequence[str], clients: int, seconds: float) -> float:
    """All of them together."""
    words = [(addresses[number % len(addresses)], b"key-%d" % number, seconds) for number in range(clients)]
    begin = time.monotonic()
    done = sum(pool.starmap(put_for, words, chunksize=1))
    return done / (time.monotonic() - begin)


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--clients", default="16,1")
    parser.add_argument("--system", default="etcd-3.7")
    parser.add_argument("--on", default="docker")
    given = parser.parse_args()
    counts = [int(word) for word in given.clients.split(",")]
    options = RunOptions(system=given.system, backend=given.on, faults=(), nodes=len(NODES), data_in="disk")
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(multiprocessing.get_context("spawn").Pool(max(counts)))
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dethrone-")))
        both = {words: stack.enter_context(cluster(options, place, words)) for words in (frozenset[str](), MOUNTED)}
        for clients in counts:
            found: dict[frozenset[str], list[float]] = {words: [] for words in both}
            for turn in range(given.pairs):
                for words, addresses in list(both.items())[:: 1 if turn % 2 else -1]:
                    found[words].append(puts_a_second(pool, addresses, clients, given.seconds))
            plain, mounted = found.values()
            ratios = [with_it / without for with_it, without in zip(mounted, plain, strict=True)]
            print(
                f"{clients} clients: plain {statistics.median(plain):,.0f}, mounted {statistics.median(mounted):,.0f}"
                f" puts/s; ratio {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}, "
                f"{len(ratios)} pairs)",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
