"""The backend against three SSH servers, which stand for three machines."""

from __future__ import annotations

import msgspec
import pytest

from dethrone.clusters.ssh.backend import SshBackend
from dethrone.clusters.ssh.connection import Connection
from dethrone.clusters.ssh.hosts import Bastion, parse_hosts
from dethrone.harness.core.errors import ClusterError, ConfigError, NotHealed
from dethrone.harness.core.hoststate import HEALTHY, HostState
from dethrone.harness.core.interfaces import Backend, No, Yes
from tests.clusters.ssh.machines import NODES

pytestmark = pytest.mark.processes


def test_it_can_be_used_once_machines_were_named(machines):
    backend: Backend = machines.backend
    assert backend.available() == Yes()
    assert isinstance(machines.of("[]").available(), No)


def test_a_deployment_is_listed_and_then_gone_and_gone_again(machines):
    hosts = machines.deploy()
    assert [host.run(("echo", node), timeout_ns=10**9)[1] for node, host in hosts.items()] == [
        b"n1\n",
        b"n2\n",
        b"n3\n",
    ]
    owned = machines.of().leftovers()
    assert [(one.name, one.kind, one.run_id, one.state_dir) for one in owned] == [
        (node, "agent", "r1", "/somewhere") for node in NODES
    ]
    machines.close()
    machines.backend.destroy("r1")
    assert machines.of().leftovers() == []
    machines.backend.destroy("r1")


def test_a_host_that_is_not_expendable_is_not_even_connected_to(machines):
    spared = machines.of('["n1", "n3"]')
    with pytest.raises(ConfigError, match="n2 may not be broken"):
        machines.deploy(spared)
    assert machines.touched() == []
    assert spared.leftovers() == []
    spared.destroy("r1")
    assert machines.touched() == ["n1", "n3"]


def test_a_deployment_that_fails_on_one_machine_leaves_nothing_on_the_others(machines):
    machines.servers["n2"].deaf = True
    with pytest.raises(ClusterError, match="cannot be reached"):
        machines.deploy()
    machines.servers["n2"].deaf = False
    assert machines.of().leftovers() == []


@pytest.mark.slow
def test_a_second_run_is_refused_and_does_the_first_no_harm_even_under_its_name(machines):
    hosts = machines.deploy()
    for run in ("r2", "r1"):
        with pytest.raises(ClusterError, match="the run r1 uses this machine"):
            machines.deploy(machines.of(), run=run)
    assert all(host.run(("true",), timeout_ns=10**9)[0] == 0 for host in hosts.values())
    assert {one.run_id for one in machines.of().leftovers()} == {"r1"}


def test_no_more_than_a_minority_is_stopped_at_once_and_the_rest_is_done(machines):
    hosts = machines.running()
    down = HostState(down="SIGKILL")
    first = machines.backend.converge_all(hosts, {"n1": down})
    assert first["n1"].confirmed
    second = machines.backend.converge_all(hosts, {"n2": down, "n3": HostState(frozen=True)})
    assert not second["n2"].confirmed
    assert "majority = true" in second["n2"].why
    assert second["n2"].state == down
    assert second["n3"].confirmed
    healed = machines.backend.converge_all(hosts, dict.fromkeys(NODES, HEALTHY))
    assert all(one.confirmed for one in healed.values())
    assert machines.backend.converge_all(hosts, {"n2": down})["n2"].confirmed


def test_an_effect_that_the_file_does_not_allow_is_not_done(machines):
    text = 'faults = ["pause"]\n' + machines.text('["n1", "n2", "n3"]')
    backend = SshBackend(parse_hosts(text, source="hosts.toml"), patience_s=2, probe_port=0)
    hosts = machines.running(backend)
    found = backend.converge_all(hosts, {"n1": HostState(down="SIGKILL"), "n2": HostState(frozen=True)})
    assert "killing is not allowed" in found["n1"].why
    assert (found["n1"].confirmed, found["n2"].confirmed) == (False, True)
    assert backend.converge_all(hosts, {"n2": HEALTHY})["n2"].confirmed


def test_a_cut_of_the_client_is_refused_behind_a_bastion_which_it_would_cut_instead(machines):
    hosts = machines.running()
    file = machines.backend._file
    behind = msgspec.structs.replace(file.hosts["n1"], bastion=Bastion(address="192.0.2.1"))
    machines.backend._file = msgspec.structs.replace(file, hosts={**file.hosts, "n1": behind})
    evidence = machines.backend.converge_all(hosts, {"n1": HostState(cuts=("client",))})
    assert not evidence["n1"].confirmed
    assert "refused: behind a bastion" in evidence["n1"].why


@pytest.mark.slow
def test_a_machine_that_cannot_be_cleaned_is_named_and_the_others_are_clean(machines):
    machines.deploy()
    machines.close()
    machines.servers["n2"].deaf = True
    machines.servers["n2"].drop()
    with pytest.raises(NotHealed) as caught:
        machines.backend.destroy("r1")
    assert "1 of 3 machines" in caught.value.what
    assert "n2" in caught.value.where
    machines.servers["n2"].deaf = False
    assert [one.name for one in machines.of().leftovers()] == ["n2"]
    machines.of().destroy("r1")
    assert machines.of().leftovers() == []


def test_a_harness_on_one_of_the_machines_is_refused(machines, monkeypatch):
    monkeypatch.setattr(Connection, "seen_from", lambda self: "198.18.0.3")
    with pytest.raises(ConfigError, match="comes from n3's address"):
        machines.deploy()
    assert machines.of().leftovers() == []


def test_an_address_that_no_rule_can_name_is_refused_before_anything_is_touched(machines):
    text = machines.text('["n1", "n2", "n3"]').replace('inside = "198.18.0.2"', 'inside = "node-two"')
    with pytest.raises(ConfigError, match="node-two is no IPv4 address"):
        machines.deploy(SshBackend(parse_hosts(text, source="hosts.toml")))
    assert machines.touched() == []


def test_doctor_has_a_row_a_machine(machines):
    machines.servers["n2"].deaf = True
    rows = dict(machines.backend.doctor())
    assert list(rows) == ["ssh: n1", "ssh: n2", "ssh: n3"]
    assert isinstance(rows["ssh: n2"], No)
    assert rows["ssh: n2"].what_to_do


@pytest.mark.slow
def test_what_is_lost_is_forgotten_with_the_run_that_lost_it(machines):
    down = HostState(down="SIGKILL")
    hosts = machines.running()
    assert machines.backend.converge_all(hosts, {"n1": down})["n1"].confirmed
    assert not machines.backend.converge_all(hosts, {"n2": down})["n2"].confirmed
    machines.close()
    machines.backend.destroy("r1")
    hosts = machines.running()
    assert machines.backend.converge_all(hosts, {"n2": down})["n2"].confirmed
