"""The coverage table of runs that play a list of cuts: what each graph or shape did to leader, terms and writes.

Guarantees: pure; rows of one run in their order, rows of a campaign by cut, so that what was not in force yet shows.
Out of scope: the figures themselves (the checker ``failover``).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from dethrone.harness.core.duration import show_duration
from dethrone.harness.engine.campaign.row import CampaignRow
from dethrone.harness.engine.run.judgement import Judgement

Row = Mapping[str, Any]
HEADERS = ("cut", "links", "leader", "then", "elections", "terms", "writes", "longest without", "held")
NUMBERS = (4, 5, 6, 7, 8)
CAMPAIGN_HEADERS = ("cut", "in force", "leader kept", "replaced", "none", "elections", "terms", "writes")


def table(judgement: Judgement | None) -> list[list[str]]:
    """A row a cut of one run; empty where the run played no list."""
    return [_cells(row) for row in (judgement.cuts if judgement else ())]


def _cells(row: Row) -> list[str]:
    if row.get("outcome") == "skipped":
        return [str(row.get("cut")), "", "", f"did not happen: {row.get('why')}", *[""] * 5]
    doubt = "" if row.get("outcome") == "installed" else " (unknown whether in force)"
    return [
        str(row.get("cut")),
        str(row.get("links")),
        str(row.get("leader") or "none"),
        then(row) + doubt,
        str(row.get("elections")),
        f"+{row.get('terms')}",
        str(row.get("writes")),
        *(show_duration(int(row[name])) if name in row else "" for name in ("silent_ns", "held_ns")),
    ]


def then(row: Row) -> str:
    """What became of the leader: ``kept``, the node that replaced it, ``none``."""
    after = str(row.get("leader_after") or "")
    word = ("kept" if after == row.get("leader") else after) or "none"
    others = int(row.get("leaders_at_once", 0)) - 1
    return f"{word}, and {others} that still claimed to lead" if others > 0 else word


def campaign_table(rows: Sequence[CampaignRow]) -> list[list[str]]:
    """A row a cut, over all runs; empty where none played a list."""
    by_cut: dict[str, list[Row]] = defaultdict(list)
    for run in rows:
        for row in run.cuts or ():
            by_cut[str(row.get("cut"))].append(row)
    return [_over_runs(cut, by_cut[cut]) for cut in sorted(by_cut, key=_place)]


def _over_runs(cut: str, rows: Sequence[Row]) -> list[str]:
    real = [row for row in rows if row.get("outcome") == "installed"]
    kept = sum(bool(row.get("leader_after")) and row.get("leader_after") == row.get("leader") for row in real)
    none = sum(not row.get("leader_after") for row in real)
    return [
        cut,
        f"{len(real)} of {len(rows)}",
        str(kept),
        str(len(real) - kept - none),
        str(none),
        *(_span([int(row.get(name, 0)) for row in real]) for name in ("elections", "terms", "writes")),
    ]


def _span(values: Sequence[int]) -> str:
    if not values:
        return "–"
    return str(values[0]) if min(values) == max(values) else f"{min(values)}–{max(values)}"


def _place(cut: str) -> tuple[str, int]:
    """Graphs in the order of their numbers."""
    match = re.fullmatch(r"(.*:)(\d+)", cut)
    return (match[1], int(match[2])) if match else (cut, 0)
