"""The history of one run in memory, and how it is put together from its events, one after another.

Guarantees: a history is read up to the damage, which it names; one without its ``end`` record, or whose lines do not
fit that record's count and digest, is never complete, so never judged ``pass``. Out of scope: files
(``history_files``), writing them (``history_writer``) and columns (``columns``).
"""

from __future__ import annotations

import functools
import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

from dethrone.harness.core.errors import HistoryError
from dethrone.harness.core.events import SCHEMA, AnyEvent, Begin, End, Event

E = TypeVar("E", bound=Event)
T = TypeVar("T")
P = ParamSpec("P")
_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(AnyEvent)
MAX_EVENTS = 20_000_000


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


def line_of(event: Event) -> bytes:
    """The canonical form of an event, which digests are taken over: one line of JSON."""
    return _ENCODER.encode(event) + b"\n"


class Reading:
    """Events as they are read, up to the first damage; what is known of them afterwards.

    Fed by ``lines`` and ``rows``, in the order of the history, each of which hands out the events that are sound.
    """

    def __init__(self, where: str = "") -> None:
        self._where = where
        self.count = 0
        """Sound events so far."""
        self.damage: str | None = None
        self.begin: Begin | None = None
        self.end: End | None = None
        self._line = 0
        self._digest = hashlib.blake2b(digest_size=16)

    def lines(self, lines: Iterable[bytes]) -> Iterator[Any]:
        """The events of these lines, each with its line end."""
        for line in lines:
            if self.damage is not None:
                return
            self._line += 1
            if not line.endswith(b"\n"):
                self._damaged("cut off in the middle")
                return
            try:
                event = decode_line(line)
            except HistoryError as error:
                self._damaged(error.what)
                return
            if self._sound(event, line):
                yield event

    def rows(self, events: Iterable[Any]) -> Iterator[Any]:
        """These events, which stood in columns."""
        for event in events:
            if self.damage is not None:
                return
            self._line += 1
            if self._sound(event, line_of(event)):
                yield event

    def broken(self, what: str) -> None:
        """Reading ends here, for this reason."""
        if self.damage is None:
            self.damage = what

    def close(self) -> None:
        """There is no more. HistoryError: this is no history of ours, or of a newer schema."""
        if self.begin is None:
            if not self._line:
                raise HistoryError(
                    "the history is empty", where=self._where, cause="the run ended before its first event"
                )
            raise HistoryError(
                "not a Dethrone history",
                where=f"{self._where}: {self.damage}",
                cause="a foreign file",
            )
        if self.begin.schema > SCHEMA:
            raise HistoryError(
                f"the history has schema {self.begin.schema}, this version reads up to {SCHEMA}",
                where=self._where,
                next_step="use a newer dethrone",
            )
        if self.end is None:
            self.broken(f"line {self._line}: no end record (the run was killed)")

    def _sound(self, event: Any, line: bytes) -> bool:
        if self.count == 0:
            if type(event) is not Begin:
                self.damage = "line 1 is not a begin record"
                return False
            self.begin = event
        if self.end is not None:
            return self._damaged("events after the end record (two histories in one file?)")
        if event.seq != self.count:
            return self._damaged(f"seq {event.seq} where {self.count} was expected (reordered or missing lines)")
        if self.count >= MAX_EVENTS:
            return self._damaged(f"more than {MAX_EVENTS} events; the rest was not read")
        if type(event) is End:
            if event.count != self.count or event.digest != self._digest.hexdigest():
                return self._damaged("count or digest of the end record does not fit the lines before it")
            self.end = event
        else:
            self._digest.update(line)
        self.count += 1
        return True

    def _damaged(self, what: str) -> bool:
        self.damage = f"line {self._line}: {what}"
        return False


def parse_history(raw: bytes, *, where: str = "") -> History:
    """The history in these lines. Damage is described, not raised; what is no history at all is a HistoryError."""
    reading = Reading(where)
    events = list(reading.lines(raw.splitlines(keepends=True) if raw.strip() else ()))
    reading.close()
    return History(events, damage=reading.damage)
