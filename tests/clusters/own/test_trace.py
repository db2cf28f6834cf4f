"""Trace lines of the published format: what fits is an event of a history, what does not is said, never guessed."""

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.own.trace import EVENTS, FORMAT, event_of, read_lines, schema
from dethrone.harness.core.interfaces import Malformed, TraceLine

DOCS = Path(__file__).parents[3] / "docs"

EXAMPLES = {
    "elected": {"term": 3, "voters": ["n1", "n2"], "members": ["n1", "n2", "n3"]},
    "vote_granted": {"term": 3, "candidate": "n1"},
    "term_changed": {"term": 3, "voted_for": None},
    "stepped_down": {},
    "committed": {"index": 7},
    "appended": {"entries": [[1, 1, "ab"], [2, 1, 17]]},
    "truncated": {"from": 4},
    "acknowledged": {"term": 3, "index": 7},
    "recovered": {"term": 0, "voted_for": None, "file": "absent"},
    "campaigning": {"term": 3},
    "pre_vote_started": {"term": 3},
    "pre_vote_won": {},
    "pre_vote_granted": {"candidate": "n2"},
    "leader_seen": {"term": 3, "leader": "n2"},
    "members_changed": {"term": 3, "index": 9, "voters": ["n1"]},
    "halting": {"reason": "the disk is full"},
    "always": {"name": "lease-holds", "condition": False, "details": {"left_ms": -1}},
    "sometimes": {"name": "renewed", "condition": True},
    "unreachable": {"name": "two-configurations", "term": 2},
}


def line(event, **more):
    return json.dumps({"dethrone": 1, "event": event, **more}).encode()


def only(text):
    found = read_lines(text)
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("event", EVENTS)
def test_each_kind_of_line_becomes_an_event_and_keeps_its_name(event):
    found = only(line(event, **EXAMPLES[event]))
    assert isinstance(found, TraceLine)
    assert event_of(found) == event
    assert found.term == EXAMPLES[event].get("term", 0)


def test_what_the_checkers_read_is_there():
    assert only(line("elected", **EXAMPLES["elected"])).data["voters"] == ["n1", "n2"]
    vote = only(line("vote_granted", term=3, candidate="n1"))
    assert (vote.name, vote.source, vote.data) == ("vote", "shell", {"candidate": "n1"})
    appended = only(line("appended", entries=[[4, 2, "x"]]))
    assert appended.data == {"from": 4, "entries": [[4, 2, "x"]]}
    assert only(line("stepped_down")).data["from"] == "LEADER"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (line("elected"), "the field 'term' is missing"),
        (line("electd", term=1), "did you mean 'elected'"),
        (line("elected", term=0), "above 0"),
        (line("elected", term=True), "above 0"),
        (line("elected", term="3"), "above 0"),
        (line("elected", term=1, voter=["n1"]), "did you mean 'voters'"),
        (line("elected", term=1, voters="n1"), "whose vote was counted"),
        (line("vote_granted", term=1, candidate=""), "who got the vote"),
        (line("appended", entries=[[2, 1, "a"], [4, 1, "b"]]), "rising by one"),
        (line("recovered", term=1, file="gone"), "unreadable"),
        (b'{"dethrone": 2, "event": "elected", "term": 1}', "version 2"),
        (b'{"dethrone": true, "event": "elected", "term": 1}', "version True"),
        (b'{"dethrone": 1, "event": "elected", "term": 1', "no JSON object"),
        (b'{"dethrone": 1, "event": "elected", "term": 1} and more', "no JSON object"),
        (b'{"event": "elected", "dethrone"', "no JSON object"),
    ],
)
def test_a_malformed_line_is_told_with_what_is_wrong(text, why):
    found = only(text)
    assert isinstance(found, Malformed)
    assert why in found.why
    assert found.line.startswith(text.decode()[:20])


@pytest.mark.parametrize("text", [b"", b"2026-01-01 INFO started", b'{"level": "info", "event": "elected"}', b"{"])
def test_other_output_is_not_of_the_trace(text):
    assert read_lines(text) == ()


def test_a_loggers_prefix_does_no_harm_and_the_mark_need_not_come_first():
    assert only(b"12:00:01.5 INFO node: " + line("elected", term=2)).term == 2
    assert only(b'{"event": "elected", "term": 2, "time": 1.5, "dethrone": 1}').term == 2


def test_what_a_killed_process_left_half_printed_before_the_next_ones_line_is_dropped():
    whole = line("recovered", term=2)
    for cut in range(1, len(line("elected", term=3))):
        found = read_lines(line("elected", term=3)[:cut] + whole)
        assert [event_of(one) for one in found if isinstance(one, TraceLine)] == ["recovered"]
        assert not any(isinstance(one, Malformed) for one in found)
    both = read_lines(line("elected", term=3) + whole)
    assert [event_of(one) for one in both] == ["elected", "recovered"]


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_passed_over_malformed_or_a_line_with_a_known_name(data, marked):
    for one in FORMAT.every_line(b'{"dethrone": 1, ' + data if marked else data):
        assert isinstance(one, Malformed) or event_of(one) in EVENTS


@given(
    st.sampled_from(sorted(EVENTS)),
    st.sampled_from(["term", "voters", "candidate", "index", "entries", "from", "file", "leader", "group"]),
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.lists(st.integers(), max_size=2)
    ),
)
def test_a_field_of_any_value_is_read_as_it_is_or_malformed(event, field, value):
    given_line = {"dethrone": 1, "event": event, **EXAMPLES[event], field: value}
    found = only(msgspec.json.encode(given_line))
    if isinstance(found, TraceLine):
        assert found.term == given_line.get("term", 0)
        kept = {name: one for name, one in given_line.items() if name in found.data}
        assert all(found.data[name] == one for name, one in kept.items() if name not in {"from", "file"})


def test_the_schema_in_the_documentation_is_the_formats():
    assert json.loads((DOCS / "trace-lines.schema.json").read_text()) == schema()


def test_every_kind_of_line_is_explained_in_the_documentation():
    text = (DOCS / "own-system.md").read_text()
    assert [event for event in EVENTS if f"`{event}`" not in text] == []
