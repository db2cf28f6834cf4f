from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dethrone.harness.core.clock import MS
from dethrone.harness.core.events import Traced
from dethrone.harness.core.history import History
from dethrone.harness.report import failover
from dethrone.harness.report.failover import failovers, quantiles, summary


def test_every_fault_that_took_a_leader_away_is_measured(passing):
    rows = failovers(passing.history)
    assert [(row.kind, row.leader) for row in rows] == [("partition", "n1"), ("kill", "n3"), ("pause", "n4")]
    assert all(250 * MS < row.elected < 700 * MS for row in rows)
    assert all(row.detect <= row.elected <= row.first_write for row in rows)


def test_a_time_that_the_next_change_cut_off_is_open(failing):
    first, second = failovers(failing.history)
    assert first.elected is None
    assert first.until > first.t0
    assert second.elected is not None
    assert summary([first, second])["elected"].censored == 1


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=30))
def test_without_censoring_the_median_is_the_lower_median(times):
    found = quantiles(times, [10_000] * len(times))
    assert found.median == sorted(times)[(len(times) + 1) // 2 - 1]
    assert found.longest == max(times)
    assert found.censored == 0


@given(st.lists(st.tuples(st.integers(1, 1000), st.booleans()), min_size=1, max_size=30))
def test_censoring_never_makes_a_quantile_earlier(rows):
    times = [None if censored else time for time, censored in rows]
    limits = [time for time, _ in rows]
    found = quantiles(times, limits)
    plain = quantiles(limits, limits)
    assert found.median is None or found.median >= plain.median
    assert found.p90 is None or found.p90 >= plain.p90


def test_half_open_times_leave_the_median_open():
    assert quantiles([1, None, None], [5, 5, 5]).median is None


def test_an_election_that_is_written_down_late_still_finds_the_first_write_after_it(passing):
    """A node's trace may arrive after what clients saw of it."""
    events = list(passing.history)
    late = [event for event in events if type(event) is Traced and event.name == "elected"]
    rest = [event for event in events if event not in late]
    moved = History([*rest[:-1], *late, rest[-1]])
    assert [row.first_write for row in failovers(moved)] == [row.first_write for row in failovers(passing.history)]


def test_writes_are_forgotten_once_no_election_can_need_them(passing, monkeypatch):
    expected = failovers(passing.history)
    monkeypatch.setattr(failover, "_ACKS_MAX", 20)
    assert failovers(passing.history) == expected
