from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dethrone.harness.core import registry
from dethrone.harness.core.events import Return
from dethrone.harness.core.hoststate import HostState, healthy_cluster
from dethrone.harness.core.interfaces import ClusterView, OpPlan
from dethrone.harness.core.rng import Rng
from dethrone.workloads import base, election, keys, lease, log, membership

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


def test_all_are_registered_under_their_own_names():
    for workload in (election.WORKLOAD, log.WORKLOAD, lease.WORKLOAD, membership.WORKLOAD):
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
    assert len(asked) == len(log.KEYS) * len(NODES) * base.FINAL_ROUNDS_MAX
    assert took >= (base.FINAL_ROUNDS_MAX - 2) * len(log.KEYS) * base.FINAL_PAUSE_NS


def test_a_process_that_was_renumbered_after_an_unknown_outcome_goes_on_where_it_was():
    generator = final(2)
    op = generator.next(0, 0, view())
    generator.returned(0, op, result("ok"))
    again = generator.next(2, 0, view())
    assert again.value != op.value


# --- lease ------------------------------------------------------------------------------------------------------


def leases(seed=1, processes=4):
    return lease.WORKLOAD.main(Rng(seed), nodes=NODES, processes=processes, rate_per_s=40)


def granting(generator, count, answers, processes=4):
    """Ask ``count`` times; ``answers(op)`` gives (status, value). A process whose outcome is unknown is renumbered."""
    numbers, asked = list(range(processes)), []
    for turn in range(count):
        thread = turn % processes
        op = generator.next(numbers[thread], turn * 25 * MS, view())
        asked.append((numbers[thread], op))
        status, value = answers(op)
        generator.returned(numbers[thread], op, result(status, node=op.target, value=value))
        if status == "info":
            numbers[thread] += processes
    return asked


@given(seeds)
def test_an_owner_renews_and_releases_only_what_it_was_told_to_hold(seed):
    held: dict[str, str] = {}
    for process, op in granting(leases(seed), 400, lambda op: ("ok", 1)):
        owner = f"c{process}"
        if op.f == "holder":
            assert op.value in lease.LOCKS
        elif op.f in {"acquire", "renew", "release"}:
            assert op.value[1] == owner
            if op.f == "acquire":
                held[owner] = op.value[0]
            else:
                assert held[owner] == op.value[0]
            if op.f == "release":
                del held[owner]
        else:
            assert op.f in {"append", "read"}


def test_an_owner_in_doubt_is_never_heard_of_again():
    asked = granting(leases(), 600, lambda op: ("info", None) if op.f == "release" else ("ok", 1))
    in_doubt = [number for number, (_, op) in enumerate(asked) if op.f == "release"]
    assert in_doubt
    for number in in_doubt:
        owner = asked[number][1].value[1]
        later = [op for _, op in asked[number + 1 :] if op.f in {"acquire", "renew", "release"}]
        assert owner not in {op.value[1] for op in later}


def test_a_refused_client_tries_again_and_the_lists_are_used_beside():
    kinds = [op.f for _, op in granting(leases(), 600, lambda op: ("fail", None))]
    assert {"acquire", "holder", "append", "read"} == set(kinds)
    assert kinds.count("acquire") > 100


def test_the_lists_are_read_in_the_end():
    asked, _ = read_all(lease.WORKLOAD.final(Rng(3), nodes=NODES, processes=2), lambda _: "ok")
    assert {op.f for _, op in asked} == {"read"}


# --- membership -------------------------------------------------------------------------------------------------


