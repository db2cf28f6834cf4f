"""The backend against containers that run a real SSH server: n1 and n3 by root, n2 by a user with sudo."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dethrone.clusters.ssh.backend import SshBackend
from dethrone.clusters.ssh.hosts import parse_hosts
from dethrone.harness.core.hoststate import HEALTHY, HostState
from dethrone.harness.core.interfaces import Command, DeploySpec, NodeStart
from tests.clusters.ssh.field import NODES
from tests.waiting import until

pytestmark = pytest.mark.docker


def backend_of(file: Path) -> SshBackend:
    return SshBackend(parse_hosts(file.read_text(), source=str(file)))


def deployed(backend: SshBackend, news=lambda _: None):
    """Three hosts with a node each, started."""
    spec = DeploySpec(run_id="r1", nodes=NODES, image="node", base=None, state_dir="/somewhere")
    hosts = backend.deploy(spec, origin_ns=time.monotonic_ns(), news=news, progress=lambda _: None)
    start = NodeStart(
        command=Command(argv=("python3", "-S", "-c", "import time\nwhile True: time.sleep(0.05)")),
        log_path="/var/log/dethrone/node.log",
        data_dir="/var/lib/dethrone/data",
    )
    for host in hosts.values():
        host.prepare(start, {node: one.address for node, one in hosts.items()}, dead_man_ns=0)
        host.start_node()
    return hosts


def test_machines_are_partitioned_and_healed_over_ssh_and_left_as_they_were(field):
    backend = backend_of(field.patient_file)
    assert all(type(answer).__name__ == "Yes" for _, answer in backend.doctor())
    hosts = deployed(backend)
    try:
        cut = {
            "n1": HostState(cuts=("n2", "n3")),
            "n2": HostState(cuts=("n1",)),
            "n3": HostState(cuts=("n1",)),
        }
        found = backend.converge_all(hosts, cut)
        assert {node: one.confirmed for node, one in found.items()} == dict.fromkeys(NODES, True), found
        until(lambda: "DROP" in field.ours("n2"), 5)  # the agent rereads the rules meanwhile
        unheard = backend.converge_all(hosts, {"n3": HostState(cuts=("client", "n1"))})
        assert unheard["n3"].confirmed, unheard["n3"].why  # nothing of us arrives there but SSH, by which we know
        killed = backend.converge_all(hosts, {"n1": HostState(cuts=("n2", "n3"), down="SIGKILL")})
        assert killed["n1"].confirmed
        healed = backend.converge_all(hosts, dict.fromkeys(NODES, HEALTHY))
        assert {node: one.confirmed for node, one in healed.items()} == dict.fromkeys(NODES, True), healed
    finally:
        for host in hosts.values():
            host.close()
        backend.destroy("r1")
    assert {node: field.ours(node) for node in NODES} == dict.fromkeys(NODES, "")
    assert backend.leftovers() == []
