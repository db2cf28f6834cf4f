"""The overview of a long run: bounded however long the run, and true to what it sums up."""

from __future__ import annotations

import json
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.hoststate import HostState
from dethrone.harness.report import report_files, side_files
from dethrone.harness.report.failover import failovers
from dethrone.harness.report.lanes import RoleSpan, TroubleSpan
from dethrone.harness.report.overview import BUCKETS_MAX, ELECTIONS_MAX, INTERVALS_MAX, Overview, fitting
from tests.report.test_html import shape

HOUR = 3600 * SECOND


def role(lo, hi, *, role="LEADER", leads=True, term=1):
    return RoleSpan(lo=lo, hi=hi, role=role, leads=leads, term=term, incarnation=1)


def decided(role, _word):
    return role


def test_a_stretch_says_how_long_the_node_led_and_what_it_was_else():
    made = Overview(1)
    made.role(0, 2, role(0, 250 * MS, term=3))
    made.role(0, 0, role(250 * MS, SECOND, role="FOLLOWER", leads=False, term=4))
    assert made.roles(0, 2 * SECOND, 2, decided) == [25, 0, 4, 0, -1, 0, 0, -1, 0]


def test_a_leader_of_a_moment_is_seen():
    made = Overview(1)
    made.role(0, 2, role(0, MS))
    assert made.roles(0, 3000 * SECOND, 2, decided)[0] == 1


@given(st.lists(st.tuples(st.integers(0, 60_000), st.integers(0, 9_000)), max_size=20))
def test_no_time_is_lost_or_counted_twice(spans):
    made = Overview(1)
    for lo, length in spans:
        made.role(0, 2, role(lo * MS, (lo + length) * MS))
    assert sum(sum(seconds) for seconds in made._roles.values()) == 1000 * sum(length for _, length in spans)


@pytest.mark.parametrize("end", [SECOND, 59 * SECOND, 8 * HOUR, 8 * HOUR + 1, 1000 * HOUR])
def test_there_are_never_more_stretches_than_the_bound(end):
    made = Overview(2)
    assert len(made.roles(1, end, 2, decided)) <= 3 * BUCKETS_MAX
    assert len(made.rates(end)) <= BUCKETS_MAX
    width, bins, _, _ = made.elections(end, lambda _: True)
    assert len(bins) <= BUCKETS_MAX
    assert width % 60 == 0
    assert width * len(bins) * SECOND > end


def test_elections_are_counted_by_the_minute_even_if_not_all_are_drawn():
    made = Overview(1)
    for number in range(3 * ELECTIONS_MAX):
        made.election("", number * SECOND // 10, (number, number), [number])
        made.election("core", number * SECOND // 10, (number, number), [number])
    width, bins, drawn, total = made.elections(600 * SECOND, lambda source: source == "")
    assert (width, bins[0], total) == (60, 600, 3 * ELECTIONS_MAX)
    assert len(drawn) <= ELECTIONS_MAX
    assert drawn == sorted(drawn)


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 50)), max_size=30), st.integers(0, 1000))
def test_intervals_that_become_one_cover_what_they_were_made_of(spans, gap):
    sorted_spans = [[lo, lo + length, 1, True] for lo, length in sorted(spans)]
    (merged,) = fitting({"x": sorted_spans}, gap).values()
    assert sum(span[2] for span in merged) == len(spans)
    assert all(any(one[0] <= lo and hi <= one[1] for one in merged) for lo, hi, *_ in sorted_spans)
    assert all(later[0] - one[1] > gap for one, later in pairwise(merged))


def test_too_many_intervals_are_merged_until_they_fit():
    spans = {lane: [[t * 100, t * 100 + 1, 1, True] for t in range(INTERVALS_MAX)] for lane in range(4)}
    assert 0 < sum(map(len, fitting(spans, 1).values())) <= INTERVALS_MAX


def test_neighbouring_troubles_of_one_kind_are_one_with_their_number():
    made = Overview(1)
    for second in (1, 2, 3):
        made.trouble(0, TroubleSpan(lo=second * SECOND, hi=second * SECOND + MS, kind="cut", text="t", confirmed=True))
    made.trouble(0, TroubleSpan(lo=9 * SECOND, hi=10 * SECOND, kind="down", text="gone", confirmed=False))
    assert made.troubles(1, 20 * SECOND) == [
        [[1_000_000, 3_001_000, "cut", "3 × cut", True], [9_000_000, 10_000_000, "down", "gone", False]]
    ]


@pytest.fixture(scope="module")
def eight_hours(synthetic, passing):
    """A run of eight hours with an election, a fault and hundreds of operations each 24 s; its events."""
    story = synthetic.Story()
    nodes = synthetic.NODES
    for turn in range(1200):
        t, node = (turn * 24 + 1) * SECOND, nodes[turn % 5]
        if turn:
            before = nodes[(turn - 1) % 5]
            state = {before: HostState(down="SIGKILL")}
            story.fault(t - SECOND, t + 9 * SECOND, "kill", (before,), {before: "leader"}, step=turn, states=state)
        story.election(t, node, turn + 1, nodes[:3])
        for other in nodes:
            for second in (0, 12):
                now = "LEADER" if other == node else "FOLLOWER"
                story.traced(t + (second + 1) * SECOND, other, "answered", turn + 1, role=now)
    for process in range(5):
        for number in range(1000):
            t = number * 28 * SECOND + process * SECOND
            story.add(
                synthetic.ev.Invoke, t, op=number * 5 + process, process=process, f="append", value=1, target="n1"
            )
            story.add(synthetic.ev.Return, t + 3 * MS, op=number * 5 + process, status="ok", value=1, node="n1")
    return story.events(end=8 * HOUR)


@pytest.fixture(scope="module")
def long_run(eight_hours, passing, tmp_path_factory):
    """Its page, drawn out of events that can be read one after another and only once."""
    files = msgspec.structs.replace(passing, history=Once(iter(eight_hours)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(side_files, "EMBEDDED_MAX", 500_000)
        return report_files.write_html(files, tmp_path_factory.mktemp("long") / "report.html")


class Once:
    """A history that is not in memory."""

    damage = None

    def __init__(self, events):
        self._events = events

    def __iter__(self):
        return self._events


@pytest.mark.slow
def test_the_page_of_eight_hours_is_small(long_run):
    assert long_run.stat().st_size < 3_000_000
    sizes = [path.stat().st_size for path in (long_run.parent / "report-details").iterdir()]
    assert max(sizes) < 300_000
    data = json.loads(shape(long_run.read_text()).data)
    assert sum(data["overview"]["elections"]) == 1200
    assert len(data["overview"]["elections"]) == 481
    assert sum(row[4] for row in data["overview"]["faults"]) == 1199
    assert sum(sum(ended[:3]) for ended in data["rate"]) == 5_000


@pytest.mark.slow
def test_tables_of_faults_in_a_long_page_are_bounded_and_say_what_is_omitted(long_run, eight_hours, passing):
    page = long_run.read_text()
    faults = page.partition('<section id="faults"')[2].partition("</section>")[0]
    assert "more are omitted here: those that were installed and healed, the last ones first" in faults
    assert faults.count("<tr>") == 1 + 500
    assert faults.count("not reached") == 3, "what is odd stays"
    rows = failovers(type(passing.history)(eight_hours))
    assert f"{len(rows) - 500:,} more are omitted here: the quickest" in page
    assert f"<td class=n>{len(rows)}</td>" in page, "the figures count all"
