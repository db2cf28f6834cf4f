"""The clock of a node alone, skewed by libfaketime and measured from inside its process."""

from __future__ import annotations

import os
import time

import msgspec
import pytest

from dethrone.clusters.agent.host.clocks import find_faketime
from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.hoststate import HEALTHY, ClockSkew, HostState, Strobe
from dethrone.harness.core.interfaces import Command

pytestmark = [
    pytest.mark.processes,
    pytest.mark.measures,
    pytest.mark.skipif(find_faketime() is None and not os.environ.get("CI"), reason="libfaketime is not installed"),
]


@pytest.fixture
def faked(box, host):
    box.run_node(faketime=True)
    return host


@pytest.mark.parametrize("offset", [3600 * SECOND, -3600 * SECOND, 250 * MS])
def test_a_skew_is_measured_from_inside_the_process(faked, offset):
    evidence = faked.converge(HostState(clock=ClockSkew(offset_ns=offset)))
    assert evidence.confirmed, evidence.why
    assert abs(evidence.detail["clock"]["skew_ns"] - offset) < 2 * MS
    healed = faked.converge(HEALTHY)
    assert healed.confirmed
    assert abs(healed.detail["clock"]["skew_ns"]) < 2 * MS


def test_a_rate_drifts_and_is_over_when_it_is_healed(faked):
    skew = ClockSkew(rate_ppm=100_000)
    first = faked.converge(HostState(clock=skew))
    time.sleep(0.3)
    second = faked.converge(HostState(clock=skew))
    drift = second.detail["clock"]["skew_ns"] - first.detail["clock"]["skew_ns"]
    assert first.confirmed
    assert second.confirmed
    assert 25 * MS < drift < 80 * MS
    assert faked.converge(HEALTHY).confirmed
    time.sleep(0.1)
    assert faked.converge(HostState(clock=ClockSkew(offset_ns=SECOND))).confirmed


def test_a_rate_is_right_in_a_process_that_a_busy_host_loads_late(box, host):
    start = box.start(faketime=True)
    late = Command(argv=("/bin/sh", "-c", 'sleep 0.2; unset FAKETIME_SHARED; exec "$@"', "late", *start.command.argv))
    host.prepare(msgspec.structs.replace(start, command=late), {}, dead_man_ns=0)
    box.start_node()
    skew = ClockSkew(rate_ppm=100_000)
    for _ in range(2):
        evidence = host.converge(HostState(clock=skew))
        assert evidence.confirmed, evidence.why
    assert host.converge(HEALTHY).confirmed


def test_a_strobe_is_seen_high_and_low(faked):
    state = HostState(clock=ClockSkew(offset_ns=SECOND, strobe=Strobe(amplitude_ns=SECOND, period_ns=20 * MS)))
    evidence = faked.converge(state)
    assert evidence.confirmed, evidence.why
    assert abs(evidence.detail["clock"]["strobe_skew_ns"] - 2 * SECOND) < 2 * MS
    seen = set()
    deadline = time.monotonic() + 5
    while len(seen) < 2 and time.monotonic() < deadline:
        seen.add(round(faked.converge(state).detail["clock"]["skew_ns"] / SECOND))
    assert seen == {1, 2}
    assert faked.converge(HEALTHY).confirmed


def test_a_skew_under_which_nobody_reads_the_clock_is_measured_as_soon_as_somebody_does(faked):
    skew = ClockSkew(offset_ns=SECOND)
    frozen = faked.converge(HostState(frozen=True, clock=skew))
    assert frozen.confirmed
    assert frozen.detail["clock"]["deferred"] == "the process is frozen"
    thawed = faked.converge(HostState(clock=skew))
    assert abs(thawed.detail["clock"]["skew_ns"] - SECOND) < 2 * MS
    down = faked.converge(HostState(down="SIGKILL", clock=skew))
    assert down.confirmed
    assert down.detail["clock"]["deferred"] == "no process runs"
    started = faked.converge(HostState(clock=skew))
    assert started.confirmed, started.why
    assert abs(started.detail["clock"]["skew_ns"] - SECOND) < 2 * MS
    assert faked.converge(HostState(frozen=True)).confirmed
    healed = faked.converge(HEALTHY)
    assert abs(healed.detail["clock"]["skew_ns"]) < 2 * MS


def test_a_process_that_was_frozen_at_its_birth_has_as_long_as_a_new_one_to_tell_its_clocks(box, host):
    box.run_node("slow", faketime=True)
    skew = ClockSkew(offset_ns=SECOND)
    assert host.converge(HostState(down="SIGKILL", clock=skew)).confirmed
    assert host.converge(HostState(frozen=True, clock=skew)).confirmed  # started, and stopped before it can listen
    thawed = host.converge(HostState(clock=skew))
    assert thawed.confirmed, thawed.why
    assert abs(thawed.detail["clock"]["skew_ns"] - SECOND) < 2 * MS
