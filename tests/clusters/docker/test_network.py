import ipaddress

import docker
import pytest

from dethrone.clusters.deploying import together
from dethrone.clusters.docker.network import RunNetwork, create_network
from dethrone.clusters.subnets import MAX_NODES, POOL, candidates, routes
from dethrone.harness.core.errors import ConfigError


def test_every_range_of_the_benchmark_pool_is_tried_once():
    ranges = candidates("a", [])
    assert len(ranges) == len(set(ranges)) == 512
    assert all(ipaddress.IPv4Network(subnet).subnet_of(POOL) for subnet in ranges)


def test_two_runs_begin_at_different_ranges():
    assert candidates("a", [])[0] != candidates("b", [])[0]


def test_ranges_that_somebody_uses_are_not_tried_even_when_theirs_is_larger_or_smaller():
    ranges = candidates("a", ["198.18.0.0/16", "198.19.7.128/25", "10.0.0.0/8"])
    assert len(ranges) == 255
    assert "198.19.7.0/24" not in ranges


def test_addresses_are_fixed_by_the_nodes_place():
    network = RunNetwork(id="x", name="x", subnet="198.18.5.0/24")
    assert [network.address(index) for index in range(3)] == ["198.18.5.11", "198.18.5.12", "198.18.5.13"]
    assert ipaddress.IPv4Address(network.address(MAX_NODES - 1)) in ipaddress.IPv4Network("198.18.5.0/24")


def test_routes_of_this_machine_are_read_without_the_default_route(tmp_path):
    table = tmp_path / "route"
    table.write_text(
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
        "eth0\t00000000\t0100A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
        "tun0\t000012C6\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
    )
    assert routes(table) == ["198.18.0.0/16"]


def test_more_nodes_than_addresses_are_refused():
    with pytest.raises(ConfigError, match="do not fit"):
        create_network(docker.DockerClient(version="1.41"), run_id="x", state_dir="/x", nodes=MAX_NODES + 1)


@pytest.mark.docker
def test_networks_made_at_the_same_moment_get_different_ranges(client, run_id):
    ids = [f"{run_id}-{index}" for index in range(4)]
    try:
        made = together(lambda name: create_network(client, run_id=name, state_dir="/x", nodes=5), ids)
        assert len({network.subnet for network in made}) == 4
    finally:
        for network in client.networks.list(filters={"label": "dethrone.owner"}):
            if network.name.startswith(f"dethrone-{run_id}-"):
                network.remove()


@pytest.mark.docker
def test_two_networks_that_want_the_same_range_both_come_up(client, run_id, monkeypatch):
    monkeypatch.setattr("dethrone.clusters.docker.network._engine_ranges", lambda _client: [])
    monkeypatch.setattr("dethrone.clusters.docker.network.routes", list)
    monkeypatch.setattr(
        "dethrone.clusters.docker.network.candidates", lambda _run, _taken: ["198.19.254.0/24", "198.19.255.0/24"]
    )
    made = []
    try:
        for name in (f"{run_id}-a", f"{run_id}-b"):
            network = create_network(client, run_id=name, state_dir="/x", nodes=5)
            made.append(network)
        assert [network.subnet for network in made] == ["198.19.254.0/24", "198.19.255.0/24"]
    finally:
        for network in made:
            client.networks.get(network.id).remove()


@pytest.mark.docker
def test_nothing_on_a_runs_network_reaches_the_outside(client, run_id):
    made = create_network(client, run_id=run_id, state_dir="/x", nodes=1)
    assert client.networks.get(made.id).attrs["Internal"] is True
