from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.core import registry
from harness.core.events import Return
from harness.core.hoststate import healthy_cluster
from harness.core.protocols import ClusterView, OpPlan
from harness.core.rng import Rng
from workloads import election, log

NODES = ("n1", "n2", "n3", "n4", "n5")
MS = 1_000_000
seeds = st.integers(0, 2**64 - 1)


def view(leader="n1"):
    roles = dict.fromkeys(NODES, "follower")
    return ClusterView(nodes=NODES, leader=leader, roles=roles, terms={}, state=healthy_cluster(NODES))


def result(status="ok", node=None, value=None):
    return Return(seq=0, t=0, op=0, status=status, value=value, node=node)


def main(seed=1, processes=5):
    return log.WORKLOAD.main(Rng(seed), nodes=NODES, processes=processes, rate_per_s=20)


def drawn(generator, count, seen=None):
    return [generator.next(number % 5, number, seen or view()) for number in range(count)]


def test_both_are_registered_under_their_own_names():
    for workload in (election.WORKLOAD, log.WORKLOAD):
        assert registry.load(registry.WORKLOADS, workload.name) is workload


def test_election_asks_nothing_of_nobody():
    workload = election.WORKLOAD
    assert workload.needs() == frozenset()
    assert workload.processes(5) == workload.rate_per_s() == 0
    for generator in (
        workload.main(Rng(1), nodes=NODES, processes=0, rate_per_s=0),
        workload.final(Rng(1), nodes=NODES, processes=0),
    ):
        assert generator.next(0, 0, view()) is None


def test_log_needs_what_it_says_and_has_a_client_a_node():
    assert log.WORKLOAD.needs() == {"append", "read"}
    assert log.WORKLOAD.processes(5) == 5
    assert log.WORKLOAD.processes(1) == 3
    assert log.WORKLOAD.rate_per_s() == 20


@given(seeds)
def test_no_value_is_appended_twice_and_every_operation_is_well_formed(seed):
    ops = drawn(main(seed), 300)
    appended = [op.value[1] for op in ops if op.f == "append"]
    assert len(set(appended)) == len(appended)
    assert all(op.value[0] in log.KEYS for op in ops if op.f == "append")
    assert all(op.value in log.KEYS for op in ops if op.f == "read")
    assert {op.f for op in ops} == {"append", "read"}
    assert all(op.target in NODES for op in ops)


@given(seeds)
def test_the_same_seed_asks_the_same(seed):
    assert drawn(main(seed), 100) == drawn(main(seed), 100)
    assert drawn(main(seed), 100) != drawn(main(seed + 1), 100)


def test_most_operations_go_to_the_leader_and_some_to_everybody_else():
    targets = [op.target for op in drawn(main(), 2000)]
    assert 0.65 < targets.count("n1") / 2000 < 0.85
    assert set(targets) == set(NODES)


def test_without_a_leader_the_node_that_answered_last_is_asked_until_it_fails():
    generator = main()
    op = generator.next(0, 0, view(None))
    generator.returned(0, op, result("ok", node="n4"))
    targets = [op.target for op in drawn(generator, 500, view(None))]
    assert targets.count("n4") > 300
    generator.returned(0, op, result("fail", node="n4"))
    targets = [op.target for op in drawn(generator, 500, view(None))]
    assert targets.count("n4") < 200


def read_all(generator, answers, processes=2, patience=100_000):
    """Drive the final reads; ``answers(op)`` gives a status. Returns (process, op) in order."""
    now, done, asked = 0, set(), []
    for _ in range(patience):
        for process in range(processes):
            if process in done:
                continue
            op = generator.next(process, now, view("n2"))
            if op is None:
                done.add(process)
            elif isinstance(op, OpPlan):
                asked.append((process, op))
                generator.returned(process, op, result(answers(op), node=op.target))
        if len(done) == processes:
            return asked, now
        now += 10 * MS
    raise AssertionError("the final reads never end")


def final(processes=2):
    return log.WORKLOAD.final(Rng(3), nodes=NODES, processes=processes)


def test_in_the_end_each_process_reads_every_key_once_from_the_leader():
    asked, _ = read_all(final(), lambda _: "ok")
    for process in (0, 1):
        mine = [op for who, op in asked if who == process]
        assert sorted(op.value for op in mine) == sorted(log.KEYS)
        assert {op.target for op in mine} == {"n2"}
        assert {op.f for op in mine} == {"read"}


def test_a_final_read_tries_every_node_until_one_answers():
    asked, _ = read_all(final(1), lambda op: "ok" if op.target == "n5" else "fail", processes=1)
    first = [op.target for _, op in asked if op.value == asked[0][1].value]
    assert first == ["n2", "n1", "n3", "n4", "n5"]


def test_final_reads_that_nobody_answers_pause_between_rounds_and_end():
    asked, took = read_all(final(1), lambda _: "fail", processes=1)
    assert len(asked) == len(log.KEYS) * len(NODES) * log.FINAL_ROUNDS_MAX
    assert took >= (log.FINAL_ROUNDS_MAX - 2) * len(log.KEYS) * log.FINAL_PAUSE_NS


def test_a_process_that_was_renumbered_after_an_unknown_outcome_goes_on_where_it_was():
    generator = final(2)
    op = generator.next(0, 0, view())
    generator.returned(0, op, result("ok"))
    again = generator.next(2, 0, view())
    assert again.value != op.value
