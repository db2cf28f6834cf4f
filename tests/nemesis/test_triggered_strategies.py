"""Strategies with triggers: valid schedules whose first steps show what was asked for, and their twin without."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_random_strategy import FAULTS, OWED, PROMISE, shown
from views import nodes_of, view_of

from harness.core import registry
from harness.core.clock import SECOND, Span
from harness.core.errors import ConfigError
from harness.core.hoststate import healthy_cluster
from harness.core.protocols import Occurrence
from harness.core.quorum import minority
from harness.core.rng import Rng
from harness.core.schedule import AfterFault, OnEvent, Schedule
from nemesis.strategies import mixed, triggered, twin
from nemesis.strategies import random as plain
from nemesis.strategies.pacing import WARMUP_NS
from nemesis.triggers import BUILT_IN

SIMULATED = {name: registry.load(registry.FAULTS, name) for name in ("powerloss", "link", "hold", "disk", "damage")}
STRATEGIES = {"triggered": triggered.STRATEGY, "mixed": mixed.STRATEGY, "random-twin": twin.STRATEGY}
PRE_VOTING = msgspec.structs.replace(PROMISE, pre_vote=True)
seeds = st.integers(0, 2**64 - 1)
kinds_of = st.sets(st.sampled_from(sorted(FAULTS)), min_size=1)


def draw(seed, *, strategy="triggered", kinds=("partition", "kill", "pause", "restart"), nodes=5, limit=60, interval=2):
    chosen = STRATEGIES[strategy] if isinstance(strategy, str) else strategy
    return chosen.draw(
        Rng(seed),
        faults={kind: FAULTS[kind] for kind in kinds},
        nodes=nodes,
        time_limit_ns=limit * SECOND,
        interval_ns=interval * SECOND,
        promise=PRE_VOTING,
    )


def faults_of(schedule):
    return [fault for step in schedule.steps for fault in step.faults]


def occurrence(trigger, view, rng):
    """Something that could have triggered it, in a cluster of that view."""
    actor = view.leader if trigger.event in twin.LEADS else rng.choice(view.nodes)
    other = rng.choice([node for node in view.nodes if node != actor])
    roles = {role: ((other,) if role == "candidate" else (actor,)) for role in BUILT_IN[trigger.event].roles()}
    if trigger.event == "elected":
        roles["voter"] = (other,)
    return Occurrence(event=trigger.event, span=Span(0, 0), key=(0,), roles={**roles, "actor": (actor,)})


def carried_out(step, view, seed):
    """(fault, victims, state after it), each fault with an occurrence of what it waits for. Ends count as never."""
    out, hit, rng = [], {}, Rng(seed)
    state = healthy_cluster(view.nodes)
    for number, fault in enumerate(step.faults):
        seen = occurrence(fault.when, view, rng) if isinstance(fault.when, OnEvent) else None
        now = msgspec.structs.replace(view, state=state, occurrence=seen, hit=hit)
        resolved = FAULTS[fault.kind].resolve(fault, now, rng.stream(str(number)))
        if isinstance(resolved, str):
            out.append((fault, (), state, resolved))
            continue
        state = FAULTS[fault.kind].apply(state, *resolved)
        hit = {**hit, fault.name: resolved[0]}
        out.append((fault, resolved[0], state, ""))
    return out


@settings(max_examples=200, deadline=None)
@given(seeds, st.sampled_from(sorted(STRATEGIES)), kinds_of, st.integers(2, 7), st.data())
def test_every_schedule_is_valid_and_meets_its_obligations(seed, strategy, kinds, nodes, data):
    limit, interval = data.draw(st.sampled_from([16, 30, 60])), data.draw(st.integers(2, 5))
    schedule = draw(seed, strategy=strategy, kinds=kinds, nodes=nodes, limit=limit, interval=interval)
    leader = data.draw(st.sampled_from(nodes_of(nodes)))
    view, met = view_of(nodes, leader=leader), set()
    for fault in faults_of(schedule):
        FAULTS[fault.kind].check(fault, nodes=nodes)
        for trigger in fault.triggers:
            BUILT_IN[trigger.event].check(trigger, nodes=nodes)
    for step in schedule.steps:
        for fault, victims, state, why in carried_out(step, view, seed):
            if not why and not isinstance(fault.when, OnEvent):
                met |= shown(fault, victims, state, leader, nodes)
            assert not why or isinstance(fault.when, OnEvent) or strategy == "random-twin" or "nobody" in why, why
    assert set(schedule.obligations) <= met or strategy == "random-twin"
    assert set(schedule.obligations) <= set().union(*(OWED[kind] for kind in kinds))


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
@pytest.mark.parametrize("nodes", [3, 5])
def test_all_obligations_fit_into_a_minute_of_haste(strategy, nodes):
    kinds = ("partition", "kill", "pause", "restart", "clock")
    expected = set().union(*(OWED[kind] for kind in kinds))
    for seed in range(40):
        assert set(draw(seed, strategy=strategy, kinds=kinds, nodes=nodes).obligations) == expected


def test_the_interval_governs_how_many_faults_a_minute_has():
    for interval in (1, 2):
        counts = [len(faults_of(draw(seed, interval=interval))) for seed in range(60)]
        assert 55 / interval * 0.75 <= sum(counts) / len(counts) <= 55 / interval * 1.5


@given(seeds)
def test_a_step_in_haste_lasts_no_longer_than_its_faults_ask_for(seed):
    schedule = draw(seed)
    assert schedule.health_bound_ns == 0
    for step in schedule.steps:
        held = max(fault.delay_ns + fault.hold_ns for fault in step.faults)
        assert held + step.gap_ns <= len(step.faults) * 2 * SECOND * 4 // 3 + PRE_VOTING.election_timeout_ns
        assert all(trigger.within_ns <= len(step.faults) * 2 * SECOND + SECOND for trigger in step.triggers)


@given(seeds)
def test_the_same_seed_gives_the_same_schedule_and_another_seed_another(seed):
    assert draw(seed) == draw(seed)
    assert draw(seed).steps != draw(seed ^ 1).steps


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_a_schedule_survives_json(strategy):
    schedule = draw(7, strategy=strategy)
    assert schedule.strategy == strategy
    assert msgspec.json.decode(msgspec.json.encode(schedule), type=Schedule) == schedule


@given(seeds, st.sampled_from([3, 5]))
def test_the_twin_has_the_same_faults_and_no_trigger(seed, nodes):
    drawn, other = draw(seed, nodes=nodes), draw(seed, strategy="random-twin", nodes=nodes)
    assert Counter(f.kind for f in faults_of(other)) == Counter(f.kind for f in faults_of(drawn))
    assert [step.gap_ns for step in other.steps] == [step.gap_ns for step in drawn.steps]
    assert not list(other.triggers)
    for mine, theirs in zip(faults_of(other), faults_of(drawn), strict=True):
        if not theirs.triggers:
            assert mine == theirs
        if isinstance(theirs.when, OnEvent):
            assert 0 <= mine.delay_ns <= theirs.when.within_ns
        assert not isinstance(mine.when, AfterFault)


def test_the_twins_times_are_uniform():
    early = late = 0
    for seed in range(150):
        for mine, theirs in zip(faults_of(draw(seed, strategy="random-twin")), faults_of(draw(seed)), strict=True):
            if isinstance(theirs.when, OnEvent):
                early += mine.delay_ns * 2 < theirs.when.within_ns
                late += mine.delay_ns * 2 >= theirs.when.within_ns
    assert 0.45 < early / (early + late) < 0.55


def test_the_twin_of_a_schedule_without_triggers_is_that_schedule():
    schedule = plain.STRATEGY.draw(
        Rng(3), faults=FAULTS, nodes=5, time_limit_ns=60 * SECOND, interval_ns=2 * SECOND, promise=PROMISE
    )
    assert twin.twin(schedule, Rng(1)).steps == schedule.steps


def test_nearly_every_step_of_triggered_has_a_trigger_and_about_half_of_mixed():
    steps = [step for seed in range(30) for step in draw(seed).steps]
    assert sum(bool(step.triggers) for step in steps) > len(steps) * 0.9  # the last may have no room
    some = [step for seed in range(60) for step in draw(seed, strategy="mixed").steps]
    assert 0.4 < sum(bool(step.triggers) for step in some) / len(some) < 0.6


def test_every_row_whose_faults_and_events_are_there_is_drawn():
    events = {trigger.event for seed in range(40) for trigger in draw(seed).triggers}
    assert events == {
        "vote-granted",
        "elected",
        "campaign-sent",
        "write-acked",
        "appended",
        "committed",
        "healed",
        "stepped-down",
        "pre-voting",
    }


def test_changes_of_the_configuration_trigger_where_the_workload_makes_them():
    changing = triggered.STRATEGY.informed(
        observable=frozenset({"traced"}), operations=frozenset({"append", "reconfigure"})
    )
    events = {trigger.event for seed in range(40) for trigger in draw(seed, strategy=changing).triggers}
    assert "configuration-appended" in events


def test_a_system_without_traces_gets_only_triggers_that_polls_and_clients_show():
    blind = triggered.STRATEGY.informed(observable=frozenset({"observed", "ops"}), operations=frozenset({"put"}))
    events = {trigger.event for seed in range(40) for trigger in draw(seed, strategy=blind).triggers}
    assert events == {"elected", "write-acked", "healed"}
    idle = triggered.STRATEGY.informed(observable=frozenset({"observed"}), operations=frozenset())
    events = {trigger.event for seed in range(40) for trigger in draw(seed, strategy=idle).triggers}
    assert events == {"elected", "healed"}


@settings(deadline=None)
@given(seeds, st.integers(3, 7), st.data())
def test_what_is_held_down_together_is_no_more_than_a_minority(seed, nodes, data):
    leader = data.draw(st.sampled_from(nodes_of(nodes)))
    for step in draw(seed, nodes=nodes).steps:
        held = [fault for fault in step.faults if fault.hold_ns and fault.kind in {"kill", "pause"}]
        if any(fault.until is not None for fault in held) or any(
            trigger.event == "healed" for trigger in step.triggers
        ):
            continue  # the first ends as the second begins
        done = carried_out(step, view_of(nodes, leader=leader), seed)
        out = {node for fault, victims, _, _ in done if fault in held for node in victims}
        assert len(out) <= max(1, minority(nodes))


@given(seeds, st.sampled_from(["triggered", "random-twin"]), st.sampled_from([3, 5]))
def test_faults_of_simulated_hosts_are_drawn_with_all_that_they_need(seed, strategy, nodes):
    kinds = {**{kind: FAULTS[kind] for kind in ("kill", "partition")}, **SIMULATED}
    schedule = STRATEGIES[strategy].draw(
        Rng(seed), faults=kinds, nodes=nodes, time_limit_ns=60 * SECOND, interval_ns=2 * SECOND, promise=PRE_VOTING
    )
    for fault in faults_of(schedule):
        kinds[fault.kind].check(fault, nodes=nodes)


def test_one_node_gets_a_schedule_without_triggers_and_no_kinds_no_steps():
    assert not list(draw(1, kinds=("kill", "restart"), nodes=1).triggers)
    assert draw(1, kinds=()).steps == ()


def test_a_time_limit_shorter_than_one_fault_is_told():
    with pytest.raises(ConfigError, match="shorter than one fault"):
        draw(1, limit=5)
    assert draw(1, limit=WARMUP_NS // SECOND + 3).steps
