"""One more run begins next to others only while the processors are idle."""

from __future__ import annotations

import pytest

from dethrone.harness.engine.campaign.idle_cores import (
    LOOK_EVERY_S,
    SETTLED_S,
    WINDOW_S,
    IdleCores,
    Ticks,
    processor_ticks,
)


class Machine:
    """Two cores, and how many of them are busy."""

    def __init__(self):
        self.now_s, self.ticks, self.busy_cores = 100.0, Ticks(500_000, 100_000), 0.5

    def passes(self, seconds):
        self.now_s += seconds
        busy = round(100 * self.busy_cores * seconds)
        self.ticks = Ticks(self.ticks.idle + round(200 * seconds) - busy, self.ticks.busy + busy)


def looked_until_room(machine, cores, *, running, most_s=60):
    """How long it takes until there is room; None: longer than ``most_s``."""
    began = machine.now_s
    while machine.now_s - began < most_s:
        if cores.enough(running):
            return machine.now_s - began
        machine.passes(LOOK_EVERY_S)
    return None


@pytest.fixture
def machine():
    return Machine()


@pytest.fixture
def cores(machine):
    return IdleCores(lambda: machine.ticks, lambda: machine.now_s)


def test_the_first_run_has_room_whatever_the_machine_does(machine, cores):
    machine.busy_cores = 2
    assert cores.enough(0)


def test_another_one_waits_until_the_last_has_started_and_a_window_was_idle(machine, cores):
    cores.begun()
    assert looked_until_room(machine, cores, running=1) == SETTLED_S + WINDOW_S
    cores.begun()
    assert not cores.enough(1), "the next one is looked at anew"


@pytest.mark.parametrize(
    ("running", "busy_cores", "room"), [(3, 1.3, True), (3, 1.4, False), (1, 0.7, True), (1, 0.9, False)]
)
def test_there_is_room_if_more_is_idle_than_a_run_takes(machine, cores, running, busy_cores, room):
    cores.begun()
    machine.busy_cores = busy_cores
    assert (looked_until_room(machine, cores, running=running) is not None) is room


def test_a_busy_machine_has_room_once_it_is_idle_for_a_window(machine, cores):
    cores.begun()
    machine.busy_cores = 2
    assert looked_until_room(machine, cores, running=2) is None
    machine.busy_cores = 1
    assert looked_until_room(machine, cores, running=2) <= WINDOW_S + LOOK_EVERY_S


def test_where_the_kernel_says_nothing_there_is_room(machine, tmp_path):
    cores = IdleCores(lambda: None, lambda: machine.now_s)
    cores.begun()
    assert cores.enough(1)
    assert processor_ticks(tmp_path / "absent") is None
    (tmp_path / "stat").write_text("cpu  1 2\n")
    assert processor_ticks(tmp_path / "stat") is None
    (tmp_path / "stat").write_text("cpu  1 2 3 40 5 6 7 8 100 200\ncpu0 9\n")
    assert processor_ticks(tmp_path / "stat") == Ticks(idle=45, busy=27)


def test_this_machine_counts_its_ticks():
    assert min(processor_ticks()) > 0
