"""Since when an agent has given no sign of life, as the harness sees it."""

from __future__ import annotations

import os
import signal
import time

import pytest

from dethrone.clusters.agent.silence import SILENT_NS, Silence
from dethrone.harness.core.clock import MS, SECOND
from tests.waiting import until

pytestmark = [pytest.mark.processes, pytest.mark.measures]


def test_an_answer_in_time_is_no_silence():
    silence = Silence(0)
    for second in range(1, 10):
        assert silence.lived(second * SECOND, second * SECOND + MS) is None


def test_a_heartbeat_that_stays_unanswered_is_reported_since_the_last_sign_of_life_at_doubling_lengths():
    silence = Silence(0)
    assert silence.lived(5 * SECOND, 5 * SECOND + MS) is None
    found = [found for second in range(6, 40) if (found := silence.look(second * SECOND))]
    assert [(lo // SECOND, hi // SECOND, number) for lo, hi, number in found] == [
        (5, 8, 1),
        (5, 11, 1),
        (5, 17, 1),
        (5, 29, 1),
    ]
    assert silence.lived(40 * SECOND, 41 * SECOND) == (5 * SECOND, 41 * SECOND, 1)
    assert silence.lived(42 * SECOND, 42 * SECOND) is None
    assert [silence.look(second * SECOND) for second in (43, 44, 45)][-1] == (42 * SECOND, 45 * SECOND, 2)


def test_a_harness_that_was_stalled_itself_looks_once_and_finds_nothing():
    silence = Silence(0)
    assert silence.look(30 * SECOND) is None
    assert silence.lived(30 * SECOND, 30 * SECOND + MS) is None


def test_a_connection_that_broke_for_long_is_a_silence_and_a_short_break_is_none():
    silence = Silence(0)
    silence.broke()
    assert silence.lived(SECOND, SECOND) is None
    silence.broke()
    assert silence.lived(5 * SECOND, 5 * SECOND) == (SECOND, 5 * SECOND, 1)
    assert silence.lived(9 * SECOND, 9 * SECOND) is None


def test_an_agent_that_stands_still_is_reported_while_it_does_and_when_it_is_back(box):
    box.meet()
    host = box.host
    lost = lambda: [news for news in box.kinds("noise") if news.data["kind"] == "agent-lost"]  # noqa: E731
    stopped = time.monotonic_ns() - host.origin_ns
    os.kill(box.agent.pid, signal.SIGSTOP)
    try:
        until(lost, 15)
        assert lost()[0].data["back"] is False
    finally:
        os.kill(box.agent.pid, signal.SIGCONT)
    until(lambda: lost()[-1].data["back"], 15)
    first, last = lost()[0], lost()[-1]
    assert first.span.lo == last.span.lo <= stopped, "since the last sign of life, not since it was noticed"
    assert last.span.hi >= first.span.hi
    assert last.data["value_ns"] == last.span.hi - last.span.lo > SILENT_NS
    assert last.data["id"] == first.data["id"]