class Cluster:
    """Carries changes out and keeps count."""

    def __init__(self, nodes=NODES, seed=1):
        self.generator = membership.WORKLOAD.main(Rng(seed), nodes=nodes, processes=4, rate_per_s=20)
        self.nodes, self.voters, self.now = nodes, set(nodes), 0
        self.fewest = len(nodes)
        self.changes = 0

    def run(self, ms, *, faulty, status="ok"):
        states = healthy_cluster(self.nodes)
        if faulty:
            states[self.nodes[0]] = HostState(cuts=(self.nodes[1],))
        seen = ClusterView(nodes=self.nodes, leader=self.nodes[0], roles={}, terms={}, state=states)
        until = self.now + ms * MS
        while self.now < until:
            op = self.generator.next(0, self.now, seen)
            if isinstance(op, OpPlan):
                assert op.f == "reconfigure"
                kind, node = op.value
                if status != "fail":
                    self.changes += 1
                    assert (node in self.voters) == (kind == "remove")
                    (self.voters.remove if kind == "remove" else self.voters.add)(node)
                self.fewest = min(self.fewest, len(self.voters))
                self.generator.returned(0, op, result(status, node=op.target))
            self.now += 50 * MS


@given(seeds)
def test_members_come_and_go_under_faults_and_all_are_back_afterwards(seed):
    cluster = Cluster(seed=seed)
    for number in range(4):
        before = cluster.changes
        cluster.run(10_000, faulty=True)
        assert (cluster.changes > before) == (number % 2 == 0), "every second fault"
        cluster.run(2_000, faulty=False)
        assert cluster.voters == set(NODES)
    assert cluster.fewest == 3


def test_in_quiet_times_after_a_fault_nothing_changes():
    cluster = Cluster()
    cluster.run(10_000, faulty=True)
    cluster.run(2_000, faulty=False)
    before = cluster.changes
    cluster.run(60_000, faulty=False)
    assert cluster.changes == before


def test_without_any_fault_members_go_and_come_in_turn():
    cluster = Cluster(nodes=NODES[:3])
    cluster.run(60_000, faulty=False)
    assert cluster.changes >= 10
    assert cluster.fewest == 2


def test_a_change_that_was_refused_is_not_counted():
    cluster = Cluster()
    cluster.run(10_000, faulty=True, status="fail")
    assert cluster.voters == set(NODES)
    cluster.run(10_000, faulty=True)
    assert cluster.fewest == 3


def test_the_other_clients_append_and_read():
    generator = membership.WORKLOAD.main(Rng(1), nodes=NODES, processes=4, rate_per_s=20)
    assert {generator.next(process, 0, view()).f for process in (1, 2, 3) for _ in range(20)} == {"append", "read"}
    assert membership.WORKLOAD.needs() == {"append", "read", "reconfigure"}
    assert membership.WORKLOAD.processes(5) == 6


# --- keys that retire ---------------------------------------------------------------------------------------------


@given(seeds, st.integers(2, 40))
def test_a_key_retires_after_so_many_operations_and_is_never_asked_again(seed, most):
    known, rng = keys.Keys(("k0", "k1", "k2"), most=most), Rng(seed)
    asked = [known.choose(rng) for _ in range(10 * most)]
    counts = Counter(asked)
    assert max(counts.values()) == most
    first = ("k0", "k1", "k2")
    assert keys.known(first, [*asked, "l7"]) == sorted({*first, *asked}, key=lambda name: int(name[1:]))
    for name, count in counts.items():
        if count == most:
            last = len(asked) - 1 - asked[::-1].index(name)
            assert name not in asked[last + 1 :]
    assert all(len(set(asked[at : at + most])) <= 6 for at in range(0, len(asked), most))


def test_a_default_run_uses_the_first_keys_only():
    assert {op.value if op.f == "read" else op.value[0] for op in drawn(main(), 1200)} == set(log.KEYS)


def test_in_the_end_every_key_is_read_and_the_recent_ones_by_every_process():
    names = [f"k{number}" for number in range(25)]
    generator = log.WORKLOAD.final(Rng(3), nodes=NODES, processes=3, used=["l0", *names[3:]])
    asked, _ = read_all(generator, lambda _: "ok", processes=3)
    counts = Counter(op.value for _, op in asked)
    assert set(counts) == set(names)
    assert [counts[name] for name in names] == [1] * 15 + [3] * 10
