"""Strategies with triggers: valid schedules whose first steps show what was asked for, and their twins without."""

from __future__ import annotations

import itertools
from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dethrone.harness.core import registry
from dethrone.harness.core.clock import SECOND, Span
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.hoststate import healthy_cluster
from dethrone.harness.core.interfaces import Occurrence
from dethrone.harness.core.quorum import minority
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import AfterFault, OnEvent, PlannedFault, Schedule, Step
from dethrone.nemesis.strategies import mixed, triggered
from dethrone.nemesis.strategies import random as plain
from dethrone.nemesis.strategies.durations import log_between
from dethrone.nemesis.strategies.openings import company, fall, opening
from dethrone.nemesis.strategies.pacing import WARMUP_NS
from dethrone.nemesis.strategies.series import Series
from tests.nemesis.test_random_strategy import FAULTS, OWED, PROMISE, shown
from tests.nemesis.views import nodes_of, view_of
from tests.twins.plugin import twin

CONDITIONS = registry.load_all(registry.TRIGGERS)

SIMULATED = {name: registry.load(registry.FAULTS, name) for name in ("powerloss", "link", "hold", "disk", "damage")}
STRATEGIES = {
    "triggered": triggered.STRATEGY,
    "mixed": mixed.STRATEGY,
    "random-twin": twin.STRATEGY,
    "step-twin": twin.KEEPS_STEPS,
}
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
    roles = {role: ((other,) if role == "candidate" else (actor,)) for role in CONDITIONS[trigger.event].roles()}
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
            CONDITIONS[trigger.event].check(trigger, nodes=nodes)
    for step in schedule.steps:
        for fault, victims, state, why in carried_out(step, view, seed):
            if not why and not isinstance(fault.when, OnEvent):
                met |= shown(fault, victims, state, leader, nodes)
            waits = isinstance(fault.when, OnEvent | AfterFault)
            assert not why or waits or "twin" in strategy or "no node was spared" in why, why
    assert set(schedule.obligations) <= met or "twin" in strategy
    assert set(schedule.obligations) <= set().union(*(OWED[kind] for kind in kinds))


@pytest.mark.parametrize("strategy", sorted(set(STRATEGIES) - {"random-twin"}))  # it leaves that to chance
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


@settings(deadline=None)
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


@settings(deadline=None)
@given(seeds, st.sampled_from([3, 5]))
def test_the_step_twin_has_the_same_faults_in_the_same_steps_and_no_trigger(seed, nodes):
    drawn, other = draw(seed, nodes=nodes), draw(seed, strategy="step-twin", nodes=nodes)
    assert Counter(f.kind for f in faults_of(other)) == Counter(f.kind for f in faults_of(drawn))
    assert [step.gap_ns for step in other.steps] == [step.gap_ns for step in drawn.steps]
    assert not list(other.triggers)
    for mine, theirs in zip(faults_of(other), faults_of(drawn), strict=True):
        if not theirs.triggers and not isinstance(theirs.when, AfterFault):
            assert mine == theirs
        if isinstance(theirs.when, OnEvent):
            assert 0 <= mine.delay_ns <= theirs.when.within_ns
        assert not isinstance(mine.when, AfterFault)


@settings(deadline=None)
@given(seeds, st.sampled_from([3, 5]), st.sampled_from([2 * SECOND, 20 * SECOND]))
def test_the_twin_has_the_same_faults_at_times_of_the_same_run_and_waits_for_nothing(seed, nodes, interval_ns):
    def drawn_by(strategy):
        return STRATEGIES[strategy].draw(
            Rng(seed),
            faults=FAULTS,
            nodes=nodes,
            time_limit_ns=90 * SECOND,
            interval_ns=interval_ns,
            promise=PRE_VOTING,
        )

    drawn, other = drawn_by("triggered"), drawn_by("random-twin")
    assert Counter(f.kind for f in faults_of(other)) == Counter(f.kind for f in faults_of(drawn))
    assert not list(other.triggers)
    assert sum(f.hold_ns for f in faults_of(other)) <= sum(f.hold_ns for f in faults_of(drawn))
    kept = sorted(f.hold_ns for f in faults_of(drawn) if f.until is None)
    assert not Counter(kept) - Counter(f.hold_ns for f in faults_of(other))
    for fault in faults_of(other):
        assert not has_to_wait(Step(faults=(fault,), gap_ns=0))
        assert fault.delay_ns + fault.hold_ns <= 85 * SECOND
        FAULTS[fault.kind].check(fault, nodes=nodes)


