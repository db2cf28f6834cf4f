"""Work over worker processes: every answer comes, whatever the number of workers."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from dethrone.harness.core.errors import HarnessError
from dethrone.harness.engine.campaign.worker_processes import spread


def doubled(number):
    return 2 * number


def died(number):
    os._exit(number)


def heals_first(place):
    """The first worker answers; the second takes a SIGTERM for the sign to clean up, and says when it has."""
    if place == "":
        return os.getpid()
    asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked.set())
    Path(place, "began").touch()
    asked.wait(60)
    Path(place, "healed").touch()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return os.getpid()


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_task_is_answered_once(jobs):
    answers = []
    spread(doubled, range(9), jobs=jobs, keep=answers.append)
    assert sorted(answers) == [2 * number for number in range(9)]
    if jobs == 1:
        assert answers == sorted(answers)


def test_a_worker_that_dies_is_told():
    with pytest.raises(HarnessError, match="worker process died"):
        spread(died, [3, 4], jobs=2, keep=lambda _: None)


def test_what_the_caller_raises_ends_the_work():
    def keep(answer):
        raise KeyboardInterrupt(str(answer))

    with pytest.raises(KeyboardInterrupt):
        spread(doubled, range(50), jobs=2, keep=keep)


def test_workers_that_heal_first_are_waited_for_and_then_gone(tmp_path):
    def keep(pid):
        while not (tmp_path / "began").exists():
            time.sleep(0.01)
        raise KeyboardInterrupt

    before = set(multiprocessing.active_children())
    with pytest.raises(KeyboardInterrupt):
        spread(heals_first, [str(tmp_path), "", "", ""], jobs=2, keep=keep)
    assert (tmp_path / "healed").exists()
    assert set(multiprocessing.active_children()) <= before
