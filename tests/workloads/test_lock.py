"""The workload lock: who holds uses the token, some come too late, owners of unknown operations do not come back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.systems.operations import request_for
from dethrone.clusters.targets.raft.machine import Machine, Refusal
from dethrone.harness.core import registry
from dethrone.harness.core.clock import MS
from dethrone.harness.core.events import Return
from dethrone.harness.core.hoststate import healthy_cluster
from dethrone.harness.core.interfaces import ClusterView
from dethrone.harness.core.rng import Rng
from dethrone.workloads import lock

NODES = ("n1", "n2", "n3")
VIEW = ClusterView(
    nodes=NODES, leader="n1", roles=dict.fromkeys(NODES, "follower"), terms={}, state=healthy_cluster(NODES)
)
seeds = st.integers(0, 2**64 - 1)


def played(seed, count, *, unknown_percent=0):
    """One operation every 5 ms, carried out at once by Raft's own state machine: (ms, process, op, status, told)."""
    generator = lock.WORKLOAD.main(Rng(seed), nodes=NODES, processes=6, rate_per_s=100)
    machine, chance, numbers, out = Machine(), Rng(seed), list(range(6)), []
    for at in range(count):
        who, now = at % 6, at * 5 * MS
        op = generator.next(numbers[who], now, VIEW)
        request = request_for(op.f, op.value)
        assert request is not None, op
        if op.f == "acquire" and (expired := machine.expired(op.value[0], now)):
            machine.apply(2 * at, expired, now)
        told = machine.apply(2 * at + 1, request, now)
        status = "fail" if isinstance(told, Refusal) else "ok"
        if chance.chance(unknown_percent, 100):
            status, told = "info", None
        result = Return(seq=0, t=now, op=at, status=status, value=None if status == "fail" else told, node="n1")
        generator.returned(numbers[who], op, result)
        out.append((at * 5, numbers[who], op, status, told))
        numbers[who] += 6 * (status == "info")
    return out


def test_it_is_registered_and_needs_what_it_asks():
    assert registry.load(registry.WORKLOADS, "lock") is lock.WORKLOAD
    assert {op.f for _, _, op, _, _ in played(1, 600)} == lock.WORKLOAD.needs()
    assert [lock.WORKLOAD.processes(nodes) for nodes in (1, 5)] == [6, 10]


def test_locks_are_held_used_given_back_and_used_too_late():
    out = played(2, 6000)
    count = {(f, status): 0 for f in ("acquire", "release", "use") for status in ("ok", "fail")}
    for _, _, op, status, _ in out:
        if op.f in ("acquire", "release", "use"):
            count[op.f, status] += 1
    assert min(count["acquire", "ok"], count["acquire", "fail"], count["use", "ok"], count["release", "ok"]) > 20
    assert count["use", "fail"] > 5


def test_a_third_of_the_processes_writes_lists_and_the_others_never_do():
    writes = {who % 6 for _, who, op, _, _ in played(3, 1200) if op.f in ("append", "read")}
    locks = {who % 6 for _, who, op, _, _ in played(3, 1200) if op.f not in ("append", "read")}
    assert (writes, locks) == ({0, 1}, {2, 3, 4, 5})


@given(seeds)
def test_an_owner_is_its_process_and_never_used_again_after_an_unknown_outcome(seed):
    out, gone = played(seed, 300, unknown_percent=20), set()
    for _, who, op, status, _ in out:
        if op.f in ("acquire", "release"):
            assert op.value[1] == f"c{who}"
        assert who not in gone
        if status == "info":
            gone.add(who)


@given(seeds)
def test_only_tokens_that_the_same_client_was_told_are_used(seed):
    told_to = {}
    for _, who, op, status, told in played(seed, 300, unknown_percent=5):
        if op.f == "use":
            assert op.value[1] in told_to[who % 6, op.value[0]]
        if op.f == "acquire" and status == "ok":
            told_to.setdefault((who % 6, op.value[0]), set()).add(told)
