from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dethrone.harness.core import registry
from dethrone.harness.core.events import Return
from dethrone.harness.core.hoststate import healthy_cluster
from dethrone.harness.core.interfaces import ClusterView, OpPlan
from dethrone.harness.core.rng import Rng
from dethrone.workloads import agreement

NODES = ("n1", "n2", "n3")
VIEW = ClusterView(nodes=NODES, leader=None, roles={}, terms={}, state=healthy_cluster(NODES))
seeds = st.integers(0, 2**64 - 1)


def main(seed=1, processes=3):
    return agreement.WORKLOAD.main(Rng(seed), nodes=NODES, processes=processes, rate_per_s=20)


STEP = 50_000_000


def drawn(generator, count, processes=3, first=0, since=0):
    """What the processes are told in turn, every 50 ms, but for waits."""
    plans = (generator.next(first + number % processes, (since + number) * STEP, VIEW) for number in range(count))
    return [plan for plan in plans if isinstance(plan, OpPlan)]


def result(status="ok", value=None):
    return Return(seq=0, t=0, op=0, status=status, value=value)


def test_it_is_registered_and_says_what_it_needs():
    assert registry.load(registry.WORKLOADS, "agreement") is agreement.WORKLOAD
    assert agreement.WORKLOAD.needs() == {"propose", "learn"}
    assert (agreement.WORKLOAD.processes(5), agreement.WORKLOAD.processes(1)) == (5, 3)
    assert agreement.WORKLOAD.rate_per_s() == 20


@given(seeds)
def test_no_value_is_proposed_twice_and_every_operation_is_well_formed(seed):
    ops = drawn(main(seed), 300)
    values = [op.value[1] for op in ops if op.f == "propose"]
    assert len(set(values)) == len(values)
    newest = 0
    for op in ops:
        assert op.target in NODES
        if op.f == "propose":
            assert op.value[0] >= 1
            newest = max(newest, op.value[0])
        else:
            assert op.f == "learn"
            assert 1 <= op.value <= newest


@given(seeds)
def test_instances_are_contended_through_different_nodes(seed):
    through: dict[int, set[str]] = {}
    for op in drawn(main(seed), 300):
        if op.f == "propose":
            through.setdefault(op.value[0], set()).add(op.target)
    assert set(through) == set(range(1, max(through) + 1))
    assert sum(len(nodes) > 1 for nodes in through.values()) > len(through) // 3
    assert sum(len(nodes) == 3 for nodes in through.values()) > len(through) // 10


@given(seeds)
def test_who_waits_for_a_beat_proposes_for_one_instance_with_the_others(seed):
    generator = main(seed)
    waits: dict[int, int] = {}
    together: dict[int, list[OpPlan]] = {}
    for number in range(400):
        process, now = number % 3, number * STEP
        plan = generator.next(process, now, VIEW)
        if isinstance(plan, OpPlan):
            if process in waits:
                assert now >= waits[process]
                together.setdefault(waits.pop(process), []).append(plan)
            continue
        assert now < plan <= now + agreement.BEAT_NS
        waits[process] = plan
    assert together
    for plans in together.values():
        assert {plan.f for plan in plans} == {"propose"}
        assert len({plan.target for plan in plans}) == len(plans)
    opened = [plans[0].value[0] for plans in together.values()]
    assert opened == sorted(set(opened))
    assert any(plans[1].value[0] == plans[0].value[0] for plans in together.values() if len(plans) > 1)


def test_a_process_that_was_held_up_skips_to_the_others():
    generator = main()
    drawn(generator, 400, processes=2)
    before = generator._newest
    late = [op.value[0] for op in drawn(generator, 100, processes=1, first=2, since=400) if op.f == "propose"]
    assert min(late) >= before - agreement.LOOK_BACK
    assert before - agreement.BEHIND_MAX in late or max(late) > before


def test_a_process_keeps_its_turn_under_a_new_number():
    generator = main()
    first = [op for op in drawn(generator, 40, processes=1) if op.f == "propose"]
    later = [op for op in drawn(generator, 40, processes=1, first=3, since=40) if op.f == "propose"]
    assert max(op.value[0] for op in first) + 1 in {op.value[0] for op in later}


def test_older_instances_get_late_proposals_through_any_node():
    newest, late = 0, set()
    for op in drawn(main(), 600):
        if op.f == "propose":
            if op.value[0] < newest - 2:
                late.add(op.target)
            newest = max(newest, op.value[0])
    assert late == set(NODES)


@given(seeds)
def test_the_same_seed_asks_the_same(seed):
    assert drawn(main(seed), 100) == drawn(main(seed), 100)


def finals(decided, *, deaf=()):
    """Play the final phase against a cluster that decided the instances 1 … ``decided``."""
    generator = agreement.WORKLOAD.final(Rng(3), nodes=NODES, processes=3)
    now, asked = 0, []
    done: set[int] = set()
    while len(done) < 3:
        for process in range(3):
            plan = generator.next(process, now, VIEW)
            if plan is None:
                done.add(process)
            elif isinstance(plan, OpPlan):
                asked.append((plan.value, plan.target))
                fails = plan.target in deaf
                value = "x" if plan.value <= decided else None
                generator.returned(process, plan, result("fail" if fails else "ok", None if fails else value))
            now += 10_000_000
        assert now < 600_000_000_000, "it never ends"
    return asked


def test_in_the_end_every_node_is_asked_for_a_choice_of_instances():
    asked = finals(100)
    instances = {value for value, _ in asked if value <= 64}
    assert {1, 64} <= instances
    assert agreement.FINAL_INSTANCES <= len(instances) <= agreement.FINAL_INSTANCES + 8
    for instance in (1, 64):
        assert {target for value, target in asked if value == instance} >= set(NODES)


def test_where_nothing_was_decided_it_ends_soon():
    assert len(finals(0)) <= 4


def test_a_node_that_never_answers_is_given_up():
    asked = finals(5, deaf=("n2",))
    assert {target for _, target in asked} == set(NODES)
    assert max(asked.count(pair) for pair in asked) <= agreement.FINAL_ROUNDS_MAX + 1
