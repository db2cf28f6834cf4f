"""What of a run counts as behaviour, as lines of text, and the digest of each kind of line.

Promises: equal behaviour gives equal digests in every process (no hash order, no addresses, no paths of this machine).
Prose is taken out: a text with white space in it, and the name of a class under a key that tells reasons, become ``~``.
Codes of one word (``timeout``, ``lower_term``, ``REJECT_ALREADY_VOTED``) are data and stay, and so do all keys. What
was taken out leaves a trace in the kind ``words`` alone, which is advice: there texts are numbered in the order in
which they first occur, so that other wording gives the same and another choice among the same words does not.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

import msgspec

TELLING = frozenset(
    {"why", "reason", "error", "cause", "what", "message", "where", "says", "line", "lines", "sentence"}
)
"""Keys under which reasons are told."""

WORDS = "words"

_SPACE = re.compile(r"\s")
_CLASS = re.compile(r"[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+(?:\(.*\))?|\w+\(.*\)", re.DOTALL)
_PACKAGES = "dethrone|harness|clusters|nemesis|checkers|workloads"
_MODULE = re.compile(rf"\b(?:{_PACKAGES})(?:\.\w+)+")
_SUSPECT = re.compile(rf'"(?:{"|".join(sorted(TELLING))})":["[][A-Z"]|(?:{_PACKAGES})\.'.encode())
"""Of a line of JSON: what may have to be taken out, besides what has white space or a backslash in it."""

_ENCODER = msgspec.json.Encoder(order="sorted")

KIND_DIGITS, CASE_DIGITS = 8, 16


class Digests:
    """Lines by kind, as digests that grow. ``keep``: also the lines themselves, in the order in which they came.

    ``told_as``: a text, such as a path of this machine, and what lines say instead.
    """

    def __init__(self, *, keep: bool = False, told_as: tuple[str, str] | None = None) -> None:
        self._told_as = None if told_as is None else (_ENCODER.encode(told_as[0]), _ENCODER.encode(told_as[1]))
        self._kinds: dict[str, Any] = {}
        self._counts: dict[str, int] = {}
        self._texts: dict[str, int] = {}
        self.lines: list[str] | None = [] if keep else None

    def add(self, kind: str, value: Any) -> None:
        """One more line of this kind."""
        line = _ENCODER.encode(value)
        if self._told_as is not None:
            line = line.replace(*self._told_as)
        if b" " in line or b"\\" in line or _SUSPECT.search(line):
            line = _ENCODER.encode(self._normal(kind, "", msgspec.json.decode(line)))
        self.add_line(kind, line)

    def add_line(self, kind: str, line: bytes) -> None:
        """The same for text that holds no prose."""
        digest = self._kinds.get(kind)
        if digest is None:
            digest = self._kinds[kind] = hashlib.blake2b(digest_size=16)
            self._counts[kind] = 0
        digest.update(line + b"\n")
        self._counts[kind] += 1
        if self.lines is not None:
            self.lines.append(f"{kind} {line.decode()}")

    def _normal(self, kind: str, key: str, value: Any) -> Any:
        if type(value) is str:
            return self._text(kind, key, value)
        if type(value) is dict:
            return {name: self._normal(kind, name, each) for name, each in value.items()}
        if type(value) is list:
            return [self._normal(kind, key, each) for each in value]
        return value

    def _text(self, kind: str, key: str, text: str) -> str:
        if _SPACE.search(text) or (key in TELLING and _CLASS.fullmatch(text)):
            number = self._texts.setdefault(text, len(self._texts))
            self.add_line(WORDS, f"{kind} {key} {number}".encode())
            return "~"
        return _MODULE.sub("~", text) if "." in text else text

    def told(self) -> str:
        """All in one line: the whole, then each kind with how many lines it has."""
        kinds = {kind: self._kinds[kind].hexdigest() for kind in sorted(self._kinds)}
        whole = hashlib.blake2b(digest_size=CASE_DIGITS // 2)
        for kind, digest in kinds.items():
            if kind != WORDS:
                whole.update(f"{kind} {self._counts[kind]} {digest}\n".encode())
        each = [f"{kind}:{self._counts[kind]}:{digest[:KIND_DIGITS]}" for kind, digest in kinds.items()]
        return " ".join((whole.hexdigest(), *each))


def differing(one: str, other: str) -> list[str]:
    """Which kinds differ between two such lines: ``kind`` or, where lines came or went, ``kind 12 → 13``."""
    before, after = _kinds(one), _kinds(other)
    out = []
    for kind in sorted({*before, *after}):
        (count, digest), (count_now, digest_now) = before.get(kind, ("0", "")), after.get(kind, ("0", ""))
        if count != count_now:
            out.append(f"{kind} {count} → {count_now}")
        elif digest != digest_now:
            out.append(kind)
    return out


def _kinds(told: str) -> dict[str, tuple[str, str]]:
    return {kind: (count, digest) for kind, count, digest in (word.rsplit(":", 2) for word in told.split()[1:])}
