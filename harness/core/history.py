"""The history of one run: an append-only file of JSON lines, and its reading back.

Guarantees of the writer: ``seq`` on each line, every line handed to the kernel before ``write`` returns (valid after
``kill -9``), fsync in a thread of its own, closed by an ``end`` record with count and digest. Guarantees of the reader:
it reads up to the damage and says so; a history without ``end`` is never complete, so never judged ``pass``. Out of
scope: columns (``dethrone.harness.core.columns``) and Parquet.
"""

from __future__ import annotations

import functools
import hashlib
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

from dethrone.harness.core.errors import HistoryError
from dethrone.harness.core.events import SCHEMA, AnyEvent, Begin, End, Event
from dethrone.harness.core.files import HISTORY_MAX, read_regular, why_unwritten

E = TypeVar("E", bound=Event)
T = TypeVar("T")
P = ParamSpec("P")
_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(AnyEvent)
MAX_EVENTS = 20_000_000


class HistoryWriter:
    """Appends events; the main thread only. Raises HistoryError when the disk refuses (full): earlier lines stay."""

    def __init__(self, path: Path, *, sync: bool = True) -> None:
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        except OSError as error:
            raise HistoryError(f"cannot create the history: {error.strerror}", where=str(path)) from error
        self.path = path
        self.count = 0
        self._digest = hashlib.blake2b(digest_size=16)
        self._closed = False
        self._dirty = threading.Event()
        self._stop = False
        self._syncer = threading.Thread(target=self._sync_loop, name="history-fsync", daemon=True) if sync else None
        if self._syncer:
            self._syncer.start()

    def write(self, events: Iterable[Event]) -> None:
        """Append events; ``seq`` must continue the count. They are in the kernel when this returns."""
        batch = list(events)
        if not batch:
            return
        first, end = self.count, self.count + len(batch)
        if [event.seq for event in batch] != list(range(first, end)):
            wrong, due = next((event.seq, due) for due, event in enumerate(batch, first) if event.seq != due)
            raise ValueError(f"event seq {wrong} where {due} was expected")
        data = _ENCODER.encode_lines(batch)
        self._append(data)
        self.count = end
        self._digest.update(data)
        self._dirty.set()

    def end(self, *, t: int, reason: str) -> End:
        """Write the ``end`` record, fsync and close."""
        record = End(seq=self.count, t=t, count=self.count, digest=self._digest.hexdigest(), reason=reason)
        self._append(_ENCODER.encode(record) + b"\n")
        self.close()
        return record

    def close(self) -> None:
        """Fsync and close without an ``end`` record, if still open. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._stop = True
        self._dirty.set()
        if self._syncer:
            self._syncer.join(timeout=30)
        try:
            os.fsync(self._fd)
        except OSError as error:
            raise HistoryError(f"cannot sync the history: {error.strerror}", where=str(self.path)) from error
        finally:
            os.close(self._fd)

    def _append(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                done = os.write(self._fd, view)
            except OSError as error:
                raise HistoryError(
                    f"cannot append to the history: {error.strerror}",
                    where=str(self.path),
                    cause=why_unwritten(error),
                    next_step="free space; what was written so far can be judged with `dethrone check`",
                ) from error
            view = view[done:]

    def _sync_loop(self) -> None:
        while self._dirty.wait():
            self._dirty.clear()
            if self._stop:
                return
            try:
                os.fdatasync(self._fd)
            except OSError:  # the next write or close says it to the caller
                return


class History:
    """A history in memory. ``damage``: what is wrong with the file, or None; ``complete``: it has its ``end``."""

    def __init__(self, events: list[Any], *, damage: str | None = None) -> None:
        self.events = events
        self.damage = damage
        self.end: End | None = events[-1] if events and type(events[-1]) is End else None
        self.complete = self.end is not None and damage is None
        self._by_type: dict[type, list[Any]] | None = None
        self.cache: dict[str, Any] = {}
        """Views that checkers share (columns, graphs), by the names of their makers: see ``per_history``."""

    @property
    def begin(self) -> Begin:
        """The first record. Raises HistoryError when there is none."""
        if not self.events or type(self.events[0]) is not Begin:
            raise HistoryError("the history does not start with a begin record", cause="a foreign or truncated file")
        first: Begin = self.events[0]
        return first

    def of(self, kind: type[E]) -> list[E]:
        """All events of one type, in file order."""
        if self._by_type is None:
            by_type: dict[type, list[Any]] = defaultdict(list)
            for event in self.events:
                by_type[type(event)].append(event)
            self._by_type = by_type
        return self._by_type.get(kind, [])

    def at(self, seq: int) -> Any:
        """The event with this ``seq``."""
        return self.events[seq]

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.events)


def per_history(make: Callable[Concatenate[History, P], T]) -> Callable[Concatenate[History, P], T]:
    """Make a view of a history once, and again only when it is asked for with other arguments than the last time."""
    key = f"{make.__module__}.{make.__qualname__}"

    @functools.wraps(make)
    def kept(history: History, /, *args: P.args, **named: P.kwargs) -> T:
        found: tuple[Any, T] | None = history.cache.get(key)
        if found is None or found[0] != (args, named):
            found = history.cache[key] = ((args, named), make(history, *args, **named))
        return found[1]

    return kept


def decode_line(line: bytes) -> Any:
    """One event. Raises HistoryError with the reason."""
    try:
        return _DECODER.decode(line)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise HistoryError(f"not an event: {error}") from error


def read_history(path: Path) -> History:
    """Read a history file. Damage is described, not raised; a file that is no history at all is a HistoryError."""
    try:
        raw = read_regular(path, most=HISTORY_MAX)
    except OSError as error:
        raise HistoryError(f"cannot read the history: {error.strerror}", where=str(path)) from error
    return parse_history(raw, where=str(path))


def parse_history(raw: bytes, *, where: str = "") -> History:
    """``read_history`` on bytes."""
    if not raw.strip():
        raise HistoryError("the history is empty", where=where, cause="the run ended before its first event")
    events: list[Any] = []
    damage: str | None = None
    digest = hashlib.blake2b(digest_size=16)
    number = 0
    for number, line in enumerate(raw.splitlines(keepends=True), start=1):
        if damage is None and number > MAX_EVENTS:
            damage = f"line {number}: more than {MAX_EVENTS} events; the rest was not read"
        if damage is not None:
            break
        if not line.endswith(b"\n"):
            damage = f"line {number}: cut off in the middle"
            break
        try:
            event = decode_line(line)
        except HistoryError as error:
            damage = f"line {number}: {error.what}"
            break
        if events and type(events[-1]) is End:
            damage = f"line {number}: events after the end record (two histories in one file?)"
            break
        if event.seq != len(events):
            damage = f"line {number}: seq {event.seq} where {len(events)} was expected (reordered or missing lines)"
            break
        if type(event) is End:
            if event.count != len(events) or event.digest != digest.hexdigest():
                damage = f"line {number}: count or digest of the end record does not fit the lines before it"
                break
        else:
            digest.update(line)
        events.append(event)
    if not events or type(events[0]) is not Begin:
        raise HistoryError(
            "not a Dethrone history",
            where=f"{where}: {damage or 'line 1 is not a begin record'}",
            cause="a foreign file",
        )
    if events[0].schema > SCHEMA:
        raise HistoryError(
            f"the history has schema {events[0].schema}, this version reads up to {SCHEMA}",
            where=where,
            next_step="use a newer dethrone",
        )
    if damage is None and type(events[-1]) is not End:
        damage = f"line {number}: no end record (the run was killed)"
    return History(events, damage=damage)
