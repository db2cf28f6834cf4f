"""What the engines answer: linearizable, a violation with its proof, or how far they came.

Guarantees: a violation names operations that cannot be put in order by themselves, given the words of its sentence, and
the data to draw them. Out of scope: drawing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

Elapsed = Callable[[], int]
"""Nanoseconds since the judging began. Time is an argument: a pure caller may pass ``unhurried``."""


def unhurried() -> int:
    """No time passes: only the bound on memory holds."""
    return 0


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one decision, over all of its objects."""

    time_ns: int = 60_000_000_000
    memory_bytes: int = 1 << 30
    """Estimated size of what the search keeps."""


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """One operation, drawn from its call to its return. ``ret`` None: it never returned, or said "unknown"."""

    op: int
    label: str
    call: int
    ret: int | None
    status: Literal["ok", "fail", "info"]
    role: Literal["", "stuck", "first", "second", "between"] = ""
    """``stuck``: has no place; ``first`` and ``second``: of the one and the other cluster; ``between``: their chain."""


class Zone(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of positions during which one value certainly was, or must have been, the current one."""

    label: str
    lo: int
    hi: int
    forward: bool
    """Forward: it holds all of the stretch. Backward: some moment of it."""


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """Operations that no order explains. Positions are those of ``Ops``."""

    rule: str
    """Which rule is broken, as one word of the engine: ``overlap``, ``inside``, ``phantom``, ``stuck`` …"""
    sentence: str
    key: Any
    ops: tuple[int, ...]
    """Ids of the operations that prove it."""
    bars: tuple[Bar, ...] = ()
    zones: tuple[Zone, ...] = ()
    stuck_at: int | None = None
    """The position at which every order is stuck."""
    states: tuple[str, ...] = ()
    """What the object may have held there, as text."""
    since: int | None = None
    """The proof begins at this position, for any state of the object; None: at the beginning."""


class Undecided(msgspec.Struct, frozen=True, kw_only=True):
    """One object that was too much for the budget."""

    key: Any
    reason: str
    returns_done: int
    returns: int


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """``fail`` if there is a violation, else ``unknown`` if anything is undecided, else ``pass``."""

    outcome: Literal["pass", "unknown", "fail"]
    operations: int
    objects: int
    violations: tuple[Violation, ...] = ()
    bad_objects: int = 0
    """Objects with a violation; of each the first one is reported, of the first few objects."""
    bad_keys: tuple[Any, ...] = ()
    """Those objects' keys."""
    undecided: tuple[Undecided, ...] = ()
    engines: dict[str, int] = {}
    """Engine → objects that it decided."""
