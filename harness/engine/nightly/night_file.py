"""A night in a file: which systems, versions, faults, strategies and seeds are run, for how long, and what is kept.

    [night]
    budget = "6h"                       # no run begins later than this after the night began
    seeds = 3                           # fresh seeds for each combination below
    time-limit = "60s"
    strategies = ["random", "mixed"]
    keep = "336h"                       # histories and logs of runs that did not fail are kept as long

    [[systems]]
    system = "etcd"
    versions = ["3.4", "3.5"]
    nodes = [3, 5]
    faults = ["partition,kill", "clock"]

Guarantees: every key is checked, and an unknown one is refused with the nearest known one; keys that a ``systems``
table omits are taken from ``[night]``. ``planning`` checks systems, faults and knobs, ``run_order`` orders the runs.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.duration import parse_duration
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.files import read_text
from dethrone.harness.core.timescale import read_scale

FailOn = Literal["unknown", "violation", "excused", "new"]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One table of ``systems``: every combination of its lists is run, with ``seeds`` fresh seeds each.

    ``versions``, ``faults``, ``strategies``: None stands for the system's own. ``secrets``: knob → the environment
    variable that holds its value, so that the file need not.
    """

    system: str
    versions: tuple[str | None, ...] = (None,)
    nodes: tuple[int, ...] = (5,)
    faults: tuple[str | None, ...] = (None,)
    strategies: tuple[str, ...] = ("random",)
    profiles: tuple[str | None, ...] = (None,)
    seeds: int = 1
    time_limit_ns: Ns = 60 * SECOND
    time_scale: float | None = None
    """By how much each run is slower; None: as each run measures its machine."""
    on: str = "docker"
    workload: str | None = None
    rate: int | None = None
    settings: Mapping[str, str] = {}
    secrets: Mapping[str, str] = {}
    variant: str | None = None


class Night(msgspec.Struct, frozen=True, kw_only=True):
    """The whole file. ``budget_ns``: None: until everything was run. ``keep_ns``: None: for ever.

    ``fail_on``: what makes the exit code; ``new`` counts only findings that no earlier night had.
    """

    entries: tuple[Entry, ...]
    out: Path = Path("nights")
    budget_ns: Ns | None = None
    keep_ns: Ns | None = None
    corpus: str | None = None
    on_finding: tuple[str, ...] = ()
    fail_on: FailOn = "violation"
    jobs: int = 1
    """How many runs go side by side at most, on hosts that a backend makes."""
    known: Path | None = None
    """A file of known findings (``dethrone.harness.core.known_findings``)."""


def read_night(path: Path) -> Night:
    """The night that ``path`` describes; ``out`` and ``corpus`` are relative to the file. ConfigError."""
    try:
        content = tomllib.loads(read_text(path))
    except OSError as error:
        raise ConfigError(f"cannot read the night: {error.strerror}", where=str(path)) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the night is not TOML: {error}", where=str(path)) from error
    return parse_night(content, where=str(path), base=path.resolve().parent)


def is_night(path: Path) -> bool:
    """Whether the file describes a night, and not a user's system. False for what cannot be read."""
    try:
        return "systems" in tomllib.loads(read_text(path))
    except (OSError, ValueError, RecursionError):
        return False


