"""What a simulated node reports: trace lines, as ``dethrone.clusters.node.trace`` writes them into its file.

Guarantees: lines are numbered from 1 within an incarnation, in the order in which things happened; a line of the shell
carries the role that the group's last note named. Out of scope: when they are read (``world``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dethrone.clusters.node.record import Persisted, persisted_of
from dethrone.clusters.sim.links import Timeline
from dethrone.harness.core.clock import Span
from dethrone.harness.core.machine import Note, Witnessed
from dethrone.harness.core.world import Traces, TraceTold


class Teller:
    """The traced side of a node. ``traced`` gets the lines of one moment."""

    __slots__ = ("_line", "_lines", "_n", "_persisted", "_roles", "_term", "_traced", "incarnation", "name")

    def __init__(self, name: str, line: Timeline, traced: Callable[[Traces], None]) -> None:
        self.name = name
        self._line = line
        self._traced = traced
        self.incarnation = 0
        self._forget()

    def _forget(self) -> None:
        """What a process takes with it when it ends."""
        self._lines: list[TraceTold] = []
        self._persisted: dict[str, Persisted] = {}
        self._n = 0
        self._term = 0
        self._roles: dict[str, str] = {}
        """Group → role, as the last note said."""

    def _note(self, note: Note) -> None:
        self._n = n = self._n + 1
        data = note.data
        group = data.get("group", "")
        self._term = note.term
        self._roles[group] = note.role
        self._lines.append((n, note.name, note.term, note.role, "core", data, group))

    def _shell(self, name: str, data: Mapping[str, Any]) -> None:
        self._n = n = self._n + 1
        self._lines.append((n, name, self._term, self._roles.get("", ""), "shell", data, ""))

    def _witnessed(self, seen: Iterable[Witnessed]) -> None:
        for each in seen:
            self._n = n = self._n + 1
            data = each.data
            group = data.get("group", "")
            if each.name == "persisted":
                self._persisted[group] = persisted_of(each)
            self._lines.append((n, each.name, each.term, self._roles.get(group, ""), "shell", data, group))

    def tell(self) -> None:
        """Hand over what was traced since the last time."""
        lines = self._lines
        if lines:
            self._lines = []
            now = self._line.now
            self._traced(Traces(self.name, self.incarnation, Span(now, now), lines))
