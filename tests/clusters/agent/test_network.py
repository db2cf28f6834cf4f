"""Agents in five network namespaces: cuts that cut, heals that heal, proofs that fail when they should."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from dethrone.clusters.agent.confirm import converge_all
from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.hoststate import HEALTHY, HostState, with_cuts
from tests.waiting import until

from .conftest import RUN

pytestmark = pytest.mark.namespaces

TOOLS = pytest.mark.parametrize("five", ["legacy", "nft"], indirect=True)


@pytest.fixture
def hosts(five):
    found = {name: box.host for name, box in five.items()}
    yield found
    alive = {name: host for name, host in found.items() if host._lost is None}
    assert all(evidence.confirmed for evidence in converge_all(alive, dict.fromkeys(alive, HEALTHY)).values())


def tool_of(five) -> str:
    evidence = five["n1"].host.converge(HostState(cuts=("n2",)))
    return str(evidence.detail["rules"]["tool"])


def iptables(box, *argv: str, tool: str = "") -> str:
    name = tool or tool_of({"n1": box})
    done = subprocess.run(box.command(f"{name}", *argv), capture_output=True, text=True, check=True)
    return done.stdout


LISTEN = "import socket; s=socket.create_server(('',{port})); print('up',flush=True); c=s.accept()[0]; c.sendall(b'hi')"
CALL = "import socket; c=socket.create_connection(('{address}',{port}),{limit}); print(c.recv(2),flush=True)"


def python(box, code: str) -> subprocess.Popen[bytes]:
    argv = box.command(sys.executable, "-S", "-c", code)
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def reaches(source, target) -> bool:
    """Whether a TCP connection and some bytes get from one namespace to another."""
    server = python(target, LISTEN.format(port=7900))
    try:
        assert server.stdout.readline() == b"up\n"
        client = python(source, CALL.format(address=target.address, port=7900, limit=0.5))
        return client.communicate()[0] == b"b'hi'\n"
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def ask(hosts, *links: tuple[str, str]):
    """Converge all hosts to these directed cuts."""
    return converge_all(hosts, with_cuts(dict.fromkeys(hosts, HEALTHY), frozenset(links)))


@TOOLS
def test_a_cut_is_proved_and_cuts_and_its_heal_is_proved_and_heals(five, hosts):
    halves = [(a, b) for a in hosts for b in hosts if (a in {"n1", "n2"}) != (b in {"n1", "n2"})]
    evidence = ask(hosts, *halves)
    for name, found in evidence.items():
        assert found.confirmed, found.why
        near = {"n1", "n2"} if name in {"n1", "n2"} else {"n3", "n4", "n5"}
        assert set(found.detail["probes"]["arrived"]) == near - {name}
        assert set(found.detail["probes"]["dropped"]) == set(hosts) - near
        assert all(count > 0 for count in found.detail["probes"]["dropped"].values())
        assert found.span.lo < found.detail["probes"]["hi"] == found.span.hi
    assert not reaches(five["n1"], five["n3"])
    assert reaches(five["n1"], five["n2"])
    healed = converge_all(hosts, dict.fromkeys(hosts, HEALTHY))
    assert all(found.confirmed for found in healed.values())
    assert all(len(found.detail["probes"]["arrived"]) == 4 for found in healed.values())
    assert reaches(five["n1"], five["n3"])


FLOW = """
import socket
c = socket.create_connection(('{address}', 7904)); c.settimeout(20); print('up', flush=True)
try:
    while True: c.sendall(b'x'); c.recv(1)
