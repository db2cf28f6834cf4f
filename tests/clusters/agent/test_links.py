"""Agents in network namespaces whose links are shaped: what arrives, how late, and what ends it."""

from __future__ import annotations

import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from dethrone.clusters.agent.confirm import converge_all
from dethrone.harness.core.clock import MS
from dethrone.harness.core.hoststate import HEALTHY, HostState, LinkQuality
from dethrone.harness.core.interfaces import Command
from tests.waiting import until

pytestmark = [pytest.mark.namespaces, pytest.mark.measures]

ECHO = """
import socket
s = socket.socket(type=2); s.bind(('', 7900)); print('up', flush=True)
while True:
    data, asker = s.recvfrom(3000)
    s.sendto(data, asker)
"""
SINK = """
import socket, sys
s = socket.socket(type=2); s.setsockopt(1, 8, 1 << 22); s.bind(('', 7901)); print('up', flush=True)
s.settimeout(30); found = []
while True:
    data = s.recv(3000)
    if data == b'end': break
    found.append(int(data)); s.settimeout(30)
print(found, flush=True)
"""
TALK = """
import socket, sys, time
s = socket.socket(type=2); s.settimeout(1); r = []
for i in range({count}):
    before = time.monotonic_ns(); s.sendto(b'%d' % i, ('{address}', 7900))
    try:
        while int(s.recv(100)) != i: pass
    except OSError: continue
    r.append(time.monotonic_ns() - before)
print(r)
"""
SEND = """
import socket, time
s = socket.socket(type=2)
for i in range({count}):
    s.sendto(b'%d' % i, ('{address}', 7901))
    if i % 16 == 15: time.sleep(0.001)
"""
TAKE = """
import socket, time
s = socket.create_server(('', 7902)); print('up', flush=True)
c = s.accept()[0]; c.recv(1); total = 0; began = time.monotonic_ns()
while data := c.recv(1 << 16): total += len(data)
print([total, time.monotonic_ns() - began], flush=True)
"""
GIVE = """
import socket
c = socket.create_connection(('{address}', 7902)); c.sendall(b'x' * {count}); c.shutdown(1); c.recv(1)
"""


