"""Runs on real hosts start one after another, and none waits for one that is gone."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

from dethrone.harness.engine.run import start_turn
from dethrone.harness.engine.run.start_turn import StartTurn

HOLD = """
import sys, time
from pathlib import Path
from dethrone.harness.engine.run.start_turn import StartTurn
turn = StartTurn(Path(sys.argv[1])); turn.take(waiting=lambda: None, give_up=lambda: False)
print("started", flush=True); time.sleep(60)
"""


def never():
    return False


def waits_for(turn, end_the_other):
    """Whether a turn is only had after ``end_the_other``."""
    said, had = threading.Event(), threading.Event()

    def start():
        turn.take(waiting=said.set, give_up=never)
        had.set()

    thread = threading.Thread(target=start)
    thread.start()
    waited = said.wait(10) and not had.is_set()
    end_the_other()
    thread.join(10)
    return waited and had.is_set()


def test_a_run_waits_until_another_one_has_started(tmp_path):
    first, second = StartTurn(tmp_path), StartTurn(tmp_path)
    first.take(waiting=lambda: None, give_up=never)
    assert waits_for(second, first.end)
    first.end()  # a second time: the turn of the second one is left alone
    assert waits_for(StartTurn(tmp_path), second.end)


def test_a_run_that_is_killed_while_it_starts_holds_up_no_other(tmp_path):
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "started\n"
        assert waits_for(StartTurn(tmp_path), lambda: other.send_signal(signal.SIGKILL))


def test_who_is_interrupted_or_has_waited_long_enough_stops_waiting(tmp_path, monkeypatch):
    first = StartTurn(tmp_path)
    first.take(waiting=lambda: None, give_up=never)
    StartTurn(tmp_path).take(waiting=lambda: None, give_up=lambda: True)
    monkeypatch.setattr(start_turn, "WAIT_MAX_S", 0.2)
    said = []
    StartTurn(tmp_path).take(waiting=lambda: said.append(1), give_up=never)
    assert said == [1]


def test_without_a_directory_for_its_lock_a_run_starts(tmp_path):
    StartTurn(tmp_path / "absent").take(waiting=lambda: None, give_up=never)
