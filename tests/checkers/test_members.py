"""Members in force: read off stored logs; while they change, nothing is owed."""

from __future__ import annotations

import msgspec
import pytest

from dethrone.checkers.graph import timeline
from dethrone.checkers.liveness_windows import windows
from dethrone.checkers.members import Membership, changed, config, configurations, count_under, initial, removing
from dethrone.checkers.no_livelock import at_least
from dethrone.harness.core import registry
from dethrone.harness.core.clock import MS
from dethrone.harness.core.events import Traced
from tests.checkers.histories import Tale, plan, promise


def shrunk(nodes="n1 n2 n3 n4"):
    """n5 is removed, and added again a while later."""
    tale = Tale(5).up().polls(3000, 1, "n1")
    for node in nodes.split():
        tale.config(node, 1, 2, "n1 n2 n3 n4")
    tale.polls(3000, 1, "n1")
    for node in nodes.split():
        tale.config(node, 1, 3, "n1 n2 n3 n4 n5")
    return tale.polls(3000, 1, "n1")


def test_a_stretch_lasts_until_everybody_who_was_told_stores_all_members_again():
    (since, until) = changed(shrunk().end(), plan(5))[0]
    assert 2900 * MS < since < 3200 * MS
    assert 6000 * MS < until < 6300 * MS
    left = Tale(5).up().config("n1", 1, 2, "n1 n2").config("n2", 1, 2, "n1 n2").config("n1", 1, 3, "n1 n2 n3 n4 n5")
    assert changed(left.end(), plan(5))[-1][1] is None


def test_without_configurations_nothing_ever_changed():
    history = Tale(3).up().core("n1", "config", 1, what="adopted", index=1, voters=["n1"]).end()
    assert changed(history, plan(3)) == []
    assert configurations(history) == {}


def test_the_timeline_is_cut_and_windows_end_where_the_members_change():
    history, promised = shrunk().end(), promise()
    line = timeline(history, promised, plan(5))
    assert [interval.settled for interval in line.intervals][-3:] == [True, False, True]
    for before, after in zip(line.intervals, line.intervals[1:], strict=False):
        assert before.hi == after.lo
    assert len([window for window in windows(history, promised, plan(5)) if window.length > 1000 * MS]) == 2


def test_a_removed_node_that_follows_nobody_is_no_finding():
    tale = Tale(5).up().polls(3000, 1, "n1")
    cut = tale.isolate("n2")
    for node in ("n1", "n3", "n4"):
        tale.config(node, 1, 2, "n1 n2 n3 n4")
    tale.heal(cut).polls(5000, 1, "n1", except_="n5=1")
    checker = registry.load(registry.CHECKERS, "convergence-after-heal")
    assert checker.check(tale.end(), promise(), plan(5)).outcome == "unknown"


@pytest.mark.parametrize(("halts", "outcome"), [("n4", "unknown"), ("n1", "fail"), (None, "fail")])
def test_who_does_not_come_back_after_a_node_that_does_not_vote_ended_is_no_finding(halts, outcome):
    tale = Tale(4).up().polls(500, 1, "n1")
    cut = tale.isolate("n3")
    tale.polls(500, 1, "n1", except_="n3=1")
    if halts:
        tale.traced(halts, "halt", 1, why="its disk refused a write")
    tale.heal(cut).polls(2500, 1, "n1", except_="n3=1")
    checker = registry.load(registry.CHECKERS, "convergence-after-heal")
    assert checker.check(tale.end(), promise(), plan(4, voters=("n1", "n2", "n3"))).outcome == outcome


def test_a_majority_of_fewer_members_is_no_early_stop():
    feed = registry.load(registry.CHECKERS, "leader-has-majority").watcher(promise(), plan(5))
    tale = Tale(5).config("n1", 1, 2, "n1 n2 n3").elected("n1", 2, "n1 n2")
    assert not any([feed(event) for event in tale.end()])  # noqa: C419 - feed them all


def fed(*told):
    tale = Tale(3)
    for tell in told:
        tell(tale)
    mine = Membership(initial(plan(3)))
    for event in tale.end().of(Traced):
        mine.feed(event)
    return mine


