from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.hoststate import healthy_cluster
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.quorum import minority
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import PlannedFault, Schedule
from dethrone.nemesis import selectors
from dethrone.nemesis.faults import clock, kill, partition, pause, restart, stop
from dethrone.nemesis.strategies.pacing import WARMUP_NS
from dethrone.nemesis.strategies.packing import pack, pack_most
from dethrone.nemesis.strategies.random import STRATEGY
from tests.nemesis.views import nodes_of, view_of

FAULTS = {module.FAULT.kind: module.FAULT for module in (clock, kill, partition, pause, restart, stop)}
OWED = {
    "partition": {"leader-cut-off", "leader-in-majority"},
    "kill": {"leader-killed", "follower-killed"},
    "pause": {"leader-paused", "follower-paused"},
    "clock": {"clock-stepped"},
    "restart": {"restarted"},
    "stop": set(),
}
PROMISE = Promise(
    system="t",
    profile="t",
    source="t",
    election_timeout_ns=SECOND * 3 // 10,
    heartbeat_ns=SECOND // 20,
    leader_bound_ns=SECOND * 32 // 10,
    later_gap_ns=SECOND * 32 // 10,
)
seeds = st.integers(0, 2**64 - 1)
some_kinds = st.sets(st.sampled_from(sorted(FAULTS)), min_size=1)


def draw(seed, *, kinds=("partition", "kill", "pause"), nodes=5, limit=60, interval=5, promise=PROMISE):
    return STRATEGY.draw(
        Rng(seed),
        faults={kind: FAULTS[kind] for kind in kinds},
        nodes=nodes,
        time_limit_ns=limit * SECOND,
        interval_ns=interval * SECOND,
        promise=promise,
    )


def carried_out(step, view, seed):
    """(fault, victims, state after it) of one step, one fault after the other as the nemesis does it."""
    out = []
    state = healthy_cluster(view.nodes)
    for number, fault in enumerate(step.faults):
        now = msgspec.structs.replace(view, state=state)
        resolved = FAULTS[fault.kind].resolve(fault, now, Rng(seed).stream(f"fault-{number}"))
        assert not isinstance(resolved, str), (resolved, fault)
        state = FAULTS[fault.kind].apply(state, *resolved)
        out.append((fault, resolved[0], state))
    return out


def shown(fault, victims, state, leader, nodes):
    """Obligations that this fault shows."""
    hit = leader in victims
    others = [victim for victim in victims if victim != leader]
    names = {"kill": "killed", "pause": "paused"}
    if fault.kind in names:
        return {f"{who}-{names[fault.kind]}" for who, yes in (("leader", hit), ("follower", others)) if yes}
    if fault.kind == "partition":
        view = view_of(nodes, leader=leader, state=state)
        return {"leader-in-majority" if selectors.reaches_quorum(leader, view) else "leader-cut-off"}
    if fault.kind == "clock":
        return {"clock-stepped"} if fault.params.get("offset_ns") else set()
    return {"restarted"} if fault.kind == "restart" else set()


@settings(max_examples=150, deadline=None)
@given(seeds, some_kinds, st.integers(1, 7), st.data())
def test_every_schedule_meets_its_obligations_in_any_view_with_a_leader(seed, kinds, nodes, data):
    kinds = kinds - {"partition"} if nodes == 1 else kinds
    limit = data.draw(st.sampled_from([16, 30, 60, 120]))
    if not kinds:
        return
    schedule = draw(seed, kinds=kinds, nodes=nodes, limit=limit)
    assert set(schedule.obligations) <= set().union(*(OWED[kind] for kind in kinds))
    leader = data.draw(st.sampled_from(nodes_of(nodes)))
    view = view_of(nodes, leader=leader)
    met = set()
    for step in schedule.steps:
        for fault, victims, state in carried_out(step, view, seed):
            met |= shown(fault, victims, state, leader, nodes)
    assert set(schedule.obligations) <= met


@pytest.mark.parametrize("nodes", [3, 4, 5, 7])
@pytest.mark.parametrize(
    "kinds", [("partition", "kill", "pause"), ("partition", "kill", "pause", "clock"), tuple(FAULTS)]
)
def test_all_obligations_fit_into_a_minute_at_five_seconds(nodes, kinds):
    expected = set().union(*(OWED[kind] for kind in kinds))
    for seed in range(60):
        assert set(draw(seed, kinds=kinds, nodes=nodes).obligations) == expected


