from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.node.frames import BadFrame, FrameReader, frame
from dethrone.clusters.node.httpframes import BadHttp, HttpReader, render_request, render_response


def split(data, cuts):
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


@given(st.lists(st.binary(max_size=40)), st.lists(st.integers(0, 2000)))
def test_any_split_of_the_stream_gives_the_same_frames(payloads, cuts):
    reader = FrameReader()
    stream = b"".join(frame(each) for each in payloads)
    assert [each for part in split(stream, cuts) for each in reader.feed(part)] == payloads
    assert reader.buffered == 0


@given(st.binary(max_size=200), st.lists(st.integers(0, 200)))
def test_random_bytes_give_frames_or_bad_frame(noise, cuts):
    reader = FrameReader(bytes_max=64)
    try:
        for part in split(noise, cuts):
            for payload in reader.feed(part):
                assert len(payload) <= 64
    except BadFrame:
        pass


def test_a_length_over_the_bound_is_refused_before_its_bytes_come():
    with pytest.raises(BadFrame, match="bound"):
        FrameReader(bytes_max=10).feed((11).to_bytes(4, "big"))


@given(
    st.lists(st.tuples(st.sampled_from(["GET", "POST"]), st.binary(max_size=40)), max_size=5),
    st.lists(st.integers(0, 2000)),
)
def test_any_split_gives_the_same_http_requests(calls, cuts):
    reader = HttpReader(answers=False)
    stream = b"".join(render_request(method, "/x?y=1", {"A": "b"}, body) for method, body in calls)
    got = []
    for part in [*split(stream, cuts), b"", b"", b"", b"", b""]:
        message = reader.feed(part)
        while message is not None:
            got.append((message.method, message.body))
            assert message.path == "/x?y=1"
            assert message.headers["a"] == "b"
            message = reader.feed(b"")
    assert got == calls


@given(st.one_of(st.binary(max_size=300), st.binary(max_size=80).map(lambda tail: b"HTTP/1.1 200 OK\r\n" + tail)))
def test_random_bytes_give_http_answers_or_bad_http(noise):
    reader = HttpReader(answers=True)
    try:
        message = reader.feed(noise + b"\r\n\r\n")
        assert message is None or 0 <= message.status <= 999
    except BadHttp:
        pass


@pytest.mark.parametrize(
    "head",
    [
        b"GET /\r\n\r\n",
        b"GET / HTTP/2\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 99999999999999\r\n\r\n",
        b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"x" * 20_000,
    ],
)
def test_what_is_not_our_http_is_refused(head):
    with pytest.raises(BadHttp):
        HttpReader(answers=False).feed(head)


def test_an_answer_with_close_says_so():
    message = HttpReader(answers=True).feed(render_response(200, {}, b"x", close=True))
    assert message is not None
    assert message.close
    assert (message.status, message.body) == (200, b"x")