def test_the_last_stored_configuration_is_in_force_until_the_log_is_cut_before_it():
    mine = fed(lambda t: t.config("n1", 1, 2, "n1 n2"), lambda t: t.config("n1", 1, 5, "n1"))
    assert mine.last.voters == {"n1"}
    assert [one.index for one in mine.all()] == [0, 2, 5]
    mine = fed(
        lambda t: t.config("n1", 1, 2, "n1 n2"), lambda t: t.config("n1", 1, 5, "n1"), lambda t: t.cut_log("n1", 3)
    )
    assert mine.last.voters == {"n1", "n2"}


def test_an_entry_is_counted_by_no_configuration_that_a_later_one_replaced_before_it():
    mine = fed(lambda t: t.config("n1", 1, 2, "n1 n2"), lambda t: t.config("n1", 1, 5, "n1"))
    assert [one.index for one in count_under(mine.all(), 1)] == [0, 2, 5]
    assert [one.index for one in count_under(mine.all(), 2)] == [2, 5]
    assert [one.index for one in count_under(mine.all(), 9)] == [5]


def test_malformed_configurations_are_none():
    tale = Tale(3)
    for data in ({}, {"index": 0, "voters": ["n1"]}, {"index": 3, "voters": "n1"}, {"index": 3, "voters": []}):
        tale.traced("n1", "config", 1, **data)
    assert [config(event) for event in tale.end().of(Traced)] == [None] * 4


def test_the_chance_of_so_many_or_more_is_the_binomial_tail():
    assert at_least(0, 9, 0.3) == 1
    assert abs(at_least(1, 3, 0.5) - 7 / 8) < 1e-12
    assert abs(at_least(3, 3, 0.2) - 0.008) < 1e-12
    assert at_least(2, 5, 0.0) == 0
    assert at_least(900, 2000, 0.3) < 1e-9


def without(node, outcome="installed"):
    """This node is removed by a fault, and added again; the others follow n1 all the time."""
    tale = Tale(5).up().polls(3000, 1, "n1").process(node, "exited", code=-9)
    tale.alive[node] = False
    down = {**tale.state, node: msgspec.structs.replace(tale.state[node], down="SIGKILL")}
    number = tale.fault("member", node, down, outcome=outcome)
    return tale.polls(3000, 1, "n1").revive(number, node).polls(3000, 1, "n1")


def test_members_change_as_a_fault_begins_and_ends_and_in_between_a_leader_is_owed():
    history = without("n5").end()
    (_, first), (second, _) = stretches = removing(history)
    assert [until - since < 10 * MS for since, until in stretches] == [True, True]
    line = timeline(history, promise(), plan(5))
    assert line.at(stretches[0][0]).settled is line.at(stretches[1][0]).settled is False
    assert all(interval.settled for interval in line.intervals if first <= interval.lo < second)
    assert any(first <= one.lo and one.hi <= second for one in windows(history, promise(), plan(5)) if one.length > 0)


def test_in_doubt_members_may_have_changed_all_the_time():
    history = without("n5", "indeterminate").end()
    ((since, until),) = removing(history)
    assert until - since > 3000 * MS
    open_end = Tale(5).up()
    open_end.fault("member", "n5", open_end.state)
    assert removing(open_end.end())[0][1] is None


def test_a_node_that_was_removed_may_forget_and_one_that_was_only_killed_may_not():
    checker = registry.load(registry.CHECKERS, "term-never-decreases")
    for kind, expected in (("member", ["n5 was removed from the members meanwhile"]), ("kill", [])):
        bears = promise(tolerates={kind: None})
        tale = Tale(5).up().polls(3000, 4, "n1").process("n5", "exited", code=-9)
        tale.alive["n5"] = False
        down = {**tale.state, "n5": msgspec.structs.replace(tale.state["n5"], down="SIGKILL")}
        tale.revive(tale.fault(kind, "n5", down), "n5").polls(3000, 4, "n1", except_="n5=2")
        history, of = tale.end(), plan(5, given=bears, observable=("observed",))
        assert any(map(checker.watcher(bears, of), history.events)) == (kind == "kill"), "a run is not stopped for it"
        found = checker.check(history, bears, of)
        assert found.outcome == ("fail" if kind == "kill" else "pass"), found.reason
        assert all(word in found.reason for word in expected)
