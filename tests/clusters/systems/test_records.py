from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.node.frames import FrameReader
from dethrone.clusters.systems.nacos import SYSTEM as NACOS
from dethrone.clusters.systems.raft import SYSTEM as RAFT
from tests.clusters.systems.specs import specs

STATUS = {
    "node": "n1",
    "system": "raft",
    "group": "",
    "incarnation": 2,
    "role": "LEADER",
    "term": 7,
    "leader": "n1",
    "voted_for": "n1",
    "log_end": {"term": 7, "index": 12},
    "commit": 11,
    "hw": None,
    "extra": {"more": 1},
}
LINE = {
    "seq": 3,
    "mono_ns": 5_000,
    "mono_ms": 0,
    "wall_ms": 0,
    "node": "n1",
    "incarnation": 1,
    "event": "elected",
    "term": 7,
    "role": "LEADER",
    "source": "shell",
    "data": {"voters": ["n1", "n2"]},
}
NODE = specs(RAFT)["n1"]


def answer(**changes):
    return json.dumps({"id": 0, "status": {**STATUS, **changes}}).encode()


def line(**changes):
    return json.dumps({**LINE, **changes}).encode()


def test_the_question_is_one_frame_that_asks_for_the_status():
    call = RAFT.status_call(NODE)
    assert call.framing == "u32"
    (payload,) = FrameReader().feed(call.request)
    assert json.loads(payload)["status"] is True


def test_a_status_becomes_a_reading_of_one_moment():
    reading = RAFT.reading(NODE, answer())
    assert reading.leads
    assert reading.atomic
    assert (reading.role, reading.term, reading.leader, reading.voted_for) == ("LEADER", 7, "n1", "n1")
    assert (reading.log_end, reading.commit, reading.incarnation) == ((7, 12), 11, 2)
    assert not RAFT.reading(NODE, answer(role="CANDIDATE", leader=None)).leads


def test_nacos_shows_neither_positions_nor_votes():
    reading = NACOS.reading(specs(NACOS)["n1"], answer())
    assert reading.leads
    assert reading.voted_for is reading.log_end is reading.commit is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        b"[]",
        b'{"id":0}',
        b'{"id":0,"error":"no"}',
        answer(node="n2"),
        answer(term=-1),
        answer(term="7"),
        answer(incarnation=0),
        answer()[:-5],
        b"\xff\xfe",
    ],
)
def test_what_is_no_answer_of_that_node_is_silence(body):
    assert RAFT.reading(NODE, body) is None


def test_a_trace_line_keeps_its_place_and_who_says_it():
    parsed = RAFT.trace(line())
    assert (parsed.incarnation, parsed.n, parsed.mono_ns) == (1, 3, 5_000)
    assert (parsed.name, parsed.term, parsed.role, parsed.source) == ("elected", 7, "LEADER", "shell")
    assert parsed.data == {"voters": ["n1", "n2"]}
    assert parsed.group == ""
    assert RAFT.trace(line(group="g1")).group == "g1"


@pytest.mark.parametrize(
    "raw", [b"", b"Traceback (most recent call last):", line(source="rumour"), line(seq=0), line()[:40], line(data=[])]
)
def test_a_line_of_somebody_else_is_none(raw):
    assert RAFT.trace(raw) is None


@given(st.binary(max_size=200))
def test_no_bytes_can_raise(raw):
    RAFT.reading(NODE, raw)
    RAFT.trace(raw)
