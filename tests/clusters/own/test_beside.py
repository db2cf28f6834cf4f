"""The program beside a node: the node keeps its process, and the answers are of that process alone."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from clusters.own import beside

LIMIT_S = 20


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def question(port):
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(bytes(4))
        size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
        answer = connection.recv(size, socket.MSG_WAITALL) if size else b""
        if not answer or len(answer) < size:
            raise ConnectionResetError("it hung up")
        return json.loads(answer)


def until(ready):
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        try:
            found = ready()
        except OSError:
            found = None
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not come to that in time")


@pytest.fixture
def start(tmp_path):
    """A node with the program beside it; ended with its whole group."""
    running = []

    def begin(config, *command, incarnation=1):
        port = free_port()
        path = tmp_path / "beside.json"
        path.write_text(json.dumps({"address": "127.0.0.1", "port": port, **config}))
        with (tmp_path / "node.log").open("ab") as log:
            argv = [sys.executable, "-S", beside.__file__, str(path), str(incarnation), *command]
            process = subprocess.Popen(argv, stdout=log, stderr=log, start_new_session=True)
        running.append(process)
        return process, port

    yield begin
    for process in running:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=LIMIT_S)


def test_the_node_keeps_its_process_id_and_exit_code_and_takes_the_program_with_it(start, tmp_path):
    script = f"echo $$ > {tmp_path}/pid; exec sleep 9"
    process, port = start({"command": ["echo", "hello"]}, "/bin/sh", "-c", script, incarnation=3)
    assert until(lambda: question(port)) == {"code": 0, "out": "hello\n", "incarnation": 3}
    assert int((tmp_path / "pid").read_text()) == process.pid
    os.kill(process.pid, signal.SIGKILL)  # the node alone
    assert process.wait(timeout=LIMIT_S) == -signal.SIGKILL

    def gone():
        try:
            question(port)
        except ConnectionRefusedError:
            return True
        return False

    assert until(gone)


def test_a_command_that_fails_or_cannot_be_run_is_told_by_its_code(start):
    _, port = start({"command": ["/nowhere/ctl"]}, "sleep", "60")
    assert until(lambda: question(port))["code"] == 127


def test_only_what_this_process_logged_counts(start, tmp_path):
    log = tmp_path / "node.log"
    became = {"leader": r"became leader in (?P<term>\d+)", "follower": r"follows (?P<leader>\w+)"}
    log.write_text("became leader in 9\n")
    script = (
        f"read x < {tmp_path}/one; echo became leader in 10; read x < {tmp_path}/two; echo follows n3; exec sleep 9"
    )
    os.mkfifo(tmp_path / "one")
    os.mkfifo(tmp_path / "two")
    _, port = start({"log": str(log), "became": became}, "/bin/sh", "-c", script, incarnation=2)
    assert until(lambda: question(port)) == {"incarnation": 2}
    (tmp_path / "one").write_text("\n")
    said = until(lambda: (found := question(port)).get("role") and found)
    assert said == {"incarnation": 2, "role": "leader", "term": "10", "leader": None}
    (tmp_path / "two").write_text("\n")
    said = until(lambda: (found := question(port)).get("role") == "follower" and found)
    assert said == {"incarnation": 2, "role": "follower", "term": "10", "leader": "n3"}


def test_half_a_line_is_no_line(tmp_path):
    log = tmp_path / "node.log"
    log.write_text("")
    told = beside.Log(str(log), {"leader": r"lead (?P<term>\d+)"}, 1)
    log.write_text("lead 1")
    assert "role" not in told.answer()
    with log.open("a") as more:
        more.write("2\n")
    assert told.answer()["term"] == "12"
