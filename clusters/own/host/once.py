"""Commands that end: those of a node's first start and of the cluster's setup, each done once.

Guarantees: what is done is noted as soon as it is, and not done again; a command that fails is repeated. Out of scope:
when the node's processes start.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dethrone.clusters.own.host.family import OUTPUT_MAX, SHOWN_MAX, CannotStart, send, spawn, tell, tree

AGAIN_S = 0.5
"""From the failure of a command to its repetition."""
ERRAND_LIMIT_S = 120.0


def first_from(done: Mapping[str, Any] | None, *, empty: bool) -> int:
    """The command of the first start that is next. ``done``: what was noted; ``empty``: the data directory is.

    A directory that held data and is empty now was wiped, so that the node is a new one.
    """
    if done is None or (done["held"] and empty):
        return 0
    return int(done["count"])


class Errand:
    """A command that is to end: its output, and how it ended."""

    def __init__(self, argv: Sequence[str], limit_s: float) -> None:
        self.argv = list(argv)
        self._deadline = time.monotonic() + limit_s
        self._output = os.memfd_create("output", os.MFD_CLOEXEC)
        try:
            self._child = spawn(self.argv, self._output)
        except CannotStart:
            os.close(self._output)
            raise

    def ended(self) -> tuple[int, str] | None:
        """Exit code and output; None: it runs."""
        code = self._child.poll()
        if code is None:
            if time.monotonic() < self._deadline:
                return None
            send(tree(self._child.pid), signal.SIGKILL)
            self._child.wait()
            code = 124
        out = os.pread(self._output, OUTPUT_MAX, 0).decode("utf-8", "replace")
        os.close(self._output)
        return code, out


class Once:
    """The commands of the first start and of the setup: what is done, and what runs now."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._first: Sequence[Mapping[str, Any]] = config["first"]
        self._setup: Mapping[str, Any] | None = config["setup"]
        self._note = f"{config['run_dir']}/first.json"
        self._done = f"{config['run_dir']}/setup.done"
        self._data = config["data_dir"]
        noted = read_json(self._note)
        self._count = min(first_from(noted, empty=self._is_empty()), len(self._first))
        self._held = bool(noted and noted["held"]) and self._count > 0
        if os.path.exists(self._done):  # noqa: PTH110
            self._setup = None
        self._errand: Errand | None = None
        self._next = 0.0
        self._set = False
        self._said = ""

    def _is_empty(self) -> bool:
        try:
            return not os.listdir(self._data)  # noqa: PTH208
        except OSError:
            return True

    @property
    def may_start(self) -> bool:
        """Whether everything is done that comes before the processes."""
        return None not in self.awaited

    @property
    def awaited(self) -> set[str | None]:
        """After which processes something of the first start is left to do, and others wait; None: before them all."""
        return {one["after"] for one in self._first[self._count :]}

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        return self._count >= len(self._first) and self._setup is None

    def note(self) -> None:
        """Keep in mind what is done, and that the node has data."""
        held = self._held or not self._is_empty()
        if self._count and (held != self._held or not os.path.exists(self._note)):  # noqa: PTH110
            self._held = held
            write_json(self._note, {"count": self._count, "held": held})

    def go_on(self, ready: Collection[str], *, all_ready: bool) -> None:
        """Start what is due, or see whether it has ended. Raises CannotStart."""
        if self._errand is not None:
            found = self._errand.ended()
            if found is not None:
                argv, self._errand = self._errand.argv, None
                self._ended(argv, *found)
        elif time.monotonic() >= self._next:
            fresh = self._due(ready, all_ready=all_ready)
            if fresh is not None:
                self._errand = Errand(fresh, ERRAND_LIMIT_S)

    def _due(self, ready: Collection[str], *, all_ready: bool) -> Sequence[str] | None:
        if self._count < len(self._first):
            # Those that come before the processes are the first.
            one = self._first[self._count]
            return list(one["argv"]) if one["after"] is None or one["after"] in ready else None
        if self._setup is None or not all_ready:
            return None
        return list(self._setup["until"] if self._set else self._setup["argv"])

    def _ended(self, argv: Sequence[str], code: int, out: str) -> None:
        last = self._count >= len(self._first)
        shown = f"{' '.join(argv)[:200]} ended with {code}: {out.strip()[-SHOWN_MAX:]}"
        good = code == 0
        if last and good and self._setup is not None:
            pattern = self._setup["pattern"] if self._set or self._setup["until"] is None else None
            good = pattern is None or re.search(pattern, out, re.MULTILINE) is not None
        if shown != self._said:
            tell(f"{'setup' if last else 'first start'}: {shown}{'' if good else ' (again)'}")
            self._said = shown
        if not good:
            self._next = time.monotonic() + AGAIN_S
        elif not last:
            self._count += 1
            self._held = self._held or not self._is_empty()
            write_json(self._note, {"count": self._count, "held": self._held})
        elif self._setup is not None and self._setup["until"] is not None and not self._set:
            self._set = True
        else:
            write_json(self._done, {"done": True})
            self._setup = None


def read_json(path: str) -> Any:
    """What the file holds; None: nothing that is whole."""
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            return json.load(file)
    except (OSError, ValueError):
        return None


def write_json(path: str, value: Any) -> None:
    """The file, whole or not at all."""
    with open(f"{path}.half", "w", encoding="utf-8") as file:  # noqa: PTH123
        json.dump(value, file)
    os.replace(f"{path}.half", path)  # noqa: PTH105
