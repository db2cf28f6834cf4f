"""The program beside a node: the node keeps its process, and the answers are of that process alone."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dethrone.clusters.own import beside
from tests.waiting import until

pytestmark = pytest.mark.processes

LIMIT_S = 20


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def question(port):
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(bytes(4))
        with connection.makefile("rb") as stream:
            size = int.from_bytes(stream.read(4), "big")
            answer = stream.read(size)
        if not answer or len(answer) < size:
            raise ConnectionResetError("it hung up")
        return json.loads(answer)


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


def test_a_command_is_over_in_time_whoever_holds_its_output_open_and_however_much_it_prints(start):
    _, port = start({"command": ["/bin/sh", "-c", "sleep 30 & yes"]}, "sleep", "60")
    until(lambda: question(port))
    began = time.monotonic()
    said = question(port)
    assert time.monotonic() - began < 2
    assert len(said["out"]) <= beside.OUTPUT_MAX


@pytest.mark.parametrize("lasting", [False, True])
def test_a_command_has_the_environment_of_its_node_so_that_it_can_log_in(start, monkeypatch, lasting):
    monkeypatch.setenv("CTL_LOGIN", "s3cret")
    script = 'while read -r line; do echo "$CTL_LOGIN"; done' if lasting else 'echo "$CTL_LOGIN"'
    _, port = start({"command": ["/bin/sh", "-c", script], "lasting": lasting}, "sleep", "60")
    assert until(lambda: question(port))["out"] == "s3cret\n"


LASTING = """
import os, sys
for number, _ in enumerate(sys.stdin):
    print({}, flush=True)
"""


def test_a_command_that_runs_on_answers_each_question_and_dies_with_the_node(start):
    config = {"command": [sys.executable, "-c", LASTING.format("os.getpid(), number")], "lasting": True}
    process, port = start(config, "sleep", "60", incarnation=2)
    pid, number = map(int, until(lambda: question(port))["out"].split())
    assert question(port) == {"code": 0, "out": f"{pid} {number + 1}\n", "incarnation": 2}
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=LIMIT_S)
    assert until(lambda: not Path(f"/proc/{pid}").exists())


def test_a_command_that_runs_on_is_started_again_after_an_end_or_an_answer_that_is_late(start, tmp_path):
    late = tmp_path / "late"
    what = f"os.getpid() if not os.path.exists({str(late)!r}) else os.remove({str(late)!r}) or time.sleep(60)"
    config = {"command": [sys.executable, "-c", LASTING.format(what).replace("os, ", "os, time, ")], "lasting": True}
    _, port = start(config, "sleep", "60")
    first = int(until(lambda: question(port))["out"])
    late.touch()
    assert question(port)["code"] == 124
    second = int(question(port)["out"])
    assert second != first
    os.kill(second, signal.SIGKILL)
    assert until(lambda: question(port)["code"]) == -signal.SIGKILL
    assert int(question(port)["out"]) not in {first, second}


def test_a_pattern_takes_the_output_of_a_command_apart(start):
    config = {"command": ["printf", "x\\nrole=leader term=3\\n"], "pattern": r"^role=(?P<role>\w+) term=(?P<term>\d+)"}
    _, port = start(config, "sleep", "60")
    assert until(lambda: question(port))["groups"] == {"role": "leader", "term": "3"}


def test_a_pattern_that_runs_away_costs_its_answer_and_no_more(start):
    config = {"command": ["printf", "a" * 40], "pattern": r"(?P<term>(a+)+)b"}
    _, port = start(config, "sleep", "60")
    began = time.monotonic()
    said = until(lambda: question(port))
    assert (said["slow"], said["groups"]) == (True, None)
    for _ in range(3):
        assert question(port)["slow"] is True
    assert time.monotonic() - began < LIMIT_S


def test_a_line_on_which_a_pattern_runs_away_leaves_the_role_unknown_until_the_next(start, tmp_path):
    log = tmp_path / "other.log"
    log.write_text("")
    became = {"leader": r"(?:a+)+b|lead (?P<term>\d+)", "follower": "follow"}
    _, port = start({"log": str(log), "became": became}, "sleep", "60")
    until(lambda: question(port))
    log.write_text("lead 1\n")
    assert until(lambda: question(port))["role"] == "leader"
    with log.open("a") as more:
        more.write("a" * 40 + "\n")
    assert question(port) == {"incarnation": 1, "slow": "a" * 40}
    with log.open("a") as more:
        more.write("lead 2\n")
    assert question(port)["term"] == "2"


def test_a_log_is_tailed_fast_and_one_that_cannot_be_followed_is_no_answer(start, tmp_path):
    log = tmp_path / "other.log"
    log.write_text("")
    became = {"leader": r"became leader at term (?P<term>\d+)", "follower": r"became follower at term (?P<term>\d+)"}
    _, port = start({"log": str(log), "became": became}, "sleep", "60")
    until(lambda: question(port))
    line = "2026-01-01T00:00:00.000Z INFO raft: a line of the usual length that tells nothing of any role at all\n"
    with log.open("a") as more:
        more.write(line * 400_000 + "became leader at term 7\n")
    behind = question(port)
    assert behind == {"incarnation": 1, "behind": True}  # no role that may be over
    began = time.monotonic()
    said = until(lambda: (found := question(port)).get("role") and found)
    assert said["term"] == "7"
    assert time.monotonic() - began < LIMIT_S


def test_a_connection_that_asks_half_a_question_holds_up_nobody(start):
    _, port = start({"command": ["echo", "hello"]}, "sleep", "60")
    until(lambda: question(port))
    with socket.create_connection(("127.0.0.1", port), timeout=5) as slow:
        slow.sendall(bytes(2))
        assert question(port)["code"] == 0


def test_more_connections_than_the_bound_are_turned_away(start):
    _, port = start({"command": ["echo", "hello"]}, "sleep", "60")
    until(lambda: question(port))
    held = [socket.create_connection(("127.0.0.1", port), timeout=5) for _ in range(beside.CONNECTIONS_MAX + 4)]
    with pytest.raises(OSError):
        question(port)
    for one in held:
        one.close()
    assert until(lambda: question(port))["code"] == 0