def parse_night(content: Mapping[str, Any], *, where: str, base: Path) -> Night:
    """The same, from what was read of the file."""
    _known(content, ("night", "systems"), where)
    night = content.get("night", {})
    tables = content.get("systems", [])
    if not isinstance(night, dict) or not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
        raise ConfigError("a night is a table [night] and tables [[systems]]", where=where)
    if not tables:
        raise ConfigError("no system was named", where=where, next_step='add [[systems]] with system = "raft"')
    _known(night, (*_NIGHT, *_ENTRY), f"{where}: [night]")
    shared = {key: value for key, value in night.items() if key in _ENTRY}
    entries = []
    for number, table in enumerate(tables, 1):
        place = f"{where}: [[systems]] number {number}"
        _known(table, ("system", *_ENTRY, *_OWN), place)
        if not isinstance(table.get("system"), str) or not table["system"]:
            raise ConfigError("a system has no name", where=place, next_step='write system = "raft"')
        values = {**shared, **{key: value for key, value in table.items() if key != "system"}}
        fields = {
            field: _read(key, values[key], form, place)
            for key, (field, form) in {**_ENTRY, **_OWN}.items()
            if key in values
        }
        entries.append(Entry(system=table["system"], **fields))
    fields = {
        field: _read(key, night[key], form, f"{where}: [night]")
        for key, (field, form) in _NIGHT.items()
        if key in night
    }
    fields["out"] = base / fields.get("out", "nights")
    if "known" in fields:
        fields["known"] = base / fields["known"]
    if "corpus" in fields and "://" not in fields["corpus"]:
        fields["corpus"] = str(base / fields["corpus"])
    return Night(entries=tuple(entries), **fields)


def _known(table: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ConfigError(f"unknown key {key!r}", where=where, next_step=f"{hint}known: {', '.join(known)}")


def _read(key: str, raw: Any, form: Callable[[Any], Any], where: str) -> Any:
    try:
        return form(raw)
    except (ValueError, ConfigError) as error:
        cause = error.cause or error.what if isinstance(error, ConfigError) else str(error)
        raise ConfigError(f"{raw!r} is not a valid value for {key}", where=where, cause=cause) from error


def _text(raw: Any) -> str:
    if not isinstance(raw, str) or not raw.strip():
        raise ValueError("expected a word")
    return raw.strip()


def _texts(raw: Any) -> tuple[str, ...]:
    words = (raw,) if isinstance(raw, str) else raw
    if not isinstance(words, list | tuple) or not words:
        raise ValueError("expected a list of words")
    return tuple(dict.fromkeys(_text(word) for word in words))


def _whole(lowest: int, highest: int) -> Callable[[Any], int]:
    def read(raw: Any) -> int:
        if isinstance(raw, bool) or not isinstance(raw, int) or not lowest <= raw <= highest:
            raise ValueError(f"expected a whole number from {lowest} to {highest}")
        return raw

    return read


def _numbers(raw: Any) -> tuple[int, ...]:
    one = _whole(1, 99)
    return tuple(dict.fromkeys(one(value) for value in (raw if isinstance(raw, list) and raw else [raw])))


def _span(raw: Any) -> Ns:
    ns = parse_duration(_text(raw))
    if ns == 0:
        raise ValueError("expected a duration above 0")
    return ns


def _table(raw: Any) -> dict[str, str]:
    if not isinstance(raw, dict) or any(isinstance(value, dict | list) for value in raw.values()):
        raise ValueError("expected a table of words")
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in raw.items()}


def _fail_on(raw: Any) -> str:
    if raw not in ("unknown", "violation", "excused", "new"):
        raise ValueError("expected unknown, violation, excused or new")
    return str(raw)


_Forms = Mapping[str, tuple[str, Callable[[Any], Any]]]

_ENTRY: _Forms = {
    "seeds": ("seeds", _whole(1, 100_000)),
    "time-limit": ("time_limit_ns", _span),
    "time-scale": ("time_scale", read_scale),
    "strategies": ("strategies", _texts),
    "faults": ("faults", _texts),
    "nodes": ("nodes", _numbers),
    "on": ("on", _text),
}
"""Key → field and form of what ``[night]`` may say for all systems."""

_OWN: _Forms = {
    "versions": ("versions", _texts),
    "profiles": ("profiles", _texts),
    "workload": ("workload", _text),
    "rate": ("rate", _whole(0, 10**6)),
    "set": ("settings", _table),
    "secrets": ("secrets", _table),
    "variant": ("variant", _text),
}

_NIGHT: _Forms = {
    "out": ("out", _text),
    "budget": ("budget_ns", _span),
    "keep": ("keep_ns", _span),
    "corpus": ("corpus", _text),
    "on-finding": ("on_finding", _texts),
    "fail-on": ("fail_on", _fail_on),
    "known": ("known", _text),
    "jobs": ("jobs", _whole(1, 64)),
}
