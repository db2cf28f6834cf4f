"""Values in an answer: where they are, and what they are taken for.

Guarantees: pure; nothing is guessed: what is not there is ``MISSING``, and what is no count or no truth value is None.
Out of scope: which places an answer is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

Look = Callable[[str], Any]
"""The value at a place of the answer; ``MISSING`` where there is none."""


class _Missing:
    """Nothing is there."""

    def __repr__(self) -> str:
        return "nothing"


MISSING = _Missing()


def at(value: Any, place: str) -> Any:
    """The value at ``a.b.0``, or at ``/a.b/0`` where names hold dots; the whole for an empty place.

    >>> at({"raft": {"terms": [4, 7]}}, "raft.terms.1")
    7
    """
    if not place:
        return value
    for part in place[1:].split("/") if place.startswith("/") else place.split("."):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return MISSING
    return value


def decoded(body: bytes) -> Any:
    """The value of JSON; ``MISSING``: it is none."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return MISSING


def number(value: Any) -> int | None:
    """A count, also one that is written as text or as a float (metrics know nothing else)."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        size = float(value) if not isinstance(value, int) else value
        whole = int(size)
    except (ValueError, OverflowError):
        return None
    return whole if whole == size and 0 <= whole < 1 << 63 else None


def flag(value: Any) -> bool | None:
    """A truth value, also one that is written as text, or as 0 or 1."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in {"true", "false"}:
        return value.lower() == "true"
    count = number(value)
    return None if count not in {0, 1} else count == 1


def text_of(value: Any) -> str:
    """A name as text; numbers without a fraction."""
    count = number(value) if not isinstance(value, str) else None
    return str(value) if count is None else str(count)
