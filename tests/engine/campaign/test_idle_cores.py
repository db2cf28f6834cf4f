"""One more run begins next to others only while the processors are idle."""

from __future__ import annotations

import pytest

from dethrone.harness.engine.campaign.idle_cores import (
    LOOK_EVERY_S,
    NEEDED_CORES,
    SETTLED_S,
    WINDOW_S,
    IdleCores,
    idle_core_seconds,
)


class Machine:
    """Its time, and how many of its cores are idle."""

    def __init__(self):
        self.now_s, self.idle_s, self.idle_cores = 100.0, 5000.0, 2.0

    def passes(self, seconds):
        self.now_s += seconds
        self.idle_s += seconds * self.idle_cores


def looked_until_room(machine, cores, *, most_s=60):
    """How long it takes until there is room; None: longer than ``most_s``."""
    began = machine.now_s
    while machine.now_s - began < most_s:
        if cores.enough():
            return machine.now_s - began
        machine.passes(LOOK_EVERY_S)
    return None


@pytest.fixture
def machine():
    return Machine()


@pytest.fixture
def cores(machine):
    return IdleCores(lambda: machine.idle_s, lambda: machine.now_s)


def test_the_first_run_has_room_whatever_the_machine_does(machine, cores):
    machine.idle_cores = 0
    assert cores.enough()


def test_another_one_waits_until_the_last_has_started_and_a_window_was_idle(machine, cores):
    cores.begun()
    assert looked_until_room(machine, cores) == SETTLED_S + WINDOW_S
    cores.begun()
    assert not cores.enough(), "the next one is looked at anew"


def test_a_busy_machine_has_room_once_it_is_idle_for_a_window(machine, cores):
    cores.begun()
    machine.idle_cores = NEEDED_CORES / 2
    assert looked_until_room(machine, cores) is None
    machine.idle_cores = 2 * NEEDED_CORES
    assert looked_until_room(machine, cores) <= WINDOW_S + LOOK_EVERY_S


def test_where_the_kernel_says_nothing_there_is_room(machine, tmp_path):
    cores = IdleCores(lambda: None, lambda: machine.now_s)
    cores.begun()
    assert cores.enough()
    assert idle_core_seconds(tmp_path / "absent") is None
    (tmp_path / "stat").write_text("cpu  1 2\n")
    assert idle_core_seconds(tmp_path / "stat") is None


def test_the_idle_time_of_this_machine_is_that_of_all_its_cores():
    assert idle_core_seconds() > 0
