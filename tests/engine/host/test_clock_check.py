"""What ``doctor FILE`` shows of a node that prints its own clock."""

from __future__ import annotations

import pytest

from dethrone.harness.core.clock import MS, SECOND, Span
from dethrone.harness.core.errors import ClusterError
from dethrone.harness.core.hoststate import HEALTHY
from dethrone.harness.core.interfaces import Evidence
from dethrone.harness.engine.host.clock_check import STEP_NS, clock_rows

NOW = {"printed": "1700000000", "wall_ns": 1_700_000_000 * SECOND, "skew_ns": 3 * MS, "within_ns": 4 * MS}


class Host:
    """A host whose node prints a time; ``told``: the evidence of the step, and of its end."""

    def __init__(self, *told, wrong=False, untried="", whys=("", "")):
        self.told, self.wrong, self.untried, self.whys, self.states = list(told), wrong, untried, list(whys), []

    def ask_clock(self):
        return NOW | {"wrong": self.wrong}

    def unskewed(self):
        return self.untried

    def converge(self, want):
        self.states.append(want)
        why = self.whys.pop(0)
        detail = {"clock": {"told": self.told.pop(0)}}
        return Evidence(host="n1", span=Span(0, 0), state=want, confirmed=not why, why=why, detail=detail)


def test_a_node_that_prints_a_step_and_its_end_has_two_good_rows_and_a_right_clock():
    host = Host({"printed": "1700000010"}, {"printed": "1700000001"})
    skewed, read, stepped = clock_rows(host, told=True, lent=False)
    assert skewed.seen == read.seen == stepped.seen == "yes"
    assert read.what == (
        "it prints '1700000000': 2023-11-14 22:13:20.000+00:00, 3 ms from its host's clock, exact to 4 ms"
    )
    assert stepped.what.endswith("'1700000010', then '1700000001'")
    assert [state.clock and state.clock.offset_ns for state in host.states] == [STEP_NS, None]
    assert host.states[-1] == HEALTHY


@pytest.mark.parametrize("whys", [("it printed another time", ""), ("", "it is still ahead")])
def test_a_command_that_prints_another_clock_fails_with_what_it_printed(whys):
    *_, row = clock_rows(Host({"printed": "1"}, {"printed": "1"}, whys=whys), told=True, lent=False)
    assert (row.seen, row.why) == ("no", "".join(whys))
    assert "ask the node" in row.what_to_do


def test_a_command_that_falls_silent_fails():
    *_, row = clock_rows(Host({"unanswered": "ctl ended with 1"}, {"printed": "1"}), told=True, lent=False)
    assert (row.seen, row.why) == ("no", "ctl ended with 1")


@pytest.mark.parametrize(("lent", "untried"), [(True, ""), (False, "no vDSO")])
def test_no_clock_is_stepped_where_that_may_not_or_cannot_be(lent, untried):
    host = Host(untried=untried)
    *_, row = clock_rows(host, told=True, lent=lent)
    assert row.seen == "not seen"
    assert row.why.startswith("not tried: ")
    assert host.states == []


def test_a_time_that_is_not_the_hosts_is_shown_and_nothing_else_tried():
    _, row = clock_rows(Host(wrong=True), told=True, lent=False)
    assert row.seen == "no"
    assert "2023-11-14 22:13:20" in row.what
    assert "[clock]" in row.what_to_do


def test_a_command_without_an_answer_is_shown_with_what_it_printed():
    class Silent(Host):
        def ask_clock(self):
            raise ClusterError("the agent refuses ask_clock", cause="ctl printed ''")

    _, row = clock_rows(Silent(), told=True, lent=False)
    assert (row.seen, row.why) == ("no", "ctl printed ''")


@pytest.mark.parametrize(("untried", "seen"), [("", "yes"), ("ptrace is restricted", "not seen")])
def test_a_node_that_prints_no_clock_has_one_row_on_whether_it_can_be_skewed(untried, seen):
    (row,) = clock_rows(Host(untried=untried), told=False, lent=False)
    assert (row.what, row.seen, row.why) == ("its clock can be skewed", seen, untried)
    assert ("docs/clocks.md" in row.what_to_do) == bool(untried)


def test_nothing_is_tried_on_a_host_of_another_owner():
    assert list(clock_rows(Host(untried="untried"), told=False, lent=True)) == []
