"""How targets of ours tell the exam of their planted bugs: from their tables of variants.

Promises: flips of claims are left out; a knob that a variant needs, or with which it shows sooner, becomes a setting.
Leaves out the tables, which lie beside the protocol cores.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from harness.core.planted import Planted

FLIP = "flip-"
HARMLESS = "harmless-"


class VariantRecord(Protocol):
    """What the tables of all protocols have in common."""

    @property
    def says(self) -> str:
        """What it does wrong, in one sentence."""

    @property
    def caught_by(self) -> tuple[str, ...]:
        """Checkers of which any one counts."""

    @property
    def nodes_min(self) -> int:
        """The smallest cluster in which it can show."""

    @property
    def needs(self) -> Any:
        """Knobs without which it cannot show."""


def planted_from(table: Mapping[str, VariantRecord]) -> dict[str, Planted]:
    """Name → what the exam needs to know."""
    out: dict[str, Planted] = {}
    for name, record in table.items():
        if name.startswith(FLIP):
            continue
        if not record.caught_by and not name.startswith(HARMLESS):
            continue  # breaks a claim only
        needs = record.needs if isinstance(record.needs, Mapping) else {}
        settings = {word: value for word, value in needs.items() if value != "*" and "|" not in value}
        out[name] = Planted(
            name=name,
            says=record.says,
            caught_by=tuple(record.caught_by),
            settings={**settings, **getattr(record, "advised", {})},
            nodes_min=record.nodes_min,
        )
    return out
