"""Starts the processes that become hosts (``dethrone.clusters.local.box``) and talks them through it.

Guarantees: every wait is bounded and its error says what the machine refused; a process whose harness dies meanwhile
ends by itself. Out of scope: what they become, and ending them (``dethrone.clusters.local.owned``).
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dethrone.clusters.local import box
from dethrone.harness.core.errors import ClusterError

STEP_LIMIT_S = 20.0
"""How long one step of becoming a host may take on a busy machine."""


class Becoming:
    """A process on its way to be a host. ``env`` carries our marks. Not thread-safe."""

    def __init__(self, name: str, plan: Mapping[str, Any], *, env: Mapping[str, str]) -> None:
        self.name = name
        self.pid = 0
        """The host's first process, as seen from here."""
        self._unread = b""
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(box.__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(env),
            cwd="/",
            start_new_session=True,  # Ctrl-C is for the harness, which takes hosts away in its own order
        )
        self._tell(plan)

    def _tell(self, what: Mapping[str, Any]) -> None:
        if self._process.stdin is None:
            raise ClusterError("the host accepts no more commands", where=self.name)
        try:
            self._process.stdin.write(json.dumps(what).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise self._refused(self._said(0.2)) from error

    def begun(self) -> int:
        """Wait until its namespaces are there; the id of its first process."""
        self.pid = int(self._expect("pid"))
        return self.pid

    def made(self) -> None:
        """Wait until its part that needs no network is done."""
        self._expect("made")

    def connect(self, lines: Sequence[str], **more: object) -> None:
        """Its network devices are there: let it set them up (lines of ``ip -batch``) and continue.

        ``more``: see box.
        """
        self._tell({"ip": list(lines), **more})

    def left(self) -> None:
        """Wait until the agent has taken over."""
        said = self._said(STEP_LIMIT_S)
        if said is not None:
            raise self._refused(said)

    def close(self) -> None:
        """Close our ends, and reap the starter."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(timeout=STEP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _expect(self, key: str) -> Any:
        said = self._said(STEP_LIMIT_S)
        if said is None or key not in said:
            raise self._refused(said)
        return said[key]

    def _refused(self, said: Mapping[str, Any] | None) -> ClusterError:
        return ClusterError(
            "a local host cannot be made",
            where=self.name,
            cause=str((said or {}).get("error", "it ended without a word")),
            next_step="run `dethrone doctor`; `--on docker` needs none of this",
        )

    def _said(self, limit_s: float) -> dict[str, Any] | None:
        """The next line; None at the end of the stream. ClusterError if there is neither in time."""
        deadline = time.monotonic() + limit_s
        stream = self._process.stdout
        if stream is None or stream.closed:
            return None
        while b"\n" not in self._unread:
            ready, _, _ = select.select([stream], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise ClusterError(
                    "a local host is not made in time", where=self.name, cause="the machine is too busy, or hangs"
                )
            data = os.read(stream.fileno(), 4096)
            if not data:
                return None
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        said: dict[str, Any] = json.loads(line)
        return said
