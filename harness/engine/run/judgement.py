"""The result of a run, as data: the checkers' verdicts on its history, and what the caller of a run gets.

Guarantees: excused findings stay among the verdicts. Out of scope: judging (``judge``), exit codes (``exit_status``).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from dethrone.harness.core.plan import Plan
from dethrone.harness.core.verdict import Outcome, Verdict, excused_findings
from dethrone.harness.core.versions_ran import Ran

JSON_SCHEMA = 1
"""Version of the ``--json`` objects."""


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What the checkers say of one history. ``excused``/``n/a`` verdicts are in ``verdicts`` like all others.

    ``trouble``: harness trouble found in the history or while judging. ``host_noise``: whether noise alone made the
    outcome unknown (a repeat with the same seed is worth while). ``versions``: which ran where, if there are several.
    """

    outcome: Outcome
    reason: str
    verdicts: tuple[Verdict, ...]
    trouble: tuple[str, ...] = ()
    host_noise: bool = False
    damage: str | None = None
    versions: tuple[Ran, ...] | msgspec.UnsetType = msgspec.UNSET

    @property
    def excused(self) -> int:
        """Findings under faults that the system does not promise to tolerate."""
        return excused_findings(self.verdicts)

    @property
    def noise_percent(self) -> float:
        """The share of the run that was charged to noise of the hosts, as the checker ``coverage`` says; else 0."""
        noise = [verdict.evidence.get("noise") for verdict in self.verdicts if verdict.checker == "coverage"]
        return max((float(one["excused_percent"]) for one in noise if isinstance(one, Mapping)), default=0.0)

    @property
    def cuts(self) -> tuple[Mapping[str, Any], ...]:
        """What each cut did, as the checker ``failover`` says, where the run played a list of them."""
        return self._figures("cuts")

    @property
    def recoveries(self) -> tuple[Mapping[str, Any], ...]:
        """How long network and protocol took after the heal of each cut, as the checker ``failover`` says."""
        return self._figures("recoveries")

    def _figures(self, name: str) -> tuple[Mapping[str, Any], ...]:
        figures = next((verdict.metrics for verdict in self.verdicts if verdict.checker == "failover"), {})
        found = figures.get(name, ())
        return tuple(row for row in found if isinstance(row, Mapping)) if isinstance(found, list | tuple) else ()


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a run. ``judgement`` is None when there was nothing to judge. ``exit_code``: see below."""

    run_dir: Path | None
    seed: int
    plan: Plan | None
    judgement: Judgement | None
    trouble: tuple[str, ...]
    interrupted: bool
    exit_code: int
    figures: Mapping[str, Any] = {}
