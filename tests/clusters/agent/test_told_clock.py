"""The wall clock that a node prints itself: what is read out of it, and what it proves of a skew."""

from __future__ import annotations

import platform
import sys

import msgspec
import pytest

from dethrone.clusters.agent.host.told_clock import Told, printed_time
from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.errors import ClusterError
from dethrone.harness.core.hoststate import HEALTHY, ClockSkew, HostState
from dethrone.harness.core.interfaces import ClockCommand

HOUR = 3600 * SECOND
ASK = """
import json, socket, sys
connection = socket.socket(socket.AF_UNIX); connection.connect(sys.argv[1])
print("now", json.loads(connection.makefile().readline())["wall_ns"] / 1e9)
"""


@pytest.mark.parametrize(
    ("groups", "wall_ns", "exact_ns"),
    [
        ({"s": "1700000000"}, 1_700_000_000 * SECOND, SECOND),
        ({"s": "1700000000", "us": "25"}, 1_700_000_000 * SECOND + 25_000, 1000),
        ({"s": "1700000000.25", "ms": None}, 1_700_000_000_250 * MS, 10 * MS),
        ({"ms": "1700000000123"}, 1_700_000_000_123 * MS, MS),
        ({"ns": "1700000000000000001"}, 1_700_000_000_000_000_001, 1),
        ({"s": "1700000000.12345678901"}, 1_700_000_000_123_456_789, 1),
        ({"time": "2023-11-14 22:13:20.5+00"}, 1_700_000_000_500 * MS, 100 * MS),
        ({"time": "2023-11-14T22:13:20Z"}, 1_700_000_000 * SECOND, SECOND),
        ({"time": "2023-11-15 03:43:20 +05:30"}, 1_700_000_000 * SECOND, SECOND),
        ({"time": "2023-11-14 18:13:20-0400"}, 1_700_000_000 * SECOND, SECOND),
        ({"time": "2023-11-14 22:13:20,000"}, 1_700_000_000 * SECOND, MS),
    ],
)
def test_a_printed_time_is_read_with_its_accuracy(groups, wall_ns, exact_ns):
    assert printed_time(groups) == (wall_ns, exact_ns)


@pytest.mark.parametrize("groups", [{}, {"s": None}, {"s": "soon"}, {"time": "14:00"}, {"time": "2023-11-14"}])
def test_a_text_without_a_time_is_no_time(groups):
    with pytest.raises(ValueError, match=r".+"):
        printed_time(groups)


def told(wall_ns, exact_ns, *, took_ns=10 * MS):
    """An answer to a question asked at 1000 s."""
    began = 1000 * SECOND
    return Told("", wall_ns, exact_ns, (began, began + took_ns), (0, took_ns))


def test_a_skew_is_known_as_far_as_the_question_and_the_printed_digits_allow():
    assert told(1000 * SECOND + 5 * MS, 1).skew() == (0, 5 * MS + 1)
    assert told(1003 * SECOND, SECOND).skew() == (3 * SECOND + 495 * MS, 505 * MS)


def test_only_what_is_wrong_for_certain_is_an_error():
    exact = told(1007 * SECOND, 1)
    assert exact.error((7 * SECOND,)) == exact.error((0, 7 * SECOND - 9 * MS)) == 0
    assert exact.error((0,)) > 6 * SECOND
    coarse = told(1000 * SECOND, SECOND)
    assert coarse.error((0,)) == coarse.error((500 * MS,)) == 0, "such a step is not seen in whole seconds"
    assert coarse.error((2 * SECOND,)) > 0


def asked(box, *argv, pattern=r"now (?P<s>[0-9.]+)", tolerance_ns=50 * MS):
    """The start of the node with a command that asks it for its clock."""
    command = ClockCommand(argv=argv, pattern=pattern, tolerance_ns=tolerance_ns)
    return msgspec.structs.replace(box.start(), clock_command=command)


@pytest.mark.processes
@pytest.mark.measures
@pytest.mark.skipif(platform.machine() != "x86_64", reason="clocks are skewed in the vDSO on x86-64 only")
def test_a_skew_counts_if_the_node_prints_it_and_not_if_another_program_prints_its_own_clock(box, host):
    step = HostState(clock=ClockSkew(offset_ns=HOUR))
    of_node = asked(box, sys.executable, "-S", "-c", ASK, str(box.directory / "clock.sock"))
    host.prepare(of_node, {}, dead_man_ns=0)
    box.start_node()
    before = host.ask_clock()
    assert not before["wrong"]
    assert before["printed"].startswith("now ")
    began = host.converge(step)
    assert began.confirmed, began.why
    said = began.detail["clock"]["told"]
    assert abs(said["skew_ns"] - HOUR) <= said["within_ns"] + 50 * MS
    assert said["printed"] != before["printed"]
    assert abs(began.detail["clock"]["skew_ns"] - HOUR) < MS, "the reader of its vDSO is asked as well"
    ended = host.converge(HEALTHY)
    assert ended.confirmed, ended.why
    assert "before" not in ended.detail
    assert abs(ended.detail["clock"]["told"]["skew_ns"]) < SECOND

    host.prepare(asked(box, "date", "+now %s.%N"), {}, dead_man_ns=0)
    wrong = host.converge(step)
    assert not wrong.confirmed
    assert "the process itself printed 'now " in wrong.why
    lapsed = host.converge(HEALTHY)
    assert "the process itself printed" in lapsed.detail["before"]["why"]

    host.prepare(asked(box, "echo", "later"), {}, dead_man_ns=0)
    silent = host.converge(step)
    assert silent.confirmed, silent.why
    assert "in which the pattern finds no time" in silent.detail["clock"]["told"]["unanswered"]
    with pytest.raises(ClusterError, match=r"echo printed 'later'"):
        host.ask_clock()
