"""Planted bugs for the exam, from our targets' tables of variants.

Guarantees: bugs that only clients see are omitted; a knob that a variant needs, or with which it shows sooner, becomes
a setting.
The tables are next to the protocol cores.
"""

from __future__ import annotations

from collections.abc import Mapping

from dethrone.clusters.targets.kit.mutants import Mutant
from dethrone.harness.core.planted import Planted

HARMLESS = "harmless-"


def planted_from(table: Mapping[str, Mutant]) -> dict[str, Planted]:
    """Name → what the exam needs to know."""
    out: dict[str, Planted] = {}
    for name, record in table.items():
        if not record.caught_by and not name.startswith(HARMLESS):
            continue  # only clients see it
        settings = {word: value for word, value in record.needs.items() if value != "*" and "|" not in value}
        out[name] = Planted(
            name=name,
            says=record.says,
            caught_by=tuple(record.caught_by),
            settings={**settings, **record.advised},
            nodes_min=record.nodes_min,
        )
    return out
