"""The workload register: unique values, cas that expect what was seen, final reads."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dethrone.harness.core import registry
from dethrone.harness.core.events import Return
from dethrone.harness.core.hoststate import healthy_cluster
from dethrone.harness.core.interfaces import ClusterView, OpPlan
from dethrone.harness.core.rng import Rng
from dethrone.workloads import register

NODES = ("n1", "n2", "n3")
VIEW = ClusterView(
    nodes=NODES, leader="n1", roles=dict.fromkeys(NODES, "follower"), terms={}, state=healthy_cluster(NODES)
)
seeds = st.integers(0, 2**64 - 1)


def main(seed):
    return register.WORKLOAD.main(Rng(seed), nodes=NODES, processes=6, rate_per_s=40)


def answered(op, held):
    """What one honest register, without any concurrency, answers."""
    if op.f == "get":
        return held.get(op.value)
    key, *rest = op.value
    if op.f == "put":
        held[key] = rest[0]
        return None
    done = held.get(key) == rest[0]
    if done:
        held[key] = rest[1]
    return done


def played(seed, count):
    """The operations, with what they were told, of one client after another."""
    generator, held, out = main(seed), {}, []
    for number in range(count):
        op = generator.next(number % 6, number, VIEW)
        told = answered(op, held)
        out.append((op, told))
        generator.returned(number % 6, op, Return(seq=0, t=0, op=0, status="ok", value=told, node=op.target))
    return out


def test_it_is_registered_and_needs_what_it_asks():
    assert registry.load(registry.WORKLOADS, "register") is register.WORKLOAD
    assert {op.f for op, _ in played(1, 200)} == register.WORKLOAD.needs()
    assert [register.WORKLOAD.processes(nodes) for nodes in (1, 3, 5)] == [6, 6, 10]


@given(seeds)
def test_no_value_is_written_twice_into_any_register(seed):
    written = [op.value[-1] for op, _ in played(seed, 200) if op.f != "get"]
    assert len(set(written)) == len(written)


@given(seeds)
def test_the_same_seed_and_answers_ask_the_same(seed):
    assert played(seed, 100) == played(seed, 100)


def test_without_contention_most_swaps_succeed_and_the_outdated_ones_do_not():
    swaps = [told for op, told in played(5, 4000) if op.f == "cas"]
    assert len(swaps) > 800
    assert 0.1 < swaps.count(False) / len(swaps) < 0.3


def test_what_failed_teaches_nothing():
    generator = main(3)
    for number in range(300):
        op = generator.next(0, number, VIEW)
        assert op.f != "cas" or op.value[1] is None
        generator.returned(0, op, Return(seq=0, t=0, op=0, status="fail", value=7, node=op.target))


def test_in_the_end_every_process_gets_every_register():
    generator = register.WORKLOAD.final(Rng(1), nodes=NODES, processes=2)
    for process in (0, 1):
        asked = []
        while isinstance(op := generator.next(process, 0, VIEW), OpPlan):
            asked.append(op.value)
            assert op.f == "get"
            generator.returned(process, op, Return(seq=0, t=0, op=0, status="ok", node=op.target))
        assert sorted(asked) == sorted(register.KEYS)
