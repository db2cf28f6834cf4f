"""Which regressions of a comparison are known already, so that red means new. Pure.

The file and its entries are those of ``dethrone.harness.core.known_findings``; entries that ran out no longer count.
Out of scope: what is a regression (``trends``).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dethrone.harness.core.known_findings import Known, read
from dethrone.harness.pipeline.trends import Regression

__all__ = ["Known", "Sorted", "covers", "read", "sort"]


def covers(entry: Known, one: Regression) -> bool:
    """Whether this regression is known by the entry. A comparison without a night never runs out."""
    if not entry.holds_on(one.night):
        return False
    if entry.signature:
        return entry.signature == one.signature and entry.kind in {"", one.kind}
    return (
        (entry.system, entry.metric) == (one.cell.system, one.cell.metric)
        and entry.fault in {"", one.cell.fault}
        and entry.kind in {"", one.kind}
    )


class Sorted(msgspec.Struct, frozen=True, kw_only=True):
    """Regressions by whether they are known, with why; ``unused``: entries that covered nothing."""

    red: tuple[Regression, ...]
    known: tuple[tuple[Regression, str], ...]
    unused: tuple[Known, ...]


def sort(regressions: Sequence[Regression], entries: Sequence[Known]) -> Sorted:
    """What is red, and what is known."""
    red, known, used = [], [], set()
    for one in regressions:
        covering = [place for place, entry in enumerate(entries) if covers(entry, one)]
        used.update(covering)
        if covering:
            known.append((one, entries[covering[0]].why))
        else:
            red.append(one)
    unused = tuple(entry for place, entry in enumerate(entries) if place not in used)
    return Sorted(red=tuple(red), known=tuple(known), unused=unused)
