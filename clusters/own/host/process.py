"""One process of the node, over all its starts.

Guarantees: its end takes what it started with it. Out of scope: when it is to run.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any

from dethrone.clusters.own.host.family import (
    SIGNAL_LIMIT_S,
    await_that,
    freeze,
    listens,
    lives,
    send,
    size_of,
    spawn,
    text_from,
    thread_states,
)
from dethrone.clusters.own.host.once import AGAIN_S, Errand

QUESTION_LIMIT_S = 5.0
"""How long a command may take that shows whether a process is ready."""
LINE_MAX, LINES_MAX = 1000, 30


_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC


class Process:
    """A process. ``asked``: its end is wanted; ``frozen``: the ids that were stopped."""

    def __init__(self, said: Mapping[str, Any], address: str) -> None:
        self.name: str = said["name"]
        self._said = said
        self._address = address
        self._ready: Mapping[str, Any] | None = said["ready"]
        self.child: subprocess.Popen[bytes] | None = None
        self.code: int | None = None
        self.asked = False
        self.ready = False
        self.frozen: list[int] = []
        self._offset = 0
        self._question: Errand | None = None
        self._next = 0.0

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self.child is not None and self.code is None

    def start(self, incarnation: str) -> None:
        """Start it. Raises CannotStart."""
        self._offset = size_of(self.log)
        output = 1 if self._said["output"] is None else os.open(self._said["output"], _APPEND, 0o644)
        try:
            if output != 1:
                note_start(self._said["output"], incarnation, os.fstat(output).st_size)
            self.child = spawn([word.replace("{incarnation}", incarnation) for word in self._said["argv"]], output)
        finally:
            if output != 1:
                os.close(output)
        self.code, self.asked, self.ready, self.frozen = None, False, False, []

    @property
    def log(self) -> str:
        """Where its lines are looked for."""
        return str(self._said["log"])

    def reap(self) -> bool:
        """Whether it has just ended."""
        if not self.alive or self.child is None or self.child.poll() is None:
            return False
        self.code, self.ready = self.child.returncode, False
        return True

    def look(self) -> bool:
        """Whether it has just become ready."""
        if not self.alive or self.ready or time.monotonic() < self._next:
            return False
        self.ready = self._ready is None or self._is_ready(self._ready)
        return self.ready

    def _is_ready(self, said: Mapping[str, Any]) -> bool:
        if "command" in said:
            return self._answered(said["command"])
        if "log" in said:
            return re.search(said["log"], text_from(self.log, self._offset), re.MULTILINE) is not None
        return listens(self._address, said["port"], said.get("http"))

    def _answered(self, argv: Sequence[str]) -> bool:
        if self._question is None:
            self._question = Errand(argv, QUESTION_LIMIT_S)
        found = self._question.ended()
        if found is None:
            return False
        self._question, self._next = None, time.monotonic() + AGAIN_S
        return found[0] == 0

    def last_lines(self) -> list[str]:
        """What it wrote last, since it started."""
        text = text_from(self.log, self._offset)
        return [line[:LINE_MAX] for line in text.splitlines() if line.strip()][-LINES_MAX:]

    def end(self, number: int) -> None:
        """End it with what it started, and see that it is gone."""
        if not self.alive or self.child is None:
            return
        self.asked, pid = True, self.child.pid
        if number == signal.SIGTERM:
            send(self.frozen, signal.SIGCONT)
            send([pid], number)
            await_that(self._gone, SIGNAL_LIMIT_S)
        family = freeze(pid)
        send(family, signal.SIGKILL)
        await_that(lambda: self._gone() and not any(map(lives, family)), SIGNAL_LIMIT_S)

    def _gone(self) -> bool:
        self.reap()
        return not self.alive

    def hold(self, *, frozen: bool) -> None:
        """Stop it, or let it continue."""
        if self.child is None or not self.alive:
            return
        if frozen:
            self.frozen = freeze(self.child.pid)
            await_that(lambda: all(set(thread_states(pid)) <= set("TtZX") for pid in self.frozen), SIGNAL_LIMIT_S)
        elif self.frozen:
            send(self.frozen, signal.SIGCONT)
            self.frozen = []

    def said(self) -> dict[str, Any]:
        """What it is now, for who asks."""
        pid = self.child.pid if self.child is not None and self.alive else 0
        states = thread_states(pid) if pid else ""
        return {"alive": self.alive, "frozen": bool(states) and set(states) <= set("Tt"), "pid": pid}


def note_start(log: str, incarnation: str, offset: int) -> None:
    """Note next to a log where in it this incarnation begins, as agents do."""
    with contextlib.suppress(OSError), open(f"{log}.starts", "a", encoding="ascii") as file:  # noqa: PTH123
        file.write(f"{incarnation} {offset}\n")