def test_the_step_twins_times_are_uniform():
    early = late = 0
    for seed in range(150):
        for mine, theirs in zip(faults_of(draw(seed, strategy="step-twin")), faults_of(draw(seed)), strict=True):
            if isinstance(theirs.when, OnEvent):
                early += mine.delay_ns * 2 < theirs.when.within_ns
                late += mine.delay_ns * 2 >= theirs.when.within_ns
    assert 0.45 < early / (early + late) < 0.55


def test_the_twins_times_are_uniform_over_the_run():
    room, quarters = 55 * SECOND, [0, 0, 0, 0]
    for seed in range(60):
        for fault in faults_of(draw(seed, strategy="random-twin")):
            quarters[min(3, 4 * fault.delay_ns // (room - fault.hold_ns))] += 1
    assert all(0.22 < count / sum(quarters) < 0.28 for count in quarters), quarters


def test_the_twin_hits_as_many_and_leaves_lasting_damage_for_the_end():
    base = PlannedFault(kind="kill", victims="leader", hold_ns=SECOND, name="base")
    event = OnEvent(event="write-acked", within_ns=SECOND, after="base")
    others = PlannedFault(kind="pause", victims="spared-by:base", hold_ns=SECOND, when=AfterFault(fault="base"))
    again = PlannedFault(kind="pause", victims="hit-by:base", hold_ns=SECOND, when=AfterFault(fault="base"))
    acked = PlannedFault(kind="restart", victims="actor", hold_ns=0, when=event)
    peers = PlannedFault(kind="restart", victims="peers", hold_ns=0, when=event)
    last = Step(faults=(PlannedFault(kind="wipe", victims="random", hold_ns=0),), gap_ns=SECOND)
    schedule = Schedule(
        seed=1, strategy="triggered", steps=(Step(faults=(base, others, again, acked, peers), gap_ns=0), last)
    )
    made = twin.scattered(schedule, Rng(1), nodes=5, span_ns=60 * SECOND, final=True)
    assert len(made.steps) == 2
    assert made.steps[-1] == last
    assert Counter(f.victims for f in made.steps[0].faults) == {"leader": 3, "random:4": 2}


def test_the_step_twin_of_a_schedule_without_triggers_is_that_schedule():
    schedule = plain.STRATEGY.draw(
        Rng(3), faults=FAULTS, nodes=5, time_limit_ns=60 * SECOND, interval_ns=2 * SECOND, promise=PROMISE
    )
    assert twin.twin(schedule, Rng(1), nodes=5).steps == schedule.steps


def has_to_wait(step):
    return bool(step.triggers) or any(isinstance(fault.when, AfterFault) for fault in step.faults)


def test_nearly_every_step_of_triggered_waits_for_something_and_about_half_of_mixed():
    steps = [step for seed in range(30) for step in draw(seed).steps]
    assert sum(has_to_wait(step) for step in steps) > len(steps) * 0.9  # the last may have no room
    some = [step for seed in range(60) for step in draw(seed, strategy="mixed").steps]
    assert 0.4 < sum(has_to_wait(step) for step in some) / len(some) < 0.6


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
        "pre-vote-granted",
        "fault-begun",
    }


def test_changes_of_the_configuration_trigger_where_the_workload_makes_them():
    changing = triggered.STRATEGY.informed(
        observable=frozenset({"traced"}), operations=frozenset({"append", "reconfigure"})
    )
    events = {trigger.event for seed in range(40) for trigger in draw(seed, strategy=changing).triggers}
    assert "configuration-appended" in events


def test_nodes_that_do_not_vote_are_hit_beside_what_else_is_drawn():
    known = {"observable": None, "operations": frozenset({"append", "read"})}
    aware = triggered.STRATEGY.informed(**known, outsiders=1)
    hit = 0
    for seed in range(40):
        plain, more = draw(seed), draw(seed, strategy=aware)
        assert len(plain.steps) == len(more.steps)
        for before, after in zip(plain.steps, more.steps, strict=True):
            assert after.faults[: len(before.faults)] == before.faults
            extra = after.faults[len(before.faults) :]
            assert {fault.victims for fault in extra} <= {"outsider"}
            longest = max(fault.hold_ns for fault in before.faults)
            assert all(fault.delay_ns + fault.hold_ns <= longest + 1 for fault in extra)
            hit += len(extra)
    assert hit > 40
    assert draw(3, strategy=triggered.STRATEGY.informed(**known, outsiders=0)) == draw(3)


def test_a_system_without_traces_gets_only_triggers_that_polls_and_clients_show():
    blind = triggered.STRATEGY.informed(observable=frozenset({"observed", "ops"}), operations=frozenset({"put"}))
    events = {trigger.event for seed in range(40) for trigger in draw(seed, strategy=blind).triggers}
    assert events == {"elected", "write-acked", "healed", "fault-begun"}
    idle = triggered.STRATEGY.informed(observable=frozenset({"observed"}), operations=frozenset())
    events = {trigger.event for seed in range(40) for trigger in draw(seed, strategy=idle).triggers}
    assert events == {"elected", "healed", "fault-begun"}


@settings(deadline=None)
@given(seeds, st.integers(3, 7), st.data())
def test_what_is_held_down_together_is_no_more_than_a_minority(seed, nodes, data):
    leader = data.draw(st.sampled_from(nodes_of(nodes)))
    for step in draw(seed, nodes=nodes).steps:
        held = [fault for fault in step.faults if fault.hold_ns and fault.kind in {"kill", "pause"}]
        if any(fault.until is not None for fault in step.faults) or any(
            trigger.event == "healed" for trigger in step.triggers
        ):
            continue  # the first ends as the second begins
        if len({fault.kind for fault in step.faults}) == 1 and isinstance(step.faults[-1].when, AfterFault):
            continue  # one after another
        done = carried_out(step, view_of(nodes, leader=leader), seed)
        out = {node for fault, victims, _, _ in done if fault in held for node in victims}
        assert len(out) <= max(1, minority(nodes))


@given(seeds, st.sampled_from(["triggered", "random-twin", "step-twin"]), st.sampled_from([3, 5]))
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


def test_a_flutter_is_the_same_brief_fault_again_and_again_each_after_the_one_before():
    series = Series(kinds=FAULTS, nodes=3, promise=PRE_VOTING, events={"elected"})
    for seed in range(200):
        faults = series.flutter(Rng(seed), hold_ns=4 * SECOND, name="base")
        assert len({fault.kind for fault in faults}) == 1
        assert faults[0].name == "base"
        for before, fault in itertools.pairwise(faults):
            assert fault.delay_ns >= before.delay_ns + before.hold_ns + PRE_VOTING.heartbeat_ns
            assert fault.hold_ns <= 2 * PRE_VOTING.election_timeout_ns
        Step(faults=tuple(faults), gap_ns=0)


def test_in_a_relay_whoever_was_hit_returns_as_the_next_one_falls():
    series = Series(
        kinds=FAULTS, nodes=3, promise=PRE_VOTING, events={"elected", "committed", "vote-granted", "write-acked"}
    )
    for seed in range(200):
        faults = series.relay(Rng(seed), hold_ns=4 * SECOND, name="base")
        assert 3 <= len(faults) <= 5
        lasting = [fault for fault in faults if fault.hold_ns]
        assert lasting[-1] is faults[-1]
        assert faults[-1].until is None
        for fault in lasting[:-1]:
            following = faults[-1] if len(lasting) == 2 else faults[faults.index(fault) + 1]
            assert fault.until is not None
            assert fault.until.where == {"fault": following.name}
        Step(faults=tuple(faults), gap_ns=0)


def test_a_system_whose_leaders_cannot_be_seen_has_no_relay():
    assert Series(kinds=FAULTS, nodes=3, promise=PROMISE, events=set()).relay(Rng(1), hold_ns=SECOND, name="x") == []


def test_what_does_not_heal_and_is_not_borne_comes_last_and_hits_the_file_that_the_promise_names():
    bears = msgspec.structs.replace(PRE_VOTING, tolerates={"kill": None, "damage:vote": None})
    kinds = {"kill": FAULTS["kill"], "damage": SIMULATED["damage"]}
    for seed in range(40):
        schedule = triggered.STRATEGY.draw(
            Rng(seed), faults=kinds, nodes=3, time_limit_ns=60 * SECOND, interval_ns=2 * SECOND, promise=bears
        )
        damages = [n for n, step in enumerate(schedule.steps) for fault in step.faults if fault.kind == "damage"]
        assert damages == [len(schedule.steps) - 1]
        assert schedule.steps[-1].faults[0].params["path"] == "vote"


@given(seeds, st.integers(1, 10**6), st.integers(0, 10**10))
def test_a_time_by_order_of_magnitude_stays_in_its_range(seed, lo, more):
    assert lo <= log_between(Rng(seed), lo, lo + more) <= lo + more


def test_each_doubling_is_about_as_likely():
    draws = [log_between(Rng(seed), 1, 1023).bit_length() for seed in range(5000)]
    assert all(400 <= draws.count(length) <= 600 for length in range(1, 11))


def test_what_comes_upon_a_node_in_trouble_waits_for_that_trouble_and_ends_within_the_step():
    base = msgspec.structs.replace(faults_of(draw(1))[0], name="base", kind="partition", victims="leader")
    kinds = {**FAULTS, **SIMULATED}
    drawn = [
        company(Rng(seed), base, kinds=kinds, nodes=3, hold_ns=3 * SECOND, promise=PRE_VOTING) for seed in range(200)
    ]
    assert {fault.kind for fault in drawn} == {"clock", "disk", "pause", "link"}
    assert all(
        fault.when == AfterFault(fault="base") and fault.delay_ns + fault.hold_ns <= 3 * SECOND for fault in drawn
    )
    gone = msgspec.structs.replace(base, kind="kill")
    assert {
        company(Rng(seed), gone, kinds=kinds, nodes=3, hold_ns=SECOND, promise=PRE_VOTING).kind for seed in range(40)
    } == {"clock"}


def test_the_leader_falls_after_somebody_else_is_half_broken_and_stays_out_to_the_end():
    base = msgspec.structs.replace(faults_of(draw(1))[0], name="base")
    for seed in range(100):
        lost = fall(Rng(seed), base, kinds={**FAULTS, **SIMULATED}, nodes=5, hold_ns=4 * SECOND, promise=PRE_VOTING)
        assert lost.victims == "leader"
        assert lost.when == AfterFault(fault="base")
        assert lost.delay_ns + lost.hold_ns == 4 * SECOND
        assert lost.hold_ns >= 3 * SECOND
    assert fall(Rng(1), base, kinds={"clock": FAULTS["clock"]}, nodes=5, hold_ns=SECOND, promise=PRE_VOTING) is None


def test_openings_leave_something_working_and_fit_the_cluster():
    kinds = {**FAULTS, **SIMULATED}
    for nodes in (3, 4, 5):
        drawn = [opening(Rng(s), kinds=kinds, nodes=nodes, hold_ns=SECOND, promise=PRE_VOTING) for s in range(200)]
        for fault in drawn:
            kinds[fault.kind].check(fault, nodes=nodes)
            assert fault.params.get("shape") not in {"isolate", "halves"}
        assert {fault.kind for fault in drawn} == {"partition", "disk", "link"}
        assert {"leader", "follower"} <= {fault.victims for fault in drawn}
    assert opening(Rng(1), kinds={"kill": FAULTS["kill"]}, nodes=3, hold_ns=1, promise=PRE_VOTING) is None


def test_lines_that_a_system_names_are_waited_for_and_no_others():
    known = {"observable": frozenset({"observed", "logged:leads", "logged:"}), "operations": frozenset()}
    speaking = triggered.STRATEGY.informed(**known)
    waited = [
        (trigger.event, trigger.where.get("pattern"))
        for seed in range(12)
        for trigger in draw(seed, strategy=speaking).triggers
    ]
    assert ("logged", "leads") in waited
    assert {pattern for event, pattern in waited if event == "logged"} == {"leads"}
    for trigger in draw(3, strategy=speaking).triggers:
        registry.load(registry.TRIGGERS, trigger.event).check(trigger, nodes=5)
