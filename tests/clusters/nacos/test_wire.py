from __future__ import annotations

import contextlib
import gzip
import json
from urllib.parse import parse_qs

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dethrone.clusters.targets.nacos import messages as m
from dethrone.clusters.targets.nacos import wire

integers = st.integers(0, 2**53)
words = st.text(max_size=12)
keys = st.text(min_size=1, max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)
given_values = values.filter(lambda value: value is not None)
peers = st.builds(
    m.RaftPeer,
    ip=keys,
    vote_for=st.none() | keys,
    term=integers,
    leader_due_ms=st.integers(-500, 20_000),
    heartbeat_due_ms=st.integers(-500, 5_000),
    state=st.sampled_from(["FOLLOWER", "CANDIDATE", "LEADER"]),
)
datums = st.builds(m.Datum, key=keys, value=values, timestamp=integers)
requests = st.one_of(
    st.builds(m.VoteRequest, peers),
    st.builds(m.BeatRequest, peers, st.lists(st.builds(m.DatumStamp, keys, integers), max_size=4).map(tuple)),
    st.just(m.PeerRequest()),
    st.builds(m.DatumFetch, st.lists(keys, max_size=4).map(tuple), integers),
    st.builds(m.DatumPublish, integers, datums, peers),
    st.builds(m.DatumDelete, keys, peers),
    st.builds(m.Forward, integers, keys, values, st.integers(0, 9)),
)


@st.composite
def calls(draw):
    """A request and a fitting answer."""
    asked = draw(requests)
    number = getattr(asked, "number", 0)
    bad = st.sampled_from(["not_leader", "unknown", "failed", "refused"])
    good = {
        m.VoteRequest: st.builds(m.VoteAnswer, peers),
        m.BeatRequest: st.builds(m.BeatAnswer, peers),
        m.PeerRequest: st.builds(m.PeerAnswer, peers),
        m.DatumFetch: st.builds(
            m.FetchAnswer, st.lists(datums, max_size=3).map(tuple), st.just(getattr(asked, "term", 0))
        ),
        m.DatumPublish: st.just(m.PublishAck(number)),
        m.DatumDelete: st.just(m.DeleteAck()),
        m.Forward: st.just(m.ForwardAnswer(number, "ok")) | st.builds(m.ForwardAnswer, st.just(number), bad, words),
    }[type(asked)]
    call = asked.__struct_config__.tag
    kinds = st.sampled_from(["illegal state", "illegal argument"])
    refused = st.builds(m.CallError, st.just(call), kinds, words, st.just(number))
    return asked, draw(good | refused)


@given(requests)
def test_every_request_comes_back_as_it_was(body):
    method, path, headers, content = wire.request(body)
    assert path.isascii()
    assert wire.parse_request(method, path, headers, content) == body


@given(calls())
def test_every_answer_comes_back_as_it_was(call):
    asked, body = call
    status, headers, content = wire.response(body)
    assert wire.parse_response(asked, status, headers, content) == body


def test_a_vote_is_a_form_parameter_with_the_whole_record_in_the_names_of_the_original():
    method, path, headers, content = wire.request(m.VoteRequest(m.RaftPeer("n1", "n1", 3, 15_500, 5_000, "CANDIDATE")))
    assert (method, path) == ("POST", "/v1/ns/raft/vote")
    assert headers["Content-Type"].startswith("application/x-www-form-urlencoded")
    (vote,) = parse_qs(content.decode())["vote"]
    assert json.loads(vote) == {
        "ip": "n1",
        "voteFor": "n1",
        "term": 3,
        "leaderDueMs": 15_500,
        "heartbeatDueMs": 5_000,
        "state": "CANDIDATE",
    }


def test_a_beat_is_gzip_of_json():
    _, path, headers, content = wire.request(m.BeatRequest(m.RaftPeer("n1", state="LEADER"), (m.DatumStamp("x", 3),)))
    assert (path, headers["Content-Encoding"]) == ("/v1/ns/raft/beat", "gzip")
    beat = json.loads(gzip.decompress(content))["beat"]
    assert beat["peer"]["state"] == "LEADER"
    assert beat["datums"] == [{"key": "x", "timestamp": 3}]


def test_the_same_beat_gives_the_same_bytes():
    body = m.BeatRequest(m.RaftPeer("n1", state="LEADER"), tuple(m.DatumStamp(f"k{i}", i) for i in range(100)))
    assert wire.request(body) == wire.request(body)


