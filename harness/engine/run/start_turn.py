"""Runs on real hosts of this machine start one after another: each deploys, measures and warms up alone.

What a start computes disturbs what is measured next to it: four runs that started at once measured each other for
18 s instead of 1.5 s, and chose time scales of 1.5 to 2 for hosts that need none.

Guarantees: a turn ends with the process that has it, even by ``kill -9``; who waits for longer than ``WAIT_MAX_S``
starts anyway. Out of scope: what a start is (``runner``), and how many runs go side by side (``campaign.admission``).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

WAIT_MAX_S = 300.0
LOOK_EVERY_S = 0.05


class StartTurn:
    """The turn of one run. ``root``: the directory of this machine's state."""

    def __init__(self, root: Path) -> None:
        self._path = root / "starting.lock"
        self._lock: int | None = None

    def take(self, *, waiting: Callable[[], None], give_up: Callable[[], bool]) -> None:
        """Wait until no other run starts. ``waiting``: called once if that takes a while. ``give_up``: stop now."""
        try:
            lock = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
        except OSError:
            return  # a start without a turn is slower, and no reason for no run
        said, deadline = False, time.monotonic() + WAIT_MAX_S
        while time.monotonic() < deadline and not give_up():
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._lock = lock
                return
            if not said:
                waiting()
                said = True
            time.sleep(LOOK_EVERY_S)
        os.close(lock)

    def end(self) -> None:
        """The next one may start. A second time changes nothing."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
