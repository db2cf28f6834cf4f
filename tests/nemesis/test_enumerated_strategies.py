"""Strategies that play a list in parts: together the parts of all seeds are the list, each entry once."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.checkers.vote_is_durable import CHECKER as VOTE_IS_DURABLE
from dethrone.harness.core import registry
from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.hoststate import healthy_cluster
from dethrone.harness.core.quorum import quorum
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import AfterFault
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import draft
from dethrone.harness.engine.run.rehearsal import rehearse
from dethrone.nemesis import shapes
from dethrone.nemesis.faults import partition, pause, restart, stop
from dethrone.nemesis.strategies.orbits import STRATEGY as ORBITS
from dethrone.nemesis.strategies.orbits_one_way import STRATEGY as ORBITS_ONE_WAY
from dethrone.nemesis.strategies.pauses import STRATEGY as PAUSES
from dethrone.nemesis.strategies.restarts import BLOWS
from dethrone.nemesis.strategies.restarts import STRATEGY as RESTARTS
from dethrone.nemesis.strategies.shapes import STRATEGY as SHAPES
from tests.nemesis.test_zones import PROMISE
from tests.nemesis.views import nodes_of, view_of

FAULTS = {fault.kind: fault for fault in (partition.FAULT, pause.FAULT, restart.FAULT, stop.FAULT)}
seeds = st.integers(0, 2**63 - 1)
HOLD_NS = 4 * SECOND


def part(strategy, number, *, nodes=5, limit_ns=60 * SECOND, outsiders=0):
    told = strategy.informed(observable=frozenset(), operations=frozenset(), outsiders=outsiders).part(number)
    return told.draw(
        Rng(number), faults=FAULTS, nodes=nodes, time_limit_ns=limit_ns, interval_ns=HOLD_NS, promise=PROMISE
    )


def steps(strategy, **given):
    """All parts, and how many there are."""
    count = int(part(strategy, 0, **given).strategy.rpartition(" ")[2])
    return [step.faults for number in range(count) for step in part(strategy, number, **given).steps], count


@given(
    st.sampled_from([(ORBITS, 3, 5), (ORBITS, 4, 19), (ORBITS, 5, 89), (ORBITS_ONE_WAY, 3, 35)]),
    st.integers(20, 1000),
)
def test_the_parts_of_a_campaign_are_every_graph_once_whatever_fits_into_a_run(one, limit_s):
    strategy, nodes, graphs = one
    played, count = steps(strategy, nodes=nodes, limit_ns=limit_s * SECOND)
    names = [fault.params["graph"] for (fault,) in played]
    assert len(names) == len(set(names)) == graphs
    assert part(strategy, count, nodes=nodes, limit_ns=limit_s * SECOND).steps == (
        part(strategy, 0, nodes=nodes, limit_ns=limit_s * SECOND).steps
    )


@given(seeds, st.sampled_from(["n1", "n3", "n5"]), st.data())
def test_a_graph_is_cut_around_the_leader_as_it_is_drawn(seed, leader, data):
    fault = data.draw(st.sampled_from([entry[0] for entry in ORBITS.entries(5, HOLD_NS, PROMISE)]))
    victims, params = partition.FAULT.resolve(fault, view_of(5, leader=leader), Rng(seed))
    assert victims == (leader,)
    drawn = partition.orbits.read(fault.params["graph"]).cuts
    cuts = {tuple(cut) for cut in params["cuts"]}
    assert len(cuts) == len(drawn)
    at_leader = sum(leader in cut for cut in cuts)
    assert at_leader == sum(0 in cut for cut in drawn)


def test_nodes_that_do_not_vote_take_no_place():
    assert steps(ORBITS, nodes=5, outsiders=2)[0] == list(steps(ORBITS, nodes=3)[0])
    seen = msgspec.structs.replace(view_of(5), voters=nodes_of(3))
    for entry in ORBITS.entries(3, HOLD_NS, PROMISE):
        _, params = partition.FAULT.resolve(entry[0], seen, Rng(1))
        assert {node for cut in params["cuts"] for node in cut} <= set(nodes_of(3))


def test_too_many_nodes_are_refused():
    with pytest.raises(ConfigError, match="not enumerated"):
        part(ORBITS, 0, nodes=7)
    with pytest.raises(ConfigError, match="5 nodes"):
        partition.FAULT.check(ORBITS.entries(5, HOLD_NS, PROMISE)[0][0], nodes=3)


@pytest.mark.parametrize("nodes", [3, 4, 5, 7])
def test_all_shapes_are_played_around_all_their_victims(nodes):
    played, _ = steps(SHAPES, nodes=nodes)
    plain = {(entry[0].params["shape"], entry[0].victims) for entry in played if len(entry) == 1}
    assert {shape for shape, _ in plain} == {
        name for name, shape in partition.SHAPES.items() if shape.nodes_min <= nodes and shape.weight
    }
    assert [len(entry) for entry in played if len(entry) > 1] == [2] * (nodes > 3) + [4, nodes - 1]
    for fault in (fault for entry in played for fault in entry):
        partition.FAULT.check(fault, nodes=nodes)


@given(st.integers(4, 7), seeds)
def test_a_constrained_election_leaves_a_majority_to_one_node_only_and_that_one_lacks_what_was_written(count, seed):
    staged = next(entry for entry in SHAPES.entries(count, HOLD_NS, PROMISE) if isinstance(entry[-1].when, AfterFault))
    behind, cut = staged[0], staged[1]
    view = view_of(count, leader="n2")
    victims, before = partition.FAULT.resolve(behind, view, Rng(seed))
    assert {frozenset(pair) for pair in before["cuts"]} == {frozenset({"n2", victims[0]})}
    seen = msgspec.structs.replace(view, hit={"behind": victims})
    _, after = partition.FAULT.resolve(cut, seen, Rng(seed))
    cuts = {tuple(pair) for pair in after["cuts"]}
    linked = {a: {b for b in view.nodes if (a, b) not in cuts and (b, a) not in cuts} for a in view.nodes}
    assert [node for node in view.nodes if len(linked[node]) >= quorum(count)] == list(victims)
    assert cut.delay_ns > 0
    assert cut.delay_ns + cut.hold_ns == behind.hold_ns


def test_a_constrained_election_waits_for_another_leader_than_the_one_that_shall_succeed():
    cut = SHAPES.entries(5, HOLD_NS, PROMISE)
    planned = next(fault for entry in cut for fault in entry if fault.params["shape"] == "constrained")
    led = msgspec.structs.replace(view_of(5, leader="n2"), hit={"behind": ("n2",)})
    assert partition.FAULT.resolve(planned, led, Rng(1)) == "n2 leads now"
    with pytest.raises(ValueError, match="cannot be the one"):
        shapes.constrained("n1", "n1", nodes_of(5))


@pytest.mark.parametrize("count", [3, 5])
def test_nodes_are_healed_one_by_one(count):
    entry = SHAPES.entries(count, HOLD_NS, PROMISE)[-1]
    assert len({fault.hold_ns for fault in entry}) == len(entry) == count - 1
    state = healthy_cluster(nodes_of(count))
    for fault in entry:
        victims, params = partition.FAULT.resolve(fault, view_of(count), Rng(1))
        state = partition.FAULT.apply(state, victims, params)
    assert all(len(host.cuts) == count - 1 for host in state.values())


@pytest.mark.parametrize("nodes", [2, 3, 5])
def test_restarts_stop_each_node_once_and_then_storm(nodes):
    played, _ = steps(RESTARTS, nodes=nodes, limit_ns=600 * SECOND)
    rolling, storms = played[:nodes], played[nodes:]
    assert [(fault.kind, fault.victims) for (fault,) in rolling] == [
        ("stop", f"node:n{number}") for number in range(1, nodes + 1)
    ]
    assert [{fault.victims for fault in storm} for storm in storms] == [
        {victims} for victims in ("leader", "minority", "majority", "all") if nodes > 2 or victims != "minority"
    ]
    for storm in storms:
        assert [fault.kind for fault in storm] == ["restart"] * BLOWS
        assert [fault.delay_ns for fault in storm] == sorted({fault.delay_ns for fault in storm})
        assert storm[-1].delay_ns < HOLD_NS


def test_health_is_awaited_between_restarts_even_in_haste():
    assert part(RESTARTS, 0, nodes=3).health_bound_ns is None
    told = RESTARTS.informed(observable=frozenset(), operations=frozenset())
    hasty = told.draw(
        Rng(0), faults=FAULTS, nodes=3, time_limit_ns=60 * SECOND, interval_ns=SECOND // 10, promise=PROMISE
    )
    assert hasty.health_bound_ns is None


@given(st.integers(2, 500), st.integers(1, 50), st.one_of(st.none(), st.integers(1, 5000)))
def test_pauses_lie_below_and_above_each_wait_of_the_system(heartbeat_ms, times, step_down_ms):
    waits = {"heartbeat_ns": heartbeat_ms * MS, "election_timeout_ns": heartbeat_ms * times * MS}
    step_down_ns = None if step_down_ms is None else step_down_ms * MS
    of = msgspec.structs.replace(PROMISE, **waits, step_down_ns=step_down_ns)
    played = [fault for (fault,) in PAUSES.entries(3, HOLD_NS, of)]
    assert [fault.hold_ns for fault in played] == sorted(fault.hold_ns for fault in played)
    assert len(played) == len({(fault.victims, fault.hold_ns) for fault in played})
    for wait in (*waits.values(), step_down_ns):
        lengths = {fault.hold_ns for fault in played if fault.victims == "leader"}
        assert wait is None or any(wait * 4 // 5 <= length < wait for length in lengths) or wait < 2 * MS
        assert wait is None or any(wait < length <= wait * 6 // 5 for length in lengths)


@pytest.mark.parametrize(("variant", "outcome"), [(None, "pass"), ("01-vote-not-written", "fail")])
def test_a_build_that_forgets_its_vote_does_not_stand_a_storm_and_the_honest_one_does(variant, outcome):
    options = RunOptions(
        system="raft", backend="sim", nodes=3, strategy="restarts", time_limit_ns=60 * SECOND, variant=variant
    )
    run = rehearse(options, {"vote-is-durable": VOTE_IS_DURABLE}, seed=0)
    assert {fault.kind for fault in run.realised.faults} == {"restart", "stop"}
    assert [verdict.outcome for verdict in run.judgement.verdicts] == [outcome]


def test_other_kinds_of_faults_are_no_part_of_such_a_list():
    listed = RunOptions(system="raft", backend="sim", nodes=4, strategy="orbits")
    plan = draft(listed, seed=1).plan
    assert plan.schedule.kinds == ("partition",)
    assert not [asked for asked in plan.evidence if asked.startswith("window")]
    with pytest.raises(ConfigError, match="plays partition and no kill"):
        draft(msgspec.structs.replace(listed, faults=("partition", "kill")), seed=1)
    assert registry.load(registry.STRATEGIES, "orbits").kinds == {"partition"}