def test_refusals_are_500_with_the_text_of_the_original():
    status, _, content = wire.response(m.CallError("vote", "illegal state", "can not find peer: n9"))
    assert (status, content) == (500, b"illegal state: can not find peer: n9")


def test_the_sender_is_the_ip_of_the_record():
    record = m.RaftPeer("n2")
    bodies = [m.VoteRequest(record), m.BeatRequest(record), m.DatumPublish(1, m.Datum("x", 1, 1), record)]
    assert {wire.sender(body) for body in [*bodies, m.DatumDelete("x", record)]} == {"n2"}
    assert wire.sender(m.PeerRequest()) is None
    assert wire.sender(m.DatumFetch((), 0)) is None


GOOD = json.dumps({"ip": "n1", "term": 1})


@pytest.mark.parametrize(
    ("method", "path", "content", "status"),
    [
        ("POST", "/v1/ns/raft/nothing", b"", 404),
        ("POST", "http://[", b"", 400),
        ("GET", "/v1/ns/raft/vote", b"", 405),
        ("POST", "/v1/ns/raft/vote", b"", 400),
        ("POST", "/v1/ns/raft/vote", b"vote=", 400),
        ("POST", "/v1/ns/raft/vote", b"vote=%7B%22ip%22%3A1%7D", 400),
        ("POST", "/v1/ns/raft/vote", b"\xff\xfe", 400),
        ("POST", "/v1/ns/raft/vote", b"vote=%ff", 400),
        ("POST", "/v1/ns/raft/vote", b"a=1&" * 40, 400),
        ("POST", "/v1/ns/raft/beat", b"{}", 400),
        ("POST", "/v1/ns/raft/beat", b"\x1f\x8bnonsense", 400),
        ("POST", "/v1/ns/raft/beat", gzip.compress(b'{"beat":{"peer":' + GOOD.encode() + b"}}", mtime=0)[:-9], 400),
        ("POST", "/v1/ns/raft/beat", gzip.compress(b'{"beat":{"peer":{"ip":"n1","state":"KING"}}}', mtime=0), 400),
        ("POST", "/v1/ns/raft/beat", b"[" * 100_000, 400),
        ("GET", "/v1/ns/raft/datum", b"", 400),
        ("GET", "/v1/ns/raft/datum?keys=a&term=x", b"", 400),
        ("DELETE", "/v1/ns/raft/datum?key=a&number=1", b"", 400),
        ("POST", "/v1/ns/raft/datum?key=a&number=1&hops=1", b'{"key":"a","value":null}', 400),
        ("POST", "/v1/ns/raft/datum/commit?key=a", b'{"datum":{"key":"a","value":1,"timestamp":1},"source":{}}', 400),
        ("DELETE", "/v1/ns/raft/datum/commit", b"{}", 400),
    ],
)
def test_a_request_that_makes_no_sense_says_with_which_status_to_answer(method, path, content, status):
    with pytest.raises(wire.BadRequest) as raised:
        wire.parse_request(method, path, {}, content)
    assert raised.value.status == status


@settings(max_examples=300)
@given(
    st.sampled_from(["GET", "POST", "DELETE"]),
    st.sampled_from([wire.VOTE, wire.BEAT, wire.PEER, wire.DATUM, wire.COMMIT]),
    st.text(max_size=20),
    st.binary(max_size=40)
    | st.binary(max_size=40).map(gzip.compress)
    | st.binary(max_size=9).map(lambda b: b"vote=" + b),
)
def test_no_request_raises_anything_but_bad_request(method, path, query, content):
    with contextlib.suppress(wire.BadRequest):
        wire.parse_request(method, f"{path}?{query}", {}, content)


@settings(max_examples=300)
@given(requests, st.sampled_from([200, 404, 500, 503]), st.binary(max_size=40) | st.just(b'{"outcome":"king"}'))
def test_no_answer_raises_and_nonsense_is_not_ok(asked, status, content):
    body = wire.parse_response(asked, status, {}, content)
    if status != 200:
        assert isinstance(body, m.CallError)


def test_a_gzip_bomb_is_not_unpacked(monkeypatch):
    monkeypatch.setattr(wire, "BODY_MAX", 1_000)
    with pytest.raises(wire.BadRequest):
        wire.parse_request("POST", wire.BEAT, {}, gzip.compress(b" " * 2_000))
    with pytest.raises(wire.BadRequest):
        wire.parse_request("POST", wire.BEAT, {}, b" " * 2_000)
