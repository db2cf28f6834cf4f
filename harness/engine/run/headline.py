"""The one sentence that heads a judgement: why it passed, failed or stayed unknown.

Guarantees: a failure is headed by its first finding that is neither excused nor known. Out of scope: the verdicts
themselves (``judge``), and the line of a screen that begins with PASS, FAIL or UNKNOWN and holds this sentence
(``dethrone.harness.report.screens.headline``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

from dethrone.harness.core.verdict import Verdict

KINDS: tuple[Literal["safety", "liveness"], ...] = ("safety", "liveness")
"""Kinds of properties that systems promise; coverage is asked of the run."""


def headline(outcome: str, verdicts: Iterable[Verdict], *, damage: str | None, trouble: tuple[str, ...]) -> str:
    """The sentence for this outcome of these verdicts."""
    if outcome == "fail":
        failing = [verdict for verdict in verdicts if verdict.outcome == "fail"]
        first = next((f.sentence for f in failing[0].findings if f.excused is None and not f.known), "")
        return f"{failing[0].checker}: {first or failing[0].reason}"
    if outcome == "unknown":
        if damage:
            return f"the history is damaged: {damage}"
        if trouble:
            return f"harness trouble: {trouble[0]}"
        unknown = [verdict for verdict in verdicts if verdict.outcome == "unknown"]
        if unknown:
            return "; ".join(f"{verdict.checker}: {verdict.reason}" for verdict in unknown)
        return "no safety checker or no liveness checker could judge this run"
    judged = Counter[str](verdict.kind for verdict in verdicts if verdict.outcome == "pass")
    each = ", ".join(f"{judged[kind]} of {kind}" for kind in KINDS)
    return f"{sum(judged[kind] for kind in KINDS)} promised properties were judged and held, with evidence ({each})"
