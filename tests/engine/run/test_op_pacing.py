"""Pacing: one op a process, the rate is kept, a process of unknown outcome is never used again under its number."""

from hypothesis import given
from hypothesis import strategies as st

from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.events import Return
from dethrone.harness.core.interfaces import ClusterView, OpPlan
from dethrone.harness.engine.run.op_pacing import OpPump

VIEW = ClusterView(nodes=("n1",), leader=None, roles={}, terms={}, state={})


class Endless:
    def __init__(self, limit=None):
        self.limit = limit
        self.seen = []

    def next(self, process, now, view):
        if self.limit is not None and len(self.seen) >= self.limit:
            return None
        self.seen.append(process)
        return OpPlan(f="append", value=len(self.seen), target="n1")

    def returned(self, process, op, result):
        pass


def ret(op, status="ok"):
    return Return(seq=0, t=0, op=op, status=status)


def test_no_process_has_two_operations_at_once():
    pump = OpPump(processes=3, rate_per_s=0)
    pump.use(Endless())
    first = pump.due(0, VIEW)
    assert [thread for _, _, thread, _ in first] == [0, 1, 2]
    assert pump.due(1, VIEW) == []
    pump.returned(ret(first[1][0]))
    assert [thread for _, _, thread, _ in pump.due(2, VIEW)] == [1]


def test_after_an_unknown_outcome_the_process_gets_a_new_number():
    pump = OpPump(processes=2, rate_per_s=0)
    pump.use(Endless())
    first = pump.due(0, VIEW)
    for op, *_ in first:
        pump.returned(ret(op, "info"))
    assert [number for _, number, _, _ in pump.due(1, VIEW)] == [2, 3]


def test_the_rate_is_kept_without_a_burst_after_a_pause():
    pump = OpPump(processes=5, rate_per_s=10)
    pump.use(Endless())
    times = []
    for now in [*range(0, SECOND, SECOND // 100), *range(5 * SECOND, 6 * SECOND, SECOND // 100)]:
        for op, *_ in pump.due(now, VIEW):
            times.append(now)
            pump.returned(ret(op))
    assert 9 <= sum(t < SECOND for t in times) <= 11
    assert 9 <= sum(t >= 5 * SECOND for t in times) <= 11


def test_an_exhausted_generator_is_said_only_when_everything_returned():
    pump = OpPump(processes=1, rate_per_s=0)
    pump.use(Endless(limit=1))
    ((op, *_),) = pump.due(0, VIEW)
    assert not pump.exhausted
    pump.returned(ret(op))
    pump.due(1, VIEW)
    assert pump.exhausted


@given(st.lists(st.tuples(st.integers(0, 50), st.sampled_from(["ok", "fail", "info"])), max_size=60), st.integers(1, 4))
def test_op_numbers_are_unique_and_process_numbers_stay_on_their_thread(script, processes):
    pump = OpPump(processes=processes, rate_per_s=0)
    pump.use(Endless())
    now, seen, running = 0, set(), []
    for step, status in script:
        now += step
        for op, number, thread, _ in pump.due(now, VIEW):
            assert op not in seen
            assert number % processes == thread
            seen.add(op)
            running.append(op)
        if running:
            pump.returned(ret(running.pop(0), status))
    assert pump.in_flight == len(running) <= processes
