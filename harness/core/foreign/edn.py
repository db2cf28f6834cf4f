"""EDN, as far as histories need it, read piece by piece.

nil, true, false, whole numbers, decimals, strings, characters, keywords and symbols (as words, keywords with their
colon), lists and vectors (as tuples), maps (as dicts), sets (as frozensets), tags (dropped), ``#_`` and comments.
Guarantees: no recursion, so nesting is bounded by ``DEPTH_MAX`` and not by the interpreter; every error names its line;
maps of plain values, which is what histories consist of, take one match of a regular expression. Out of scope: ratios
and namespaced maps.

Source: the edn format specification, github.com/edn-format/edn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from dethrone.harness.core.errors import HistoryError

DEPTH_MAX = 64
"""How deep forms may nest."""

TOKEN_MAX = 16 * 2**20
"""Characters of one string or word."""

FORM_MAX = 64 * 2**20
"""Characters of one form that is handed out."""

SHORT_MAX, KNOWN_MAX = 12, 10_000
"""A bounded number of words of bounded length are remembered with their values."""

_NAME = r"[\w.\-/?!*+<>=$%&']++"
_PLAIN = rf"(?>-?\d++(?![\w.])|nil\b|true\b|false\b|:{_NAME}|\"[^\"\\]*+\"|\[[-\d ]*+\])"
_FLAT = re.compile(rf"[\s,]*+\{{((?>:{_NAME} ++{_PLAIN}[\s,]*+)+)\}}")
"""A map from keywords to plain values."""

_PAIR = re.compile(rf"(:{_NAME}) ++({_PLAIN})")
_TOKEN = re.compile(
    r"[\s,]*+(?:"
    r"(?P<comment>;[^\n]*+\n?)"
    r"|(?P<string>\"(?:[^\"\\]|\\.)*+\")"
    r"|(?P<mark>\#\{|\#_|\^|[()\[\]{}])"
    r"|(?P<char>\\(?:newline|space|tab|return|formfeed|backspace|u[0-9a-fA-F]{4}|.))"
    r"|(?P<word>[^\s,;\"()\[\]{}\\]++)"
    r")",
    re.DOTALL,
)
_BLANK = re.compile(r"[\s,]*+")
_NUMBER = re.compile(r"[+-]?\d+N?")
_DECIMAL = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?M?")
_DIGITS = frozenset("-0123456789")
WHOLE_MAX = 1000
"""Digits of a number that is certainly readable."""

_ESCAPES = {"t": "\t", "r": "\r", "n": "\n", "\\": "\\", '"': '"', "b": "\b", "f": "\f"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")
_CHARS = {"newline": "\n", "space": " ", "tab": "\t", "return": "\r", "formfeed": "\f", "backspace": "\b"}
_CLOSING = {"(": ")", "[": "]", "{": "}", "#{": "}"}
_WORDS: Mapping[str, Any] = {"nil": None, "true": True, "false": False}
_PREFIXES = frozenset({"tag", "#_", "^"})


class _Frame:
    """A form that is not complete. ``opened``: its mark, or the prefix that waits for one form."""

    __slots__ = ("items", "line", "opened")

    def __init__(self, opened: str, line: int) -> None:
        self.opened = opened
        self.line = line
        self.items: list[Any] = []


class EdnReader:
    """Feeds on text in pieces and hands out forms with the lines on which they begin.

    ``unpack``: a vector or list at the top hands out its items one by one, and is then the only form of the file.
    """

    def __init__(self, where: str, *, unpack: bool = False) -> None:
        self._where = where
        self._unpack = unpack
        self._rest = ""
        self._line = 1
        self._stack: list[_Frame] = []
        self._base = 0
        """How many open forms are only there to be unpacked."""
        self._closed = 0
        """The line on which an unpacked form ended."""
        self._grown = 0
        """Characters of pieces that went into the form that is open."""
        self._forms = self._since = 0
        """Forms handed out so far, and up to the piece before."""
        self._shape: tuple[re.Pattern[str], tuple[str, ...]] | None = None
        """The last flat map's keys, and what matches a map with the same ones: histories repeat it."""
        self._known: dict[str, Any] = dict(_WORDS)
        """Short words → their values."""

    def fault(self, what: str, line: int, *, cause: str = "") -> HistoryError:
        """An error at that line."""
        return HistoryError(what, where=f"{self._where}, line {line}", cause=cause)

    def feed(self, text: str, *, last: bool = False) -> Iterator[tuple[Any, int]]:
        """The forms that this piece completes. ``last``: there is no more."""
        buffer = self._rest + text if self._rest else text
        at, counted, end = 0, 0, len(buffer)
        while True:
            if len(self._stack) == self._base:
                found = self._flat(buffer, at)
                if found is not None:
                    names, words, start, at = found
                    self._line += buffer.count("\n", counted, start)
                    counted = start
                    if self._closed:
                        self._admit()
                    self._forms += 1
                    known = self._known
                    values = [known[word] if word in known else self._plain(word) for word in words]
                    yield dict(zip(names, values, strict=True)), self._line
                    continue
            token = _TOKEN.match(buffer, at)
            if token is None or (token.end() == end and not last):
                break
            start = token.start(token.lastgroup or 0)
            self._line += buffer.count("\n", counted, start)
            counted = start
            yield from self._token(token.lastgroup or "", token[token.lastgroup or 0])
            at = token.end()
        blank = _BLANK.match(buffer, at)
        tail = blank.end() if blank is not None else at
        self._line += buffer.count("\n", counted, tail)
        self._rest = buffer[tail:]
        open_before = self._since == self._forms and len(self._stack) > self._base
        self._grown = self._grown + len(text) if open_before else 0
        self._since = self._forms
        if self._grown > FORM_MAX:
            raise self.fault(f"a form of more than {FORM_MAX} characters", self._stack[self._base].line)
        if last:
            self._finish()
        elif len(self._rest) > TOKEN_MAX:
            raise self.fault(f"a string or word of more than {TOKEN_MAX} characters", self._line)

    def _flat(self, buffer: str, at: int) -> tuple[tuple[str, ...], tuple[str, ...], int, int] | None:
        """A map of plain values at this place: its keys, its words, where it begins and ends."""
        if self._shape is not None:
            same = self._shape[0].match(buffer, at)
            if same is not None:
                return self._shape[1], same.groups(), same.start(1), same.end()
        flat = _FLAT.match(buffer, at)
        if flat is None:
            return None
        names, words = zip(*_PAIR.findall(flat[1]), strict=True)
        if len(set(names)) == len(names):
            inner = r"[\s,]++".join(rf"{re.escape(name)} ++({_PLAIN})" for name in names)
            self._shape = (re.compile(rf"[\s,]*+\{{{inner}[\s,]*+\}}"), names)
        return names, words, flat.start(1), flat.end()

    def _plain(self, word: str) -> Any:
        """A value of the kinds that a flat map may have."""
        first = word[0]
        if first in _DIGITS:
            return int(word) if len(word) < WHOLE_MAX else _whole(word, self)
        if first == '"':
            return word[1:-1]
        value: Any = word
        if first == "[":
            value = tuple(_whole(item, self) for item in word[1:-1].split())
        if len(word) <= SHORT_MAX and len(self._known) < KNOWN_MAX:
            self._known[word] = value
        return value

    def _finish(self) -> None:
        if self._rest:
            what = "a string does not end" if self._rest.startswith('"') else f"{self._rest[:20]!r} is no EDN"
            raise self.fault(what, self._line)
        if self._stack:
            frame = self._stack[-1]
            raise self.fault(
                f"{frame.opened!r} is never closed", frame.line, cause="the file was cut off in the middle"
            )

    def _admit(self) -> None:
        """Whether a form may begin here at all."""
        if self._closed and not self._stack:
            raise self.fault(
                f"another form after the one that ended on line {self._closed}",
                self._line,
                cause="two histories in one file",
            )

    def _token(self, group: str, text: str) -> Iterator[tuple[Any, int]]:
        if group == "comment":
            return
        if not self._stack:
            self._admit()
        if group == "mark":
            if text in _CLOSING or text in _PREFIXES:
                self._open(text)
                return
            yield from self._close(text)
            return
        if group == "word" and text[0] == "#":
            self._open("tag")
            return
        yield from self._value(self._atom(group, text), self._line)

    def _open(self, mark: str) -> None:
        if len(self._stack) - self._base >= DEPTH_MAX:
            raise self.fault(f"forms nest deeper than {DEPTH_MAX}", self._line)
        first = not self._stack
        self._stack.append(_Frame(mark, self._line))
        if self._unpack and first and mark in ("[", "("):
            self._base = 1

    def _close(self, mark: str) -> Iterator[tuple[Any, int]]:
        if not self._stack or _CLOSING.get(self._stack[-1].opened) != mark:
            inside = (
                f", though {self._stack[-1].opened!r} of line {self._stack[-1].line} is open" if self._stack else ""
            )
            raise self.fault(f"{mark!r} closes nothing{inside}", self._line)
        frame = self._stack.pop()
        if self._base and not self._stack:
            self._base, self._closed = 0, self._line
            return
        yield from self._value(self._built(frame), frame.line)

    def _built(self, frame: _Frame) -> Any:
        if frame.opened in ("(", "["):
            return tuple(frame.items)
        try:
            if frame.opened == "#{":
                return frozenset(map(_frozen, frame.items))
            if len(frame.items) % 2:
                raise self.fault("a map with a key and no value", frame.line)
            keys = map(_frozen, frame.items[::2])
            return dict(zip(keys, frame.items[1::2], strict=True))
        except TypeError as error:
            raise self.fault(f"a key that cannot be one: {error}", frame.line) from error

    def _value(self, value: Any, line: int) -> Iterator[tuple[Any, int]]:
        """A form is complete: hand it to what waits for it."""
        while self._stack and self._stack[-1].opened in _PREFIXES:
            frame = self._stack[-1]
            if frame.opened == "tag":
                line = frame.line
                self._stack.pop()
            elif frame.opened == "#_":
                self._stack.pop()
                return
            else:  # metadata: the first form is dropped, the second one is the value
                frame.items.append(value)
                if len(frame.items) == 1:
                    return
                self._stack.pop()
        if len(self._stack) == self._base:
            self._forms += 1
            yield value, line
        else:
            self._stack[-1].items.append(value)

    def _atom(self, group: str, text: str) -> Any:
        if group == "string":
            return self._string(text)
        if group == "char":
            name = text[1:]
            if len(name) == 5 and name[0] == "u":
                return chr(int(name[1:], 16))
            return _CHARS.get(name, name)
        if text in _WORDS:
            return _WORDS[text]
        if text[0] == ":":
            return text
        if text[0] in "+-0123456789":
            return self._number(text)
        return text

    def _number(self, text: str) -> Any:
        try:
            if _NUMBER.fullmatch(text):
                return int(text.rstrip("N"))
            if _DECIMAL.fullmatch(text):
                return float(text.rstrip("M"))
        except ValueError as error:
            raise self.fault(f"a number that cannot be read: {error}", self._line) from error
        if text.lstrip("+-")[:1].isdigit():
            raise self.fault(f"{text[:40]!r} is no number", self._line)
        return text

    def _string(self, text: str) -> str:
        inner = text[1:-1]
        if "\\" not in inner:
            return inner

        def escape(found: re.Match[str]) -> str:
            word = found[1]
            if word[0] == "u" and len(word) == 5:
                return chr(int(word[1:], 16))
            known = _ESCAPES.get(word)
            if known is None:
                raise self.fault(f"unknown escape \\{word} in a string", self._line)
            return known

        out = _ESCAPE.sub(escape, inner)
        if _SURROGATE.search(out):  # a character beyond the first plane, escaped as its two halves
            return out.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return out


def _whole(word: str, reader: EdnReader) -> int:
    try:
        return int(word)
    except ValueError as error:
        raise reader.fault(f"a number that cannot be read: {word[:40]!r}", reader._line) from error  # noqa: SLF001 - same module


def _frozen(value: Any) -> Any:
    """A map cannot be a key as it is; its pairs can."""
    if isinstance(value, dict):
        return frozenset((key, _frozen(item)) for key, item in value.items())
    if isinstance(value, tuple):
        return tuple(_frozen(item) for item in value)
    return value


def forms(pieces: Iterable[str], where: str, *, unpack: bool = False) -> Iterator[tuple[Any, int]]:
    """All forms of a text in pieces, with their lines."""
    reader = EdnReader(where, unpack=unpack)
    for piece in pieces:
        yield from reader.feed(piece)
    yield from reader.feed("", last=True)


def first_form(text: str, where: str, fault: Callable[[str], HistoryError]) -> Any:
    """The first form of a short text; what follows it is not looked at."""
    reader = EdnReader(where)
    try:
        for value, _ in reader.feed(text, last=True):
            return value
    except HistoryError as error:
        raise fault(error.what) from error
    raise fault("a value is missing")
