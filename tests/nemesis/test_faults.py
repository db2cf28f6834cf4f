from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.harness.core import registry
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.hoststate import HEALTHY, ClockSkew, Strobe, flows_to_reset, healthy_cluster
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import PlannedFault
from dethrone.nemesis.faults import clock, kill, partition, pause, restart, stop
from tests.nemesis.views import nodes_of, view_of, views_with_leader

FAULTS = {module.FAULT.kind: module.FAULT for module in (clock, kill, partition, pause, restart, stop)}
seeds = st.integers(0, 2**64 - 1)
kinds = st.sampled_from(sorted(FAULTS))
HOLD = 5_000_000_000


def planned(kind, **fields):
    return PlannedFault(kind=kind, **{"victims": "leader", "hold_ns": HOLD, **fields})


def begun(view, kind, seed, count=None):
    """Victims and params of a drawn fault."""
    fault = FAULTS[kind].draw(Rng(seed), nodes=count or len(view.nodes), hold_ns=HOLD, knobs={})
    return FAULTS[kind].resolve(fault, view, Rng(seed).stream("victims"))


def test_all_six_are_registered_under_their_own_names():
    assert set(FAULTS) <= set(registry.names(registry.FAULTS))
    assert all(registry.load(registry.FAULTS, kind) is fault for kind, fault in FAULTS.items())
    assert all(fault.summary() and fault.needs() for fault in FAULTS.values())


@given(views_with_leader(st.integers(2, 7)), kinds, seeds)
def test_every_draw_passes_its_own_check_and_resolves_in_any_view_with_a_leader(view, kind, seed):
    count = len(view.nodes)
    fault = FAULTS[kind].draw(Rng(seed), nodes=count, hold_ns=HOLD, knobs={})
    FAULTS[kind].check(fault, nodes=count)
    resolved = FAULTS[kind].resolve(fault, view, Rng(seed))
    assert not isinstance(resolved, str), resolved
    victims, params = resolved
    assert victims
    assert set(victims) <= set(view.nodes)
    after = FAULTS[kind].apply(view.state, victims, params)
    assert set(after) == set(view.nodes)
    assert any(not state.healthy for state in after.values())


@given(views_with_leader(st.integers(2, 7)), kinds, seeds)
def test_a_planned_fault_survives_json_and_means_the_same(view, kind, seed):
    fault = FAULTS[kind].draw(Rng(seed), nodes=len(view.nodes), hold_ns=HOLD, knobs={})
    again = msgspec.json.decode(msgspec.json.encode(fault), type=PlannedFault)
    assert again == fault
    victims, params = FAULTS[kind].resolve(fault, view, Rng(seed))
    params_again = msgspec.json.decode(msgspec.json.encode(params))
    assert FAULTS[kind].apply(view.state, victims, params) == FAULTS[kind].apply(view.state, victims, params_again)


@given(views_with_leader(st.integers(2, 5)), kinds, kinds, seeds)
def test_two_faults_compose_whatever_their_order(view, first, second, seed):
    one, two = begun(view, first, seed), begun(view, second, seed + 1)
    empty = healthy_cluster(view.nodes)
    a = FAULTS[second].apply(FAULTS[first].apply(empty, *one), *two)
    b = FAULTS[first].apply(FAULTS[second].apply(empty, *two), *one)
    assert a == b


@given(views_with_leader(st.integers(2, 5)), st.sampled_from(sorted(set(FAULTS) - {"clock"})), seeds)
def test_a_fault_twice_is_the_fault_once(view, kind, seed):
    one = begun(view, kind, seed)
    once = FAULTS[kind].apply(view.state, *one)
    assert FAULTS[kind].apply(once, *one) == once


def test_processes_are_ended_or_frozen_by_the_signal_of_the_kind():
    state = healthy_cluster(nodes_of(3))
    assert kill.FAULT.apply(state, ("n1",), {})["n1"].down == "SIGKILL"
    assert restart.FAULT.apply(state, ("n1",), {})["n1"].down == "SIGKILL"
    assert stop.FAULT.apply(state, ("n1",), {})["n1"].down == "SIGTERM"
    assert pause.FAULT.apply(state, ("n1",), {})["n1"] == msgspec.structs.replace(HEALTHY, frozen=True)
    assert state["n1"] == HEALTHY
    both = stop.FAULT.apply(kill.FAULT.apply(state, ("n1",), {}), ("n1",), {})
    assert both["n1"].down == "SIGKILL"


def test_clocks_add_up_and_the_larger_strobe_wins():
    state = healthy_cluster(nodes_of(1))
    state = clock.FAULT.apply(state, ("n1",), {"offset_ns": 5, "strobe_amplitude_ns": 7, "strobe_period_ns": 10**9})
    state = clock.FAULT.apply(state, ("n1",), {"offset_ns": -3, "strobe_amplitude_ns": 9, "strobe_period_ns": 10**9})
    assert state["n1"].clock == ClockSkew(offset_ns=2, strobe=Strobe(9, 10**9))


