"""The clock of a node alone, skewed in its vDSO by an agent: at its begin, while it lasts, at starts, after deaths."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from dethrone.clusters.agent.host.clocks import read_clocks
from dethrone.clusters.agent.host.lost_rules import RULES_PERIOD_S
from dethrone.clusters.agent.host.processes import descendants, thread_states
from dethrone.clusters.agent.host.waits import waits_seen
from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.hoststate import HEALTHY, ClockSkew, HostState, Strobe
from dethrone.harness.core.interfaces import Command
from tests.waiting import until

from .conftest import AGENT, PYTHON

HOUR = 3600 * SECOND
LIMIT_S = 30
pytestmark = [
    pytest.mark.processes,
    pytest.mark.measures,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="clocks are skewed in the vDSO on x86-64 only"),
]


def skewed(**skew):
    return HostState(clock=ClockSkew(**skew))


def told_at(box):
    """The skews (ns) of the node's wall and monotonic clock, as the node itself says, and when (monotonic ns)."""

    def asked():
        before = time.time_ns(), time.monotonic_ns()
        mono, wall = read_clocks(str(box.directory / "clock.sock"), 5)
        after = time.time_ns(), time.monotonic_ns()
        moment = (before[1] + after[1]) // 2
        return after[1] - before[1], wall - (before[0] + after[0]) // 2, mono - moment, moment

    return min(until(asked, what="the node tells its clocks") for _ in range(20))[1:]


def told(box):
    """The skews alone."""
    return told_at(box)[:2]


def vdso_of(pid):
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        if line.endswith("[vdso]"):
            low, high = (int(word, 16) for word in line.split()[0].split("-"))
            with Path(f"/proc/{pid}/mem").open("rb") as memory:
                memory.seek(low)
                return memory.read(high - low)
    raise AssertionError("no vDSO")


