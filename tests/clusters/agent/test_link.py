"""An agent without namespaces and our link to it: processes, clocks, files, wrong input, broken connections."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest

from dethrone.clusters.agent.confirm import converge_all
from dethrone.clusters.agent.host.news import News
from dethrone.clusters.agent.host.processes import process_stat
from dethrone.clusters.agent.host.tails import FATAL_LAG_MAX, FATAL_MAX, FatalSearch
from dethrone.clusters.agent.large_files import LARGE, digest_of
from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.errors import ClusterError
from dethrone.harness.core.hoststate import HEALTHY, DiskTrouble, HostState
from dethrone.harness.core.interfaces import Command, Host
from tests.waiting import until

from .conftest import RUN

pytestmark = pytest.mark.processes


def state_of(pid: int) -> str | None:
    stat = process_stat(pid)
    return None if stat is None else stat.state


def pid_of(box) -> int:
    return int(box.kinds("started")[-1].data["pid"])


def test_a_link_is_a_host(host):
    checked: Host = host
    assert checked.name == "n1"


def test_a_node_starts_says_what_it_does_and_ends(box, running):
    running.stop_node()
    until(lambda: box.kinds("exited"))
    started, exited = box.kinds("started")[0], box.kinds("exited")[0]
    assert (started.data["incarnation"], started.data["asked"]) == (1, True)
    assert (exited.data["code"], exited.data["asked"], exited.data["incarnation"]) == (-signal.SIGTERM, True, 1)
    assert started.span.hi <= exited.span.lo <= exited.span.hi
    assert 0 <= started.span.lo <= time.monotonic_ns()
    lines = box.traced()
    assert lines == [(1, n) for n in range(1, len(lines) + 1)]
    assert box.news.index(box.kinds("trace")[-1]) < box.news.index(exited)
    # The canary goes on after the node's end: a slow sync may be news behind the summary.
    assert "summary" in [noise.data["kind"] for noise in box.kinds("noise")]
    assert running.converge(HEALTHY).confirmed
    assert len(box.kinds("started")) == 1, "a node that was told to end for good is not started by converging"


def test_a_node_cannot_be_started_twice_nor_before_it_is_known(box):
    box.meet()
    with pytest.raises(ClusterError, match="prepare"):
        box.host.start_node()
    box.host.prepare(box.start(), {}, dead_man_ns=0)
    box.host.start_node()
    with pytest.raises(ClusterError, match="already"):
        box.host.start_node()


def test_a_node_that_cannot_be_started_is_an_error_and_not_an_incarnation(box):
    box.meet()
    start = box.start()
    command = Command(argv=("/nowhere/node", "{incarnation}"))
    box.host.prepare(
        type(start)(**{**{f: getattr(start, f) for f in start.__struct_fields__}, "command": command}),
        {},
        dead_man_ns=0,
    )
    with pytest.raises(ClusterError, match="start_node"):
        box.host.start_node()
    box.host.prepare(start, {}, dead_man_ns=0)
    box.host.start_node()
    until(lambda: box.kinds("started"))
    assert box.kinds("started")[0].data["incarnation"] == 1


def test_an_exit_that_nobody_asked_for_is_told_and_not_mended_by_itself(box, running):
    os.kill(pid_of(box), signal.SIGKILL)
    until(lambda: box.kinds("exited"))
    assert box.kinds("exited")[0].data["asked"] is False
    assert len(box.kinds("started")) == 1
    evidence = running.converge(HEALTHY)
    assert evidence.confirmed
    assert evidence.detail["start"]["incarnation"] == 2


def shell(box, script: str, **more: object):
    """A start of a shell script in place of the node."""
    return msgspec.structs.replace(box.start(), command=Command(argv=("/bin/sh", "-c", script)), **more)


def test_an_exit_that_nobody_asked_for_carries_the_last_lines_of_this_process_alone(box):
    box.meet()
    box.host.prepare(shell(box, "echo first life; exit 3"), {}, dead_man_ns=0)
    box.host.start_node()
    until(lambda: box.kinds("exited"))
    box.host.prepare(shell(box, "echo begins; echo 'panic: {incarnation}' >&2; exit 2"), {}, dead_man_ns=0)
    box.host.start_node()
    until(lambda: len(box.kinds("exited")) == 2)
    data = box.kinds("exited")[1].data
    assert (data["code"], data["asked"], data["lines"]) == (2, False, ["begins", "panic: 2"])
    assert data["detail"] == {"oom_kills": 0}


def test_an_exit_that_was_asked_for_carries_no_lines(box, running):
    assert running.converge(HostState(down="SIGKILL")).confirmed
    until(lambda: box.kinds("exited"))
    assert "lines" not in box.kinds("exited")[0].data


def test_fatal_lines_are_told_while_the_node_runs_and_before_its_end(box):
    box.meet()
    script = "echo ok; echo 'WARNING: DATA RACE'; sleep 1; printf 'a panic: no\\n'; exit 2"
    box.host.prepare(shell(box, script, fatal=("panic:", "DATA RACE")), {}, dead_man_ns=0)
    box.host.start_node()
    until(lambda: box.kinds("fatal"))
    assert not box.kinds("exited")
    until(lambda: box.kinds("exited"))
    told = [(news.data["pattern"], news.data["line"]) for news in box.kinds("fatal")]
    assert told == [("DATA RACE", "WARNING: DATA RACE"), ("panic:", "a panic: no")]
    assert box.news.index(box.kinds("fatal")[-1]) < box.news.index(box.kinds("exited")[0])


def test_the_search_for_fatal_lines_is_bounded_and_says_what_it_skips(tmp_path):
    said = News(lambda: None)
    search = FatalSearch(said)
    log = tmp_path / "node.log"
    log.write_bytes(b"panic: of an earlier run\n")
    search.follow([str(log)], ["panic:"])
    with log.open("ab") as file:
        file.write(b"panic: too far back\n" + b"x" * (FATAL_LAG_MAX + 10) + b"\n" + b"panic: seen\n" * 50)
    search.pump()
    log.write_bytes(b"panic: after it was cut\n")
    search.pump()
    lines = [json.loads(line) for line in said.after(0, 1 << 20)[1].splitlines()]
    kinds = [line["data"].get("kind", line["kind"]) for line in lines]
    assert kinds == ["log-skipped", *["fatal"] * FATAL_MAX]
    assert {line["data"]["line"] for line in lines[1:]} == {"panic: seen"}


@pytest.mark.parametrize("word", ["SIGKILL", "SIGTERM"])
def test_a_kill_is_confirmed_by_the_exit_and_healed_by_a_new_incarnation(box, running, word):
    pid = pid_of(box)
    evidence = running.converge(HostState(down=word))
    assert evidence.confirmed
    assert evidence.detail[word]["code"] == -getattr(signal, word)
    assert evidence.detail[word]["pid"] == pid
    assert state_of(pid) is None
    assert running.converge(HostState(down=word)).confirmed, "converging is idempotent"
    healed = running.converge(HEALTHY)
    assert healed.confirmed
    assert evidence.span.hi <= healed.span.lo
    until(lambda: (2, 1) in box.traced())


def test_a_process_that_ignores_sigterm_is_killed_and_the_evidence_says_so(box, host):
    box.run_node("deaf")
    pid = pid_of(box)
    evidence = host.converge(HostState(down="SIGTERM"))
    assert evidence.confirmed
    assert evidence.detail["SIGTERM"].items() >= {"killed": True, "limit_s": 0.7, "code": -signal.SIGKILL}.items()
    assert state_of(pid) is None
    again = host.converge(HostState(down="SIGTERM"))
    assert again.confirmed
    assert "SIGTERM" not in again.detail
    assert host.converge(HEALTHY).confirmed
    host.stop_node()
    assert box.host.converge(HEALTHY).confirmed


def test_a_stopped_process_is_stopped_thawed_and_killed(box, running):
    pid = pid_of(box)
    evidence = running.converge(HostState(frozen=True))
    assert evidence.confirmed
    assert set(evidence.detail["SIGSTOP"]["states"]) == {"T"}
    assert state_of(pid) == "T"
    assert running.converge(HostState(frozen=True)).confirmed
    assert running.converge(HEALTHY).confirmed
    assert state_of(pid) in {"S", "R"}
    assert running.converge(HostState(frozen=True)).confirmed
    assert running.converge(HostState(down="SIGTERM", frozen=True)).confirmed, "a stopped process is woken to obey"
    assert state_of(pid) is None
    assert running.converge(HostState(frozen=True)).confirmed, "started, then stopped"
    until(lambda: state_of(pid_of(box)) == "T")


def test_what_is_not_available_is_unconfirmed_and_says_why(running):
    for state, why in [
        (HostState(disk=DiskTrouble(kind="full")), "disk: not available"),
        (HostState(cpu_percent=5), "cpu: the node has no control group of its own"),
        (HostState(cuts=("n9",)), "not a known peer"),
    ]:
        evidence = running.converge(state)
        assert not evidence.confirmed
        assert why in evidence.why
    assert running.converge(HEALTHY).confirmed


def test_commands_and_files_are_bounded(host, tmp_path):
    assert host.run(["sh", "-c", "echo out; echo err >&2; exit 3"], timeout_ns=SECOND) == (3, b"out\n", b"err\n")
    assert host.run(["/nowhere/tool"], timeout_ns=SECOND)[0] == 127
    assert host.run(["sleep", "60"], timeout_ns=100 * MS)[0] == 124
    code, out, _ = host.run(["sh", "-c", "head -c 3000000 /dev/zero"], timeout_ns=5 * SECOND)
    assert (code, len(out)) == (0, 1 << 20)
    assert host.run(["sh", "-c", "sleep 5 & echo left"], timeout_ns=4 * SECOND)[1] == b"left\n"
    path = str(tmp_path / "new" / "file")
    content = bytes(range(256)) * 6000
    host.write_file(path, content)
    assert host.read_file(path) == content
    assert (tmp_path / "new" / "file").stat().st_mode & 0o777 == 0o644
    host.write_file(path, b"", private=True)
    assert host.read_file(path) == b""
    assert (tmp_path / "new" / "file").stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in (tmp_path / "new").iterdir()] == ["file"]
    with pytest.raises(ClusterError, match="read_file"):
        host.read_file(str(tmp_path / "absent"))


def test_a_large_file_that_the_host_has_is_copied_there_and_any_other_is_sent(box, tmp_path):
    box.meet(large_files=str(tmp_path / "large"))
    kept, absent, small = b"k" * LARGE, b"a" * LARGE, b"s" * 10
    (tmp_path / "large").mkdir()
    for content in (kept, small):
        (tmp_path / "large" / digest_of(content)).write_bytes(b"copied")  # so that the two ways can be told apart
    for name, content in {"kept": kept, "absent": absent, "small": small}.items():
        box.host.write_file(str(tmp_path / "new" / name), content)
    found = {path.name: path.read_bytes() for path in (tmp_path / "new").iterdir()}
    assert found == {"kept": b"copied", "absent": absent, "small": small}
    assert (tmp_path / "new" / "kept").stat().st_mode & 0o777 == 0o644
    box.host.write_file(str(tmp_path / "private"), kept, private=True)
    assert (tmp_path / "private").read_bytes() == kept


@pytest.mark.parametrize(
    "line",
    [
        b"\xff\xfe\x00",
        b"[]",
        b"{}",
        b'{"id": true, "do": "now"}',
        b'{"id": -1, "do": "now"}',
        b'{"id": 1, "do": 7}',
        b'{"id": 1, "do": "format"}',
        b'{"id": 1, "do": "hello", "session": 3}',
        b'{"id": 1, "do": "converge"}',
        b'{"id": 1, "do": "converge", "want": {"cuts": 3}}',
        b'{"id": 1, "do": "converge", "want": {"down": "SIGUSR1"}}',
        b'{"id": 1, "do": "converge", "want": {"clock": {"offset_ns": 1e400}}}',
        b'{"id": 1, "do": "converge", "want": {"cuts": ["n2; reboot"]}}',
        b'{"id": 1, "do": "prepare", "name": "n1", "peers": {"n2": 5}, "start": {}}',
        b'{"id": 1, "do": "run", "argv": [], "timeout_ns": 5000000}',
        b'{"id": 1, "do": "run", "argv": ["true"], "timeout_ns": -1}',
        b'{"id": 1, "do": "run", "argv": ["a\\u0000b"], "timeout_ns": 5000000}',
        b'{"id": 1, "do": "write_file", "path": "/nowhere/x", "token": "../../x", "data": "", "last": true}',
        b'{"id": 1, "do": "write_file", "path": "/proc/x/y", "token": "1", "data": "not base64", "last": true}',
        b'{"id": 1, "do": "read_file", "path": "/proc/self/mem"}',
        b'{"id": 1, "do": "probe_links", "nonce": 1, "expect": [1]}',
        b'{"id": 1, "do": "reset_flows", "peers": ["nobody"]}',
        b'{"id": 1, "do": "start_node"}',
        b'{"id": 1, "do": ' + b"[" * 200_000,
    ],
)
def test_wrong_input_is_answered_and_harmless(box, line):
    with box.raw() as connection:
        file = connection.makefile("rb")
        connection.sendall(line + b"\n")
        said = json.loads(file.readline())
        assert "error" in said or said["ok"].get("confirmed") is False, said
        connection.sendall(b'{"id": 5, "do": "now"}\n')
        assert json.loads(file.readline())["id"] == 5


def test_an_endless_line_ends_the_connection_only(box):
    with box.raw() as connection, contextlib.suppress(OSError):
        for _ in range(64):
            connection.sendall(b"x" * (1 << 20))
        assert connection.recv(1) == b""
    box.meet()


def test_noise_on_the_socket_does_not_disturb_a_session(box, running):
    for size in (1, 7, 100):
        with box.raw() as connection:
            connection.sendall(os.urandom(size) + b"\n" + os.urandom(size))
    assert running.converge(HostState(frozen=True)).confirmed
    assert running.converge(HEALTHY).confirmed


def test_a_killed_relay_loses_no_news_and_repeats_none(box):
    box.meet(box.relay)
    box.host.prepare(box.start(), {}, dead_man_ns=0)
    box.host.start_node()
    until(lambda: len(box.traced()) > 10)
    for _ in range(3):
        before = len(box.traced())
        os.kill(box.relays[-1].pid, signal.SIGKILL)
        until(lambda before=before: len(box.traced()) > before + 20)
    box.host.stop_node()
    lines = box.traced()
    assert lines == [(1, n) for n in range(1, len(lines) + 1)]
    assert len(box.relays) == 4
    assert not box.kinds("lost")


def test_a_request_in_flight_while_the_relay_dies_is_done_once(box):
    box.meet(box.relay)
    box.host.prepare(box.start(), {}, dead_man_ns=0)
    marks = box.directory / "marks"
    done = []
    asking = threading.Thread(
        target=lambda: done.append(
            box.host.run(["sh", "-c", f"sleep 0.3; echo once >> {marks}; echo said"], timeout_ns=5 * SECOND)
        )
    )
    asking.start()
    time.sleep(0.1)
    os.kill(box.relays[-1].pid, signal.SIGKILL)
    asking.join(timeout=10)
    assert done == [(0, b"said\n", b"")]
    assert marks.read_text() == "once\n"


def test_a_killed_agent_is_lost_and_said_once(box):
    box.meet(give_up_s=0.3)
    box.run_node()
    box.agent.kill()
    until(lambda: box.kinds("lost"))
    with pytest.raises(ClusterError, match="lost"):
        box.host.converge(HEALTHY)
    evidence = converge_all({"n1": box.host}, {"n1": HostState(frozen=True)})
    assert not evidence["n1"].confirmed
    assert "lost" in evidence["n1"].why
    assert len(box.kinds("lost")) == 1


def test_an_agent_that_was_replaced_is_lost_and_the_new_one_heals_what_it_finds(box):
    box.meet(give_up_s=5)
    box.run_node()
    pid = pid_of(box)
    assert box.host.converge(HostState(frozen=True)).confirmed
    box.agent.kill()
    box.agent.wait()
    assert state_of(pid) == "T"
    box.serve("--probe-port", "0")
    until(lambda: box.kinds("lost"), 10)
    assert "replaced" in box.kinds("lost")[0].data["why"]
    assert state_of(pid) in {"S", "R"}
    assert box.meet().agent["found"]["node"]["pid"] == pid


def heal(box, *more: str) -> tuple[int, dict]:
    argv = [sys.executable, "-S", box.AGENT, "heal", "--socket", box.socket, "--run", RUN, *more]
    done = subprocess.run(argv, capture_output=True, timeout=30, check=False)
    return done.returncode, json.loads(done.stdout)


def test_heal_works_through_a_living_agent_and_without_one(box, running):
    pid = pid_of(box)
    assert running.converge(HostState(frozen=True)).confirmed
    assert heal(box)[0] == 0
    assert state_of(pid) in {"S", "R"}
    assert running.converge(HostState(frozen=True)).confirmed
    box.agent.kill()
    box.agent.wait()
    code, said = heal(box)
    assert (code, said["node"]["done"]) == (0, "thawed")
    assert state_of(pid) in {"S", "R"}
    assert heal(box, "--stop")[1]["node"]["done"] == "killed"
    until(lambda: state_of(pid) in {None, "Z"})


def test_silence_of_the_harness_heals_the_host_and_is_news(box):
    box.meet(give_up_s=5)
    box.run_node(dead_man_ns=400 * MS)
    assert box.host.converge(HostState(frozen=True)).confirmed
    time.sleep(0.8)
    assert state_of(pid_of(box)) == "T", "heartbeats keep the switch open"
    session = box.host._session
    box.host._closed.set()  # as if the harness had been killed: no bye
    box.host._stream.close()
    until(lambda: state_of(pid_of(box)) in {"S", "R"}, 3)
    with box.raw() as connection:
        connection.sendall(json.dumps({"id": 0, "do": "hello", "session": session, "after": 0}).encode() + b"\n")
        said = [json.loads(line) for line in _lines(connection, lambda line: b"dead-man" in line)]
    news = next(line for line in said if line.get("data", {}).get("kind") == "dead-man")
    assert news["data"]["confirmed"]
    assert news["data"]["value_ns"] >= 400 * MS


def _lines(connection: socket.socket, last) -> list[bytes]:
    out = []
    for line in connection.makefile("rb"):
        out.append(line)
        if last(line):
            break
    return out


def test_a_harness_that_says_goodbye_is_not_missed(box):
    box.meet()
    box.run_node(dead_man_ns=200 * MS)
    assert box.host.converge(HostState(frozen=True)).confirmed
    box.host.close()
    time.sleep(0.6)
    assert state_of(pid_of(box)) == "T"


def test_two_agents_do_not_share_a_socket(box):
    box.meet()
    argv = [sys.executable, "-S", box.AGENT, "serve", "--socket", box.socket, "--run", RUN]
    done = subprocess.run(argv, capture_output=True, timeout=10, check=False)
    assert done.returncode != 0
    assert b"already" in done.stderr
    assert box.host.converge(HEALTHY).confirmed


def test_an_agent_of_another_run_is_refused(box):
    with pytest.raises(ClusterError, match="refuses"):
        box.meet(run="another")


def test_an_agent_reaps_what_its_node_leaves_behind(box, host):
    # Only a container's first process gets orphans; here it is enough that commands leave no zombie of ours.
    for _ in range(5):
        assert host.run(["true"], timeout_ns=SECOND)[0] == 0
    children = subprocess.run(
        ["ps", "--ppid", str(box.agent.pid), "-o", "stat="], capture_output=True, text=True, check=False
    ).stdout
    assert "Z" not in children


def test_sigterm_ends_agent_and_node_and_leaves_nothing(box, running):
    pid = pid_of(box)
    box.agent.terminate()
    assert box.agent.wait(timeout=10) == 0
    assert state_of(pid) is None
    assert not Path(box.socket).exists()
