"""Links that are shaped while agents, helpers and other programs do what they should not."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dethrone.clusters.agent.confirm import converge_all
from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.hoststate import HEALTHY, HostState, LinkQuality
from tests.waiting import until

from .conftest import RUN

pytestmark = [pytest.mark.namespaces]

OWNER = """
from dethrone.clusters.agent.host.nfqueue import PacketQueue
queue = PacketQueue(); print(queue.number, flush=True)
import signal; signal.pause()
"""


def helper_of(box) -> int:
    """The process that shapes links there; 0: there is none."""
    state = json.loads(Path(f"{box.socket}.state").read_text())
    return (state.get("links") or [0])[0]


def rules(box) -> str:
    """Our rules for links there."""
    tool = box.command("iptables-save", "-t", "mangle")
    legacy = box.command("iptables-legacy-save", "-t", "mangle")
    done = [subprocess.run(argv, capture_output=True, text=True, check=True).stdout for argv in (tool, legacy)]
    return "\n".join(line for text in done for line in text.splitlines() if "DETHRONE" in line)


def gone(pid: int) -> bool:
    """Whether that process has ended."""
    try:
        return re.search(r"^State:\s+[ZX]", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE) is not None
    except FileNotFoundError:
        return True


def heal(box) -> dict[str, object]:
    """What the agent's own command says that it healed."""
    argv = box.command(sys.executable, "-S", box.AGENT, "heal", "--socket", box.socket, "--run", RUN)
    return json.loads(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)


@pytest.fixture
def hosts(five):
    found = {name: box.host for name, box in five.items()}
    yield found
    alive = {name: box.host for name, box in five.items() if box.agent.poll() is None}
    assert all(evidence.confirmed for evidence in converge_all(alive, dict.fromkeys(alive, HEALTHY)).values())


def shape(hosts, name: str, **quality):
    """Shape what arrives there from n1."""
    return converge_all(hosts, {name: HostState(links=(LinkQuality(src="n1", **quality),))})[name]


def test_rules_that_another_program_removed_are_put_back_and_the_fault_counts_as_lapsed(five, hosts):
    assert shape(hosts, "n2", delay_ns=20 * MS).confirmed
    box = five["n2"]
    tool = "iptables-legacy" if Path("/proc/net/ip_tables_names").exists() else "iptables"
    subprocess.run(box.command(tool, "-w", "3", "-t", "mangle", "-F", f"DETHRONE-{RUN}"), check=True)
    until(lambda: any(one.data["kind"] == "rules-lost" for one in box.kinds("noise")), what="the loss is noticed")
    until(lambda: "NFQUEUE" in rules(box), what="the rules are back")
    healed = converge_all(hosts, {"n2": HEALTHY})["n2"]
    assert not healed.detail["before"]["held"]
    assert rules(box) == "" or "NFQUEUE" not in rules(box)


def test_a_queue_of_another_program_is_left_alone(five, hosts):
    box = five["n3"]
    argv = box.command(sys.executable, "-c", OWNER)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    owner = subprocess.Popen(argv, stdout=subprocess.PIPE, env=environment)
    try:
        taken = int(owner.stdout.readline())
        evidence = shape(hosts, "n3", delay_ns=20 * MS)
        assert evidence.confirmed, evidence.why
        assert evidence.detail["links"]["queue"] != taken
        assert owner.poll() is None
        assert converge_all(hosts, {"n3": HEALTHY})["n3"].confirmed
    finally:
        owner.kill()
        owner.wait()
        owner.stdout.close()


def test_packets_that_pass_because_too_many_wait_make_the_fault_lapse(five, hosts):
    assert shape(hosts, "n2", delay_ns=3 * SECOND).confirmed
    flood = f"""
import socket, time
s = socket.socket(type=2)
for i in range(60000):
    s.sendto(b'x', ('{five["n2"].address}', 7909))
"""
    for _ in range(2):
        subprocess.run(five["n1"].command(sys.executable, "-S", "-c", flood), check=True)
    healed = converge_all(hosts, {"n2": HEALTHY})["n2"]
    assert not healed.detail["before"]["held"]
    assert "packets passed unshaped" in healed.detail["before"]["why"]


def test_what_a_killed_agent_shaped_passes_and_is_healed_twice(five, hosts):
    box = five["n4"]
    assert shape(hosts, "n4", delay_ns=20 * MS).confirmed
    pid = helper_of(box)
    assert "NFQUEUE" in rules(box)
    box.agent.kill()
    box.agent.wait()
    until(lambda: gone(pid), what="the helper ends with its agent")
    for _ in range(2):
        assert heal(box)["confirmed"]
        assert rules(box) == ""


@pytest.mark.slow
def test_a_stopped_helper_of_a_killed_agent_is_killed_by_healing(five, hosts):
    box = five["n5"]
    assert shape(hosts, "n5", delay_ns=20 * MS).confirmed
    pid = helper_of(box)
    box.agent.send_signal(signal.SIGSTOP)
    os.kill(pid, signal.SIGSTOP)
    box.agent.kill()
    box.agent.wait()
    found = heal(box)
    assert found["confirmed"], found
    assert found["links"] == "killed"
    until(lambda: gone(pid))
    assert rules(box) == ""
