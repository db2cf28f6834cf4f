"""Settings of the simulated world, as words and typed: how long things take there.

A range ``200..500`` is drawn from uniformly, a single number is constant. Guarantees: an unknown word or a bad range is
a ConfigError with the nearest known one. Out of scope: what a protocol's knobs say.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dethrone.harness.core.clock import MS, US, Ns
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.registry import unknown_name

Range = tuple[Ns, Ns]

DEFAULTS: Mapping[str, str] = {
    "latency_us": "200..500",
    "client_latency_us": "200..500",
    "write_us": "5..20",
    "sync_us": "100..400",
    "command_us": "500..3000",
    "kill_ms": "1..20",
    "start_ms": "10..30",
    "trace_us": "500",
}
"""One-way between nodes · one-way between harness or clients and nodes · one write, one fsync or rename of a disk · an
order to a host until it has its effect · a kill that falls within a step waits at most so long for one · from the start
of a process to its first step · from a line of a trace until the harness reads it."""

_UNITS = {"us": US, "ms": MS}
_MOST: Ns = 4_000_000_000


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The same, typed: [lo, hi] in ns each."""

    latency: Range
    client_latency: Range
    write: Range
    sync: Range
    command: Range
    kill: Range
    start: Range
    trace: Range


def fill(words: Mapping[str, str]) -> dict[str, str]:
    """All settings with defaults filled in. Raises ConfigError."""
    for name in words:
        if name not in DEFAULTS:
            raise unknown_name("setting of the simulator:", name, DEFAULTS)
    out = {**DEFAULTS, **words}
    read(out)
    return out


def read(words: Mapping[str, str]) -> Settings:
    """The typed settings. Raises ConfigError."""
    ranges = {}
    for name, default in DEFAULTS.items():
        short, unit = name.rsplit("_", 1)
        ranges[short] = _range(name, words.get(name, default), _UNITS[unit])
    return Settings(**ranges)


def _range(name: str, word: str, unit: Ns) -> Range:
    lo, dots, hi = word.partition("..")
    parts = (lo, hi if dots else lo)
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise ConfigError(f"bad {name} {word!r} of the simulator", next_step=f"write {name}={DEFAULTS[name]}")
    low, high = (int(part) * unit for part in parts)
    if low > high or high > _MOST:
        raise ConfigError(
            f"bad {name} {word!r} of the simulator",
            cause=f"from the smaller to the larger one, at most {_MOST // unit}",
            next_step=f"write {name}={DEFAULTS[name]}",
        )
    return low, high
