"""Agents put on a machine over SSH, kept through lost connections, and taken away."""

from __future__ import annotations

import json
import lzma
import os
import shutil
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

from dethrone.clusters.agent import bundle
from dethrone.clusters.agent.agent_host import AgentHost
from dethrone.clusters.ssh import on_host
from dethrone.clusters.ssh.shipping import list_agents, relay_command, start_agent, stop_agent
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.errors import ClusterError, NotHealed
from dethrone.harness.core.hoststate import HostState
from dethrone.harness.core.interfaces import Command, NodeStart
from tests.waiting import until

pytestmark = pytest.mark.processes

OLDER = Path(__file__).resolve().parents[2] / "golden" / "agents" / "agent-1.py.xz"
NODE = "import time\nwhile True: time.sleep(0.05)"


class Machine:
    """What a run does with one machine, over a real connection."""

    def __init__(self, lab, directory: Path) -> None:
        self.state_dir = directory / "state"
        self.connection = lab.connection()
        self.news = []
        self.hosts = []

    def place(self, run: str = "r1", dead_man_s: int = 60):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as chosen:
            chosen.bind(("127.0.0.1", 0))
            port = chosen.getsockname()[1]
        return start_agent(
            self.connection,
            state_dir=str(self.state_dir),
            run_id=run,
            node="n1",
            owner="/somewhere",
            dead_man_ns=dead_man_s * SECOND,
            probe_port=port,
        )

    def meet(self, placed, **more) -> AgentHost:
        relay = relay_command(placed, wait_s=10)
        host = AgentHost(
            "n1",
            "127.0.0.1",
            lambda: self.connection.relay(relay),
            origin_ns=time.monotonic_ns(),
            news=self.news.append,
            run="r1",
            give_up_s=20,
            **more,
        )
        self.hosts.append(host)
        return host

    def run_node(self, host: AgentHost, dead_man_s: int = 60) -> int:
        directory = self.state_dir / "r1"
        start = NodeStart(
            command=Command(argv=(sys.executable, "-S", "-c", NODE)),
            log_path=str(directory / "node.log"),
            data_dir=str(directory / "data"),
        )
        host.prepare(start, {}, dead_man_ns=dead_man_s * SECOND)
        host.start_node()
        until(lambda: self.kinds("started"))
        return self.kinds("started")[-1].data["pid"]

    def kinds(self, kind: str):
        return [one for one in list(self.news) if one.kind == kind]

    def stop(self, run: str = "r1") -> bool:
        return stop_agent(self.connection, state_dir=str(self.state_dir), run_id=run)

    def listed(self):
        return list_agents(self.connection, state_dir=str(self.state_dir))

    def note(self):
        return json.loads((self.state_dir / "r1" / "note.json").read_text())


