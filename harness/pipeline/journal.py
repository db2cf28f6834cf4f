"""What a follower of a corpus has told, so that nothing is told twice and nothing is forgotten: one append-only file.

A line is written in one go, and synced where losing it would lose or repeat something; what a ``kill -9`` leaves of the
last one is cut off. News is recorded (``Raised``) before anybody hears of it, and marked before and after it is printed
and the user's command is called. So the file has each piece of news exactly once. What a follower was telling when it
died the next one tells ``again``; what it had not begun to tell, as if nothing had been. Out of scope: what news there
is (``raising``).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec

from harness.core.errors import ConfigError, HistoryError

NAME = "journal.jsonl"


class Finding(msgspec.Struct, frozen=True, kw_only=True, tag="finding", tag_field="event"):
    """Why a run fails. ``id``: the same however often it is judged. ``fault``: the kind that had begun last before its
    proof; "": none. ``events``: those that prove it. ``known``: why it is no news; "": it is. ``raised_ns``: since the
    Unix epoch."""

    id: str
    run: str
    date: str
    system: str
    checker: str
    version: str
    sentence: str
    term: int | None
    nodes: tuple[str, ...]
    certificate: tuple[int, ...]
    events: tuple[dict[str, Any], ...]
    fault: str
    known: str
    raised_ns: int
    signature: str = ""
    """What makes findings of different runs one; "": of an older version."""


class Bad(msgspec.Struct, frozen=True, kw_only=True, tag="bad", tag_field="event"):
    """Something that cannot be judged: a run directory, a run of the corpus, or a file of one of its tables."""

    id: str
    where: str
    why: str
    raised_ns: int


News = Finding | Bad


class Before(msgspec.Struct, frozen=True, tag="before"):
    """Findings that were there before anybody followed: no news. ``causes``: signature, run and date of each."""

    ids: tuple[str, ...]
    causes: tuple[tuple[str, str, str], ...] = ()


class Raised(msgspec.Struct, frozen=True, tag="raised"):
    """From here on it is never raised again."""

    news: News


class Telling(msgspec.Struct, frozen=True, tag="telling"):
    """It is printed now, or the user's command is called: from here on somebody may have heard of it."""

    id: str
    how: Literal["print", "call"]


class Printed(msgspec.Struct, frozen=True, tag="printed"):
    """It was printed."""

    id: str


class Called(msgspec.Struct, frozen=True, tag="called"):
    """The user's command was told of it, and said that it went well."""

    id: str


class Waiting(msgspec.Struct, frozen=True, tag="waiting"):
    """A run directory that was not whole when it was seen, or is no longer waited for."""

    directory: str
    over: bool = False


Line = Before | Raised | Telling | Printed | Called | Waiting
_LINE = msgspec.json.Decoder(Line)


class Journal:
    """An open one, of which there is one at a time. Only ``record`` may be called from another thread."""

    def __init__(self, file: BinaryIO, lines: list[Line]) -> None:
        self._file = file
        self.new = not lines
        self.ids: set[str] = set()
        self.causes: dict[str, dict[str, str]] = {}
        """Signature → the runs that showed it, with their dates, in the order in which they were raised."""
        self.waiting: dict[str, None] = {}
        self._unprinted: dict[str, News] = {}
        self._uncalled: dict[str, Finding] = {}
        self._telling: set[tuple[str, str]] = set()
        for line in lines:
            self._fold(line)

    def unprinted(self) -> list[News]:
        """What was raised and perhaps not printed."""
        return list(self._unprinted.values())

    def uncalled(self) -> list[Finding]:
        """Findings, but for known ones, of which the user's command did not say that it heard."""
        return list(self._uncalled.values())

    def perhaps_told(self, name: str, how: Literal["print", "call"]) -> bool:
        """Whether somebody began to tell this, and nobody knows how far that came."""
        return (name, how) in self._telling

    def record(self, line: Line) -> None:
        """Write it down. HistoryError: the disk refuses."""
        raw = msgspec.json.encode(line) + b"\n"
        try:
            self._file.write(raw)
            if not isinstance(
                line, Telling | Printed | Called
            ):  # a mark outlives the process unsynced: it is lost to power only
                os.fsync(self._file.fileno())
        except OSError as error:
            raise HistoryError(f"cannot write the journal: {error.strerror}", where=str(self._file.name)) from error
        self._fold(line)

    def _fold(self, line: Line) -> None:
        match line:
            case Before(ids, causes):
                self.ids.update(ids)
                for signature, run, date in causes:
                    self.causes.setdefault(signature, {})[run] = date
            case Raised(news):
                self.ids.add(news.id)
                if isinstance(news, Finding) and news.signature:
                    self.causes.setdefault(news.signature, {})[news.run] = news.date
                self._unprinted[news.id] = news
                if isinstance(news, Finding) and not news.known:
                    self._uncalled[news.id] = news
            case Telling(name, how):
                self._telling.add((name, how))
            case Printed(name):
                self._unprinted.pop(name, None)
                self._telling.discard((name, "print"))
            case Called(name):
                self._uncalled.pop(name, None)
                self._telling.discard((name, "call"))
            case Waiting(directory, over):
                self.waiting.pop(directory, None)
                if not over:
                    self.waiting[directory] = None


@contextlib.contextmanager
def opened(directory: Path) -> Iterator[Journal]:
    """The journal in this directory, made if there is none. ConfigError: another follower has it."""
    path = directory / NAME
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file = path.open("ab+", buffering=0)
    except OSError as error:
        raise ConfigError(f"cannot open the journal: {error.strerror}", where=str(path)) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigError(
                "somebody follows this corpus already",
                where=str(path),
                next_step="stop that one, and name all paths in one `dethrone corpus follow`",
            ) from error
        yield Journal(file, _whole(file, path))


def _whole(file: Any, path: Path) -> list[Line]:
    """Its lines; a last one that was cut off is removed."""
    file.seek(0)
    raw = file.read()
    end = raw.rfind(b"\n") + 1
    if end < len(raw):
        file.truncate(end)
    lines = []
    for number, line in enumerate(raw[:end].splitlines()):
        try:
            lines.append(_LINE.decode(line))
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise HistoryError(
                f"line {number + 1} of the journal is damaged: {error}",
                where=str(path),
                next_step="move it away: every finding that is in the corpus then counts as told",
            ) from error
    return lines
