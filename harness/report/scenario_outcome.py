"""Whether a run of a scenario ended as expected, in words and as data.

Guarantees: a scenario that was not judged never counts as expected. The verdict itself does not change.
"""

from __future__ import annotations

from typing import Any

from dethrone.harness.core.scenario import Expected, as_expected
from dethrone.harness.engine.run.judgement import Judgement
from dethrone.harness.engine.run.scenario_lookup import find


def expectation(expected: Expected) -> str:
    """``fail: one-leader-per-term``, ``pass``, or ``pass, leaders kept``."""
    if expected.untouched:
        return "pass, leaders kept"
    return f"fail: {', '.join(expected.fails)}" if expected.verdict == "fail" else "pass"


def told(name: str | None, judgement: Judgement | None) -> dict[str, Any] | None:
    """``name``, ``source``, ``expected``, ``as_expected`` and ``deviations``; None where no scenario was run."""
    if name is None:
        return None
    scenario = find(name)
    deviations = ["nothing was judged"]
    if judgement is not None:
        deviations = as_expected(scenario.expected, judgement.verdicts)
    return {
        "name": scenario.name,
        "source": scenario.source,
        "expected": expectation(scenario.expected),
        "as_expected": not deviations,
        "deviations": deviations,
    }
