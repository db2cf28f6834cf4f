"""Faults on what is seen of a node from outside, on real processes: they happen, soon, and the history says why."""

from __future__ import annotations

import pytest

from dethrone.harness.core.events import FaultEvent, Observed, Sighted
from dethrone.harness.core.history_files import read_history
from tests.command import told
from tests.outside import description

pytestmark = [pytest.mark.namespaces, pytest.mark.whole_run]

HITS = 3


def schedule(when, *, steps, victims):
    """Short pauses."""
    step = f"""
[[step]]
[[step.fault]]
kind = "pause"
victims = "{victims}"
hold = "100ms"
when = {{ {when}, within = "8s" }}
"""
    return 'health_bound = "2s"\n' + step * steps


def play(state, tmp_path, when, *more, steps=HITS, victims="actor"):
    """The figures of the triggers of such a run, and its history."""
    (tmp_path / "plan.toml").write_text(schedule(when, steps=steps, victims=victims))
    words = ["run", description(tmp_path), "--on", "local", "--nodes", "3", "--schedule", tmp_path / "plan.toml"]
    options = ["--workload", "election", "--time-limit", "8s", "--out", tmp_path / "run", "--seed", "5", *more]
    found, _ = told(state, *words, *options)
    assert not found["trouble"], found["trouble"]
    return found["figures"]["triggers"], read_history(tmp_path / "run" / "history")


@pytest.fixture
def state(root, tmp_path):
    return tmp_path / "state"


def begun(history):
    return [event for event in history.of(FaultEvent) if event.phase == "begin"]


named = pytest.param('pattern = "beat"', marks=pytest.mark.nightly("a regex is looked for in make test"))


@pytest.mark.slow
@pytest.mark.parametrize("what", [named, "regex = 'beat \\d+ of n'"])
def test_a_line_in_a_log_starts_a_fault_of_the_node_that_wrote_it(state, tmp_path, what):
    figures, history = play(state, tmp_path, f'event = "logged", by = "node:n2", where = {{ {what} }}')
    assert (figures["hits"], figures["misses"]) == (HITS, 0)
    assert [event.victims for event in begun(history)] == [("n2",)] * HITS
    assert {event.outcome for event in begun(history)} == {"installed"}
    assert all("beat" in event.data["line"] for event in history.of(Sighted))
    assert figures["latency_us"]["median"] < 1_000_000


@pytest.mark.nightly("a line in a log starts a fault in make test")
def test_a_change_of_what_a_node_answers_starts_a_fault(state, tmp_path):
    when = 'event = "status-changed", by = "node:n3", where = { field = "commit" }'
    figures, history = play(state, tmp_path, when, steps=1)
    assert (figures["hits"], figures["misses"]) == (1, 0)
    assert [(event.victims, event.outcome) for event in begun(history)] == [(("n3",), "installed")]
    at = begun(history)[0].evidence["trigger"]["at"]
    shown = [event for event in history.of(Observed) if event.node == "n3"]
    before = next(event for event in shown if event.span.lo == at[0])
    assert next(event for event in shown if event.span.hi == at[1]).commit > before.commit


@pytest.mark.nightly("a line in a log starts a fault in make test")
def test_a_frame_on_the_wire_starts_a_fault_of_its_receiver(state, tmp_path):
    where = '{ to = "n3", port = 7000, bytes_min = 800, contains = "beat" }'
    when = f'event = "frame-sent", by = "leader", where = {where}'
    figures, history = play(state, tmp_path, when, victims="receiver")
    assert (figures["hits"], figures["misses"]) == (HITS, 0)
    assert [(event.victims, event.outcome) for event in begun(history)] == [(("n3",), "installed")] * HITS
    assert all(event.data["bytes"] > 800 and event.data["to"] == "n3" for event in history.of(Sighted))


@pytest.mark.nightly("a line in a log starts a fault in make test")
def test_a_figure_on_a_page_of_metrics_starts_a_fault(state, tmp_path):
    """The series counts to 9 and begins again, every two seconds."""
    where = "{ metric = 'beats_by{who=\"me\"}', port = 8000, above = 4 }"
    when = f'event = "metric-changed", by = "node:n1", where = {where}'
    figures, history = play(state, tmp_path, when, steps=1)
    assert (figures["hits"], figures["misses"]) == (1, 0)
    assert [(event.victims, event.outcome) for event in begun(history)] == [(("n1",), "installed")]
    assert all(event.data["before"] <= 4 < event.data["now"] for event in history.of(Sighted))
