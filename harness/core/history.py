"""The history of one run, how it is put together from its events, and how views are folded out of it.

Guarantees: a history is read up to the damage, which it names; one without its ``end`` record, or whose lines do not
fit that record's count and digest, is never complete, so never judged ``pass``. Out of scope: files
(``history_files``), writing them (``history_writer``), columns (``columns``), and histories that are too long for
memory (``long_history``).
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

import msgspec

from dethrone.harness.core.chunks import Chunk, EventChunk
from dethrone.harness.core.errors import HistoryError
from dethrone.harness.core.events import SCHEMA, AnyEvent, Begin, End, Event

E = TypeVar("E", bound=Event)
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
P = ParamSpec("P")
_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(AnyEvent)
MAX_EVENTS = 20_000_000
BLOCK_EVENTS = 65_536
"""Events whose lines have a digest of their own."""


class Folding(Protocol[T_co]):
    """A view in the making."""

    def take(self, chunk: Chunk) -> None:
        """Take the next part of the history."""

    def done(self) -> T_co:
        """The view; there is no more."""


class View(Generic[T]):
    """Something that checkers share and that is folded out of a history once, at the first request.

    Call it with a history. ``History.fold`` makes several in one pass.
    """

    def __init__(self, start: Callable[[], Folding[T]]) -> None:
        self.start = start

    def __call__(self, history: History) -> T:
        """The view of this history."""
        history.fold((self,))
        found: T = history.views[self]
        return found


class History:
    """A history in memory. ``damage``: what is wrong with the file, or None; ``complete``: it has its ``end``."""

    def __init__(self, events: Sequence[Any], *, damage: str | None = None) -> None:
        self.damage = damage
        self.end: End | None = events[-1] if events and type(events[-1]) is End else None
        self.cache: dict[str, Any] = {}
        """What checkers share that needs no pass of its own, by the names of its makers: see ``per_history``."""
        self.views: dict[View[Any], Any] = {}
        self._events = events
        self._chunk = EventChunk(events)

    @property
    def complete(self) -> bool:
        """Whether it has its end, and all before it."""
        return self.end is not None and self.damage is None

    @property
    def events(self) -> Sequence[Any]:
        """All events, in file order."""
        return self._events

    @property
    def begin(self) -> Begin:
        """The first record. Raises HistoryError when there is none."""
        if not self.events or type(self.events[0]) is not Begin:
            raise HistoryError("the history does not start with a begin record", cause="a foreign or truncated file")
        first: Begin = self.events[0]
        return first

    def of(self, kind: type[E]) -> list[E]:
        """All events of one type, in file order."""
        return self._chunk.of(kind)

    def at(self, seq: int) -> Any:
        """The event with this ``seq``."""
        return self.events[seq]

    def chunks(self) -> Iterator[Chunk]:
        """All of it, part by part."""
        yield self._chunk

    def fold(self, views: Iterable[View[Any]]) -> None:
        """Make those of these views that are not there yet, in one pass."""
        missing = {view: view.start() for view in dict.fromkeys(views) if view not in self.views}
        if not missing:
            return
        for chunk in self.chunks():
            for folding in missing.values():
                folding.take(chunk)
        self.views.update({view: folding.done() for view, folding in missing.items()})

    def prepare(self, views: Iterable[View[Any]]) -> None:
        """Some of these views may be asked for: where a pass costs as much as reading, make them all in one."""

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


class LineDigest:
    """The digest that an ``end`` record holds: of the lines before it, or, if these are more than a block, of the
    digests of their blocks, so that a block can be verified alone."""

    def __init__(self) -> None:
        self._blocks: list[bytes] = []
        self._open = hashlib.blake2b(digest_size=16)
        self._lines = 0

    def add(self, lines: bytes, count: int) -> None:
        """Add lines, ``count`` of them, all of one block."""
        if self._lines == BLOCK_EVENTS:
            self.block(self._open.hexdigest())
            self._open, self._lines = hashlib.blake2b(digest_size=16), 0
        self._open.update(lines)
        self._lines += count

    def block(self, digest: str) -> None:
        """Add a block with this digest."""
        self._blocks.append(bytes.fromhex(digest))

    def value(self) -> str:
        """The digest of all so far."""
        blocks = [*self._blocks, self._open.digest()] if self._lines or not self._blocks else self._blocks
        return blocks[0].hex() if len(blocks) == 1 else hashlib.blake2b(b"".join(blocks), digest_size=16).hexdigest()


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
        self._line = self._first = 0
        self._digest = LineDigest()
        self._flat = hashlib.blake2b(digest_size=16)
        """The digest of all lines, as up to version 0.2."""

    @classmethod
    def behind(cls, begin: Begin, count: int, blocks: Iterable[str], where: str = "") -> Reading:
        """Read on behind the first ``count`` events, which are sound and whose blocks have these digests."""
        reading = cls(where)
        reading.begin, reading.count = begin, count
        reading._line = reading._first = count
        for block in blocks:
            reading._digest.block(block)
        return reading

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
        if self.count - self._first >= MAX_EVENTS:
            return self._damaged(f"more than {MAX_EVENTS} events; the rest was not read")
        if type(event) is End:
            if event.count != self.count or event.digest not in (self._digest.value(), self._flat.hexdigest()):
                return self._damaged("count or digest of the end record does not fit the lines before it")
            self.end = event
        else:
            self._digest.add(line, 1)
            self._flat.update(line)
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