def hands(agent):
    """The processes that skew clocks for this agent."""
    children = Path(f"/proc/{agent}/task").glob("*/children")
    pids = [int(pid) for one in children for pid in one.read_text().split()]
    return [pid for pid in pids if b"\0hand\0" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def node_pid(box):
    return box.kinds("started")[-1].data["pid"]


def heal_alone(box):
    argv = [PYTHON, "-S", str(AGENT), "heal", "--socket", box.socket]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("offset", [HOUR, -HOUR, 250 * MS])
def test_a_skew_is_read_in_the_target_and_told_by_the_node_itself(box, running, offset):
    before = vdso_of(node_pid(box))
    evidence = running.converge(skewed(offset_ns=offset))
    assert evidence.confirmed, evidence.why
    assert abs(evidence.detail["clock"]["skew_ns"] - offset) < MS
    assert evidence.detail["clock"]["read_by"] == "the process itself"
    wall, mono = told(box)
    assert abs(wall - offset) < MS
    assert abs(mono) < MS
    assert vdso_of(node_pid(box)) != before
    healed = running.converge(HEALTHY)
    assert healed.confirmed, healed.why
    assert abs(told(box)[0]) < MS
    assert vdso_of(node_pid(box)) == before


def test_a_rate_grows_and_a_new_skew_takes_its_place(box, running):
    first = running.converge(skewed(rate_ppm=100_000))
    assert first.confirmed, first.why
    wall, _, began = told_at(box)
    until(lambda: time.monotonic_ns() - began > 300 * MS)
    later, _, ended = told_at(box)
    assert abs((later - wall) / (ended - began) - 0.1) < 0.005
    second = running.converge(skewed(offset_ns=-HOUR))
    assert second.confirmed, second.why
    assert abs(told(box)[0] + HOUR) < MS


def test_a_strobe_is_read_high_and_low(box, running):
    state = skewed(offset_ns=SECOND, strobe=Strobe(amplitude_ns=SECOND, period_ns=40 * MS))
    evidence = running.converge(state)
    assert evidence.confirmed, evidence.why
    clock = evidence.detail["clock"]
    assert {round(clock[key] / SECOND) for key in ("skew_ns", "strobe_skew_ns")} <= {1, 2}
    seen = set()
    until(lambda: seen.add(round(told(box)[0] / SECOND)) or len(seen) > 1)
    assert seen == {1, 2}


def test_a_process_that_starts_under_a_skew_has_it_from_its_first_instruction(box, running):
    assert running.converge(HostState(down="SIGKILL", clock=ClockSkew(offset_ns=HOUR))).confirmed
    started = running.converge(skewed(offset_ns=HOUR))
    assert started.confirmed, started.why
    assert "before" not in started.detail, "it would say that it started with the right clock"
    assert abs(told(box)[0] - HOUR) < MS
    assert running.converge(HEALTHY).confirmed
    assert abs(told(box)[0]) < MS


def wrapped(box, script):
    """A start of a shell that does as ``script`` says, with the node's own command as its arguments."""
    start = box.start()
    command = Command(argv=("/bin/sh", "-c", script, "sh", *start.command.argv))
    return msgspec.structs.replace(start, command=command)


def test_a_program_that_a_shell_executes_at_a_start_under_a_skew_has_it_from_its_first_instruction(box, host):
    host.prepare(wrapped(box, 'exec "$@"'), {}, dead_man_ns=0)
    box.start_node()
    assert host.converge(HostState(down="SIGKILL", clock=ClockSkew(offset_ns=HOUR))).confirmed
    started = host.converge(skewed(offset_ns=HOUR))
    assert started.confirmed, started.why
    assert "before" not in started.detail
    assert abs(told(box)[0] - HOUR) < MS


def test_a_process_that_the_node_executes_under_a_skew_is_found_and_the_fault_is_not_held(box, host):
    go = box.directory / "go"
    script = f'until test -e {go}; do sleep 100 & kill $!; done; sleep 1000 & "$@"'
    host.prepare(wrapped(box, script), {}, dead_man_ns=0)
    host.start_node()
    assert host.converge(skewed(offset_ns=HOUR)).confirmed
    go.touch()
    until(box.traced, what="the node runs")
    until(lambda: abs(told(box)[0] - HOUR) < MS, what="it has been found")
    healed = host.converge(HEALTHY)
    assert healed.confirmed, healed.why
    assert "was executed under the skew" in healed.detail["before"]["why"]
    assert not healed.detail["before"]["held"]


def test_a_child_that_ended_and_was_not_reaped_has_no_clocks_to_skew(box, host):
    host.prepare(wrapped(box, 'sleep 0 & exec "$@"'), {}, dead_man_ns=0)
    box.start_node()
    until(lambda: "Z" in "".join(thread_states(pid) for pid in descendants(node_pid(box))), what="a child ended")
    assert host.unskewed() == ""
    assert host.converge(skewed(offset_ns=HOUR)).confirmed
    looked = time.monotonic() + 1.5 * RULES_PERIOD_S
    until(lambda: time.monotonic() > looked, what="the look at the skew, each second")
    healed = host.converge(HEALTHY)
    assert healed.confirmed, healed.why
    assert "before" not in healed.detail


WAITER = """import ctypes, time
word, until = ctypes.c_int(0), (ctypes.c_long * 2)(int(time.time()) + 600, 0)
ctypes.CDLL(None).syscall(202, ctypes.byref(word), 9 | 128 | 256, 0, until, None, 0xFFFFFFFF)
"""
"""Waits until a wall time (FUTEX_WAIT_BITSET)."""


def test_a_child_of_the_node_whose_waits_a_skew_would_falsify_refuses_the_fault_at_its_begin(box, host):
    host.prepare(wrapped(box, f"{PYTHON} -S -c '{WAITER}' & exec \"$@\""), {}, dead_man_ns=0)
    box.start_node()
    until(lambda: any(waits_seen(pid) for pid in descendants(node_pid(box))), what="the child waits")
    refused = host.converge(skewed(offset_ns=HOUR))
    assert not refused.confirmed
    assert "waits until a wall time (FUTEX_WAIT_BITSET)" in refused.why
    assert host.converge(HEALTHY).confirmed
    assert abs(told(box)[0]) < MS


def test_a_frozen_process_is_skewed_and_stays_frozen(box, running):
    frozen = running.converge(HostState(frozen=True, clock=ClockSkew(offset_ns=HOUR)))
    assert frozen.confirmed, frozen.why
    assert abs(frozen.detail["clock"]["skew_ns"] - HOUR) < MS
    assert frozen.detail["clock"]["read_by"].startswith("a reader of ours")
    assert set(frozen.detail["SIGSTOP"]["states"]) <= set("Tt")
    thawed = running.converge(skewed(offset_ns=HOUR))
    assert thawed.confirmed, thawed.why
    assert abs(told(box)[0] - HOUR) < MS
    assert running.converge(HostState(frozen=True)).confirmed
    assert running.converge(HEALTHY).confirmed
    assert abs(told(box)[0]) < MS


def test_an_end_finds_a_skew_that_another_program_took_away(box, running):
    before = vdso_of(node_pid(box))
    assert running.converge(skewed(offset_ns=HOUR)).confirmed
    low = next(line for line in Path(f"/proc/{node_pid(box)}/maps").read_text().splitlines() if line.endswith("[vdso]"))
    with Path(f"/proc/{node_pid(box)}/mem").open("r+b", buffering=0) as memory:
        memory.seek(int(low.split("-")[0], 16))
        memory.write(before)
    healed = running.converge(HEALTHY)
    assert healed.confirmed, healed.why
    assert not healed.detail["before"]["held"]
    assert "its clock was not as requested" in healed.detail["before"]["why"]


def test_a_vdso_that_another_program_changed_is_left_alone_and_the_skew_refused(box, running):
    low = next(line for line in Path(f"/proc/{node_pid(box)}/maps").read_text().splitlines() if line.endswith("[vdso]"))
    with Path(f"/proc/{node_pid(box)}/mem").open("r+b", buffering=0) as memory:
        memory.seek(int(low.split("-")[0], 16) + len(vdso_of(node_pid(box))) - 8)
        memory.write(b"foreign!")
    foreign = vdso_of(node_pid(box))
    evidence = running.converge(skewed(offset_ns=HOUR))
    assert not evidence.confirmed
    assert "another program has changed its vDSO" in evidence.why
    assert running.unskewed() in evidence.why
    assert running.converge(HEALTHY).confirmed
    assert vdso_of(node_pid(box)) == foreign


def test_what_was_there_is_on_disk_before_it_is_changed_and_heal_restores_it_after_the_agent_was_killed(box, running):
    before = vdso_of(node_pid(box))
    assert running.converge(skewed(offset_ns=HOUR)).confirmed
    state = json.loads(Path(f"{box.socket}.state").read_text())
    old = {int(place): bytes.fromhex(data) for place, data in state["vdso"]["old"].items()}
    assert all(before[place : place + len(data)] == data for place, data in old.items())
    os.kill(box.agent.pid, signal.SIGKILL)
    box.agent.wait()
    assert abs(told(box)[0] - HOUR) < MS
    for _ in range(2):
        code, answer = heal_alone(box)
        assert (code, answer["vdso"]) == (0, "restored"), answer
        assert vdso_of(node_pid(box)) == before
    assert abs(told(box)[0]) < MS


def test_a_new_agent_heals_what_a_killed_one_left(box, running):
    before = vdso_of(node_pid(box))
    assert running.converge(skewed(offset_ns=HOUR)).confirmed
    box.agent.kill()
    box.agent.wait()
    box.serve("--probe-port", "0")
    box.raw().close()
    until(lambda: vdso_of(node_pid(box)) == before)
    assert abs(told(box)[0]) < MS


def test_a_killed_hand_is_replaced_and_its_target_runs_on(box, running):
    assert running.converge(skewed(offset_ns=HOUR)).confirmed
    for pid in hands(box.agent.pid):
        os.kill(pid, signal.SIGKILL)
    assert abs(told(box)[0] - HOUR) < MS
    healed = running.converge(HEALTHY)
    assert healed.confirmed or running.converge(HEALTHY).confirmed
    assert abs(told(box)[0]) < MS


def test_a_process_held_by_another_debugger_is_refused(box, running):
    pid = node_pid(box)
    seize = f"import ctypes; ctypes.CDLL(None).ptrace(0x4206, {pid}, None, None); print('held', flush=True); input()"
    argv = [sys.executable, "-c", seize]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as debugger:
        assert debugger.stdout.readline() == "held\n"
        evidence = running.converge(skewed(offset_ns=HOUR))
        assert f"held by another debugger (process {debugger.pid})" in evidence.why
        assert running.unskewed() in evidence.why
        debugger.kill()
    assert running.unskewed() == ""
    assert running.converge(skewed(offset_ns=HOUR)).confirmed
