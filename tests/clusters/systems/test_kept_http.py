"""A kept connection: one deadline for the whole answer, and nothing of a node is taken over a limit."""

import contextlib
import socket
import threading
import time

import pytest

from dethrone.clusters.systems.kept_http import KeptHttp, exchange
from dethrone.harness.core.clock import MS, SECOND


@pytest.fixture
def answering():
    """Starts a server that answers each connection with these pieces, so many seconds apart."""
    servers = []

    def serve(*pieces, gap_s=0.0, times=1):
        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)

        def loop():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection, contextlib.suppress(OSError):
                        for _ in range(times):
                            connection.recv(65536)
                            for piece in pieces:
                                connection.sendall(piece)
                                time.sleep(gap_s)

        threading.Thread(target=loop, daemon=True).start()
        return server.getsockname()[1]

    yield serve
    for server in servers:
        server.close()


def ask(kept, timeout_ns):
    deadline = time.monotonic_ns() + timeout_ns
    line = kept.connection("n1", deadline)
    answer = exchange(line, deadline, method="PUT", path="/k", body="5", headers={"X": "y"})
    return answer.status, answer.body


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\n"]
)
def test_a_byte_now_and_then_does_not_move_the_deadline(answering, head):
    port = answering(head, *[b"x"] * 60, gap_s=0.1)
    kept = KeptHttp({"n1": "127.0.0.1"}, port)
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        ask(kept, 500 * MS)
    assert time.monotonic() - began < 3
    kept.close()


def test_a_connection_is_kept_until_an_answer_ends_it(answering):
    port = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", times=2)
    kept = KeptHttp({"n1": "127.0.0.1"}, port)
    assert ask(kept, SECOND) == (200, b"ok")
    first = kept.connection("n1", time.monotonic_ns() + SECOND)
    assert ask(kept, SECOND) == (200, b"ok")
    assert first.usable
    kept.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: " + b"x" * 100_000,
    ],
)
def test_an_answer_over_a_limit_is_a_value_error_and_its_connection_is_not_used_again(answering, answer):
    kept = KeptHttp({"n1": "127.0.0.1"}, answering(answer))
    with pytest.raises(ValueError):
        ask(kept, 2 * SECOND)
    line = kept._lines["n1"]
    assert not line.usable
    assert kept.connection("n1", time.monotonic_ns() + SECOND) is not line
    kept.close()