except ConnectionResetError: print('reset', flush=True)
"""
ECHO = """
import socket
s = socket.create_server(('', 7904)); print('up', flush=True); c = s.accept()[0]
while data := c.recv(9): c.sendall(data)
"""


@TOOLS
def test_a_cut_may_reset_connections_which_then_end_at_once(five, hosts):
    server = python(five["n2"], ECHO)
    assert server.stdout.readline() == b"up\n"
    client = python(five["n1"], FLOW.format(address=five["n2"].address))
    try:
        assert client.stdout.readline() == b"up\n"
        cut = with_cuts(dict.fromkeys(hosts, HEALTHY), frozenset({("n1", "n2")}), reset=True)
        evidence = converge_all(hosts, cut)["n2"]
        assert evidence.confirmed, evidence.why
        assert evidence.detail["probes"]["dropped"]["n1"] > 0
        assert client.stdout.readline() == b"reset\n"
        assert converge_all(hosts, dict.fromkeys(hosts, HEALTHY))["n2"].confirmed
        assert reaches(five["n1"], five["n2"])
    finally:
        for process in (server, client):
            process.kill()
            process.wait()
            process.stdout.close()


def test_a_cut_can_be_one_way(hosts):
    evidence = ask(hosts, ("n1", "n2"))
    assert evidence["n1"].confirmed
    assert evidence["n2"].confirmed
    assert "n2" in evidence["n1"].detail["probes"]["arrived"]
    assert "n1" not in evidence["n2"].detail["probes"]["arrived"]


def test_cuts_change_without_a_heal_in_between_and_stay_confirmed_when_asked_again(hosts):
    for links in ([("n1", "n2")], [("n3", "n2"), ("n4", "n2")], [("n3", "n2"), ("n4", "n2")]):
        evidence = ask(hosts, *links)
        assert all(found.confirmed for found in evidence.values())
        assert sorted(evidence["n2"].detail["probes"]["dropped"]) == sorted(src for src, _ in links)


def test_only_the_hosts_that_are_asked_for_are_in_the_evidence(hosts):
    evidence = converge_all(hosts, {"n4": HostState(cuts=("n5",))})
    assert set(evidence) == {"n4"}
    assert evidence["n4"].confirmed
    assert "probes" not in converge_all(hosts, {"n1": HEALTHY})["n1"].detail


def test_the_client_is_cut_off_and_comes_back(five, hosts):
    def answers() -> bool:
        server = five["n3"].command(
            sys.executable, "-S", "-c", "import socket; s=socket.create_server(('',7901)); s.accept()[0].sendall(b'hi')"
        )
        process = subprocess.Popen(server)
        try:
            deadline = time.monotonic() + 1.5
            while time.monotonic() < deadline:
                try:
                    with socket.create_connection((five["n3"].address, 7901), 0.5) as connection:
                        return connection.recv(2) == b"hi"
                except ConnectionRefusedError:
                    time.sleep(0.01)
                except TimeoutError:
                    return False
            return False
        finally:
            process.kill()
            process.wait()

    evidence = converge_all(hosts, {"n3": HostState(cuts=("client",))})["n3"]
    assert evidence.confirmed, evidence.why
    assert len(evidence.detail["probes"]["arrived"]) == 4
    assert not answers()
    healed = converge_all(hosts, {"n3": HEALTHY})["n3"]
    assert healed.confirmed, healed.why
    assert "client" in healed.detail["probes"]["arrived"]
    assert answers()


@TOOLS
def test_foreign_rules_are_left_alone(five, hosts):
    box, tool = five["n1"], tool_of(five)
    iptables(box, "-N", "FOREIGN", tool=tool)
    iptables(box, "-A", "FOREIGN", "-s", "203.0.113.9", "-j", "DROP", tool=tool)
    iptables(box, "-A", "INPUT", "-j", "FOREIGN", tool=tool)
    iptables(box, "-I", "INPUT", "1", "-s", "203.0.113.8", "-j", "ACCEPT", tool=tool)

    def foreign() -> list[str]:
        return [line for line in iptables(box, "-S", tool=tool).splitlines() if "DETHRONE" not in line]

    before = foreign()
    assert all(found.confirmed for found in ask(hosts, ("n2", "n1"), ("n3", "n1")).values())
    assert foreign() == before
    assert all(found.confirmed for found in ask(hosts).values())
    assert foreign() == before
    assert box.host._call("heal")["confirmed"]
    assert "DETHRONE" not in iptables(box, "-S", tool=tool)
    assert foreign() == before
    iptables(box, "-F", "FOREIGN", tool=tool)


@TOOLS
def test_a_rule_that_is_removed_behind_our_back_is_not_confirmed_and_is_put_back(five, hosts):
    box, tool = five["n2"], tool_of(five)
    assert ask(hosts, ("n1", "n2"))["n2"].confirmed
    chain = next(line.split()[1] for line in iptables(box, "-S", tool=tool).splitlines() if "-N DETHRONE" in line)
    for sabotage in (["-F", chain], ["-D", "INPUT", "-j", chain]):
        iptables(box, *sabotage, tool=tool)
        found = box.host.probe_links_async(1, expect=[], timeout_ns=0).result(5)
        assert found["in_force"] is False
        assert found["why"]
        evidence = ask(hosts, ("n1", "n2"))["n2"]
        assert evidence.confirmed, evidence.why
        assert evidence.detail["probes"]["dropped"]["n1"] > 0
        assert iptables(box, "-S", "INPUT", tool=tool).count(chain) == 1
    iptables(box, "-D", "INPUT", "-j", chain, tool=tool)
    repaired = box.host.converge(HostState(cuts=("n1",)))
    assert repaired.confirmed
    assert repaired.detail["rules"]["repaired"] == "hook"


def test_a_foreign_rule_in_front_of_ours_does_not_defeat_a_cut(five, hosts):
    box, tool = five["n2"], tool_of(five)
    assert ask(hosts, ("n1", "n2"))["n2"].confirmed
    iptables(box, "-I", "INPUT", "1", "-p", "udp", "-j", "ACCEPT", tool=tool)
    try:
        evidence = ask(hosts, ("n1", "n2"))["n2"]
        assert evidence.confirmed
        assert evidence.detail["rules"]["repaired"] == "hook", evidence.detail
        assert evidence.detail["probes"]["dropped"]["n1"] > 0, "the probes met our rule"
    finally:
        iptables(box, "-D", "INPUT", "-p", "udp", "-j", "ACCEPT", tool=tool)


def test_a_link_that_others_cut_is_not_a_heal(five, hosts):
    box, tool = five["n2"], tool_of(five)
    assert ask(hosts)["n2"].confirmed  # so it is known that packets of n4 arrived before
    iptables(box, "-A", "INPUT", "-s", five["n4"].address, "-j", "DROP", tool=tool)
    try:
        assert not ask(hosts, ("n1", "n2"))["n2"].confirmed
        evidence = converge_all(hosts, {"n2": HEALTHY})["n2"]
        assert not evidence.confirmed
        assert evidence.why == f"the probe of n4 did not arrive at {box.address}"  # but it did over IPv6
    finally:
        iptables(box, "-D", "INPUT", "-s", five["n4"].address, "-j", "DROP", tool=tool)


def test_a_probe_counts_only_from_the_address_of_its_sender(five, hosts):
    address = five["n2"].address
    forged = f"import socket; socket.socket(type=2).sendto(b'dethrone-probe test 77 n1', ('{address}', 7003))"
    assert python(five["n3"], forged).wait(timeout=5) == 0
    found = hosts["n2"].probe_links_async(77, expect=["n1"], timeout_ns=50 * MS).result(5)
    assert found["arrived"] == []
    assert found["strange"] >= 1


def test_cuts_and_kills_compose_in_one_transaction(five, hosts):
    for host in hosts.values():
        host.start_node()
    for box in five.values():
        until(box.traced)
    states = with_cuts(dict.fromkeys(hosts, HEALTHY), frozenset({("n1", "n2"), ("n2", "n1")}))
    states["n1"] = HostState(cuts=("n2",), down="SIGKILL")
    states["n3"] = HostState(frozen=True)
    evidence = converge_all(hosts, states)
    assert all(found.confirmed for found in evidence.values()), evidence
    assert evidence["n1"].detail["SIGKILL"]["code"] == -signal.SIGKILL
    healed = converge_all(hosts, dict.fromkeys(hosts, HEALTHY))
    assert all(found.confirmed for found in healed.values()), healed
    assert healed["n1"].detail["start"]["incarnation"] == 2
    for host in hosts.values():
        host.stop_node()  # whoever follows a node that writes is not idle


def test_a_lost_host_does_not_hold_the_others_up(five, hosts, tmp_path, namespaces):
    lonely = type(five["n1"])("n5", tmp_path / "lonely")
    lonely.serve("--probe-port", "0")
    try:
        lonely.meet(give_up_s=0.1)
        lonely.agent.kill()
        until(lambda: lonely.kinds("lost"))
        mixed = {**hosts, "n5": lonely.host}
        evidence = ask(mixed, ("n1", "n2"), ("n5", "n2"), ("n1", "n5"))
        assert evidence["n1"].confirmed
        assert not evidence["n2"].confirmed
        assert "the cut of n5 is not proven" in evidence["n2"].why
        assert not evidence["n5"].confirmed
    finally:
        lonely.end()


@contextlib.contextmanager
def cut_from_n2(five, namespaces, tmp_path, *arguments, **meeting):
    """Another agent in the namespace of n1, which cuts n2 off, and the tool that it does it with."""
    box = type(five["n1"])("n1", tmp_path / "own", address=five["n1"].address, namespace=namespaces["n1"])
    box.serve("--probe-port", "7103", *arguments)
    try:
        box.meet(**meeting)
        box.host.prepare(box.start(), {"n2": five["n2"].address}, dead_man_ns=0)
        assert box.host.meet_async({"n2": five["n2"].host.addresses}).result(5) == ""
        assert box.host.converge(HostState(cuts=("n2",))).confirmed
        yield box, tool_of({"n1": box})
    finally:
        box.end()


@pytest.mark.parametrize(("kind", "more"), [("legacy", ["--run", RUN]), ("nft", ["--run", RUN]), ("nft", [])])
def test_without_an_agent_heal_takes_the_rules_of_the_dead_one_out(namespaces, tmp_path, five, kind, more):
    with cut_from_n2(five, namespaces, tmp_path, "--iptables", kind, give_up_s=0.1) as (box, tool):
        box.agent.kill()
        box.agent.wait()
        assert f"-s {six(five['n2'])}/128 -j DROP" in iptables(box, "-S", tool=tool.replace("ip", "ip6", 1))
        assert f"-s {five['n2'].address}/32 -j DROP" in iptables(box, "-S", tool=tool)
        argv = box.command(sys.executable, "-S", box.AGENT, "heal", "--socket", box.socket, *more)
        said = json.loads(subprocess.run(argv, capture_output=True, check=True, timeout=30).stdout)
        assert said["confirmed"]
        assert "DETHRONE" not in iptables(box, "-S", tool=tool)
        assert "DETHRONE" not in iptables(box, "-S", tool=tool.replace("ip", "ip6", 1))


def test_silence_takes_the_rules_out(namespaces, tmp_path, five):
    with cut_from_n2(five, namespaces, tmp_path, "--dead-man", "0.5") as (box, tool):
        box.host._closed.set()  # as if the harness had been killed: no bye
        box.host._stream.close()
        until(lambda: "DETHRONE" not in iptables(box, "-S", tool=tool))
        until(lambda: "DETHRONE" not in iptables(box, "-S", tool=tool.replace("ip", "ip6", 1)))


def test_an_idle_agent_costs_little(five):
    def used() -> float:
        ticks = 0
        for box in five.values():
            with open(f"/proc/{box.agent.pid}/stat", "rb") as file:  # noqa: PTH123
                fields = file.read().rpartition(b")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    before, since = used(), time.monotonic()
    time.sleep(1.5)
    share = (used() - before) / len(five) / (time.monotonic() - since)
    assert share < 0.05, share  # some 1 % is usual; the bound is for a loaded machine


def test_many_threads_may_ask_one_host(hosts):
    wrong = []

    def work(name: str) -> None:
        said = [hosts["n1"].run(["echo", name], timeout_ns=5 * SECOND)[1] for _ in range(10)]
        wrong.extend(word for word in said if word != f"{name}\n".encode())

    threads = [threading.Thread(target=work, args=(f"t{index}",)) for index in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert wrong == []


def test_agents_measure_wake_ups_syncs_and_round_trips_before_any_node_runs(five, tmp_path):
    peers = {name: box.address for name, box in five.items()}
    window_ns = SECOND // 2
    before = time.monotonic_ns()
    said = five["n1"].host.measure(str(tmp_path / "not" / "there" / "yet"), peers, window_ns=window_ns, writes_per_s=50)
    assert time.monotonic_ns() - before >= window_ns
    assert said["unreadable"] == []
    assert len(said["wakeups_ns"]) > 10
    assert len(said["syncs_ns"]) > 2
    assert len(said["trips_ns"]) > 2
    assert all(one > 0 for one in (*said["syncs_ns"], *said["trips_ns"]))
    assert list(tmp_path.iterdir()) == [], "the measurement left a file"


def test_a_round_trip_to_a_host_that_does_not_answer_is_lost_not_quick(five, tmp_path):
    box = five["n1"]
    assert box.host.converge(HostState(cuts=("n2",))).confirmed
    peers = {"n2": five["n2"].address}
    said = box.host.measure(str(tmp_path), peers, window_ns=SECOND // 2, writes_per_s=1)
    assert said["lost"] > 0
    assert said["trips_ns"] == []
    assert box.host.converge(HEALTHY).confirmed


def test_a_disk_that_cannot_be_written_is_unreadable_not_quiet(five):
    said = five["n1"].host.measure("/proc/self", {}, window_ns=SECOND // 10, writes_per_s=10)
    assert said["syncs_ns"] == []
    assert len(said["unreadable"]) == 1
    assert said["unreadable"][0].startswith("sync: ")


def six(box) -> str:
    """The link-local address of a namespace."""
    return next(address for address in box.host.addresses if address.startswith("fe80"))


SHOUT = "import socket; s=socket.socket(socket.AF_INET6,socket.SOCK_DGRAM); s.sendto(b'x',('{to}',7900,0,{scope}))"
HEAR = "import socket; s=socket.socket(socket.AF_INET6,socket.SOCK_DGRAM); s.settimeout(1); s.bind(('',7900)); "
HEAR += "print('up',flush=True); print(s.recv(9),flush=True)"


def hears_over_v6(source, target) -> bool:
    """Whether a datagram gets from one namespace to another over their link-local addresses."""
    listener = python(target, HEAR)
    try:
        assert listener.stdout.readline() == b"up\n"
        scopes = subprocess.run(source.command("ip", "-o", "link"), capture_output=True, text=True, check=True).stdout
        for line in scopes.splitlines():
            if " lo" not in line:
                sending = python(source, SHOUT.format(to=six(target), scope=int(line.split(":")[0])))
                sending.communicate()
        return listener.communicate()[0] == b"b'x'\n"
    finally:
        listener.kill()
        listener.wait()


@TOOLS
def test_a_cut_also_cuts_ipv6_and_its_heal_heals_it(five, hosts):
    until(lambda: hears_over_v6(five["n1"], five["n2"]))  # a neighbour is not found at once
    evidence = ask(hosts, ("n1", "n2"))["n2"]
    assert evidence.confirmed, evidence.why
    assert set(evidence.detail["rules"]["addresses"]) == {five["n1"].address, six(five["n1"])}
    assert not hears_over_v6(five["n1"], five["n2"])
    assert hears_over_v6(five["n2"], five["n1"])  # one way only: neighbour discovery passes
    healed = converge_all(hosts, dict.fromkeys(hosts, HEALTHY))
    assert all(found.confirmed for found in healed.values())
    assert hears_over_v6(five["n1"], five["n2"])


def rules_lost(box) -> list:
    return [news for news in box.news if news.kind == "noise" and news.data["kind"] == "rules-lost"]


@TOOLS
def test_rules_that_are_flushed_are_told_of_within_a_second_or_so_and_put_back(five, hosts):
    box, tool = five["n2"], tool_of(five)
    assert ask(hosts, ("n1", "n2"))["n2"].confirmed
    time.sleep(1.2)  # until it was looked at once
    before = len(rules_lost(box))
    asked = time.monotonic_ns() - box.host.origin_ns
    iptables(box, "-F", tool=tool)
    flushed = time.monotonic_ns() - box.host.origin_ns
    until(lambda: len(rules_lost(box)) > before, 4)
    found = rules_lost(box)[-1]
    assert found.span.lo <= flushed
    assert found.span.hi >= asked
    assert found.span.hi - found.span.lo < 3 * SECOND
    assert found.data["put_back"]
    assert not reaches(five["n1"], five["n2"])
    healed = converge_all(hosts, {"n2": HEALTHY})["n2"]
    assert healed.confirmed
    assert not healed.detail["before"]["held"]
    assert healed.detail["before"]["told"]


def test_a_cut_that_a_stranger_had_healed_is_found_out_before_it_is_healed(five, hosts):
    assert ask(hosts, ("n1", "n2"))["n2"].confirmed
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(five["n2"].socket)
        stranger.sendall(b'{"id": 1, "do": "heal"}\n')
        assert json.loads(stranger.makefile("rb").readline())["ok"]["confirmed"]
    healed = converge_all(hosts, {"n2": HEALTHY})["n2"]
    assert healed.confirmed
    assert healed.detail["before"] == {
        "held": False, "told": False, "why": "a probe of n1 arrived although it was still cut"
    }  # fmt: skip


def test_a_cut_that_held_to_its_end_is_not_doubted(hosts):
    assert ask(hosts, ("n1", "n2"))["n2"].confirmed
    assert "before" not in converge_all(hosts, {"n2": HEALTHY})["n2"].detail