class Program:
    """A program in a namespace, which says ``up`` once it listens."""

    def __init__(self, box, code: str) -> None:
        argv = box.command(sys.executable, "-S", "-c", code)
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == b"up\n"

    def said(self) -> list[int]:
        line = self.process.stdout.readline()
        self.process.wait(timeout=10)
        return json.loads(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def run(box, code: str) -> str:
    argv = box.command(sys.executable, "-S", "-c", code)
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout


def trips_ms(five, count: int = 40) -> list[float]:
    """The round trips from n1 to n2 and back that a program on n1 sees."""
    with Program(five["n2"], ECHO):
        found = json.loads(run(five["n1"], TALK.format(count=count, address=five["n2"].address)))
    return [trip / MS for trip in found]


def seen(five, count: int) -> list[int]:
    """Which of the datagrams from n1 a program on n2 sees, in their order."""
    with Program(five["n2"], SINK) as sink:
        run(five["n1"], SEND.format(count=count, address=five["n2"].address))
        end = f"import socket; socket.socket(type=2).sendto(b'end', ('{five['n2'].address}', 7901))"
        time.sleep(0.3)  # the longest that a datagram waits here
        run(five["n3"], end)
        return sink.said()


@pytest.fixture
def hosts(five):
    found = {name: box.host for name, box in five.items()}
    yield found
    alive = {name: host for name, host in found.items() if host._lost is None}
    assert all(evidence.confirmed for evidence in converge_all(alive, dict.fromkeys(alive, HEALTHY)).values())


def shape(hosts, **quality):
    """Shape what arrives at n2 from n1."""
    return converge_all(hosts, {"n2": HostState(links=(LinkQuality(src="n1", **quality),))})["n2"]


def helper_of(box) -> int:
    """The process that shapes links there; 0: there is none."""
    state = json.loads(Path(f"{box.socket}.state").read_text())
    return (state.get("links") or [0])[0]


LEGACY = pytest.param(
    "legacy", marks=pytest.mark.nightly("hosts of their own; cuts go through either tool in make test")
)


@pytest.mark.parametrize("five", [LEGACY, "nft"], indirect=True)
def test_a_delay_is_seen_by_programs_and_proved_and_gone_after_its_heal(five, hosts):
    evidence = shape(hosts, delay_ns=50 * MS)
    assert evidence.confirmed, evidence.why
    assert evidence.detail["links"]["engine"] == "nfqueue"
    assert evidence.detail["bursts"]["n1"]["late_min"] >= 50 * MS
    assert 45 <= statistics.median(trips_ms(five)) <= 55
    healed = converge_all(hosts, {"n2": HEALTHY})["n2"]
    assert healed.confirmed, healed.why
    assert healed.detail["bursts"]["n1"]["late_median"] < 20 * MS
    assert healed.detail["links"]["counted"]["n1"]["seen"] >= 80
    assert statistics.median(trips_ms(five)) < 20
    assert helper_of(five["n2"]) == 0


def test_loss_is_as_wanted(five, hosts):
    evidence = shape(hosts, loss_percent=30)
    assert evidence.confirmed, evidence.why
    lost = 1000 - len(seen(five, 1000))
    assert 250 <= lost <= 350


def test_datagrams_arrive_twice_and_overtake_each_other(five, hosts):
    evidence = shape(hosts, duplicate_percent=20, reorder_percent=30, reorder_ns=20 * MS)
    assert evidence.confirmed, evidence.why
    found = seen(five, 500)
    assert set(found) == set(range(500))
    assert 50 < len(found) - 500 < 150
    firsts = list(dict.fromkeys(found))
    assert sum(later < one for one, later in itertools.pairwise(firsts)) > 20


SINK_V6 = SINK.replace("type=2", "10, 2")
SEND_V6 = SEND.replace("type=2", "10, 2")


def test_ipv6_is_shaped_like_ipv4(five, hosts):
    ours = {name: f"fd7d:{os.getpid() % 10000}::{name[1:]}" for name in ("n1", "n2")}
    try:
        for name, address in ours.items():
            argv = five[name].command("ip", "address", "add", f"{address}/64", "dev", "eth0", "nodad")
            subprocess.run(argv, check=True)
        for nonce in range(1, 20):  # the agents report their new addresses with what they answer
            [host.probe_links_async(nonce, expect=[], timeout_ns=0).result(5) for host in hosts.values()]
            if all(address in hosts[name].addresses for name, address in ours.items()):
                break
        evidence = shape(hosts, duplicate_percent=50)
        assert evidence.confirmed, evidence.why
        assert all(address in hosts[name].addresses for name, address in ours.items())
        with Program(five["n2"], SINK_V6) as sink:
            run(five["n1"], SEND_V6.format(count=100, address=ours["n2"]))
            time.sleep(0.2)  # the longest that a datagram waits here
            run(five["n1"], f"import socket; socket.socket(10, 2).sendto(b'end', ('{ours['n2']}', 7901))")
            found = sink.said()
        assert set(found) == set(range(100))
        assert 25 < len(found) - 100 < 75
    finally:
        for name, address in ours.items():
            subprocess.run(five[name].command("ip", "address", "del", f"{address}/64", "dev", "eth0"), check=False)


def test_corrupted_datagrams_are_dropped_by_the_kernel_that_checks_their_sum(five, hosts):
    evidence = shape(hosts, corrupt_percent=40)
    assert evidence.confirmed, evidence.why
    assert 120 < len(seen(five, 300)) < 240


@pytest.mark.parametrize("kbit_per_s", [500, 8000])
def test_a_rate_is_what_a_tcp_flow_gets(five, hosts, kbit_per_s):
    evidence = shape(hosts, rate_kbit_per_s=kbit_per_s)
    assert evidence.confirmed, evidence.why
    count, rate = kbit_per_s * 250, 0.0  # of two seconds
    for _ in range(3):  # a busy machine makes a flow slower, and never faster
        with Program(five["n2"], TAKE) as take:
            run(five["n1"], GIVE.format(count=count, address=five["n2"].address))
            total, took_ns = take.said()
        assert total == count - 1
        rate = total * 8_000_000 / took_ns / kbit_per_s
        assert rate < 1.1
        if rate > 0.9:
            break
    assert rate > 0.9


def test_a_held_message_arrives_when_the_fault_ends(five, hosts):
    evidence = shape(hosts, hold=2)
    assert evidence.confirmed, evidence.why
    with Program(five["n2"], SINK) as sink:
        run(five["n1"], SEND.format(count=5, address=five["n2"].address))
        healed = converge_all(hosts, {"n2": HEALTHY})["n2"]
        assert healed.confirmed, healed.why
        assert healed.detail["links"]["counted"]["n1"]["held"] == 2
        run(five["n3"], f"import socket; socket.socket(type=2).sendto(b'end', ('{five['n2'].address}', 7901))")
        assert sink.said() == [2, 3, 4, 0, 1]


def test_a_node_that_ends_as_it_is_asked_to_hold_its_messages_handles_none(five, hosts):
    box = five["n2"]
    start = box.start()
    ends = Command(argv=("/bin/sh", "-c", "sleep 0.2; exit 70"))
    deaf = msgspec.structs.replace(start, command=ends, link_socket=str(box.directory / "links"))
    peers = {name: other.address for name, other in five.items()}
    box.host.prepare(deaf, peers, dead_man_ns=0)
    try:
        box.host.start_node()
        evidence = shape(hosts, hold=1)
        assert evidence.confirmed, evidence.why
        assert evidence.detail["messages"]["deferred"] == "no process runs"
    finally:
        box.host.prepare(start, peers, dead_man_ns=0)


def test_what_tcp_sends_again_stays_held_back(five, hosts):
    assert shape(hosts, hold=1).confirmed
    listen = "import socket; s = socket.create_server(('', 7903)); print('up', flush=True); c = s.accept()[0]; "
    with Program(five["n2"], listen + "d = c.recv(9); print('[%d]' % len(d), flush=True)") as server:
        call = (
            f"import socket; c = socket.create_connection(('{five['n2'].address}', 7903)); c.sendall(b'x'); c.recv(1)"
        )
        argv = five["n1"].command(sys.executable, "-S", "-c", call)
        client = subprocess.Popen(argv)
        try:
            time.sleep(1)  # TCP sends a segment again after 0.2 s, 0.4 s …
            healed = converge_all(hosts, {"n2": HEALTHY})["n2"]
            assert healed.detail["links"]["counted"]["n1"]["repeated"] >= 1
            assert server.said() == [1]
        finally:
            client.kill()
            client.wait()


def test_links_and_cuts_are_both_in_force(five, hosts):
    both = HostState(cuts=("n3",), links=(LinkQuality(src="n1", delay_ns=30 * MS),))
    evidence = converge_all(hosts, {"n2": both})["n2"]
    assert evidence.confirmed, evidence.why
    cut = HostState(cuts=("n1", "n3"), links=(LinkQuality(src="n1", delay_ns=30 * MS),))
    evidence = converge_all(hosts, {"n2": cut})["n2"]
    assert evidence.confirmed, evidence.why
    assert trips_ms(five, 1) == []
    open_again = HostState(links=(LinkQuality(src="n1", delay_ns=30 * MS),))
    evidence = converge_all(hosts, {"n2": open_again})["n2"]
    assert evidence.confirmed, evidence.why
    assert 27 <= statistics.median(trips_ms(five)) <= 35


def test_the_links_of_clients_are_shaped_too(hosts):
    evidence = converge_all(hosts, {"n2": HostState(links=(LinkQuality(src="client", delay_ns=20 * MS),))})["n2"]
    assert evidence.confirmed, evidence.why
    assert evidence.detail["bursts"]["client"]["late_min"] >= 20 * MS


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_helper_that_ends_or_stops_is_replaced_and_the_fault_counts_as_lapsed(five, hosts, number):
    assert shape(hosts, delay_ns=40 * MS).confirmed
    box = five["n2"]
    pid = helper_of(box)
    os.kill(pid, number)
    until(lambda: box.kinds("noise") and any(one.data["kind"] == "rules-lost" for one in box.kinds("noise")))
    until(lambda: helper_of(box) not in {0, pid}, what="another helper runs")
    assert 35 <= statistics.median(trips_ms(five)) <= 46
    healed = converge_all(hosts, {"n2": HEALTHY})["n2"]
    assert healed.confirmed, healed.why
    assert not healed.detail["before"]["held"]
    assert "helper that shapes links" in healed.detail["before"]["why"]
