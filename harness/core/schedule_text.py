"""Schedules as people write them: TOML or JSON, durations in words, triggers by their event's name.

    [[step]]
    gap = "1s"
    [[step.fault]]
    name = "cut"
    kind = "partition"
    victims = "leader"
    hold = "3s"
    params = { shape = "isolate" }
    [[step.fault]]
    kind = "kill"
    victims = "actor"
    hold = "1s"
    when = { event = "elected", after = "cut", within = "2s" }

Every name of ``dethrone.harness.core.schedule`` serves as well (``steps``, ``faults``, ``hold_ns = 3000000000``), so a
stored schedule reads too. Guarantees: pure but for ``read_…``; a mistake is a ConfigError that names its place. Out of
scope:
whether kinds, events and selectors exist.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from dethrone.harness.core.duration import parse_duration, parse_offset
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.files import read_regular
from dethrone.harness.core.schedule import Schedule

SIGNED = frozenset({"offset"})
"""Parameters of faults that are times and may be below 0."""

_PLURAL = {"step": "steps", "fault": "faults"}


def read_schedule(path: Path) -> Schedule:
    """The schedule in a ``.toml`` or JSON file. Raises ConfigError."""
    return parse_schedule(read_table(path), where=str(path))


def read_table(path: Path) -> dict[str, Any]:
    """A file's content as plain values. Raises ConfigError."""
    try:
        content = read_regular(path)
    except OSError as error:
        raise ConfigError(f"cannot read {path.name}: {error.strerror}", where=str(path)) from error
    return parse_table(content, toml=path.suffix == ".toml", where=str(path))


def parse_table(content: bytes, *, toml: bool, where: str) -> dict[str, Any]:
    """TOML or JSON text as plain values. Raises ConfigError."""
    try:
        table = tomllib.loads(content.decode()) if toml else msgspec.json.decode(content)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ConfigError(f"not {'TOML' if toml else 'JSON'}: {error}", where=where) from error
    if not isinstance(table, dict):
        raise ConfigError("expected a table", where=where)
    return table


def parse_schedule(table: Mapping[str, Any], *, where: str) -> Schedule:
    """The schedule that plain values describe. ``seed`` and ``strategy`` are optional."""
    try:
        plain = _schedule(table)
        return msgspec.convert(plain, Schedule)
    except (msgspec.ValidationError, ConfigError) as error:
        raise ConfigError(
            f"not a schedule: {error}", where=where, next_step="docs/schedules.md shows a full example"
        ) from error


def _schedule(table: Mapping[str, Any]) -> dict[str, Any]:
    out = {"seed": 0, "strategy": "written", **durations(_plural(table), "health_bound")}
    out["steps"] = [_step(step) for step in _list(out.get("steps", ()), "steps")]
    return out


def _step(raw: Any) -> dict[str, Any]:
    out = {"gap_ns": 0, **durations(_plural(_table(raw, "a step")), "gap")}
    if "when" in out:
        out["when"] = _when(out["when"])
    out["faults"] = [_fault(fault) for fault in _list(out.get("faults", ()), "faults")]
    return out


def _fault(raw: Any) -> dict[str, Any]:
    out = durations(_table(raw, "a fault"), "delay", "hold")
    out.setdefault("hold_ns", 0)
    if "when" in out:
        out["when"] = _when(out["when"])
    if out.get("until") is not None:
        out["until"] = _when(out["until"])
    if "params" in out:
        params = _table(out["params"], "params")
        words = [key for key, value in params.items() if isinstance(value, str) and _is_duration(value)]
        out["params"] = durations(params, *words)
        for name in SIGNED & params.keys():
            if isinstance(params[name], str):
                out["params"].pop(name, None)
                out["params"][f"{name}_ns"] = parse_offset(params[name])
    return out


def _when(raw: Any) -> dict[str, Any]:
    """``{ event = … }``, ``{ after = "fault" }`` or a stored one, which holds its type."""
    table = durations(_table(raw, "when"), "within")
    if "type" in table:
        return table
    if "event" in table:
        return {"type": "on-event", **table}
    if "after" in table:
        return {"type": "after-fault", "fault": table["after"]}
    raise ConfigError(f"{raw!r} is not a trigger", next_step='write { event = "elected", within = "2s" }')


def durations(table: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """``table`` with each of these keys, where it is one, turned from words into ``name_ns``."""
    out = dict(table)
    for name in names:
        if name in out:
            words = out.pop(name)
            if not isinstance(words, str):
                raise ConfigError(f"{name} = {words!r} is not a duration", next_step=f'write {name} = "250ms"')
            out[f"{name}_ns"] = parse_duration(words)
    return out


def _is_duration(words: str) -> bool:
    try:
        parse_duration(words)
    except ConfigError:
        return False
    return True


def _plural(table: Mapping[str, Any]) -> dict[str, Any]:
    return {_PLURAL.get(key, key): value for key, value in table.items()}


def _table(raw: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(raw, Mapping):
        raise ConfigError(f"{what} must be a table, not {raw!r}")
    return raw


def _list(raw: Any, what: str) -> list[Any]:
    if not isinstance(raw, list | tuple):
        raise ConfigError(f"{what} must be a list, not {raw!r}")
    return list(raw)
