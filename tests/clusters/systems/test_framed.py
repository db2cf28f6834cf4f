from __future__ import annotations

import socket
import threading
import time

import pytest

from dethrone.clusters.systems.framed import FramedLine, NeverSentError, NoAnswerError

SECOND = 1_000_000_000


def soon(seconds=1.0):
    return time.monotonic_ns() + int(seconds * SECOND)


@pytest.fixture
def pair():
    """A line and the other end of it."""
    listener = socket.create_server(("127.0.0.1", 0))
    line = FramedLine(listener.getsockname(), soon())
    other, _ = listener.accept()
    yield line, other
    line.close()
    other.close()
    listener.close()


def test_frames_go_and_come_whole_however_the_stream_is_cut(pair):
    line, other = pair
    line.send(b"question", soon())
    assert other.recv(100) == b"\x00\x00\x00\x08question"
    for part in (b"\x00\x00", b"\x00\x02ab\x00\x00\x00", b"\x01c"):
        other.sendall(part)
    assert [line.receive(soon()), line.receive(soon())] == [b"ab", b"c"]
    assert not line.ended()


def test_a_connection_that_cannot_be_made_has_sent_nothing():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
    with pytest.raises(NeverSentError):
        FramedLine(address, soon())
    with pytest.raises(NeverSentError, match="no time"):
        FramedLine(address, soon(-1))


def test_silence_hanging_up_and_a_frame_over_the_bound_are_no_answer(pair):
    line, other = pair
    with pytest.raises(NoAnswerError, match="timeout"):
        line.receive(soon(0.05))
    other.sendall(b"\xff\xff\xff\xff")
    with pytest.raises(NoAnswerError, match="garbled"):
        line.receive(soon())
    other.close()
    with pytest.raises(NoAnswerError):
        line.receive(soon())


def test_a_line_that_spoke_unasked_or_was_closed_is_not_used_again(pair):
    line, other = pair
    threading.Timer(0.05, other.sendall, [b"\x00\x00\x00\x01x"]).start()
    assert line.receive(soon()) == b"x"
    assert not line.ended()
    other.close()
    deadline = time.monotonic() + 2
    while not line.ended() and time.monotonic() < deadline:
        pass
    assert line.ended()
