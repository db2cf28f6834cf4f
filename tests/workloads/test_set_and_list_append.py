"""The workloads set and list-append: unique values, short lists, final reads that find all of it."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.systems.operations import request_for
from dethrone.clusters.targets.client_api import Append, Get, Txn
from dethrone.clusters.targets.raft.machine import Machine
from dethrone.harness.core import registry
from dethrone.harness.core.clock import MS
from dethrone.harness.core.events import Return
from dethrone.harness.core.hoststate import healthy_cluster
from dethrone.harness.core.interfaces import ClusterView, OpPlan
from dethrone.harness.core.rng import Rng
from dethrone.workloads import list_append
from dethrone.workloads import set as set_workload

NODES = ("n1", "n2", "n3")
VIEW = ClusterView(
    nodes=NODES, leader="n1", roles=dict.fromkeys(NODES, "follower"), terms={}, state=healthy_cluster(NODES)
)
BOTH = (set_workload.WORKLOAD, list_append.WORKLOAD)
seeds = st.integers(0, 2**64 - 1)


def asked(workload, seed, count):
    generator = workload.main(Rng(seed), nodes=NODES, processes=6, rate_per_s=40)
    return [generator.next(number % 6, number, VIEW) for number in range(count)]


def appends(ops):
    """(list or set, value) of all that is written."""
    out = [tuple(op.value) for op in ops if op.f == "add"]
    return out + [(key, value) for op in ops if op.f == "txn" for f, key, value in op.value if f == "append"]


def test_they_are_registered_and_need_what_they_ask():
    for workload in BOTH:
        assert registry.load(registry.WORKLOADS, workload.name) is workload
        assert {op.f for op in asked(workload, 1, 200)} == workload.needs()
        assert [workload.processes(nodes) for nodes in (1, 5)] == [6, 10]


@given(seeds)
def test_no_value_is_written_twice_and_every_operation_is_well_formed(seed):
    for workload in BOTH:
        ops = asked(workload, seed, 150)
        written = [value for _, value in appends(ops)]
        assert len(set(written)) == len(written) > 0
        assert all(isinstance(request_for(op.f, op.value), Append | Get | Txn) for op in ops)
        assert asked(workload, seed, 150) == ops


def test_lists_stay_short_and_their_numbers_have_no_gap():
    count = Counter(key for key, _ in appends(asked(list_append.WORKLOAD, 2, 2000)))
    assert max(count.values()) <= list_append.APPENDS_MAX
    numbers = sorted(int(key[1:]) for key in count)
    assert len(numbers) > 20
    assert numbers[-1] - len(numbers) < list_append.LISTS


def final(machine, *, refuse=0, processes=3):
    """What the final transactions read from this machine, if every so many tries the first ones fail; and how long."""
    generator = list_append.WORKLOAD.final(Rng(1), nodes=NODES, processes=processes)
    now, done, read, refused = 0, set(), {}, 0
    while len(done) < processes:
        for process in range(processes):
            op = generator.next(process, now, VIEW)
            if op is None:
                done.add(process)
            elif isinstance(op, OpPlan):
                status, told = "fail", None
                if refused >= refuse:
                    status, told = "ok", machine.apply(1, request_for("txn", op.value), 0)
                    read |= {key: values for _, key, values in told}
                refused += status == "fail"
                generator.returned(process, op, Return(seq=0, t=0, op=0, status=status, value=told, node=op.target))
        now += 10 * MS
        assert now < 10**12
    return read


def test_in_the_end_every_list_is_read_whatever_failed_before():
    machine = Machine()
    for op in asked(list_append.WORKLOAD, 3, 500):
        machine.apply(1, request_for("txn", op.value), 0)
    for refuse in (0, 20):
        read = final(machine, refuse=refuse)
        assert {key: values for key, values in read.items() if values} == machine.values


def test_a_late_return_of_the_main_phase_does_not_move_the_final_one():
    generator = list_append.WORKLOAD.final(Rng(1), nodes=NODES, processes=1)
    first = generator.next(0, 0, VIEW)
    late = OpPlan(f="txn", value=[["r", "x77", None]], target="n1")
    told = [["r", "x77", []]]
    generator.returned(0, late, Return(seq=0, t=0, op=0, status="ok", value=told, node="n1"))
    assert generator.next(0, 0, VIEW) == first


def test_the_final_transactions_end_where_nobody_answers():
    assert final(Machine(), refuse=10**9) == {}
