"""Schedules as data: planned (selectors, times) and realised (who, when, with which outcome).

Promises: a schedule is a value that prints, stores and compares; drawing one from a seed is the nemesis' business.
Leaves out carrying it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from harness.core.clock import Ns, Span

SCHEMA = 1


class PlannedFault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fault of a step: which (``kind`` is an entry-point name), to whom (``victims`` is a selector's text), when.

    ``delay_ns``: from the step's begin to the fault's begin. ``hold_ns``: from in force to its end (0: ends at once, as
    a restart does). ``params``: the fault kind's own, validated by it.
    """

    kind: str
    victims: str
    delay_ns: Ns = 0
    hold_ns: Ns
    params: Mapping[str, Any] = {}


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Faults that may overlap, then healing, then ``gap_ns`` of quiet AFTER health came back (bounded)."""

    faults: tuple[PlannedFault, ...]
    gap_ns: Ns


class Schedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Steps one after another. ``seed`` and ``strategy`` say where it came from; ``obligations`` what it must show.

    ``obligations``: names the coverage checker knows (``leader-isolated``, ``leader-killed``, ``minority-cut`` …).
    """

    seed: int
    strategy: str
    steps: tuple[Step, ...]
    obligations: tuple[str, ...] = ()
    health_bound_ns: Ns | None = None
    """How long health is awaited after a step before its gap begins; None: the promise's bounds decide."""
    schema: int = SCHEMA

    @property
    def kinds(self) -> tuple[str, ...]:
        """The fault kinds in it, sorted, each once."""
        return tuple(sorted({fault.kind for step in self.steps for fault in step.faults}))


class RealisedFault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What became of one planned fault. ``begin``/``end``: command … confirmed effect; None: did not happen."""

    fault: int
    step: int
    kind: str
    victims: tuple[str, ...]
    roles: Mapping[str, str] = {}
    params: Mapping[str, Any] = {}
    begin: Span | None = None
    end: Span | None = None
    outcome: Literal["installed", "skipped", "indeterminate"]
    healed: bool
    why: str = ""


class RealisedSchedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The faults that really were, in order of their beginning."""

    seed: int
    faults: tuple[RealisedFault, ...]
    schema: int = SCHEMA