@pytest.mark.parametrize("nodes", [3, 5])
def test_a_run_too_short_for_everything_shows_what_happens_to_the_leader(nodes):
    for seed in range(40):
        obligations = set(draw(seed, nodes=nodes, limit=90, interval=12).obligations)
        assert len(obligations & {"leader-cut-off", "leader-killed", "leader-paused"}) >= 2
        assert "leader-cut-off" in obligations or "leader-in-majority" not in obligations


@pytest.mark.parametrize("bound_s", [4, 9])
def test_a_leader_that_is_cut_off_is_left_alone_until_it_must_have_stepped_down(bound_s):
    promise = msgspec.structs.replace(PROMISE, step_down_ns=bound_s * SECOND)
    hit_besides = 0
    for seed in range(40):
        schedule = draw(seed, kinds=("partition", "restart", "kill"), nodes=3, limit=50, promise=promise)
        assert "leader-cut-off" in schedule.obligations
        owed = [step.faults for step in schedule.steps if step.faults[0].victims == "leader"]
        cuts = [faults for faults in owed if faults[0].kind == "partition"]
        assert max(cut.hold_ns for cut, *_ in cuts) > bound_s * SECOND
        for cut, *later in cuts:
            hit_besides += len(later)
            assert all(bound_s * SECOND < fault.delay_ns < cut.hold_ns for fault in later)
    assert hit_besides > 10


@pytest.mark.parametrize(("nodes", "missing"), [(1, {"follower-killed"}), (2, {"leader-in-majority"})])
def test_what_so_few_nodes_cannot_show_is_not_owed(nodes, missing):
    kinds = ("kill",) if nodes == 1 else ("partition", "kill")
    owed = set().union(*(OWED[kind] for kind in kinds))
    assert set(draw(3, kinds=kinds, nodes=nodes).obligations) == owed - missing


@pytest.mark.parametrize("nodes", [3, 4, 5, 7])
def test_a_leader_that_is_cut_off_is_left_alone_long_enough_to_step_down(nodes):
    for seed in range(100):
        for step in draw(seed, kinds=tuple(FAULTS), nodes=nodes, limit=40).steps:
            cut = [
                f
                for f in step.faults
                if f.kind == "partition" and "leader" in f.victims and f.params["shape"] != "bridge"
            ]
            others = [f for f in step.faults if f.kind not in {"partition", "clock"}]
            for fault in others if cut else ():
                assert fault.victims == "follower" or fault.delay_ns >= cut[0].hold_ns // 2


@settings(max_examples=150, deadline=None)
@given(seeds, some_kinds, st.integers(1, 7), st.data())
def test_no_step_takes_more_than_a_minority_out_by_signals(seed, kinds, nodes, data):
    kinds = kinds - {"partition"} if nodes == 1 else kinds
    if not kinds:
        return
    leader = data.draw(st.sampled_from(nodes_of(nodes)))
    for step in draw(seed, kinds=kinds, nodes=nodes, limit=200).steps:
        state = carried_out(step, view_of(nodes, leader=leader), seed)[-1][2]
        out = [host for host, wanted in state.items() if wanted.down or wanted.frozen]
        assert len(out) <= max(1, minority(nodes))