@pytest.mark.parametrize(
    ("fault", "hint"),
    [
        (planned("kill", params={"speed": 1}), "no parameter 'speed'"),
        (planned("kill", victims="leadr"), "did you mean 'leader'"),
        (planned("kill", victims="random:9"), "more victims than nodes"),
        (planned("kill", hold_ns=-1), "never below 0"),
        (planned("restart"), "ends at once"),
        (planned("clock"), "changes nothing"),
        (planned("clock", params={"offset": 1}), "did you mean 'offset_ns'"),
        (planned("clock", params={"offset_ns": "1s"}), "whole number"),
        (planned("clock", params={"offset_ns": True}), "whole number"),
        (planned("clock", params={"strobe_amplitude_ns": 5}), "needs both"),
        (planned("clock", params={"strobe_amplitude_ns": 5, "strobe_period_ns": 1}), "the least is"),
        (planned("clock", params={"offset_ns": 10**30}), "ten years"),
        (planned("partition"), "unknown partition shape"),
        (planned("partition", params={"shape": "halfs"}), "did you mean 'halves'"),
        (planned("partition", params={"shape": "majorities-ring"}), "write all"),
        (planned("partition", victims="all", params={"shape": "halves"}), "at most 4 of 5"),
        (planned("partition", victims="random:2", params={"shape": "bridge"}), "at most 1 of 5"),
        (planned("partition", params={"cuts": "n1-n2"}), "list of"),
        (planned("partition", params={"cuts": [["n1", "n1"]]}), "two different"),
    ],
)
def test_a_wrong_fault_is_a_config_error_that_says_why(fault, hint):
    with pytest.raises(ConfigError) as error:
        FAULTS[fault.kind].check(fault, nodes=5)
    assert hint in str(error.value)


def test_a_shape_that_needs_more_nodes_is_refused():
    with pytest.raises(ConfigError, match="at least 4 nodes"):
        partition.FAULT.check(planned("partition", victims="follower", params={"shape": "hub"}), nodes=3)


def test_stored_cuts_are_repeated_to_the_letter():
    fault = planned("partition", victims="node:n1", params={"shape": "one-way-in", "cuts": [["n2", "n1"]]})
    partition.FAULT.check(fault, nodes=3)
    victims, params = partition.FAULT.resolve(fault, view_of(3), Rng(1))
    after = partition.FAULT.apply(healthy_cluster(nodes_of(3)), victims, params)
    assert {host: state.cuts for host, state in after.items()} == {"n1": ("n2",), "n2": (), "n3": ()}
    strange = planned("partition", victims="node:n1", params={"cuts": [["n9", "n1"]]})
    assert "no node n9" in partition.FAULT.resolve(strange, view_of(3), Rng(1))


@given(seeds)
def test_overlapping_partitions_are_the_union_of_their_cuts(seed):
    view = view_of(5)
    one, two = begun(view, "partition", seed), begun(view, "partition", seed + 1)
    after = partition.FAULT.apply(partition.FAULT.apply(view.state, *one), *two)
    cuts = {(src, host) for host, state in after.items() for src in state.cuts}
    assert cuts == {tuple(cut) for cut in (*one[1]["cuts"], *two[1]["cuts"])}


def test_every_shape_is_drawn_in_a_good_mix():
    drawn = [partition.FAULT.draw(Rng(seed), nodes=5, hold_ns=HOLD, knobs={}).params["shape"] for seed in range(2000)]
    shares = {name: drawn.count(name) / len(drawn) for name, shape in partition.SHAPES.items() if shape.weight}
    assert min(shares.values()) > 0.02
    assert max(shares.values()) < 0.3


def test_knobs_narrow_a_draw():
    fault = partition.FAULT.draw(Rng(1), nodes=5, hold_ns=HOLD, knobs={"shape": "halves", "victims": "node:n1"})
    assert (fault.params["shape"], fault.victims) == ("halves", "node:n1")
    with pytest.raises(ConfigError):
        kill.FAULT.draw(Rng(1), nodes=5, hold_ns=HOLD, knobs={"victim": "n1"})


def test_a_way_to_cut_says_what_becomes_of_connections():
    nodes, params = {"n1": HEALTHY, "n2": HEALTHY}, {"cuts": [["n1", "n2"]]}
    new_only = partition.FAULT.apply(nodes, ("n1",), {**params, "way": "new-only"})["n2"]
    assert (new_only.refuses, new_only.cuts) == (("n1",), ())
    left = partition.FAULT.apply(nodes, ("n1",), {**params, "at_heal": "retransmit"})["n2"]
    assert (flows_to_reset(left, HEALTHY), left.cuts) == ([], ("n1",))
    plain = partition.FAULT.apply(nodes, ("n1",), params)["n2"]
    assert flows_to_reset(plain, HEALTHY) == ["n1"]
    assert flows_to_reset(plain.plus(left), HEALTHY) == ["n1"]


@pytest.mark.parametrize(
    "params",
    [
        {"way": "new"},
        {"at_heal": "wait"},
        {"way": "reset", "at_heal": "retransmit"},
        {"way": "new-only", "at_heal": "retransmit"},
    ],
)
def test_a_way_to_cut_that_means_nothing_is_refused(params):
    fault = PlannedFault(kind="partition", victims="leader", hold_ns=HOLD, params={"shape": "isolate", **params})
    with pytest.raises(ConfigError):
        partition.FAULT.check(fault, nodes=3)
