"""The trace log: what this node did about its own election, one JSON object per line, in its own order.

Guarantees: ``flush`` returns after the lines are in the page cache (which a ``kill -9`` leaves alone), so a caller that
flushes before it sends has traced everything that it shows; a line torn by an earlier crash never joins a later one.
A line that names a consensus group in its data (``group``) has it next to its term, and each group has its own role.
Out of scope: durability against a power loss, and meaning.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from dethrone.harness.core.clock import MS, Clocks, Ns
from dethrone.harness.core.errors import ClusterError


class WrittenLine(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One line. ``seq`` counts from 1 within (node, incarnation); ``source`` says who says so."""

    seq: int
    mono_ns: Ns
    mono_ms: int
    wall_ms: int
    node: str
    incarnation: int
    event: str
    term: int
    role: str
    source: Literal["core", "shell"]
    data: Mapping[str, Any]
    group: str = ""
    """The consensus group; omitted where a node has only one."""


class TraceLog:
    """Appends to the file at ``path``; a line is buffered until ``flush``. Raises ClusterError if it cannot write."""

    __slots__ = ("_buffer", "_encoder", "_fd", "_incarnation", "_node", "_path", "_roles", "seq", "term")

    def __init__(self, path: str, *, node: str, incarnation: int) -> None:
        self._path = path
        self._node = node
        self._incarnation = incarnation
        self._buffer = bytearray()
        self._encoder = msgspec.json.Encoder(enc_hook=str)
        self.seq = 0
        self.term = 0
        """The node's term as its last traced note said: what lines of the shell itself carry."""
        self._roles: dict[str, str] = {}
        """Group → the role that its last traced note said."""
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            size = os.fstat(self._fd).st_size
            if size and os.pread(self._fd, 1, size - 1) != b"\n":
                self._buffer += b"\n"
        except OSError as error:
            raise _cannot_write(path, error) from error

    def note(self, now: Clocks, event: str, term: int, role: str, data: Mapping[str, Any]) -> None:
        """A note of the core."""
        self.term = term
        self._roles[_group_of(data)] = role
        self._add(now, event, term, data, source="core")

    def shell(self, now: Clocks, event: str, data: Mapping[str, Any], *, term: int | None = None) -> None:
        """A line of the shell; ``term`` None: the term of the last note."""
        self._add(now, event, self.term if term is None else term, data, source="shell")

    def flush(self) -> None:
        """Hand all lines to the operating system."""
        if not self._buffer:
            return
        data = bytes(self._buffer)
        self._buffer.clear()
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            raise _cannot_write(self._path, error) from error

    def close(self) -> None:
        """Flush and close."""
        self.flush()
        os.close(self._fd)

    def _add(
        self, now: Clocks, event: str, term: int, data: Mapping[str, Any], *, source: Literal["core", "shell"]
    ) -> None:
        self.seq += 1
        group = _group_of(data)
        line = WrittenLine(
            seq=self.seq,
            mono_ns=now.mono,
            mono_ms=now.mono // MS,
            wall_ms=now.wall // MS,
            node=self._node,
            incarnation=self._incarnation,
            event=event,
            term=term,
            role=self._roles.get(group, ""),
            source=source,
            data=data,
            group=group,
        )
        self._buffer += self._encoder.encode(line)
        self._buffer += b"\n"


def _group_of(data: Mapping[str, Any]) -> str:
    """The group that a note or a witness names in its data; "" where there is one only."""
    group = data.get("group")
    return group if isinstance(group, str) else ""


def _cannot_write(path: str, error: OSError) -> ClusterError:
    return ClusterError(
        f"cannot write the trace log: {error.strerror}",
        where=path,
        cause="a full or missing directory of the run; the node's own disk is another one",
        next_step="give trace_path a place that no disk fault touches",
    )
