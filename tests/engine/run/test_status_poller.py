"""Framing of status answers, and the poller against real sockets on loopback."""

import contextlib
import json
import queue
import socket
import threading
import time

import pytest

from dethrone.harness.core.interfaces import NodeSpec, Reading, StatusCall
from dethrone.harness.core.world import Broken, Polled
from dethrone.harness.engine.run.status_poller import Poller, status_reader


def reader_of(framing, answers=1):
    return status_reader(StatusCall(port=1, request=b"?", framing=framing, answers=answers))


def whole(raw, framing):
    return reader_of(framing).feed(raw)


def test_a_u32_frame_is_taken_once_it_is_whole_and_what_follows_it_ends_the_connection():
    raw = (5).to_bytes(4, "big") + b"hello"
    for cut in range(9):
        reader = reader_of("u32")
        assert reader.feed(raw[:cut]) is None
        assert reader.feed(raw[cut:]) == b"hello"
        assert reader.keep
    reader = reader_of("u32")
    assert reader.feed(raw + b"rest") == b"hello"
    assert not reader.keep


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
    ],
)
def test_an_http_answer_is_taken_once_it_is_whole(raw):
    for cut in range(len(raw)):
        reader = reader_of("http")
        assert reader.feed(raw[:cut]) is None
        assert reader.feed(raw[cut:]) == b"hello"


def test_several_http_answers_are_taken_together_once_the_last_is_whole_however_they_are_cut():
    raw = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nyo"
    for cut in range(len(raw)):
        reader = reader_of("http", answers=2)
        assert reader.feed(raw[:cut]) is None
        assert reader.feed(raw[cut:]) == b"hello\0yo"
        assert reader.keep
    with pytest.raises(ValueError, match="bytes follow"):
        reader_of("http", answers=2).feed(raw + b"H")
    with pytest.raises(ValueError, match="HTTP 503"):
        reader_of("http", answers=2).feed(b"HTTP/1.1 503 no\r\nContent-Length: 0\r\n\r\n" + raw)


@pytest.mark.parametrize(
    "raw", [b"HTTP/1.1 503 no\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b"\x7f\xff\xff\xff"]
)
def test_nonsense_is_refused(raw):
    with pytest.raises(ValueError):
        whole(raw, "u32" if raw[:1] == b"\x7f" else "http")


class Echo:
    """A system whose status is what its server says."""

    def __init__(self, port):
        self.port = port

    def status_call(self, node):
        return StatusCall(port=self.port, request=(1).to_bytes(4, "big") + b"?", framing="u32")

    def reading(self, node, body):
        found = json.loads(body)
        if "role" in found:
            return Reading(role=found["role"], leads=True, term=3)
        return Reading(role="LEADER", leads=True, term=found["term"]) if "term" in found else None


def serve(answer):
    server = socket.create_server(("127.0.0.1", 0))

    def loop():
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                while connection.recv(5):
                    if answer is None:
                        continue
                    connection.sendall(len(answer).to_bytes(4, "big") + answer)

    threading.Thread(target=loop, daemon=True).start()
    return server


def poll(port):
    inbox = queue.SimpleQueue()
    node = NodeSpec(
        name="n1", address="127.0.0.1", members={}, knobs={}, profile="", variant=None, seed=0, data_dir="", log_dir=""
    )
    began = time.monotonic_ns()
    poller = Poller(
        Echo(port), {"n1": node}, interval_ns=20_000_000, clock=lambda: time.monotonic_ns() - began, put=inbox.put
    )
    poller.start()
    return poller, inbox


def test_answers_carry_the_span_in_which_they_were_true():
    server = serve(b'{"term": 4}')
    poller, inbox = poll(server.getsockname()[1])
    answers = [inbox.get(timeout=5) for _ in range(5)]
    poller.stop()
    server.close()
    readings = [answer for answer in answers if getattr(answer, "reading", None)]
    assert readings
    assert all(answer.reading.term == 4 and answer.span.lo <= answer.span.hi for answer in readings)


@pytest.mark.parametrize("answer", [b"[1]", None])
def test_a_node_that_answers_nonsense_or_nothing_is_silent(answer):
    server = serve(b'{"x": 1}' if answer else None)
    poller, inbox = poll(server.getsockname()[1])
    said = inbox.get(timeout=5)
    while not hasattr(said, "reading"):
        said = inbox.get(timeout=5)
    poller.stop()
    server.close()
    assert said.reading is None
    assert said.error


def test_a_refused_connection_is_silence_and_polling_goes_on():
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    poller, inbox = poll(port)
    first, second = inbox.get(timeout=5), inbox.get(timeout=5)
    poller.stop()
    assert first.error == second.error == "ECONNREFUSED"


def test_an_adapter_that_raises_is_silence_with_its_reason_and_one_trouble_and_polling_continues():
    server = serve(b"no json")
    poller, inbox = poll(server.getsockname()[1])
    said = [inbox.get(timeout=5) for _ in range(8)]
    poller.stop()
    server.close()
    broken = [one for one in said if isinstance(one, Broken)]
    polled = [one for one in said if isinstance(one, Polled)]
    assert len(broken) == 1
    assert not broken[0].ends
    assert len(polled) >= 5
    assert all(one.reading is None and "JSONDecodeError" in one.error for one in polled)


def test_a_role_of_three_megabytes_is_no_status():
    server = serve(json.dumps({"role": "x" * 3_000_000}).encode())
    poller, inbox = poll(server.getsockname()[1])
    said = inbox.get(timeout=5)
    while not isinstance(said, Polled):
        said = inbox.get(timeout=5)
    poller.stop()
    server.close()
    assert said.reading is None
    assert "role has 3000000 characters" in said.error
