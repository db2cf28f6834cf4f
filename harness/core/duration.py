"""Durations in words (``250ms``, ``60s``, ``2m``, ``1h``) to ns and back. Integers only; no bare numbers."""

from __future__ import annotations

import re
from decimal import Decimal

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.errors import ConfigError

_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_FORM = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ns|us|ms|s|m|h)\s*")


def parse_duration(text: str) -> Ns:
    """``text`` in ns. Raises ConfigError for anything but a non-negative number and a unit."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"{text!r} is not a duration",
            cause="expected a number and a unit",
            next_step="write 250ms, 60s, 2m or 1h",
        )
    return int(Decimal(match[1]) * _UNITS[match[2]])


def parse_offset(text: str) -> Ns:
    """``text`` in ns, below 0 with a ``-`` before it. Raises ConfigError as ``parse_duration`` does."""
    words = text.strip()
    sign = -1 if words.startswith("-") else 1
    return sign * parse_duration(words[1:] if words[:1] in {"-", "+"} else words)


def show_duration(ns: Ns) -> str:
    """A short text with at most three significant digits: ``850 ms``, ``12.3 s``, ``2 min 5 s``."""
    if ns < 0:
        return "-" + show_duration(-ns)
    if ns < 10**3:
        return f"{ns} ns"
    if ns < 10**6:
        return f"{ns / 10**3:.3g} µs"
    if ns < 999_500_000:
        return f"{ns / 10**6:.3g} ms"
    if ns < 100 * 10**9:
        return f"{ns / 10**9:.3g} s"
    seconds = round(ns / 10**9)
    return f"{seconds // 60} min {seconds % 60} s"
