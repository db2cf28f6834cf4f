"""The part of the page on noise: which sources were read, and how busy the machine was."""

from __future__ import annotations

import msgspec

from dethrone.harness.core.clock import MS, SECOND, Span
from dethrone.harness.core.events import Noise
from dethrone.harness.core.history import History
from dethrone.harness.report import page_data
from dethrone.harness.report.html import sections
from dethrone.harness.report.noise_figures import LONGEST_MAX
from dethrone.harness.report.rundir import read_run
from tests.report import synthetic


def shown(tmp_path, *noise):
    """The page's section for a run with these events of noise, and none else."""
    events = [event for event in synthetic.passing_events() if not isinstance(event, Noise)]
    body, end = events[:-1], events[-1]
    body += [Noise(seq=0, t=end.t, span=Span(0, SECOND), value_ns=0, **fields) for fields in noise]
    events = [msgspec.structs.replace(event, seq=seq) for seq, event in enumerate([*body, end])]
    place = synthetic.write(tmp_path / "run", events, synthetic.plan(), synthetic.passing_judgement())
    files = read_run(place)
    return sections.noise(files, page_data.drawn(files))


def test_sources_and_totals_are_shown_by_host_and_what_was_not_read_has_its_reason(tmp_path):
    sources = {"wakeup": "read", "throttled": "unreadable: <no such file>"}
    page = shown(
        tmp_path,
        {"host": "n1", "kind": "sources", "detail": {"machine": "m1", "sources": sources}},
        {"host": "n1", "kind": "load", "detail": {"cpu_pressure_ns": SECOND}},
        {"host": "n1", "kind": "load", "detail": {"cpu_pressure_ns": 2 * SECOND}},
    )
    assert "wakeup" in page
    assert "throttled: unreadable: &lt;no such file&gt;" in page
    assert "cpu pressure 3.00 s" in page or "cpu pressure 3 s" in page
    assert "None was reported by" in page, "neither is a disturbance"


def test_a_history_that_declares_nothing_says_so(tmp_path):
    assert "not recorded in this history" in shown(tmp_path)


def test_virtual_time_needs_no_source(tmp_path):
    page = shown(tmp_path, {"host": "", "kind": "sources", "detail": {"virtual": True}})
    assert "no machine disturbs the hosts" in page


def test_of_many_disturbances_the_longest_are_drawn_and_all_are_counted(passing):
    many = [
        Noise(seq=0, t=0, span=Span(0, n * MS), host="n1", kind="stall", value_ns=(-1) ** n * n * MS)
        for n in range(10 * LONGEST_MAX)
    ]
    events = [*passing.history][:1] + many
    events = [msgspec.structs.replace(event, seq=seq) for seq, event in enumerate(events)]
    drawn = page_data.drawn(msgspec.structs.replace(passing, history=History(events)))
    assert drawn.data["caps"] == [
        {"what": "disturbances by the machine", "shown": LONGEST_MAX, "total": 10 * LONGEST_MAX}
    ]
    assert min(hi for _, hi, *_ in drawn.data["noise"]) == 9 * LONGEST_MAX * 1000
    assert drawn.noise.figures["n1", "stall"].count == 10 * LONGEST_MAX
    assert drawn.noise.figures["n1", "stall"].event.value_ns == -(10 * LONGEST_MAX - 1) * MS
