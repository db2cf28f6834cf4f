"""member: one voter of an odd number, while a leader answers and nothing else is wrong."""

from __future__ import annotations

import msgspec
import pytest

from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.hoststate import HEALTHY, HostState
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import PlannedFault
from dethrone.nemesis.faults.member import FAULT, REMOVED
from tests.nemesis.views import view_of

HOLD = 1_000_000_000


def planned(victims="leader"):
    return PlannedFault(kind="member", victims=victims, hold_ns=HOLD)


@pytest.mark.parametrize("nodes", [3, 5])
def test_every_draw_removes_the_leader_or_a_follower_and_ends_it(nodes):
    hit = set()
    for seed in range(40):
        drawn = FAULT.draw(Rng(seed), nodes=nodes, hold_ns=HOLD, knobs={})
        FAULT.check(drawn, nodes=nodes)
        view = view_of(nodes, leader="n2")
        (victim,), params = FAULT.resolve(drawn, view, Rng(seed))
        hit.add(victim == "n2")
        after = FAULT.apply(view.state, (victim,), params)
        assert {node: state for node, state in after.items() if not state.healthy} == {victim: REMOVED}
        assert (after[victim].suffered.down, params) == ("SIGKILL", {})
    assert hit == {True, False}


def test_an_even_number_of_nodes_is_refused_before_a_run():
    with pytest.raises(ConfigError, match="odd number of nodes, not 4") as refused:
        FAULT.check(planned(), nodes=4)
    assert "--nodes 5" in str(refused.value)


def test_never_two_at_once_and_never_next_to_another_fault():
    busy = {**view_of(5).state, "n4": HostState(cuts=("n1",))}
    assert "n4" in FAULT.resolve(planned(), view_of(5, state=busy), Rng(1))
    removed = FAULT.apply(view_of(5).state, ("n4",), {})
    assert "n4" in FAULT.resolve(planned("follower"), view_of(5, state=removed), Rng(1))
    assert "one node is removed at a time" in FAULT.resolve(planned("follower:2"), view_of(5), Rng(1))


def test_without_a_leader_and_among_an_even_number_of_voters_nothing_is_removed():
    assert "no leader answers" in FAULT.resolve(planned("node:n3"), view_of(5, leader=None), Rng(1))
    observed = msgspec.structs.replace(view_of(5), voters=("n1", "n2", "n3", "n4"))
    assert "odd number of voters" in FAULT.resolve(planned(), observed, Rng(1))
    outside = msgspec.structs.replace(view_of(5), voters=("n1", "n2", "n3"))
    assert "n5 is not" in FAULT.resolve(planned("node:n5"), outside, Rng(1))


def test_what_is_undone_stands_in_the_state_and_asks_on_the_host_itself():
    (trouble,) = REMOVED.troubles
    (command,) = trouble.commands
    assert trouble.means == HEALTHY
    assert [getattr(command, part)[-2] for part in ("begin", "check", "end")] == ["begin", "check", "end"]
