"""Reading a planned fault's parameters: values come from JSON, so nothing about them is taken for granted.

Guarantees: every mistake is a ConfigError that names the fault kind and the parameter. Out of scope: what a parameter
means.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.registry import unknown_name
from dethrone.harness.core.schedule import PlannedFault


def check_known(kind: str, params: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise ConfigError for a parameter that this fault kind does not have."""
    for name in params:
        if name not in known:
            if not known:
                raise ConfigError(
                    f"the fault {kind!r} has no parameter {name!r}", next_step="it has none; leave it out"
                )
            raise unknown_name(f"parameter of the fault {kind!r}:", name, known)


def check_times(fault: PlannedFault) -> None:
    """Raise ConfigError for a delay or hold below 0."""
    for name in ("delay_ns", "hold_ns"):
        if getattr(fault, name) < 0:
            raise bad(fault.kind, name, getattr(fault, name), "times are never below 0")


def integer(
    kind: str, params: Mapping[str, Any], name: str, *, least: int | None = None, most: int | None = None
) -> int:
    """The whole number under ``name``, 0 when it is absent."""
    value = params.get(name, 0)
    if not isinstance(value, int) or isinstance(value, bool):
        raise bad(kind, name, value, "a whole number is needed")
    if least is not None and name in params and value < least:
        raise bad(kind, name, value, f"the least is {least}")
    if most is not None and value > most:
        raise bad(kind, name, value, f"the most is {most}")
    return value


def bad(kind: str, name: str, value: object, why: str) -> ConfigError:
    """The error for a parameter's value."""
    return ConfigError(f"bad {name} {value!r} of the fault {kind!r}", cause=why, next_step="see `dethrone list faults`")
