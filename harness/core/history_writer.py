"""Writes the history of a run down, segment by segment, as it happens.

Guarantees: ``seq`` on each line, every line handed to the kernel before ``write`` returns (so that what was announced
is there after ``kill -9``), fsync in a thread of its own; closed by an ``end`` record with count and digest over the
canonical lines. A segment that is full is sealed as columns by another process at the lowest priority, so that no
writer waits for it; it ends with the writer, at the latest. Out of scope: the form of the files (``history_files``).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterable
from operator import attrgetter
from pathlib import Path

import msgspec

from dethrone.harness.core.errors import HistoryError
from dethrone.harness.core.events import End, Event
from dethrone.harness.core.files import why_unwritten
from dethrone.harness.core.history import BLOCK_EVENTS, LineDigest, line_of
from dethrone.harness.core.history_files import SEGMENT_EVENTS, lines_path

_ENCODER = msgspec.json.Encoder()
_SEQ = attrgetter("seq")
SEALER = (sys.executable, "-P", "-m", "dethrone.harness.core.history_files")


class HistoryWriter:
    """Appends events; the main thread only. Raises HistoryError when the disk refuses (full): earlier lines stay.

    ``place``: a directory that is not there yet. ``sync``: whether lines are synced as they come, not only at the end.
    """

    def __init__(self, place: Path, *, sync: bool = True, segment_events: int = SEGMENT_EVENTS) -> None:
        self.place = place
        self.count = 0
        self._segment_events = segment_events
        self._digest = LineDigest()
        self._closed = False
        try:
            place.mkdir()
        except OSError as error:
            raise HistoryError(f"cannot create the history: {error.strerror}", where=str(place)) from error
        self._full_at = segment_events
        self._full: list[int] = []
        """Descriptors of full segments, which the syncer closes."""
        self._sealer: subprocess.Popen[bytes] | None = None
        self._fd = self._open()
        self._dirty = threading.Event()
        self._stop = False
        self._sync = sync
        self._syncer = threading.Thread(target=self._sync_loop, name="history-fsync", daemon=True)
        self._syncer.start()

    def write(self, events: Iterable[Event]) -> None:
        """Append events; ``seq`` must continue the count. They are in the kernel when this returns."""
        batch = list(events)
        if not batch:
            return
        first, end = self.count, self.count + len(batch)
        if list(map(_SEQ, batch)) != list(range(first, end)):
            wrong, due = next((event.seq, due) for due, event in enumerate(batch, first) if event.seq != due)
            raise ValueError(f"event seq {wrong} where {due} was expected")
        while self.count < end:
            if self.count >= self._full_at:
                self._next_segment()
            until = min(end, self._full_at, self.count + BLOCK_EVENTS - self.count % BLOCK_EVENTS)
            part = batch[self.count - first : until - first]
            data = _ENCODER.encode_lines(part)
            self._append(data)
            self.count = until
            self._digest.add(data, len(part))
        if self._sync:
            self._dirty.set()

    def end(self, *, t: int, reason: str) -> End:
        """Write the ``end`` record, fsync and close."""
        record = End(seq=self.count, t=t, count=self.count, digest=self._digest.value(), reason=reason)
        self._append(line_of(record))
        self.close()
        return record

    def close(self) -> None:
        """Fsync and close without an ``end`` record, if still open. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._stop = True
        self._dirty.set()
        self._syncer.join(timeout=30)
        try:
            os.fsync(self._fd)
        except OSError as error:
            raise HistoryError(f"cannot sync the history: {error.strerror}", where=str(self.place)) from error
        finally:
            os.close(self._fd)
            if self._sealer is not None:  # what it has not sealed is still there as lines
                self._sealer.kill()
                self._sealer.wait()

    def _open(self) -> int:
        path = lines_path(self.place, self.count)
        try:
            return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise HistoryError(f"cannot create the history: {error.strerror}", where=str(path)) from error

    def _next_segment(self) -> None:
        before, self._fd = self._fd, self._open()
        self._full_at = self.count + self._segment_events
        self._full.append(before)
        self._dirty.set()

    def _append(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                done = os.write(self._fd, view)
            except OSError as error:
                raise HistoryError(
                    f"cannot append to the history: {error.strerror}",
                    where=str(self.place),
                    cause=why_unwritten(error),
                    next_step="free space; what was written so far can be judged with `dethrone check`",
                ) from error
            view = view[done:]

    def _sync_loop(self) -> None:
        while self._dirty.wait():
            self._dirty.clear()
            try:
                while self._full:
                    full = self._full.pop(0)
                    os.fdatasync(full)
                    os.close(full)
                    self._seal()
                if self._stop:
                    return
                os.fdatasync(self._fd)
            except OSError:  # the next write or close says it to the caller
                return

    def _seal(self) -> None:
        """Start a process that seals what is full, unless one is at work: the next one seals this, too."""
        if self._sealer is not None and self._sealer.poll() is None:
            return
        with contextlib.suppress(OSError):  # no process, no descriptor: lines are as good
            self._sealer = subprocess.Popen(
                [*SEALER, str(self.place)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the run, which ends by itself
            )
