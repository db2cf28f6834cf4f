"""The client state machine: lists, registers, locks."""

from fractions import Fraction

import pytest

from dethrone.clusters.targets.client_api import Acquire, Append, Cas, Get, Holder, Put, Release, Renew, Txn, Use
from dethrone.clusters.targets.raft.machine import Machine, Refusal
from dethrone.harness.core.clock import MS


def run(machine, *commands, now=0):
    start = getattr(machine, "n", 0)
    return [machine.apply(start + i, command, now) for i, command in enumerate(commands, start=1)]


def test_an_appended_list_is_read_as_a_list_and_does_not_change_afterwards():
    machine = Machine()
    assert run(machine, Append("k", 1), Append("k", 2)) == [1, 2]
    seen = machine.read("k")
    machine.apply(3, Append("k", 3), 0)
    assert seen == [1, 2]


def test_registers_hold_the_last_value():
    machine = Machine()
    run(machine, Put("k", 1), Put("k", "x"))
    assert (machine.read("k"), machine.read("other")) == ("x", None)


def test_append_to_a_register_changes_nothing():
    machine = Machine()
    assert run(machine, Put("k", 1), Append("k", 2)) == [None, Refusal("not a list")]
    assert machine.read("k") == 1


@pytest.mark.parametrize(("held", "old", "done"), [(1, 1, True), (1, 2, False), (None, None, True), (1, True, False)])
def test_cas_compares_json_values(held, old, done):
    machine = Machine()
    assert run(machine, Put("k", held), Cas("k", old, 9))[1] is done
    assert machine.read("k") == (9 if done else held)


def test_a_value_given_to_the_machine_is_never_changed_by_it():
    value = [1]
    machine = Machine()
    run(machine, Put("k", value), Append("k", 2), Cas("k", [1, 2], value), Append("k", 3))
    assert value == [1]


def test_get_is_a_command_too():
    assert run(Machine(), Append("k", 1), Get("k"))[1] == [1]


def test_a_transaction_sees_its_own_appends_and_what_it_told_does_not_change():
    machine = Machine()
    steps = (("r", "x", None), ("append", "x", 1), ("r", "x", None), ("append", "y", 2))
    told = run(machine, Txn(steps), Append("x", 3))[0]
    assert told == [["r", "x", []], ["append", "x", 1], ["r", "x", [1]], ["append", "y", 2]]
    assert (machine.read("x"), machine.read("y")) == ([1, 3], [2])


def test_a_transaction_about_a_register_changes_nothing_at_all():
    machine = Machine()
    assert run(machine, Put("x", 1), Txn((("append", "y", 2), ("r", "x", None))))[1] == Refusal("not a list")
    assert (machine.read("x"), machine.read("y")) == (1, None)


def test_a_lock_excludes_and_its_tokens_rise():
    machine = Machine()
    answers = run(
        machine,
        Acquire("l", "a", 100),
        Acquire("l", "b", 100),
        Release("l", "b"),
        Release("l", "a"),
        Acquire("l", "b", 1),
    )
    assert answers == [1, Refusal("held"), Refusal("not held"), 1, 5]


def test_a_guard_refuses_tokens_that_are_over_and_knows_nothing_of_the_lock():
    answers = run(Machine(), Use("l", 5), Use("l", 5), Use("l", 7), Use("l", 6), Use("other", 1))
    assert answers == [5, 5, 7, Refusal("token 6 is older than 7"), 1]


def test_the_holder_may_take_its_lock_again_with_a_new_token():
    assert run(Machine(), Acquire("l", "a", 100), Acquire("l", "a", 100), Renew("l", "a", 100)) == [1, 2, 2]


def test_only_an_entry_ends_a_lock_and_only_the_one_it_was_meant_for():
    machine = Machine(Fraction(11, 10))
    machine.apply(1, Acquire("l", "a", 100), 0)
    assert machine.expired("l", 110 * MS - 1) is None
    expire = machine.expired("l", 110 * MS)
    machine.apply(2, Renew("l", "a", 100), 5)
    machine.apply(3, expire, 0)
    assert machine.apply(4, Acquire("l", "b", 1), 0) == Refusal("held")
    machine.apply(5, machine.expired("l", 10**12), 0)
    assert machine.apply(6, Acquire("l", "b", 1), 0) == 6


def test_time_never_changes_the_replicated_state():
    early, late = Machine(), Machine()
    commands = [Acquire("l", "a", 1), Acquire("l", "b", 1), Renew("l", "a", 1)]
    assert run(early, *commands, now=0) == run(late, *commands, now=10**15)


def test_the_holder_of_a_lock_is_told_with_its_token():
    answers = run(Machine(), Holder("l"), Acquire("l", "a", 100), Holder("l"), Release("l", "a"), Holder("l"))
    assert answers == [None, 2, ["a", 2], 2, None]
