"""How the words of a flag, an environment variable or a file become values: one reader for each form.

Guarantees: a reader raises ValueError that says what it expected; ``seeds`` raises ConfigError and is bounded. Out of
scope: which setting has which form (``setting_table``), and whether names exist (the engine).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dethrone.harness.core.duration import parse_duration
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.timescale import read_scale, show_scale
from dethrone.harness.core.verdict import FAIL_ON

_SEEDS_MAX = 100_000
_SPAN_MAX = 10_000_000


def whole(lowest: int, highest: int) -> Callable[[Any], int]:
    """Makes the reader of a whole number between two bounds, both included."""

    def read(raw: Any) -> int:
        try:
            value = int("" if isinstance(raw, bool | float) else raw)
        except (ValueError, TypeError):
            raise ValueError("expected a whole number") from None
        if not lowest <= value <= highest:
            raise ValueError(f"expected a number from {lowest} to {highest}")
        return value

    return read


def duration(raw: Any) -> str:
    """A duration above 0, as it was written."""
    try:
        value = parse_duration(raw if isinstance(raw, str) else "")
    except ConfigError as error:
        raise ValueError(error.cause) from error
    if value == 0:
        raise ValueError("expected a duration above 0")
    return str(raw).strip()


def words(raw: Any) -> tuple[str, ...]:
    """Words separated by commas, each once; ``none``: no word."""
    parts = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise ValueError("expected words separated by commas")
    out = tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))
    return () if out == ("none",) else out


def places(raw: Any) -> tuple[str, ...]:
    """As ``words``, and repeatable."""
    if not isinstance(raw, str | list | tuple):
        raise ValueError("expected a list of words")  # noqa: TRY004 - what `read` makes a ConfigError of
    return words(raw if isinstance(raw, str) else [part for word in raw for part in str(word).split(",")])


def knobs(raw: Any) -> dict[str, str]:
    """``knob=value``, repeatable, or a table of a file."""
    if isinstance(raw, Mapping):
        return {str(key): _knob_text(value) for key, value in raw.items()}
    if not isinstance(raw, str | list | tuple) or not all(isinstance(part, str) for part in raw):
        raise ValueError("expected knob=value")
    parts = [part for part in raw.split(",") if part] if isinstance(raw, str) else list(raw)
    out = {}
    for part in parts:
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"{part!r} does not have the form knob=value")
        out[name.strip()] = value.strip()
    return out


def _knob_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | str):
        return str(value)
    raise ValueError("the value of a knob must be a word or a number")


def text(raw: Any) -> str:
    """One word or sentence, without blanks around it."""
    if not isinstance(raw, str) or not raw.strip():
        raise ValueError("expected a word")
    return raw.strip()


def flag(raw: Any) -> bool:
    """Yes or no."""
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, str) and raw.lower() in words:
        return words[raw.lower()]
    raise ValueError("expected true or false")


def clients(raw: Any) -> str:
    """A number of clients, or a multiple of the nodes, as it was written; ``client_count`` makes it a number."""
    text = str(raw)
    if isinstance(raw, bool) or not re.fullmatch(r"[1-9]\d{0,4}n?|n", text):
        raise ValueError("expected a number, or a multiple of the number of nodes like 2n")
    return text


def fail_on(raw: Any) -> str:
    """The lowest outcome that fails a command."""
    if raw not in FAIL_ON:
        raise ValueError(f"expected {' or '.join(FAIL_ON)}")
    return str(raw)


def time_scale(raw: Any) -> str:
    """``auto``, or a factor in its shortest form."""
    value = read_scale(raw)
    return "auto" if value is None else show_scale(value)


def labels(raw: Any) -> tuple[str, ...]:
    """Labels separated by commas, in their order; one may stand there more than once."""
    parts = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) and part.strip() for part in parts):
        raise ValueError("expected one label for each node, separated by commas")
    return tuple(part.strip() for part in parts)


def data_in(raw: Any) -> str:
    """``auto``, ``disk`` or ``memory``."""
    if raw not in ("auto", "disk", "memory"):
        raise ValueError("expected auto, disk or memory")
    return str(raw)


def client_count(text: str, *, nodes: int) -> int:
    """``10`` → 10; ``2n`` → twice the nodes; ``n`` → the nodes."""
    if text.endswith("n"):
        return int(text[:-1] or "1") * nodes
    return int(text)


def seeds(text: str) -> Sequence[int]:
    """``0..9``, ``7``, ``1,5,8..12``: the seeds in order, each once. ConfigError. A single span is a ``range``."""
    out: dict[int, None] = {}
    parts = text.split(",")
    for part in parts:
        match = re.fullmatch(r"\s*(\d{1,18})(?:\.\.(\d{1,18}))?\s*", part)
        if match is None or (match[2] is not None and int(match[2]) < int(match[1])):
            raise ConfigError(f"{text!r} is not a list of seeds", where="--seeds", next_step="write 0..9 or 1,5,8..12")
        lo, hi = int(match[1]), int(match[2] or match[1])
        most = _SPAN_MAX if len(parts) == 1 else _SEEDS_MAX
        if hi - lo + len(out) >= most:
            raise ConfigError(
                f"more than {most} seeds", where="--seeds", next_step="split the seeds over several campaigns"
            )
        if len(parts) == 1:
            return range(lo, hi + 1)
        out.update(dict.fromkeys(range(lo, hi + 1)))
    return tuple(out)
