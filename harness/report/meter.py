"""How far a long command is: a line now and then, and only if it takes longer than that.

Guarantees: lines go where a screen's lines for people go, never into a result. Out of scope: what is counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.text import Text

from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.duration import show_duration
from dethrone.harness.report.terminal import Screen

EVERY_NS = 2 * SECOND
CHECKERS_SHARE = 0.8
"""Time that the checkers of a long history take, in times of the one that it takes to read it."""


class Meter:
    """Says how much is done of something. ``after``: what comes then, in times of what this takes. ``expected_ns``:
    what it should take; 0: as much for each as for those that are done. ``level``: as of ``Screen.say``."""

    def __init__(
        self,
        screen: Screen,
        what: str,
        *,
        after: float = 0.0,
        expected_ns: Ns = 0,
        level: int = 0,
        clock: Callable[[], Ns] = time.monotonic_ns,
    ) -> None:
        self._screen = screen
        self._what = what
        self._after = after
        self._expected_ns = expected_ns
        self._level = level
        self._clock = clock
        self._began = self._told = clock()

    def __call__(self, done: int, total: int) -> None:
        """``done`` of ``total``."""
        now = self._clock()
        if now - self._told < EVERY_NS or done >= total:
            return
        self._told = now
        spent = max(1, now - self._began)
        line = f"{done:,} of {total:,} {self._what}, {done * SECOND / spent:,.1f} a second"
        left = self._expected_ns - spent
        if left <= 0 and done:
            left = round(spent * total / done * (1 + self._after)) - spent
        if left > 0:
            line += f", about {show_duration(round(left / SECOND) * SECOND)} left"
        self._screen.say(Text(line, style="dim"), level=self._level)


class JudgingMeter:
    """Says how far judging is, path by path: events read, then checkers done. Where no terminal reads, only with
    ``-v``."""

    def __init__(self, screen: Screen, *, clock: Callable[[], Ns] = time.monotonic_ns) -> None:
        self._screen = screen
        self._clock = clock
        self._meters: dict[str, Meter] = {}
        self._reading_since: Ns | None = None

    def __call__(self, what: str, done: int, total: int) -> None:
        """``done`` of ``total`` events or checkers; a 0 begins."""
        if not done:
            events, now = what == "events", self._clock()
            read_in = 0 if events or self._reading_since is None else now - self._reading_since
            self._reading_since = now if events else None
            self._meters[what] = Meter(
                self._screen,
                what,
                after=CHECKERS_SHARE if events else 0.0,
                expected_ns=round(CHECKERS_SHARE * read_in),
                level=0 if self._screen.console.is_terminal else 1,
                clock=self._clock,
            )
        self._meters[what](done, total)
