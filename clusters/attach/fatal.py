"""Fatal lines in what a container of another user prints, read through the engine: a thread a container.

Guarantees: a bounded part of the log is read at a time; what is passed over is said; the thread ends at ``close``, or
with the last line that is reported. Out of scope: what the node writes into files of its own.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence

import docker

from dethrone.clusters.attach.targets import AttachTarget
from dethrone.clusters.docker.client import ENGINE_ERRORS
from dethrone.harness.core.deaths import printable

FATAL_EVERY_NS = 1_000_000_000
FATAL_LINES_MAX = 20_000
"""Of each look."""
FATAL_MAX = 20
"""Lines that are reported."""


class FatalSearch:
    """Looks once a second at what is new; ``say`` gets the pattern and the line, or "" for a part that was skipped."""

    def __init__(
        self,
        client: docker.DockerClient,
        target: AttachTarget,
        patterns: Sequence[str],
        say: Callable[[str, str], None],
    ) -> None:
        self._client = client
        self._target = target
        self._patterns = tuple(patterns)
        self._say = say
        self._closed = threading.Event()
        self._hits = 0
        self._since = time.time()
        self._thread = threading.Thread(target=self._watch, name=f"fatal-{target.node}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Search no more."""
        self._closed.set()

    def _watch(self) -> None:
        while self._hits < FATAL_MAX and not self._closed.wait(FATAL_EVERY_NS / 1e9):
            with contextlib.suppress(*ENGINE_ERRORS):  # what cannot be read now is read at the next look
                self._look()

    def _look(self) -> None:
        until = time.time()
        found: bytes = self._client.api.logs(self._target.id, since=self._since, until=until, tail=FATAL_LINES_MAX)
        self._since = until
        lines = found.decode("utf-8", "replace").splitlines()
        if len(lines) >= FATAL_LINES_MAX:
            self._say("", "")
        for pattern, line in hits(lines, self._patterns):
            if self._hits < FATAL_MAX:
                self._hits += 1
                self._say(pattern, line)


def hits(lines: Sequence[str], patterns: Sequence[str]) -> list[tuple[str, str]]:
    """The lines that contain a pattern, each with the first one that it contains."""
    out = []
    for line in lines:
        pattern = next((one for one in patterns if one in line), None)
        if pattern is not None:
            out.append((pattern, printable(line)))
    return out
