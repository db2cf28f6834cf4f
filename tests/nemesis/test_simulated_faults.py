"""Faults of disks, links, clocks and processors: checked, drawn, and composed in any order."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from dethrone.harness.core import registry
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.hoststate import HEALTHY, ClockSkew, DiskTrouble, HostState, LinkQuality, healthy_cluster
from dethrone.harness.core.interfaces import ClusterView
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import PlannedFault

KINDS = ("powerloss", "wipe", "damage", "disk", "link", "hold", "drift", "cpu", "memory", "descriptors")
NODES = ("n1", "n2", "n3")


def fault(kind):
    return registry.load(registry.FAULTS, kind)


def planned(kind, **params):
    return PlannedFault(kind=kind, victims="leader", hold_ns=1, params=params)


def view():
    return ClusterView(
        nodes=NODES,
        leader="n1",
        roles=dict.fromkeys(NODES, "follower") | {"n1": "leader"},
        terms=dict.fromkeys(NODES, 1),
        state=healthy_cluster(NODES),
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(30))
def test_every_draw_is_accepted_resolved_and_changes_its_victims(kind, seed):
    one = fault(kind)
    drawn = one.draw(Rng(seed), nodes=3, hold_ns=10, knobs={})
    one.check(drawn, nodes=3)
    victims, params = one.resolve(drawn, view(), Rng(seed))
    state = one.apply(healthy_cluster(NODES), victims, params)
    assert state != healthy_cluster(NODES)
    assert one.needs()


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        ("powerloss", {"torn": 1}),
        ("powerloss", {"tornn": True}),
        ("powerloss", {"model": "ext4"}),
        ("powerloss", {"model": True}),
        ("wipe", {"path": "x"}),
        ("damage", {"how": "burnt"}),
        ("damage", {"path": 5}),
        ("damage", {"age": "old"}),
        ("disk", {"how": "slow"}),
        ("disk", {"how": "eio", "latency_ns": 5}),
        ("disk", {"how": "odd"}),
        ("disk", {"how": "full", "of": "writes"}),
        ("disk", {"how": "eio", "of": "seeks"}),
        ("disk", {"how": "eio", "percent": 101}),
        ("disk", {"how": "slow", "latency_ns": 5, "percent": 50}),
        ("link", {}),
        ("link", {"loss_percent": 101}),
        ("link", {"loss_percent": 5, "direction": "up"}),
        ("link", {"reorder_percent": 5}),
        ("link", {"delay_ns": -1}),
        ("link", {"corrupt_percent": 101}),
        ("link", {"rate_kbit_per_s": 15}),
        ("link", {"delay_ns": 1, "of": "friends"}),
        ("link", {"delay_ns": 1, "of": "clients", "direction": "out"}),
        ("hold", {"count": 0}),
        ("hold", {"count": 5000}),
        ("hold", {"direction": 1}),
        ("memory", {"percent": 5}),
        ("descriptors", {"limit": 5}),
        ("cpu", {}),
        ("cpu", {"percent": 0}),
        ("cpu", {"percent": 100}),
        ("cpu", {"percent": 5, "cores": 1}),
        ("drift", {}),
        ("drift", {"rate_ppm": 10**7}),
    ],
)
def test_bad_parameters_are_refused(kind, params):
    with pytest.raises(ConfigError):
        fault(kind).check(planned(kind, **params), nodes=3)


def test_a_loss_of_power_has_the_usual_model_unless_another_one_is_asked_for():
    def disk(**params):
        return fault("powerloss").apply(healthy_cluster(NODES), ("n1",), params)["n1"].disk

    assert disk() is disk(model="journal") is None
    assert disk(torn=True) == disk(torn=True, model="journal") == DiskTrouble(kind="torn")
    assert disk(model="posix") == DiskTrouble(kind="unsynced", model="posix")
    assert disk(model="posix", torn=True) == DiskTrouble(kind="torn", model="posix")
    drawn = [fault("powerloss").draw(Rng(seed), nodes=3, hold_ns=10, knobs={}) for seed in range(100)]
    assert all("model" not in one.params for one in drawn)


def test_faults_on_one_host_compose_in_any_order():
    several = [
        ("kill", {}),
        ("powerloss", {"torn": True}),
        ("wipe", {}),
        ("disk", {"how": "eio"}),
        ("link", {"loss_percent": 5}),
        ("hold", {"count": 2}),
        ("drift", {"rate_ppm": 100}),
        ("clock", {"offset_ns": 7}),
    ]
    found = []
    for order in itertools.islice(itertools.permutations(several), 0, 40320, 997):
        state = healthy_cluster(NODES)
        for kind, params in order:
            state = fault(kind).apply(state, ("n1",), params)
        found.append(state)
    assert all(state == found[0] for state in found)
    hurt = found[0]["n1"]
    assert (hurt.down, hurt.disk) == ("POWER", DiskTrouble(kind="wiped"))
    assert hurt.clock == ClockSkew(offset_ns=7, mono_rate_ppm=100)
    assert hurt.links == (LinkQuality(src="n2", loss_percent=5, hold=2), LinkQuality(src="n3", loss_percent=5, hold=2))


def test_links_are_those_between_nodes_or_those_of_clients_or_both():
    def sources(ends):
        hurt = fault("link").apply(healthy_cluster(NODES), ("n1",), {"loss_percent": 5, "of": ends})
        return {name: [link.src for link in hurt[name].links] for name in NODES}

    assert sources("peers") == {"n1": ["n2", "n3"], "n2": ["n1"], "n3": ["n1"]}
    assert sources("clients") == {"n1": ["client"], "n2": [], "n3": []}
    assert sources("all") == {"n1": ["client", "n2", "n3"], "n2": ["n1"], "n3": ["n1"]}


def test_what_is_corrupted_and_rates_compose_and_are_absent_where_they_are_not_wanted():
    def links(*params):
        state = healthy_cluster(NODES)
        for one in params:
            state = fault("link").apply(state, ("n1",), {**one, "direction": "in"})
        return state["n1"].links[0]

    assert links({"rate_kbit_per_s": 64}, {"rate_kbit_per_s": 32}, {"corrupt_percent": 5}) == LinkQuality(
        src="n2", rate_kbit_per_s=32, corrupt_percent=5
    )
    assert b"rate" not in msgspec.json.encode(links({"delay_ns": 1}, {"loss_percent": 2}))


def test_the_direction_of_a_link_fault_is_seen_from_its_victims():
    inward = fault("link").apply(healthy_cluster(NODES), ("n1",), {"loss_percent": 5, "direction": "in"})
    assert [len(inward[name].links) for name in NODES] == [2, 0, 0]
    outward = fault("link").apply(healthy_cluster(NODES), ("n1",), {"loss_percent": 5, "direction": "out"})
    assert [len(outward[name].links) for name in NODES] == [0, 1, 1]
    assert outward["n1"] == HEALTHY


def test_a_node_that_is_down_has_no_descriptors_to_run_out_of():
    down = view()
    down = msgspec.structs.replace(down, state={**down.state, "n1": HostState(down="SIGKILL")})
    assert "every victim is down" in fault("descriptors").resolve(planned("descriptors"), down, Rng(1))
