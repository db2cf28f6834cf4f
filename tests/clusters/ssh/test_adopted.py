"""Processes that run already on a machine: found as the file says, broken, started again, and left running."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from dethrone.clusters.ssh.backend import SshBackend
from dethrone.clusters.ssh.hosts import parse_hosts
from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.errors import ClusterError
from dethrone.harness.core.hoststate import HEALTHY, ClockSkew, HostState
from tests.clusters.ssh.machines import NODES
from tests.waiting import until

pytestmark = pytest.mark.processes


TELLING = """
import os, sys, time
path = f"{sys.argv[0]}.{sys.argv[1]}.{os.getpid()}"
while True:
    with open(path + ".new", "w") as file:
        print(time.time_ns(), time.monotonic_ns(), file=file)
    os.replace(path + ".new", path)
    time.sleep(0.05)
"""
"""Says what its clocks show, again and again."""
HOUR_NS = 3600 * SECOND


class Service:
    """On each machine a process with a pid file, and a command that starts it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.script = directory / "service.py"
        self.script.write_text(TELLING)
        for node in NODES:
            self.start(node)

    def command(self, node: str) -> str:
        running = f"{sys.executable} -S {self.script} {node}"
        return f"setsid {running} >/dev/null 2>&1 </dev/null & echo $! > {self.pid_file(node)}"

    def pid_file(self, node: str) -> Path:
        return self.directory / f"{node}.pid"

    def start(self, node: str) -> None:
        subprocess.run(["sh", "-c", self.command(node)], check=True)

    def pid(self, node: str) -> int:
        return int(self.pid_file(node).read_text())

    def skew_ns(self, node: str) -> int:
        """By how much its wall clock is wrong, as it said itself last."""
        wall, mono = map(int, Path(f"{self.script}.{node}.{self.pid(node)}").read_text().split())
        return wall - mono - (time.time_ns() - time.monotonic_ns())

    def state(self, node: str) -> str:
        with contextlib.suppress(OSError):
            found = Path(f"/proc/{self.pid(node)}/stat").read_text().rpartition(")")[2].split()[0]
            return "" if found in "ZX" else found
        return ""

    def close(self) -> None:
        for node in NODES:
            with contextlib.suppress(OSError, ValueError):
                os.kill(self.pid(node), signal.SIGKILL)


@pytest.fixture
def service(tmp_path, machines):
    made = Service(tmp_path)
    yield made
    machines.leave()  # first: healing starts what is down
    made.close()


WAYS = {
    "pid_file": lambda service: f'pid_file = "{service.directory}/NODE.pid"',
    "pattern": lambda service: 'pattern = "service.py NODE$"',
}


def target(service: Service, way: str = "pid_file", then: str = "") -> str:
    """``NODE`` stands for the node's name; ``then``: what the start command goes on with."""
    again = f"{service.command('NODE')}{then}".replace('"', '\\"')
    return f'target = {{ {WAYS[way](service)}, start = "{again}" }}\n'


def adopted(machines, service: Service, way: str = "pid_file"):
    backend = machines.of(more=target(service, way))
    hosts = machines.running(backend)
    return backend, hosts


@pytest.mark.parametrize("way", sorted(WAYS))
def test_a_target_is_killed_and_started_again_by_its_own_command_and_outlives_the_run(machines, service, way):
    backend, hosts = adopted(machines, service, way)
    first, others = service.pid("n1"), [service.pid(node) for node in NODES[1:]]
    killed = backend.converge_all(hosts, {"n1": HostState(down="SIGKILL")})
    assert killed["n1"].confirmed, killed["n1"].why
    assert not Path(f"/proc/{first}").exists() or service.state("n1") == ""
    healed = backend.converge_all(hosts, {"n1": HEALTHY})
    assert healed["n1"].confirmed, healed["n1"].why
    assert service.pid("n1") != first
    machines.close()
    backend.destroy("r1")
    assert service.state("n1")
    assert [service.pid(node) for node in NODES[1:] if service.state(node)] == others
    of_n1 = [one for one in machines.news if one.host == "n1" and one.kind in {"started", "exited"}]
    assert [(one.kind, one.data["incarnation"], one.data["asked"]) for one in of_n1] == [
        ("started", 1, True),
        ("exited", 1, True),
        ("started", 2, True),
    ]


def test_a_target_that_is_there_before_its_start_command_ended_was_asked_for(machines, service):
    backend = machines.of(more=target(service, then="; sleep 0.5"))
    hosts = machines.running(backend)
    assert backend.converge_all(hosts, {"n1": HostState(down="SIGKILL")})["n1"].confirmed
    assert backend.converge_all(hosts, {"n1": HEALTHY})["n1"].confirmed
    starts = [one.data for one in machines.news if (one.host, one.kind) == ("n1", "started")]
    assert [(one["incarnation"], one["asked"]) for one in starts] == [(1, True), (2, True)]


def test_a_target_that_is_paused_when_the_run_ends_goes_on(machines, service):
    backend, hosts = adopted(machines, service)
    assert backend.converge_all(hosts, {"n2": HostState(frozen=True)})["n2"].confirmed
    assert service.state("n2") == "T"
    machines.close()
    backend.destroy("r1")
    until(lambda: service.state("n2") in "SR", 5)


