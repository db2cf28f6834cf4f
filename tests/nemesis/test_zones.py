"""Zones: selectors that mean whole zones, links between zones, and what the strategies draw where nodes have zones."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.harness.core import registry
from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.hoststate import healthy_cluster
from dethrone.harness.core.interfaces import traits_of
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.quorum import minority
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import PlannedFault, Schedule, Step
from dethrone.harness.core.zones import check_zones, members, zones_in_order
from dethrone.nemesis import selectors
from dethrone.nemesis.faults import link
from dethrone.nemesis.strategies import mixed, random, triggered
from tests.nemesis.views import nodes_of, view_of

seeds = st.integers(0, 2**63 - 1)
layouts = st.integers(3, 7).flatmap(lambda count: st.lists(st.sampled_from("abc"), min_size=count, max_size=count))
FIVE = zones_in_order(("a", "a", "b", "b", "c"), nodes_of(5))
PROMISE = Promise(
    system="t",
    profile="t",
    source="t",
    election_timeout_ns=300 * MS,
    heartbeat_ns=50 * MS,
    leader_bound_ns=3 * SECOND,
    later_gap_ns=3 * SECOND,
    tolerates=dict.fromkeys(("partition", "kill", "pause", "link", "powerloss")),
)
KINDS = ("partition", "kill", "pause", "link", "powerloss")


def faults():
    return {kind: registry.load(registry.FAULTS, kind) for kind in KINDS}


def drawn(strategy, seed, zones, *, nodes=5, limit_ns=120 * SECOND):
    chosen = strategy.zoned(zones) if zones else strategy
    return chosen.draw(
        Rng(seed), faults=faults(), nodes=nodes, time_limit_ns=limit_ns, interval_ns=2 * SECOND, promise=PROMISE
    )


def resolve(text, view, seed=1):
    return selectors.resolve(selectors.parse(text), view, Rng(seed))


def in_zones(leader, zones=FIVE):
    return msgspec.structs.replace(view_of(len(zones), leader=leader), zones=zones)


@pytest.mark.parametrize(
    ("text", "leader", "expected"),
    [
        ("zone:a", "n5", ("n1", "n2")),
        ("zone:a,c", "n5", ("n1", "n2", "n5")),
        ("zone:leader", "n3", ("n3", "n4")),
        ("zone:leader", "n5", ("n5",)),
        ("zone:leader,a", "n5", ("n1", "n2", "n5")),
        ("zone:leader", None, "no leader is known"),
        ("zone:x", "n1", "no host is in the zone 'x': known are a, b, c"),
    ],
)
def test_a_zone_is_all_its_nodes(text, leader, expected):
    assert resolve(text, in_zones(leader)) == expected


def test_without_zones_a_zone_cannot_be_resolved():
    assert resolve("zone:leader", view_of(5)) == "no host has a zone"


@given(layouts, seeds, st.data())
def test_another_zone_is_never_the_leaders_and_never_more_than_a_minority(labels, seed, data):
    nodes = nodes_of(len(labels))
    zones = zones_in_order(tuple(labels), nodes)
    leader = data.draw(st.sampled_from(nodes))
    found = resolve("zone:other", in_zones(leader, zones), seed)
    small = [zone for zone, of in members(zones).items() if zone != zones[leader] and len(of) <= minority(len(nodes))]
    if isinstance(found, str):
        assert small == []
    else:
        assert found in [members(zones)[zone] for zone in small]


@pytest.mark.parametrize("label", ["leader", "other", "", "a b", "ä", "-a"])
def test_a_label_that_could_be_mistaken_is_refused(label):
    with pytest.raises(ConfigError):
        zones_in_order((label, "b", "c"), nodes_of(3))


def test_as_many_labels_as_nodes_are_needed():
    with pytest.raises(ConfigError, match="2 zones for 3 nodes"):
        zones_in_order(("a", "b"), nodes_of(3))


@pytest.mark.parametrize(
    "fault",
    [
        PlannedFault(kind="kill", victims="zone:x", hold_ns=SECOND),
        PlannedFault(kind="partition", victims="all", hold_ns=SECOND, params={"links": [["zone:x", "zone:a"]]}),
    ],
)
def test_a_schedule_with_a_zone_that_no_host_is_in_is_refused_before_the_run(fault):
    schedule = Schedule(seed=1, strategy="x", steps=(Step(faults=(fault,), gap_ns=0),))
    with pytest.raises(ConfigError, match="no host is in the zone 'x'"):
        check_zones(schedule, FIVE)
    with pytest.raises(ConfigError, match="no host has one"):
        check_zones(schedule, {})


def test_a_slow_zone_is_slow_towards_the_others_and_not_within():
    state = link.FAULT.apply(healthy_cluster(nodes_of(5)), ("n1", "n2"), {"delay_ns": 5 * MS, "of": "outside"})
    assert {node: [one.src for one in state[node].links] for node in state} == {
        "n1": ["n3", "n4", "n5"],
        "n2": ["n3", "n4", "n5"],
        **{key: ["n1", "n2"] for key in ("n3", "n4", "n5")},
    }


@pytest.mark.parametrize("strategy", [random.STRATEGY, triggered.STRATEGY, mixed.STRATEGY])
def test_without_zones_a_seed_draws_what_it_always_did_and_with_zones_whole_zones_too(strategy):
    kinds = set()
    for seed in range(12):
        plain, zonal = drawn(strategy, seed, {}), drawn(strategy, seed, FIVE)
        assert not [f for step in plain.steps for f in step.faults if f.victims.startswith("zone:")]
        assert [len(step.faults) for step in plain.steps] == [len(step.faults) for step in zonal.steps]
        assert plain.obligations == zonal.obligations
        kinds |= {f.kind for step in zonal.steps for f in step.faults if f.victims.startswith("zone:")}
        check_zones(zonal, FIVE)
    assert {"partition", "kill", "link"} <= kinds


@given(seeds, layouts)
def test_what_a_zone_draw_takes_out_leaves_a_majority_where_zones_are_small(seed, labels):
    nodes = nodes_of(len(labels))
    zones = zones_in_order(tuple(labels), nodes)
    schedule = drawn(random.STRATEGY, seed, zones, nodes=len(nodes))
    for step in schedule.steps:
        for fault in step.faults:
            kind = faults()[fault.kind]
            kind.check(fault, nodes=len(nodes))
            for leader in nodes:
                found = kind.resolve(fault, in_zones(leader, zones), Rng(seed))
                if isinstance(found, str):
                    assert fault.victims == "zone:other"
                elif traits_of(kind).takes_out and not traits_of(kind).cuts:
                    assert len(found[0]) <= minority(len(nodes))


@given(seeds)
def test_the_cut_of_a_zone_leaves_its_own_links_alone(seed):
    schedule = drawn(random.STRATEGY, seed, FIVE)
    kind = faults()["partition"]
    for fault in (f for step in schedule.steps for f in step.faults if f.kind == "partition"):
        if fault.victims.startswith("zone:"):
            victims, params = kind.resolve(fault, in_zones("n1"), Rng(seed))
            assert params["cuts"]
            assert all((src in victims) != (dst in victims) for src, dst in params["cuts"])
