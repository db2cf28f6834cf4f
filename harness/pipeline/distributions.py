"""Recovery times by version, and curves of both sides of a comparison: what a page of trends draws. Pure.

Guarantees: made of the same rows that ``trends.rows_behind`` names for a cell. Out of scope: judging (``trends``).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

from dethrone.harness.core.rng import Rng
from dethrone.harness.pipeline import survival
from dethrone.harness.pipeline.nights import Cell, Facts, Sample, version_of
from dethrone.harness.pipeline.trends import Policy, Side, rows_behind


@dataclass(frozen=True, slots=True)
class OfVersion:
    """The times of a cell of one version, of both sides and all setups."""

    cell: Cell
    version: str
    runs: int
    times: int
    censored: int
    median: survival.Interval


def by_version(facts: Facts, side: Side, policy: Policy) -> list[OfVersion]:
    """A row a system, fault, stage and version."""
    groups: dict[tuple[Cell, str], list[Sample]] = defaultdict(list)
    for one in facts.samples:
        if one.run in side:
            run = facts.runs[one.run]
            groups[Cell(run.system, one.fault, one.stage), version_of(run)].append(one)
    return [
        OfVersion(
            cell=cell,
            version=version,
            runs=len({one.run for one in group}),
            times=len(group),
            censored=sum(one.censored for one in group),
            median=survival.bootstrap_median(
                times_of([(one.run, one.ns, one.censored) for one in group]),
                seed=Rng(policy.seed).stream(f"{cell} {version}").next64(),
                resamples=max(1, policy.resamples),
            ),
        )
        for (cell, version), group in sorted(groups.items(), key=lambda item: item[0])
    ]


def curves(facts: Facts, side: Side, cell: Cell) -> dict[str, survival.Curve]:
    """The curves of both sides of a cell of times: ``now`` and ``before``."""
    rows: list[dict[str, Any]] = rows_behind(facts, side, cell)
    return {
        word: survival.curve(
            times_of([(row["run"], row["ns"], row["censored"]) for row in rows if row["counted"] == word])
        )
        for word in ("now", "before")
    }


def times_of(rows: list[tuple[str, int, bool]]) -> survival.Times:
    """(run, ns, censored) as arrays."""
    numbers: dict[str, int] = {}
    return survival.Times(
        ns=np.array([ns for _, ns, _ in rows], np.int64),
        censored=np.array([cut for _, _, cut in rows], np.bool_),
        run=np.array([numbers.setdefault(run, len(numbers)) for run, _, _ in rows], np.int64),
    )