def test_a_target_that_a_supervisor_starts_again_is_told_as_started_unasked(machines, service):
    _, _ = adopted(machines, service)
    os.kill(service.pid("n3"), signal.SIGKILL)
    service.start("n3")

    def starts():
        return [one.data for one in machines.news if (one.host, one.kind) == ("n3", "started")]

    until(lambda: len(starts()) == 2, 10)
    assert [(one["incarnation"], one["asked"]) for one in starts()] == [(1, True), (2, False)]
    exited, started = [one for one in machines.news if one.host == "n3" and one.kind in {"exited", "started"}][1:]
    assert (exited.kind, exited.data["asked"]) == ("exited", False)
    assert exited.span.lo <= started.span.lo


@pytest.mark.slow
def test_a_start_by_somebody_else_is_told_for_when_it_was_not_for_when_it_was_noticed(machines, service):
    _, hosts = adopted(machines, service)
    os.kill(service.pid("n3"), signal.SIGKILL)
    service.pid_file("n3").unlink()  # nobody can find it for a while
    until(lambda: any(one.kind == "exited" and one.host == "n3" for one in machines.news), 10)
    begin = time.monotonic_ns() - hosts["n3"].origin_ns
    other = subprocess.Popen(["setsid", sys.executable, "-S", str(service.script), "n3"])
    try:
        up = time.monotonic_ns() - hosts["n3"].origin_ns
        threading.Event().wait(0.5)
        service.pid_file("n3").write_text(str(other.pid))
        until(lambda: sum(one.kind == "started" and one.host == "n3" for one in machines.news) == 2, 10)
        span = [one.span for one in machines.news if one.kind == "started" and one.host == "n3"][-1]
        tick = 10_000_000
        assert begin - 2 * tick <= span.lo <= up + 2 * tick, (begin, up, span)
        assert span.hi >= up + 400_000_000
    finally:
        machines.leave()
        other.kill()
        other.wait()


@pytest.mark.slow
def test_processes_that_a_target_made_since_it_was_met_are_hit_as_well(machines, service):
    backend, hosts = adopted(machines, service, "pattern")
    child = subprocess.Popen([sys.executable, "-S", str(service.script), "n2"])
    try:
        assert backend.converge_all(hosts, {"n2": HostState(frozen=True)})["n2"].confirmed
        assert Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
        killed = backend.converge_all(hosts, {"n2": HostState(down="SIGKILL")})
        assert killed["n2"].confirmed, killed["n2"].why
        assert child.wait(5) == -signal.SIGKILL
    finally:
        child.kill()
        child.wait()


def test_of_nodes_that_somebody_else_started_only_polls_and_answers_to_clients_are_believed(machines):
    shown = ("traced", "witness", "found", "observed", "ops", "incarnation")
    assert machines.of().shows(shown) == shown
    of_one = machines.text('["n1", "n2", "n3"]') + 'target = { pid_file = "/run/it.pid" }\n'
    assert SshBackend(parse_hosts(of_one, source="hosts.toml")).shows(shown) == ("observed", "ops")


def test_a_target_that_does_not_run_ends_the_deployment_before_anything_is_there(machines, service):
    os.kill(service.pid("n2"), signal.SIGKILL)
    service.pid_file("n2").unlink()
    backend = machines.of(more=target(service))
    with pytest.raises(ClusterError, match="pid file"):
        machines.deploy(backend)
    assert backend.leftovers() == []


def has_skew(service, node, right_ns):
    until(lambda: abs(service.skew_ns(node) - right_ns) < 20 * MS, 10, what=f"a skew of {right_ns} ns")


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="clocks are skewed in the vDSO on x86-64 only")
def test_the_clock_of_a_target_is_skewed_and_set_right_after_kill_nine_of_its_agent_twice(machines, service):
    backend, hosts = adopted(machines, service)
    assert hosts["n1"].unskewed() == ""
    skewed = backend.converge_all(hosts, {"n1": HostState(clock=ClockSkew(offset_ns=-HOUR_NS))})["n1"]
    assert skewed.confirmed, skewed.why
    assert skewed.detail["clock"]["by"] == "vdso"
    has_skew(service, "n1", -HOUR_NS)
    has_skew(service, "n2", 0)
    pid = service.pid("n1")
    os.kill(json.loads((machines.directory / "n1" / "r1" / "note.json").read_text())["pid"], signal.SIGKILL)
    machines.close()
    for _ in range(2):
        backend.destroy("r1")
        has_skew(service, "n1", 0)
    assert (service.pid("n1"), service.state("n1") != "") == (pid, True)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="clocks are skewed in the vDSO on x86-64 only")
def test_a_target_that_its_own_command_starts_under_a_skew_has_it_late_and_the_fault_has_lapsed(machines, service):
    backend, hosts = adopted(machines, service)
    skew = ClockSkew(offset_ns=HOUR_NS)
    assert backend.converge_all(hosts, {"n1": HostState(down="SIGKILL", clock=skew)})["n1"].confirmed
    started = backend.converge_all(hosts, {"n1": HostState(clock=skew)})["n1"]
    assert started.confirmed, started.why
    has_skew(service, "n1", HOUR_NS)
    assert started.detail["before"]["held"] is False
    assert "started by another program" in started.detail["before"]["why"]
    assert backend.converge_all(hosts, {"n1": HEALTHY})["n1"].confirmed
    has_skew(service, "n1", 0)
