"""This file as another process, which answers questions: a line of JSON each way.

Guarantees: a process is started when it is needed, and an answer comes in time or the process is ended, so that the
next question has a new one. Out of scope: what is asked.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from dethrone.clusters.agent.host.confinement import Confined
from dethrone.clusters.agent.host.processes import Child, Processes
from dethrone.clusters.agent.host.requests import object_of

HERE = os.path.abspath(__file__)  # noqa: PTH100 - as everywhere here


def spawn_on_wire(processes: Processes, verb: str, *, node: Confined | None = None) -> tuple[Child, socket.socket]:
    """Start this file with a verb; its input and output are the other end of the socket. Raises OSError, Refused."""
    ours, theirs = socket.socketpair()
    null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    try:
        argv = [sys.executable, "-S", HERE, verb, "--socket", "-"]
        return processes.spawn(argv, files=(theirs.fileno(), theirs.fileno(), null), node=node), ours
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
        os.close(null)


class AskedProcess:
    """Runs ``verb``. Not thread-safe. ``ended``: what to say if it ends; ``runs_as``: as whom, None: as the agent."""

    def __init__(
        self,
        verb: str,
        processes: Processes,
        *,
        limit_s: float,
        ended: str,
        runs_as: Callable[[], Confined | None] = lambda: None,
    ) -> None:
        self._verb = verb
        self._processes = processes
        self._limit_s = limit_s
        self._ended = ended
        self._runs_as = runs_as
        self._child: Child | None = None
        self._wire: socket.socket | None = None

    @property
    def gone(self) -> bool:
        """Whether there was a process, and it has ended."""
        return self._child is not None and self._child.code is not None

    def ask(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """The answer. Raises OSError or ValueError if there is none; the process is ended then."""
        try:
            return self._ask(question)
        except (OSError, ValueError):
            self.end()
            raise

    def _ask(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        wire = self._wire or self._begin()
        deadline = time.monotonic() + self._limit_s
        wire.settimeout(self._limit_s)
        wire.sendall(json.dumps(question).encode() + b"\n")
        answer = bytearray()
        while not answer.endswith(b"\n"):
            wire.settimeout(max(0.001, deadline - time.monotonic()))
            data = wire.recv(1 << 16)
            if not data:
                raise ConnectionError(self._ended)
            answer += data
        return object_of(json.loads(answer), "answer")

    def _begin(self) -> socket.socket:
        self._child, self._wire = spawn_on_wire(self._processes, self._verb, node=self._runs_as())
        return self._wire

    def end(self) -> None:
        """Kill the process, if there is one."""
        if self._child is not None:
            self._processes.signal(self._child, signal.SIGKILL, group=True)
        if self._wire is not None:
            self._wire.close()
        self._child = self._wire = None
