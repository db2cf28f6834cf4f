"""The harness's threads come first while a run is live, if the machine lets them, and nothing is left of it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

from dethrone.harness.engine.run import thread_priority
from dethrone.harness.engine.run.thread_priority import threads_first

FIRST = os.SCHED_RR | os.SCHED_RESET_ON_FORK


@contextmanager
def another_thread():
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait)
    thread.start()
    try:
        yield thread.native_id
    finally:
        ended.set()
        thread.join()


@pytest.fixture
def policies(monkeypatch):
    """What threads have been made, by id, on a machine that allows everything."""
    made = {}
    monkeypatch.setattr(os, "getpriority", lambda *_of: 0)
    monkeypatch.setattr(os, "sched_getscheduler", lambda thread: made.get(thread, os.SCHED_OTHER))
    monkeypatch.setattr(os, "sched_setscheduler", lambda thread, policy, _parameter: made.update({thread: policy}))
    return made


def test_threads_are_raised_as_they_come_and_ordinary_again_at_the_end(policies):
    with another_thread() as early, threads_first() as priority:
        assert {policies[early], policies[threading.get_native_id()]} == {FIRST}
        with another_thread() as late:
            assert late not in policies
            priority.look()
            assert policies[late] == FIRST
    assert policies[threading.get_native_id()] == os.SCHED_OTHER


def test_a_thread_that_its_user_has_scheduled_stays_as_it_is(policies):
    with another_thread() as own:
        policies[own] = os.SCHED_FIFO
        with threads_first():
            assert policies[own] == os.SCHED_FIFO
        assert policies[own] == os.SCHED_FIFO


def test_a_refusal_is_the_last_try_and_no_error(policies, monkeypatch):
    def refuse(*_of):
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    with threads_first() as priority:
        assert not priority.allowed
        priority.look()
    assert (priority.raised, policies) == (set(), {})


def test_a_run_that_was_started_with_nice_stays_behind(policies, monkeypatch):
    monkeypatch.setattr(os, "getpriority", lambda *_of: 5)
    with threads_first():
        assert policies == {}


def test_what_is_started_meanwhile_is_ordinary_and_so_is_this_process_afterwards():
    shows = [sys.executable, "-c", "import os; print(os.sched_getscheduler(0))"]
    with threads_first() as priority:
        assert priority.raised or not priority.allowed
        assert all(os.sched_getscheduler(thread) == FIRST for thread in priority.raised)
        assert subprocess.run(shows, capture_output=True, check=True, text=True).stdout.strip() == str(os.SCHED_OTHER)
    assert {os.sched_getscheduler(thread) for thread in thread_priority._own()} == {os.SCHED_OTHER}
