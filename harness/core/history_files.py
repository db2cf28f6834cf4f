"""The history of a run on disk: a directory of segments, each sealed as Parquet or still the lines that were written.

    history/000000000000.parquet     sealed: events from seq 0 on
    history/000000065536.jsonl       open, or not sealed yet: one JSON line an event

Guarantees: the lines of a segment go only after its columns are on disk, and it is read in one form; what is read is
one prefix of ``seq``, whichever segments and forms survived, and it is judged by the same rules as one file of
lines: golden histories, examples, and runs of older versions, whose whole history is ``history.jsonl``. Out of scope:
writing down (``history_writer``), columns (``parquet``).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dethrone.harness.core import parquet, store
from dethrone.harness.core.errors import HistoryError
from dethrone.harness.core.events import End
from dethrone.harness.core.files import open_regular
from dethrone.harness.core.history import BLOCK_EVENTS, History, LineDigest, Reading, decode_line, line_of
from dethrone.harness.core.long_history import LongHistory, Part, begin_of, blocks_of, ended, of_columns

SEGMENT_EVENTS = BLOCK_EVENTS
"""Events of a segment; the last one has the ``end`` record besides."""

LINE_MAX = 64 << 20
"""Bytes of one line."""

_NAME = re.compile(r"(\d{12})\.(jsonl|parquet)")


class Segment(NamedTuple):
    """One file of a history. ``first``: the ``seq`` of its first event."""

    first: int
    path: Path

    @property
    def sealed(self) -> bool:
        """Whether it is columns."""
        return self.path.suffix == ".parquet"


def lines_path(place: Path, first: int) -> Path:
    """Where the lines of the segment that begins with this ``seq`` stand."""
    return place / f"{first:012}.jsonl"


def segments(place: Path) -> list[Segment]:
    """All segments of a directory, in order; columns where there are both. HistoryError: it cannot be read."""
    try:
        paths = sorted(place.iterdir())  # the columns of a segment come after its lines
    except OSError as error:
        raise HistoryError(f"cannot read the history: {error.strerror}", where=str(place)) from error
    found = {int(match[1]): path for path in paths if (match := _NAME.fullmatch(path.name))}
    return [Segment(first, path) for first, path in sorted(found.items())]


def history_at(path: Path) -> Path:
    """The history that a user means: of a run directory, or a history itself. HistoryError: there is none."""
    found = path
    if path.is_dir() and not segments(path):
        found = path / store.HISTORY if (path / store.HISTORY).is_dir() else path / store.LINES
    if not found.exists():
        raise HistoryError(
            "no history found here", where=str(found), next_step="name a run directory or a file of a history"
        )
    return found


def named(path: Path) -> Path:
    """What a user means who names the directory of a history: its run."""
    return path.parent if path.name == store.HISTORY and path.is_dir() else path


def run_of(history: Path) -> Path:
    """The run directory that a history lies in."""
    return history.parent


def read_history(path: Path) -> History:
    """Read a history. Damage is described, not raised; what is no history at all is a HistoryError.

    A long one stays on disk.
    """
    return _long(path) or _in_memory(path)


def _long(path: Path) -> LongHistory | None:
    """The history as it is on disk, if it is in columns but for its last segments, and nothing in it is damaged."""
    found = segments(path) if path.is_dir() else []
    sealed = list(itertools.takewhile(lambda segment: segment.sealed, found))
    if len(found) < 2 or not sealed:
        return None
    try:
        parts = blocks_of([segment.path for segment in sealed])
        if len(sealed) == len(found) and (whole := of_columns(parts, lambda: _in_memory(path))) is not None:
            return whole
        begin = begin_of(parts) if parts else None
        if begin is None or ended(parts):
            return None
        reading = Reading.behind(begin, sum(part.size for part in parts), [part.lines for part in parts], str(path))
        for segment in found[len(sealed) :]:
            if segment.sealed or segment.first != reading.count or reading.count % BLOCK_EVENTS:
                return None
            first = reading.count
            events = list(_of_file(segment.path, reading))
            if events:
                parts.append(Part(first, len(events), events, ""))
        reading.close()
    except (HistoryError, OSError):  # which reading event by event describes
        return None
    return LongHistory(parts, lambda: _in_memory(path), damage=reading.damage)


def _digest(lines: Sequence[bytes], events: Sequence[Any]) -> str:
    """The digest of the lines of a block."""
    closed = bool(events) and type(events[-1]) is End
    digest = LineDigest()
    digest.add(b"".join(lines[:-1] if closed else lines), len(lines))
    return digest.value()


def _in_memory(path: Path) -> History:
    reading = Reading(str(path))
    events = list(stream(path, reading))
    reading.close()
    return History(events, damage=reading.damage)


def stream(path: Path, reading: Reading) -> Iterator[Any]:
    """Its sound events, one after another. ``reading`` knows the rest afterwards; ``close`` it."""
    if not path.is_dir():
        yield from _of_file(path, reading)
        return
    for segment in segments(path):
        if segment.first != reading.count and reading.damage is None:
            reading.broken(f"seq {segment.first} where {reading.count} was expected: a segment is missing")
        if reading.damage is not None:
            return
        yield from _of_file(segment.path, reading)


def _of_file(path: Path, reading: Reading) -> Iterator[Any]:
    if path.suffix == ".parquet":
        try:
            damage, events = parquet.stored_events(path)
            yield from reading.rows(events)
        except HistoryError as error:
            if not reading.count:
                raise
            reading.broken(f"{path.name}: {error.what}")
            return
        if damage is not None:
            reading.broken(damage)
        return
    try:
        with open_regular(path) as file:
            yield from reading.lines(_lines(file))
    except OSError as error:
        if not reading.count:
            raise HistoryError(f"cannot read the history: {error.strerror}", where=str(path)) from error
        reading.broken(f"{path.name}: cannot be read: {error.strerror}")


def _lines(file: Any) -> Iterator[bytes]:
    while line := file.readline(LINE_MAX):
        yield line


# --- sealing ----------------------------------------------------------------------------------------------------


def seal(place: Path, *, ended: bool) -> int:
    """Turn lines into columns, segment by segment; how many. ``ended``: the last one, too, if the history is closed.

    Nothing is lost: where lines are damaged, or columns cannot hold them (a number beyond 64 bits), they stay as they
    are. HistoryError: the disk refuses.
    """
    if ended:
        for stray in place.glob(".*.tmp"):  # of a sealer that ended with the writer
            stray.unlink(missing_ok=True)
    done = 0
    found = segments(place)
    for at, segment in enumerate(found):
        if segment.sealed:
            with contextlib.suppress(FileNotFoundError):  # a sealer was killed between its two last steps
                lines_path(place, segment.first).unlink()
            continue
        last = at == len(found) - 1
        if last and not ended:
            break
        whole = _whole(segment, following=None if last else found[at + 1].first)
        if whole is None:
            continue
        events, digest = whole
        with contextlib.suppress(parquet.NumberTooLargeError):
            parquet.write_events(events, segment.path.with_suffix(".parquet"), lines=digest)
            segment.path.unlink(missing_ok=True)
            done += 1
    return done


def _whole(segment: Segment, *, following: int | None) -> tuple[Sequence[Any], str] | None:
    """The events of a segment and the digest of its lines; None if it is not whole, or these are not canonical.

    ``following``: where the next one begins.
    """
    try:
        with open_regular(segment.path) as file:
            lines = [line for line in _lines(file) if line.endswith(b"\n")]
        events = [decode_line(line) for line in lines]
    except (OSError, HistoryError):
        return None
    if any(line != line_of(event) for line, event in zip(lines, events, strict=True)):
        return None
    end = segment.first + len(events)
    if [event.seq for event in events] != list(range(segment.first, end)):
        return None
    closed = bool(events) and type(events[-1]) is End
    return (events, _digest(lines, events)) if (closed if following is None else end == following) else None


if __name__ == "__main__":
    os.nice(19)
    seal(Path(sys.argv[1]), ended=False)
