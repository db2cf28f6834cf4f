from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.harness.core import events as ev
from dethrone.harness.core.clock import Span
from dethrone.harness.core.hoststate import ClockSkew, HostState, Strobe
from dethrone.harness.core.shown import Recorder
from dethrone.harness.report import words
from dethrone.harness.report.proof_values import lacking
from dethrone.harness.report.snippet import proving
from tests.checkers.histories import Tale
from tests.traced import traced

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from(
    ["vote", "elected", "acked", "persisted", "log_append", "log_truncate", "commit", "campaign", "role_change",
     "step_down", "vote_decision", "start", "prevote_started", "found", "answered", "config", "never heard of"]
) | st.text(max_size=10)  # fmt: skip
KEYS = st.sampled_from(
    ["term", "candidate", "voters", "index", "from", "to", "entries", "voted_for", "why", "file", "other"]
)


@given(NAMES, st.dictionaries(KEYS, JSON, max_size=4))
def test_any_trace_line_of_any_protocol_becomes_a_sentence(name, data):
    assert words.sentence(traced(name, data, term=3, role="X")).startswith("n1")


def test_every_event_of_a_run_is_one_line(passing, failing):
    for files in (passing, failing):
        for event in files.history:
            line = words.sentence(event, files.history)
            assert line
            assert "\n" not in line


def test_a_return_names_what_was_asked(passing):
    first = passing.history.of(ev.Return)[0]
    assert words.sentence(first, passing.history).startswith("client ")
    assert words.sentence(first).startswith("operation ")


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (HostState(), "healthy"),
        (HostState(cuts=("n1", "n2"), frozen=True), "frozen, hears nothing from n1 and n2"),
        (HostState(down="SIGKILL"), "down by SIGKILL"),
        (HostState(clock=ClockSkew(offset_ns=-5 * 10**9)), "wall clock -5 s"),
        (HostState(clock=ClockSkew(strobe=Strobe(10**9, 10**8))), "wall clock strobing by 1 s every 100 ms"),
    ],
)
def test_a_host_state_in_words(state, text):
    assert words.state(state) == text


def test_a_long_list_shows_both_its_ends_and_a_read_what_it_lacks():
    tale = Tale().append(17).read([*range(100, 140)])
    history = tale.end()
    proof = [event.seq for event in history.events if isinstance(event, (ev.Invoke, ev.Return))]
    (read,) = [event for event in history.of(ev.Return) if isinstance(event.value, list)]
    lines = {seq: text for seq, _, text in proving(history, proof)}
    assert lines[read.seq].endswith("[100, 101, 102, …, 137, 138, 139] (40 values), without 17")
    assert [one for one in lines.values() if "without" in one] == [lines[read.seq]]
    assert lacking(history, [read.seq]) == {}


def test_a_recorded_read_says_what_it_lacks_too():
    tale = Tale().append(17).append(18)
    for shown in ([17], [17, 19, 20]):
        recorder = Recorder("list")
        op = tale.invoke("read", "k")
        tale.back(op, "ok", recorder.record("k", shown))
    history = tale.end()
    proof = [event.seq for event in history.of(ev.Return)]
    found = lacking(history, proof)
    assert list(found.values()) == [[18], [18]]


def test_moments_and_lists():
    assert words.at(12_345_678_901) == "+12.345 s"
    assert words.at(-1_000_000) == "-0.001 s"
    assert words.names(["a", "b", "c"]) == "a, b and c"
    assert words.names([]) == "nobody"


def test_figures_in_words():
    values = {"bound_ns": 3 * 10**9, "faults": {"kill": 2}, "none_yet": [], "tiers": ["T1", "T3"], "gone": None, "n": 1}
    assert words.pairs({"detect_ns": [[2_000_000, False], [10**9, True]]}) == "detect 2 ms > 1 s"
    assert words.pairs(values) == "bound 3 s, faults: kill 2, tiers T1 T3, n 1"


def test_a_mark_is_drawn_where_its_effect_is_certain_and_a_poll_in_its_middle():
    fault = ev.Silent(seq=0, t=9, span=Span(0, 8), node="n1", error="timeout")
    assert words.moment(fault) == 4
    process = ev.NodeProcess(seq=0, t=9, span=Span(0, 8), node="n1", incarnation=1, phase="started", asked=True)
    assert words.moment(process) == 8


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        (
            "found",
            {"file": "read", "voted_for": "n2"},
            "n1 found on its disk when it started: term 3 and its vote for n2",
        ),
        ("found", {"file": "read", "voted_for": None}, "n1 found on its disk when it started: term 3 and no vote"),
        ("found", {"file": "read"}, "n1 found on its disk when it started: term 3"),
        ("found", {"file": "absent"}, "n1 found on its disk when it started: nothing"),
        ("found", {"file": "unreadable"}, "n1 found on its disk when it started: a file that cannot be read"),
        ("persisted", {"voted_for": "n2"}, "n1 has stored term 3 and its vote for n2"),
        ("persisted", {"voted_for": None}, "n1 has stored term 3 and no vote"),
        ("persisted", {}, "n1 has stored term 3"),
        ("answered", {"to": "n2"}, "n1 answered in term 3"),
        ("config", {"index": 7, "voters": ["n1", "n2"]}, "n1 has the members n1 and n2 from entry 7 on"),
    ],
)
def test_what_a_shell_witnessed_is_said_in_words(name, data, text):
    assert words.sentence(traced(name, data, term=3, source="shell")) == text


def test_a_malformed_trace_line_is_told_with_what_is_wrong_with_it():
    event = ev.Noise(
        seq=1,
        t=0,
        span=Span(0, 0),
        host="n2",
        kind=ev.TRACE_MALFORMED,
        value_ns=0,
        detail={"why": "elected: the field 'term' is missing", "line": '{"dethrone": 1, "event": "elected"}'},
    )
    said = "n2 printed a malformed trace line (elected: the field 'term' is missing): {"
    assert words.sentence(event).startswith(said)


@pytest.mark.parametrize(
    ("kind", "host", "said"),
    [
        ("sources", "n1", "n1 reported its sources of noise"),
        ("sources", "", "the run reported its sources of noise"),
        ("load", "n2", "n2 reported its load"),
        ("agent-lost", "n3", "no contact with n3 for 2 s: agent lost"),
        ("rules-lost", "n3", "n3 reported rules-lost: its faults or records are not certain"),
        ("stall", "n3", "host noise on n3: stall of 70 ms"),
    ],
)
def test_every_kind_of_noise_is_a_sentence(kind, host, said):
    event = ev.Noise(seq=0, t=0, span=Span(0, 2 * 10**9), host=host, kind=kind, value_ns=70_000_000)
    assert words.sentence(event) == said


@pytest.mark.parametrize(
    ("outcome", "phase", "answer", "said"),
    [
        ("installed", "begin", {"status": "ok", "leader": "n2", "term": 5}, " · n2 led term 5: done"),
        ("indeterminate", "begin", {"status": "info"}, ": unknown whether it was done"),
        ("healed", "end", {}, ": over"),
        ("installed", "begin", "no mapping", ": done"),
    ],
)
def test_a_request_of_a_fault_is_done_and_says_who_led_then(outcome, phase, answer, said):
    event = ev.FaultEvent(
        seq=1,
        t=2,
        fault=0,
        step=0,
        kind="transfer",
        phase=phase,
        span=Span(1, 2),
        victims=("n1",),
        params={"to": "node:n2"},
        outcome=outcome,
        evidence={"answer": answer},
    )
    assert words.sentence(event) == f"transfer of n1 · to node:n2{said}"
