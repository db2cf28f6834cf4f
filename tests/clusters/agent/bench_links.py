"""Figures of shaped links, for a quiet machine: ``python tests/clusters/agent/bench_links.py [--rounds N]``, as root.

Five hosts in network namespaces; the link from n1 to n2 is shaped: how long until it is in force and proved, how long
until the first packet is late, what programs see of a delay and of loss, and what a TCP flow gets through the queue.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping

from dethrone.clusters.agent.agent_host import AgentHost
from dethrone.clusters.agent.confirm import converge_all
from dethrone.harness.core.clock import MS
from dethrone.harness.core.hoststate import HEALTHY, HostState, LinkQuality
from tests.clusters.agent.bench_agent import in_namespaces, say
from tests.clusters.agent.test_links import ECHO, GIVE, SEND, SINK, TAKE, TALK

STREAM = """
import socket, threading, time
s = socket.socket(type=2); s.settimeout(1); sent, back = {}, {}
def hear():
    try:
        while True: number = int(s.recv(100)); back[number] = time.monotonic_ns()
    except OSError: pass
hearing = threading.Thread(target=hear); hearing.start()
print('up', flush=True)
for i in range(1500):
    sent[i] = time.monotonic_ns(); s.sendto(b'%d' % i, ('{address}', 7900)); time.sleep(0.001)
hearing.join()
print([[sent[i], back[i] - sent[i]] for i in back])
"""
FLOW_BYTES = 200_000_000


class Space:
    """Where programs of one host run."""

    def __init__(self, name: str, address: str) -> None:
        self.name, self.address = name, address

    def program(self, code: str) -> subprocess.Popen[bytes]:
        """Start a program there, which says ``up`` once it is ready."""
        argv = ["ip", "netns", "exec", self.name, sys.executable, "-S", "-c", code]
        started = subprocess.Popen(argv, stdout=subprocess.PIPE)
        started.stdout.readline()
        return started

    def result(self, code: str) -> str:
        """What a program there prints."""
        argv = ["ip", "netns", "exec", self.name, sys.executable, "-S", "-c", code]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def timed(hosts: Mapping[str, AgentHost], **quality: int) -> float:
    """Shape the link from n1 to n2, or heal it without a quality; ms until that is proved."""
    want = HostState(links=(LinkQuality(src="n1", **quality),)) if quality else HEALTHY
    before = time.monotonic_ns()
    found = converge_all(hosts, {"n2": want})["n2"]
    if not found.confirmed:
        print("not confirmed:", found.why)
    return (time.monotonic_ns() - before) / MS


def first_late(hosts: Mapping[str, AgentHost], one: Space, two: Space) -> float:
    """ms from the request of a delay to the first packet that is late."""
    echo = two.program(ECHO)
    stream = one.program(STREAM.replace("{address}", two.address))
    time.sleep(0.2)
    asked = time.monotonic_ns()
    timed(hosts, delay_ns=50 * MS)
    late = [at for at, trip in json.loads(stream.communicate()[0]) if trip > 25 * MS and at > asked - 25 * MS]
    timed(hosts)
    echo.kill()
    echo.wait()
    return (min(late) - asked) / MS


def flow(one: Space, two: Space) -> float:
    """What a TCP flow gets, Gbit/s."""
    take = two.program(TAKE)
    one.result(GIVE.format(count=FLOW_BYTES, address=two.address))
    total, took = json.loads(take.communicate()[0])
    return float(total * 8 / took)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    with in_namespaces([]) as hosts:
        prefix = f"dt{os.getpid() % 100000}"
        one, two = (Space(f"{prefix}{name}", hosts[name].address) for name in ("n1", "n2"))
        begun, heals = [], []
        for _ in range(rounds):
            begun.append(timed(hosts, delay_ns=50 * MS))
            heals.append(timed(hosts))
        say("delay of 50 ms proved (ms)", begun)
        say("healed and proved (ms)", heals)
        say("first late packet (ms)", [first_late(hosts, one, two) for _ in range(rounds)])
        timed(hosts, delay_ns=50 * MS)
        echo = two.program(ECHO)
        trips = json.loads(one.result(TALK.format(count=200, address=two.address)))
        print(f"round trip of programs, 50 ms wanted: {statistics.median(trips) / MS:.2f} ms (median of 200)")
        echo.kill()
        echo.wait()
        timed(hosts, loss_percent=30)
        sink = two.program(SINK)
        one.result(SEND.format(count=1000, address=two.address))
        time.sleep(0.5)
        timed(hosts)
        one.result(f"import socket; socket.socket(type=2).sendto(b'end', ('{two.address}', 7901))")
        print(f"loss of 30 %: {1000 - len(json.loads(sink.communicate()[0]))} of 1,000 lost")
        plain = flow(one, two)
        timed(hosts, delay_ns=1)
        merged = flow(one, two)
        timed(hosts, reorder_percent=1, reorder_ns=1)
        single = flow(one, two)
        print(f"a TCP flow (Gbit/s): plain {plain:.2f}, through the queue merged {merged:.2f}, by packet {single:.2f}")
        timed(hosts)


if __name__ == "__main__":
    sys.exit(main())
