"""New connections refused while those that exist continue: agents in network namespaces, and the proof by itself."""

from __future__ import annotations

import pytest

from dethrone.clusters.agent.confirm import converge_all
from dethrone.clusters.agent.host.knocks import KNOCKED, SILENT
from dethrone.clusters.agent.knock_proof import KnockProof, changing, refused
from dethrone.harness.core.hoststate import HEALTHY, HostState, with_cuts, without_new
from tests.clusters.agent.test_network import ECHO, iptables, python, reaches

ECHOES = """
import socket, sys
c = socket.create_connection(('{address}', 7904)); c.settimeout(10)
for line in sys.stdin:
    c.sendall(b'x'); print(c.recv(1), flush=True)
"""


@pytest.fixture
def hosts(five):
    found = {name: box.host for name, box in five.items()}
    yield found
    assert all(evidence.confirmed for evidence in converge_all(found, dict.fromkeys(found, HEALTHY)).values())


def talking(box, address):
    import subprocess
    import sys

    argv = box.command(sys.executable, "-S", "-c", ECHOES.format(address=address))
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def says(client) -> bytes:
    client.stdin.write(b"\n")
    client.stdin.flush()
    return client.stdout.readline()


@pytest.mark.namespaces
@pytest.mark.parametrize("five", ["legacy", "nft"], indirect=True)
def test_new_connections_are_refused_established_ones_continue_and_both_are_proved(five, hosts):
    server = python(five["n2"], ECHO)
    assert server.stdout.readline() == b"up\n"
    client = talking(five["n1"], five["n2"].address)
    try:
        assert says(client) == b"b'x'\n"
        want = without_new(dict.fromkeys(hosts, HEALTHY), frozenset({("n1", "n2")}))
        found = converge_all(hosts, want)["n2"]
        assert found.confirmed, found.why
        assert found.detail["connections"] == {"refused": ["n1"], "made": []}
        assert "n1" in found.detail["probes"]["arrived"], "what is no new connection arrives"
        assert says(client) == b"b'x'\n", "a connection from before continues"
        assert not reaches(five["n1"], five["n2"])
        assert reaches(five["n2"], five["n1"]), "it is one direction"
        assert reaches(five["n3"], five["n2"])
        healed = converge_all(hosts, dict.fromkeys(hosts, HEALTHY))["n2"]
        assert healed.confirmed, healed.why
        assert healed.detail["connections"] == {"refused": [], "made": ["n1"]}
        assert reaches(five["n1"], five["n2"])
        assert says(client) == b"b'x'\n"
    finally:
        for process in (server, client):
            process.kill()
            process.wait()
            process.stdout.close()
        client.stdin.close()


@pytest.mark.namespaces
def test_rules_that_vanish_are_not_taken_for_refused_connections(five, hosts):
    want = without_new(dict.fromkeys(hosts, HEALTHY), frozenset({("n3", "n4")}))
    assert converge_all(hosts, want)["n4"].confirmed
    chain = next(line for line in iptables(five["n4"], "-S", "INPUT").splitlines() if "DETHRONE" in line).split()[-1]
    iptables(five["n4"], "-F", chain)
    found = converge_all(hosts, dict.fromkeys(hosts, HEALTHY))["n4"]
    assert not found.detail["before"]["held"]


# --- the proof by itself ------------------------------------------------------------------------------------------


class Knocking:
    """A host whose tries end as told, one answer a round."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def knock_async(self, peers, *, timeout_ns):
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return dict.fromkeys(peers, answer)


def wrong(wanted, *answers):
    hosts = {"n1": Knocking(*answers), "n2": object()}
    return KnockProof(hosts, lambda future: future).wrong({"n2": {"n1"}}, wanted=wanted, deadline=float("inf"))


def test_a_refusal_is_silence_and_any_answer_disproves_it():
    assert wrong(SILENT, SILENT) == {}
    assert wrong(SILENT, KNOCKED) == {"n2": ["a new connection of n1 was answered although it is to be refused"]}
    assert wrong(SILENT, "Network is unreachable") == {
        "n2": ["new connections of n1 are not proved: Network is unreachable"]
    }


def test_an_answer_may_take_a_second_try_and_silence_is_no_heal():
    assert wrong(KNOCKED, SILENT, KNOCKED) == {}
    assert wrong(KNOCKED, SILENT) == {"n2": ["a new connection of n1 is not answered"]}


def test_a_host_that_cannot_try_proves_nothing():
    found = KnockProof({"n1": object()}, lambda future: future).wrong(
        {"n2": {"n1"}}, wanted=KNOCKED, deadline=float("inf")
    )
    assert found == {"n2": ["new connections of n1 are not proved: it cannot try to connect"]}


def test_of_a_link_that_is_cut_besides_nothing_is_judged():
    new_only = HostState(refuses=("n1",))
    both = new_only.plus(HostState(cuts=("n1",)))
    assert changing({"n2": HEALTHY}, {"n2": new_only}) == ({"n2": {"n1"}}, {})
    assert changing({"n2": new_only}, {"n2": HEALTHY}) == ({}, {"n2": {"n1"}})
    assert changing({"n2": HEALTHY}, {"n2": both}) == ({}, {})
    assert changing({"n2": both}, {"n2": HEALTHY}) == ({}, {})
    assert refused(both) == set()


def test_connections_linger_only_where_no_cut_wants_them_reset():
    one = with_cuts({"n2": HEALTHY}, frozenset({("n1", "n2")}), lingers=True)["n2"]
    other = with_cuts({"n2": HEALTHY}, frozenset({("n1", "n2")}))["n2"]
    assert one.lingers == ("n1",)
    assert not one.plus(other).lingers
    assert one.plus(other) == other.plus(one)
    assert one.plus(one).lingers == ("n1",)
