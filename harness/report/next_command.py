"""The next command when a run stayed ``unknown``: the one that most likely gives a verdict.

Guarantees: pure; noise asks for a slower run of the same seed, missing evidence for more room for faults, and a damaged
history for the same run again; every command is complete. Whether it helps is out of scope.
"""

from __future__ import annotations

from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.timescale import SCALE_MAX, SCALES, show_scale
from dethrone.harness.engine.run.judgement import Judgement

LONGEST_S = 3600


def resolving(judgement: Judgement, plan: Plan, command: str) -> str:
    """``command``: runs this plan's system with its seed and settings, without schedule, time limit and time scale."""
    limit_s = max(1, plan.usual_limit_ns // SECOND)
    if judgement.trouble or judgement.damage is not None:
        return f"{command} --time-limit {limit_s}s"
    if judgement.host_noise:
        return f"{command} --time-limit {limit_s}s --time-scale {show_scale(_slower(plan.time_scale))}"
    if plan.schedule.strategy != "none" and plan.schedule.health_bound_ns == 0:
        # in haste no window is long enough for a promise of liveness
        bound_s = -(-plan.promise.leader_bound_ns * 5 // (4 * SECOND * plan.time_scale))
        return f"{command} --nemesis-interval {int(bound_s)}s --time-limit {min(LONGEST_S, 2 * limit_s)}s"
    return f"{command} --time-limit {min(LONGEST_S, 2 * limit_s)}s"


def _slower(scale: float) -> float:
    return next((slower for slower in SCALES if slower > scale), SCALE_MAX)
