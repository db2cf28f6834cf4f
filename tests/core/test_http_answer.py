"""HTTP answers byte by byte: the same whatever the cut, and a limit on everything that the other end decides."""

import time

import pytest

from dethrone.harness.core.http_answer import CHUNKS_MAX, HEAD_MAX, HEADERS_MAX, AnswerReader

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def read(raw, *, body_max=1 << 20, until_close=False, cut=65536):
    reader = AnswerReader(body_max=body_max, until_close=until_close)
    for at in range(0, len(raw), cut):
        answer = reader.feed(raw[at : at + cut])
        if answer is not None:
            return answer
    return None


@pytest.mark.parametrize("cut", [1, 2, 3, 7, 65536])
@pytest.mark.parametrize(
    ("raw", "status", "body", "keep"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, b"hi", True),
        (b"HTTP/1.1 404 \r\ncontent-length:2\r\nConnection: Close\r\n\r\nno", 404, b"no", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", 200, b"", False),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", True),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n!", 200, b"!", True),
        (CHUNKED + b"2;ext=1\r\nab\r\n0a\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n", 200, b"ab0123456789", True),
    ],
)
def test_an_answer_is_the_same_however_its_bytes_are_cut(cut, raw, status, body, keep):
    answer = read(raw, cut=cut)
    assert (answer.status, answer.body, answer.keep) == (status, body, keep)


def test_an_answer_without_a_length_ends_with_its_connection_where_that_is_allowed():
    reader = AnswerReader(body_max=100, until_close=True)
    assert reader.feed(b"HTTP/1.0 200 OK\r\n\r\nall of") is None
    assert reader.feed(b" it") is None
    answer = reader.end()
    assert (answer.body, answer.keep) == (b"all of it", False)


def test_a_connection_that_closes_too_soon_is_no_answer():
    reader = AnswerReader(body_max=100, until_close=True)
    reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nall of")
    with pytest.raises(ValueError, match="closed"):
        reader.end()


@pytest.mark.parametrize(
    "raw",
    [
        CHUNKED + b"-5\r\nabcde\r\n",
        CHUNKED + b"+5\r\nabcde\r\n",
        CHUNKED + b"0x5\r\nabcde\r\n",
        CHUNKED + b"1_0\r\nabcde\r\n",
        CHUNKED + b"ffffffff\r\n",
        CHUNKED + b"2\r\nabXX",
        CHUNKED + b"5" * 300,
        CHUNKED + b"0\r\n" + b"a: b\r\n" * 20_000,
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * (HEADERS_MAX + 1) + b"\r\n",
        b"HTTP/1.1 200 OK\r\nA: " + b"x" * HEAD_MAX,
        b"HTTP/1.1 100 C\r\n\r\n" * 20,
        b"HTTP/1.1 101 Switching\r\n\r\n",
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
    ],
)
def test_what_is_nonsense_or_over_a_limit_is_refused(raw):
    with pytest.raises(ValueError):
        read(raw)


def test_a_body_of_tiny_chunks_costs_linear_time_and_is_refused_at_a_limit():
    began = time.process_time()
    with pytest.raises(ValueError, match="chunks"):
        read(CHUNKED + b"1\r\nx\r\n" * (CHUNKS_MAX + 10), cut=1000)
    assert time.process_time() - began < 5