@settings(max_examples=100, deadline=None)
@given(seeds, some_kinds, st.integers(3, 7), st.integers(16, 600), st.integers(4, 20))
def test_steps_fit_into_the_time_limit_and_hold_at_least_the_interval(seed, kinds, nodes, limit, interval):
    try:
        schedule = draw(seed, kinds=kinds, nodes=nodes, limit=limit, interval=interval)
    except ConfigError:
        assert limit * SECOND < WARMUP_NS + 2 * interval * SECOND + max(interval * SECOND // 5, SECOND * 8 // 10)
        return
    total = WARMUP_NS
    for step in schedule.steps:
        longest = max(fault.delay_ns + fault.hold_ns for fault in step.faults)
        held = [fault for fault in step.faults if fault.kind != "restart"]
        assert all(interval * SECOND <= f.delay_ns + f.hold_ns <= interval * SECOND * 8 // 5 for f in held)
        assert interval * SECOND <= step.gap_ns <= interval * SECOND * 8 // 5
        total += longest + step.gap_ns
        for fault in step.faults:
            FAULTS[fault.kind].check(fault, nodes=nodes)
    assert schedule.steps
    assert total <= limit * SECOND


@given(seeds)
def test_an_interval_below_the_bound_is_haste_without_waiting_for_health(seed):
    schedule = draw(seed, limit=60, interval=2)
    assert schedule.health_bound_ns == 0
    assert draw(seed).health_bound_ns is None
    periods = [step.gap_ns + max(f.delay_ns + f.hold_ns for f in step.faults) for step in schedule.steps]
    assert all(period <= 2 * SECOND * 4 // 3 for period in periods)
    assert len(schedule.steps) > 20


@given(seeds)
def test_the_same_seed_gives_the_same_schedule_and_other_seeds_others(seed):
    assert draw(seed) == draw(seed)
    others = [draw(seed ^ number).steps for number in range(1, 8)]
    assert any(steps != draw(seed).steps for steps in others)  # two of them may be alike: few faults fit in a short run


def test_a_schedule_survives_json():
    schedule = draw(11, kinds=tuple(FAULTS), limit=120)
    assert msgspec.json.decode(msgspec.json.encode(schedule), type=Schedule) == schedule


def test_steps_overlap_faults_now_and_then():
    sizes = {len(step.faults) for seed in range(20) for step in draw(seed, limit=200).steps}
    assert {1, 2} <= sizes


def test_a_time_limit_shorter_than_one_fault_is_told_with_what_would_do():
    with pytest.raises(ConfigError) as error:
        draw(1, limit=10)
    assert "shorter than one fault" in str(error.value)
    assert "--time-limit 16s" in str(error.value)
    assert draw(1, limit=16).steps


def test_an_interval_of_nothing_and_a_partition_of_one_node_are_refused():
    with pytest.raises(ConfigError, match="above 0"):
        draw(1, interval=0)
    with pytest.raises(ConfigError, match="at least 2 nodes"):
        draw(1, nodes=1)


@given(seed=seeds, kinds=some_kinds, nodes=st.integers(2, 7))
@settings(max_examples=50, deadline=None)
def test_where_nobody_leads_the_same_faults_hit_anybody_and_no_obligation_speaks_of_a_leader(seed, kinds, nodes):
    led = draw(seed, kinds=kinds, nodes=nodes)
    made = draw(seed, kinds=kinds, nodes=nodes, promise=msgspec.structs.replace(PROMISE, leaderless=True))
    assert set(made.obligations) <= {"minority-cut", "clock-stepped", "restarted"}
    assert ("minority-cut" in made.obligations) is bool(OWED["partition"] & set(led.obligations))
    for before, step in zip(led.steps, made.steps, strict=True):
        assert (before.gap_ns, len(before.faults)) == (step.gap_ns, len(step.faults))
        for old, new in zip(before.faults, step.faults, strict=True):
            assert msgspec.structs.replace(new, victims=old.victims) == old
            assert selectors.check(new.victims, nodes=nodes).kind in {"random", "majority", "all", "cut-off"}
            FAULTS[new.kind].check(new, nodes=nodes)


@given(seed=seeds)
@settings(max_examples=25, deadline=None)
def test_where_nobody_leads_every_fault_finds_its_victims_and_a_quorum_is_left(seed):
    view = view_of(5, leader=None)
    made = draw(seed, promise=msgspec.structs.replace(PROMISE, leaderless=True))
    for step in made.steps:
        ended = set()
        for fault, victims, _ in carried_out(step, view, seed):
            assert not isinstance(victims, str), victims
            ended |= set(victims) if fault.kind in {"kill", "pause"} else set()
        assert len(ended) <= minority(5)


def test_no_kinds_give_no_steps():
    assert draw(1, kinds=()).steps == ()


class Foreign:
    """A plug-in's fault: nothing is known about what it leaves standing."""

    kind = "flood"

    def draw(self, rng, *, nodes, hold_ns, knobs):
        return PlannedFault(kind=self.kind, victims="all", hold_ns=hold_ns)


def test_a_plug_ins_fault_is_drawn_and_never_overlaps_others():
    faults = {"flood": Foreign(), "kill": kill.FAULT, "clock": clock.FAULT}
    seen = 0
    for seed in range(30):
        schedule = STRATEGY.draw(
            Rng(seed), faults=faults, nodes=5, time_limit_ns=120 * SECOND, interval_ns=5 * SECOND, promise=PROMISE
        )
        for step in schedule.steps:
            kinds = {fault.kind for fault in step.faults}
            seen += "flood" in kinds
            assert not {"flood", "kill"} <= kinds
    assert seen >= 30


def test_packing_finds_groups_where_there_are_some_and_gives_up_where_there_are_none():
    def apart(group):
        return len({item % 2 for item in group}) == len(group)  # one even, one odd at most

    assert pack([1, 3, 2, 4], 2, apart) == [[1, 2], [3, 4]]
    assert pack([1, 3, 5], 2, apart) is None
    assert pack_most([1, 3, 5, 2], 2, apart) == ([[1, 2], [3]], [1, 3, 2])
    assert pack_most([], 2, apart) == ([], [])