def letter(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.fixture
def machine(lab, tmp_path):
    made = Machine(lab, tmp_path)
    yield made
    for host in made.hosts:
        host.close()
    made.stop()


def test_an_agent_is_put_there_met_and_taken_away_without_a_trace(machine):
    host = machine.meet(machine.place())
    assert host.run(("echo", "hello"), timeout_ns=SECOND)[1] == b"hello\n"
    (note,) = machine.listed()
    assert (note["run"], note["node"], note["owner"], note["lives"]) == ("r1", "n1", "/somewhere", True)
    pid = machine.run_node(host)
    host.close()
    assert machine.stop()
    assert not on_host.start_ticks(pid)
    assert not on_host.start_ticks(note["pid"])
    assert [entry.name for entry in machine.state_dir.iterdir()] == ["lock"]
    assert not machine.stop()


@pytest.fixture
def older(machine, monkeypatch):
    """The machine with an agent of version 1, as a harness of that version put it there, and its node, frozen."""
    with monkeypatch.context() as then:
        then.setattr(bundle, "agent", lambda: lzma.decompress(OLDER.read_bytes()))
        placed = machine.place()
    directory = machine.state_dir / "r1"
    command = {"argv": [sys.executable, "-S", "-c", NODE], "env": {}, "cwd": "/"}
    start = {"command": command, "log_path": str(directory / "node.log"), "data_dir": str(directory / "data")}
    _, _, started, frozen = asked(
        placed["socket"],
        {"do": "hello", "session": "then", "after": 0, "run": "r1"},
        {"do": "prepare", "start": start, "peers": {}, "name": "n1", "dead_man_ns": 60 * SECOND},
        {"do": "start_node"},
        {"do": "converge", "want": {"frozen": True}, "verify": True},
    )
    assert frozen["confirmed"]
    assert letter(started["pid"]) == "T"
    return machine, started["pid"]


def asked(place, *requests):
    """The answers of the agent at this socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as wire:
        wire.settimeout(20)
        wire.connect(place)
        lines = wire.makefile("rb")
        out = []
        for number, request in enumerate(requests):
            wire.sendall(json.dumps({"id": number, **request}).encode() + b"\n")
            while (said := json.loads(lines.readline())).get("id") != number:
                pass
            out.append(said["ok"])
        return out


def test_an_agent_of_an_older_version_is_not_spoken_with_and_the_way_out_is_told(older):
    machine, _ = older
    placed = {"socket": str(machine.state_dir / "r1" / "s"), "agent": str(machine.state_dir / "r1" / "agent.py")}
    with pytest.raises(ClusterError, match="speaks version 1 of the protocol, we speak 2") as caught:
        machine.meet(placed).run(("true",), timeout_ns=SECOND)
    assert "dethrone heal" in caught.value.next_step


@pytest.mark.parametrize("lives", [True, False])
def test_what_an_agent_of_an_older_version_left_is_found_and_healed_whether_it_lives_or_not(older, lives):
    machine, pid = older
    agent_pid = machine.note()["pid"]
    if not lives:
        os.kill(agent_pid, signal.SIGKILL)
        until(lambda: not machine.listed()[0]["lives"])
    (note,) = machine.listed()
    assert (note["run"], note["node"], note["owner"], note["lives"]) == ("r1", "n1", "/somewhere", lives)
    assert machine.stop()
    until(lambda: not on_host.start_ticks(pid))
    assert not on_host.start_ticks(agent_pid)
    assert machine.listed() == []
    assert [entry.name for entry in machine.state_dir.iterdir()] == ["lock"]


def test_a_lost_connection_is_not_a_dead_node_and_no_request_is_lost_or_done_twice(lab, machine, tmp_path):
    host = machine.meet(machine.place())
    pid = machine.run_node(host)
    ran = tmp_path / "ran"
    answers = []
    words = ("sh", "-c", f"echo x >> {ran}; sleep 0.5; echo done")
    asking = threading.Thread(target=lambda: answers.append(host.run(words, timeout_ns=20 * SECOND)))
    asking.start()
    until(ran.exists)
    lab.server.drop()
    asking.join(30)
    assert answers == [(0, b"done\n", b"")]
    assert ran.read_text() == "x\n"
    assert on_host.start_ticks(pid)
    assert machine.kinds("lost") == []
    assert lab.server.connections == 2


def test_a_machine_without_its_harness_heals_itself(lab, machine):
    """The harness is gone as by ``kill -9``: every connection ends and none comes back."""
    host = machine.meet(machine.place(dead_man_s=2))
    pid = machine.run_node(host, dead_man_s=2)
    assert host.converge(HostState(frozen=True)).confirmed
    assert letter(pid) == "T"
    lab.server.deaf = True
    lab.server.drop()
    until(lambda: letter(pid) != "T")
    assert on_host.lives(machine.note())
    lab.server.deaf = False


def test_two_runs_never_share_a_machine(machine):
    machine.place("r1")
    with pytest.raises(ClusterError, match="the run r1 uses this machine"):
        machine.place("r2")
    machine.stop()
    machine.place("r2")
    assert machine.stop("r2")


def test_what_a_killed_agent_left_is_refused_until_it_is_healed(machine):
    host = machine.meet(machine.place())
    pid = machine.run_node(host)
    assert host.converge(HostState(frozen=True)).confirmed
    host.close()
    os.kill(machine.note()["pid"], signal.SIGKILL)
    until(lambda: not machine.listed()[0]["lives"])
    with pytest.raises(ClusterError, match="ended here without healing"):
        machine.place("r2")
    assert machine.stop()
    until(lambda: not on_host.start_ticks(pid))
    assert machine.listed() == []


def test_a_machine_that_cannot_be_healed_is_said_with_what_to_type_and_keeps_its_note(machine):
    machine.place()
    program = machine.state_dir / "r1" / "agent.py"
    whole = program.read_bytes()
    program.write_text("import sys; sys.exit('rules are stuck')")
    with pytest.raises(NotHealed, match="rules are stuck") as caught:
        machine.stop()
    assert f"python3 {program} heal" in caught.value.next_step
    assert machine.listed()[0]["run"] == "r1"
    program.write_bytes(whole)


def test_a_state_directory_that_others_may_write_to_is_refused(machine, tmp_path):
    machine.state_dir.mkdir()
    machine.state_dir.chmod(0o777)
    with pytest.raises(ClusterError, match="only this user may write"):
        machine.place()
    machine.state_dir.rmdir()
    machine.state_dir.symlink_to(tmp_path)
    with pytest.raises(ClusterError, match="only this user may write"):
        machine.place()


def test_a_directory_without_our_note_is_neither_listed_nor_removed(machine):
    other = machine.state_dir / "r1"
    other.mkdir(parents=True)
    (other / "precious").write_text("")
    assert machine.listed() == []
    assert not machine.stop()
    assert (other / "precious").exists()


@pytest.mark.parametrize("name", ["../x", ".", "..", "a/b", "-x\n", ""])
def test_a_run_whose_name_is_a_way_out_is_refused(machine, name):
    with pytest.raises(ClusterError, match="no run's name"):
        machine.place(name)


def test_a_machine_without_python_is_said(lab, machine):
    (lab.directory / "python3").write_text("#!/bin/sh\nexit 127\n")
    (lab.directory / "python3").chmod(0o755)
    lab.server.path = str(lab.directory)
    with pytest.raises(ClusterError, match="Python does not run") as caught:
        machine.listed()
    assert "install python3" in caught.value.next_step
    lab.server.path = ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a node a user of its own")
def test_under_root_a_node_has_a_user_of_its_own_where_that_user_reaches_it(machine):
    machine.state_dir = Path(f"/var/tmp/dethrone-test-{os.getpid()}")
    try:
        host = machine.meet(machine.place())
        directory = machine.state_dir / "r1"
        start = NodeStart(
            command=Command(argv=("/bin/sh", "-c", f"id -u > {directory}/run/who; exec sleep 60")),
            log_path=str(directory / "log" / "node.log"),
            data_dir=str(directory / "data"),
            run_dir=str(directory / "run"),
        )
        host.prepare(start, {}, dead_man_ns=60 * SECOND)
        host.start_node()
        who = directory / "run" / "who"
        until(lambda: who.exists() and who.read_text())
        assert int(who.read_text()) in on_host.FREE_USERS
        assert host.shares_user == ""
        assert directory.owner() == "root"
        assert (directory.stat().st_mode & 0o077, machine.state_dir.stat().st_mode & 0o077) == (0o011, 0o011)
    finally:
        machine.stop()
        shutil.rmtree(machine.state_dir, ignore_errors=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root could give a node a user of its own")
def test_under_root_a_node_that_another_user_cannot_reach_shares_the_agents_and_that_is_said(machine):
    host = machine.meet(machine.place())  # below a private directory
    machine.run_node(host)
    assert "no user was set apart" in host.shares_user
