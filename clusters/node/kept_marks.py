"""The marks of a node's logs in a file next to its trace, so that its next process knows what its trace holds already.

Guarantees: a mark is in the page cache (which a ``kill -9`` leaves alone) after the lines that it stands for; a file of
another run is not read. A file that cannot be read or written costs nothing but lines that are shown again. Out of
scope: what the marks mean (``harness.core.log_marks``).
"""

from __future__ import annotations

import os

import msgspec

from dethrone.harness.core.log_marks import LogMarks


class _Line(msgspec.Struct, frozen=True, gc=False, array_like=True):
    path: str
    same: int
    more: list[int]


class KeptMarks:
    """The file of one node. In ``incarnation`` 1 it starts empty."""

    def __init__(self, path: str, *, incarnation: int) -> None:
        self.marks = LogMarks()
        self._fd: int | None = None
        try:
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | (os.O_TRUNC if incarnation <= 1 else 0)
            self._fd = os.open(path, flags, 0o644)
            self._read(os.pread(self._fd, os.fstat(self._fd).st_size, 0))
        except OSError:
            self.marks.clear()

    def keep(self) -> None:
        """Write what changed; call it after the trace was flushed."""
        lines = bytearray()
        for path, marks in self.marks.items():
            change = marks.change()
            if change is not None:
                lines += msgspec.json.encode(_Line(path, *change)) + b"\n"
        if lines and self._fd is not None:
            try:
                os.write(self._fd, lines)
            except OSError:  # a full disk: what is not there is shown again, but what is there must hold
                self._give_up()

    def close(self) -> None:
        """Write what changed, and close."""
        self.keep()
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _read(self, data: bytes) -> None:
        decode = msgspec.json.Decoder(_Line).decode
        for raw in data.split(b"\n"):
            if not raw:
                continue
            try:
                line = decode(raw)
            except msgspec.MsgspecError:  # torn: the lines after it count from marks that are not known
                self._give_up()
                return
            self.marks.of(line.path).restore(line.same, line.more)

    def _give_up(self) -> None:
        self.marks.clear()
        if self._fd is not None:
            fd, self._fd = self._fd, None
            os.ftruncate(fd, 0)
            os.close(fd)
