from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.node.effects import Barrier
from dethrone.harness.core.machine import Await, Disk, Halt, Note, Reply, Send, SetTimer

FOREVER = 1 << 60


def note(name):
    return Note(name, 0, "R")


def test_effects_without_a_barrier_pass_in_order():
    effects = [Send("b", 1), note("x"), Reply(1, 2), SetTimer("t", 5), Disk(1, ()), Send("c", 3)]
    assert Barrier().admit(effects) == effects


def test_disk_and_timers_do_not_wait_behind_a_barrier():
    barrier = Barrier()
    effects = [Disk(1, ()), Await(1), Send("b", 1), Disk(2, ()), SetTimer("t", 5)]
    assert barrier.admit(effects) == [Disk(1, ()), Disk(2, ()), SetTimer("t", 5)]
    assert barrier.held == 2
    assert barrier.done(1, None) == [Send("b", 1)]
    assert barrier.held == 0


def test_a_barrier_holds_the_sends_of_later_events_too():
    barrier = Barrier()
    barrier.admit([Disk(1, ()), Await(1), Send("b", 1)])
    assert barrier.admit([Send("b", 2)]) == []
    assert barrier.done(1, None) == [Send("b", 1), Send("b", 2)]


def test_a_failed_batch_drops_everything_behind_it_and_nothing_later():
    barrier = Barrier()
    barrier.admit([Disk(1, ()), Disk(2, ()), Await(1), Send("b", 1), Await(2), Send("b", 2)])
    assert barrier.done(1, "EIO") == []
    assert barrier.dropped == 2
    assert barrier.admit([Send("b", 3)]) == [Send("b", 3)]
    assert barrier.done(2, None) == []


def test_the_later_of_two_batches_may_fail_alone():
    barrier = Barrier()
    barrier.admit([Disk(1, ()), Disk(2, ()), Await(1), Send("b", 1), Await(2), Send("b", 2)])
    assert barrier.done(1, None) == [Send("b", 1)]
    assert barrier.done(2, "EIO") == []
    assert barrier.dropped == 1


def test_awaiting_a_batch_that_is_done_holds_nothing():
    barrier = Barrier()
    barrier.admit([Disk(1, ())])
    barrier.done(1, None)
    assert barrier.admit([Await(1), Send("b", 1)]) == [Send("b", 1)]


def test_awaiting_a_batch_that_failed_drops_the_rest_of_that_event():
    barrier = Barrier()
    barrier.admit([Disk(1, ())])
    barrier.done(1, "EIO")
    assert barrier.admit([Send("b", 0), Await(1), Send("b", 1), Disk(2, ())]) == [Send("b", 0), Disk(2, ())]
    assert barrier.admit([Send("b", 2)]) == [Send("b", 2)]


def test_nothing_follows_a_halt_and_a_halt_does_not_wait():
    barrier = Barrier()
    effects = [Disk(1, ()), Await(1), Send("b", 1), Halt("why"), Send("b", 2)]
    assert barrier.admit(effects) == [Disk(1, ()), Halt("why")]


def test_a_token_cannot_be_started_twice():
    barrier = Barrier()
    with pytest.raises(ValueError, match="batch 1"):
        barrier.admit([Disk(1, ()), Disk(1, ())])


@given(st.data())
def test_the_barrier_agrees_with_a_plain_statement_of_the_rule(data):
    """An effect leaves at the latest of its own moment and those of the batches awaited before it; or never.

    Never: an awaited batch before it failed while it waited. An await that was itself dropped binds nobody later.
    """
    barrier = Barrier()
    tokens, pending = 0, []
    finished: dict[int, int] = {}
    failed: dict[int, int] = {}
    line: list[tuple[int, object]] = []  # (moment, send or await), in the core's order
    left: list[tuple[int, int]] = []  # (moment, number of the send)
    number = 0
    moments = data.draw(st.integers(1, 25))
    for moment in range(moments):
        if pending and data.draw(st.booleans()):
            token = pending.pop(data.draw(st.integers(0, len(pending) - 1)))
            error = data.draw(st.sampled_from([None, None, "EIO"]))
            (failed if error else finished)[token] = moment
            released = barrier.done(token, error)
        else:
            effects = []
            for kind in data.draw(st.lists(st.sampled_from(["send", "disk", "await"]), max_size=6)):
                if kind == "send":
                    effects.append(Send("b", number))
                    line.append((moment, effects[-1]))
                    number += 1
                elif kind == "disk":
                    tokens += 1
                    pending.append(tokens)
                    effects.append(Disk(tokens, ()))
                elif tokens and (waited := data.draw(st.integers(1, tokens))) not in failed:
                    effects.append(Await(waited))
                    line.append((moment, effects[-1]))
            released = barrier.admit(effects)
        left += [(moment, effect.body) for effect in released if isinstance(effect, Send)]

    awaits: list[tuple[int, int]] = []
    expected = []
    for moment, effect in line:
        alive = [
            (at, token)
            for index, (at, token) in enumerate(awaits)
            if not any(at <= failed.get(earlier, FOREVER) < moment for _, earlier in awaits[: index + 1])
        ]
        if isinstance(effect, Await):
            if finished.get(effect.token, FOREVER) >= moment:
                awaits.append((moment, effect.token))
            continue
        if any(failed.get(token, FOREVER) < FOREVER for _, token in alive):
            first_bad = min(failed[token] for _, token in alive if token in failed)
            assert first_bad >= moment
            continue
        leaves = max([moment, *(finished.get(token, FOREVER) for _, token in alive)])
        if leaves < FOREVER:
            expected.append((leaves, effect.body))
    assert left == expected
