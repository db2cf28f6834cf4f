"""Recoveries after the heal of cuts: the network's time and the protocol's, apart.

Guarantees: pure; quantiles as those of failovers, so that a censored time never counts as a fast one. Out of scope: the
times themselves (the checker ``failover``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.duration import show_duration
from dethrone.harness.engine.run.judgement import Judgement
from dethrone.harness.report.failover import Quantiles, quantiles

STAGES = ("network", "leader", "write")
"""Until probes pass again; from there until a node leads; until a write is acknowledged."""


def summary(judgement: Judgement | None) -> tuple[int, dict[str, Quantiles]]:
    """How many heals there were of cuts that left clients without a leader, and the figures of these."""
    every = judgement.recoveries if judgement else ()
    rows = [row for row in every if not row.get("led")]
    return len(rows), {stage: _quantiles(rows, stage) for stage in STAGES} if rows else {}


def lines(judgement: Judgement | None) -> list[str]:
    """For the screen; empty if nothing had to recover."""
    count, figures = summary(judgement)
    if not count:
        return []
    out = [f"recovery, after {count} heals of cuts that left no leader to write to (median · 90 % · longest):"]
    for stage, figure in figures.items():
        times = (figure.median, figure.p90, figure.longest)
        shown = " · ".join("open" if time is None else show_duration(time) for time in times)
        censored = f", {figure.censored} not before the next change" if figure.censored else ""
        out.append(f"  {stage:<12} {shown}{censored}")
    return out


def _quantiles(rows: Sequence[Mapping[str, Any]], stage: str) -> Quantiles:
    pairs = [_time(row.get(f"{stage}_ns")) for row in rows]
    return quantiles([time for time, _ in pairs], [limit for _, limit in pairs])


def _time(value: Any) -> tuple[Ns | None, Ns]:
    """The time, None if it is censored, and how long it was awaited."""
    if isinstance(value, list | tuple) and len(value) == 2:
        return (None if value[1] else int(value[0])), int(value[0])
    return int(value or 0), int(value or 0)
