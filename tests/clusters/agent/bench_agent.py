"""Figures of the agents, for a quiet machine: ``python tests/clusters/agent/bench_agent.py [--docker] [--rounds N]``.

Five hosts: a cut into halves and its heal, both proved by probes; kill and back; latency of trace lines; idle cost.
Without ``--docker``: in network namespaces, as root.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from dethrone.clusters.agent.agent_host import AgentHost
from dethrone.clusters.agent.confirm import converge_all
from dethrone.harness.core.hoststate import HEALTHY, HostState
from dethrone.harness.core.interfaces import Command, DeploySpec, HostNews, NodeStart

spec = importlib.util.spec_from_file_location("agent_conftest", Path(__file__).with_name("conftest.py"))
conftest = importlib.util.module_from_spec(spec)
spec.loader.exec_module(conftest)


@contextmanager
def in_namespaces(news: list) -> Iterator[Mapping[str, AgentHost]]:
    spaces = conftest.namespaces.__wrapped__() if hasattr(conftest.namespaces, "__wrapped__") else None
    if spaces is None:
        spaces = conftest.namespaces._get_wrapped_function()()
    names = next(spaces)
    directory = Path(tempfile.mkdtemp())
    boxes = []
    try:
        for index, node in enumerate(names, start=11):
            box = conftest.Box(node, directory / node, address=f"{conftest.NET}.{index}", namespace=names[node])
            box.news = news
            box.serve()
            boxes.append(box)
        for box in boxes:
            box.meet(box.relay)
            box.host.prepare(box.start(), {other.name: other.address for other in boxes}, dead_man_ns=0)
        yield {box.name: box.host for box in boxes}
    finally:
        for box in boxes:
            box.end()
        next(spaces, None)


@contextmanager
def in_docker(news: list) -> Iterator[Mapping[str, AgentHost]]:
    from dethrone.clusters.docker.backend import BACKEND

    run, nodes = f"bench-{os.getpid()}", tuple(f"n{index}" for index in range(1, 6))
    wanted = DeploySpec(run_id=run, nodes=nodes, image="node", base=None, state_dir=tempfile.mkdtemp())
    hosts = BACKEND.deploy(wanted, origin_ns=time.monotonic_ns(), news=news.append, progress=lambda _: None)
    try:
        peers = {name: host.address for name, host in hosts.items()}
        for host in hosts.values():
            command = Command(argv=("python3", "-S", "-c", conftest.NODE, "/tmp", "{incarnation}"))
            start = NodeStart(
                command=command,
                trace_path="/tmp/trace.log",
                log_path="/tmp/node.log",
                data_dir="/var/lib/node",
            )
            host.prepare(start, peers, dead_man_ns=0)
        yield hosts
    finally:
        for host in hosts.values():
            host.close()
        BACKEND.destroy(run)


def say(name: str, values: list[float]) -> None:
    values.sort()
    at = statistics.quantiles(values, n=20) if len(values) > 1 else values * 19
    print(f"{name:34} median {at[9]:7.2f} ms   p95 {at[18]:7.2f}   least {values[0]:7.2f}   most {values[-1]:7.2f}")


def timed(hosts: Mapping[str, AgentHost], wants: Mapping[str, HostState]) -> float:
    begin = time.perf_counter()
    evidence = converge_all(hosts, wants)
    took = (time.perf_counter() - begin) * 1e3
    for found in evidence.values():
        assert found.confirmed, found
    return took


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--docker", action="store_true")
    parser.add_argument("--rounds", type=int, default=50)
    given = parser.parse_args()
    news: list[tuple[int, HostNews]] = []

    class Clocked(list):
        def append(self, one: HostNews) -> None:
            news.append((time.monotonic_ns(), one))

        def __iter__(self):
            return iter([one for _, one in news])

    with (in_docker if given.docker else in_namespaces)(Clocked()) as hosts:
        healthy = dict.fromkeys(hosts, HEALTHY)
        left = {"n1", "n2"}
        halves = {
            name: HostState(cuts=tuple(other for other in hosts if (other in left) != (name in left))) for name in hosts
        }
        one = {"n1": HostState(cuts=("n2",)), "n2": HostState(cuts=("n1",))}
        for label, nodes in (("no node runs", False), ("nodes run", True)):
            if nodes:
                for host in hosts.values():
                    host.start_node()
                time.sleep(1)
            cuts, heals, links = [], [], []
            for _ in range(given.rounds):
                cuts.append(timed(hosts, halves))
                heals.append(timed(hosts, healthy))
                links.append(timed(hosts, one))
                timed(hosts, healthy)
            say(f"halves cut, proved ({label})", cuts)
            say(f"all healed, proved ({label})", heals)
            say(f"one link cut, proved ({label})", links)
        kills, backs = [], []
        for _ in range(given.rounds):
            kills.append(timed(hosts, {"n1": HostState(down="SIGKILL")}))
            backs.append(timed(hosts, {"n1": HEALTHY}))
            time.sleep(0.02)
        say("node killed", kills)
        say("node back (process runs)", backs)
        news.clear()
        time.sleep(1)
        late = [
            (at - int(line.split()[2])) / 1e6
            for at, one in list(news)
            if one.kind == "trace"
            for line in one.data["lines"]
        ]
        say("trace line -> harness", late)


if __name__ == "__main__":
    sys.exit(main())
