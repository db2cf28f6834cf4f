"""Verdicts and findings, and how they merge: fail > unknown > pass; n/a stays outside and is always listed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from dethrone.harness.core.promise import Promise

Outcome = Literal["pass", "unknown", "fail", "n/a"]
FailOn = Literal["unknown", "violation", "excused"]
"""What makes an exit code other than 0: violations; with ``unknown`` (the default) too little evidence, too; with
``excused`` also findings under faults that the system does not promise to tolerate, as if it did."""
FAIL_ON: tuple[FailOn, ...] = ("unknown", "violation", "excused")
Kind = Literal["safety", "liveness", "process", "coverage", "metric"]
"""``process``: whether node processes survive. It can fail a run; it is no evidence for safety or liveness."""
_RANK = {"pass": 0, "unknown": 1, "fail": 2}


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Why a verdict is fail: one sentence, and the handful of events (their ``seq``) that prove it.

    ``excused``: the realised faults took this out of the promise: shown, not failing.
    """

    sentence: str
    certificate: tuple[int, ...]
    nodes: tuple[str, ...] = ()
    term: int | None = None
    excused: str | None = None
    data: Mapping[str, Any] = {}
    signature: str = ""
    """What makes two findings one (``dethrone.harness.core.signature``); "" : of an older version."""
    known: str = ""
    """Why it is known, by the user's file of known findings: shown, not failing; "" : it is not."""

    @property
    def fails(self) -> bool:
        """Whether it makes its verdict fail."""
        return self.excused is None and not self.known


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What one checker says. ``reason`` is always given for unknown and n/a; ``evidence`` are the counts it rests on.

    ``metrics`` are figures that are reported and never judged (deposed-leader exposure, term inflation …).
    """

    checker: str
    version: str
    kind: Kind
    outcome: Outcome
    reason: str = ""
    findings: tuple[Finding, ...] = ()
    evidence: Mapping[str, Any] = {}
    metrics: Mapping[str, Any] = {}


def exempted(promise: Promise, *, name: str, version: str, kind: Kind) -> Verdict | None:
    """``n/a``, if the promise exempts the property of this name."""
    exempt = promise.exempt.get(name)
    if exempt is None:
        return None
    return Verdict(checker=name, version=version, kind=kind, outcome="n/a", reason=f"{exempt.kind}: {exempt.reason}")


def merge(verdicts: Iterable[Verdict]) -> Outcome:
    """The verdict of a run. Pass needs at least one safety and one liveness checker that judged it."""
    judged = [verdict for verdict in verdicts if verdict.outcome != "n/a"]
    worst = max((_RANK[verdict.outcome] for verdict in judged), default=1)
    if worst == 0:
        kinds = {verdict.kind for verdict in judged}
        if not {"safety", "liveness"} <= kinds:
            return "unknown"
    outcomes: tuple[Outcome, ...] = ("pass", "unknown", "fail")
    return outcomes[worst]


def excused_findings(verdicts: Iterable[Verdict]) -> int:
    """How many findings the realised faults took out of the promise.

    A verdict lists only the first ones, and counts all.
    """
    found = 0
    for verdict in verdicts:
        counted = verdict.evidence.get("excused")
        listed = sum(finding.excused is not None for finding in verdict.findings)
        found += max(counted, listed) if isinstance(counted, int) else listed
    return found
