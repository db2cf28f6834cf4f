"""How long each phase of a run may take, and how long nodes must be left in peace. Pure.

Guarantees: every phase has a bound, which follows from the plan alone; bounds of liveness grow by what the warm-up
measured, before the first fault and never again. Out of scope: what happens at a bound (``director``).
"""

from __future__ import annotations

import msgspec

from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.plan import Plan

START_BOUND_NS = 30 * SECOND
ANSWER_BOUND_NS = 90 * SECOND
"""Of nodes that still run and have not answered: Java servers on a loaded machine take long to do so."""
OVERRUN = 2
"""A schedule may take this many times its time limit (health is awaited between steps) before it is cut short."""
CONVERGE_BOUND_NS = 60 * SECOND


def start_bound(plan: Plan) -> Ns:
    """Until when all nodes should be healthy after their start."""
    return max(START_BOUND_NS, 2 * plan.promise.leader_bound_ns)


def answer_bound(plan: Plan) -> Ns:
    """Until when each node that still runs must have answered."""
    return max(start_bound(plan), ANSWER_BOUND_NS)


def health_bound(plan: Plan) -> Ns:
    """How long health is awaited after a step: the schedule's own, else twice the time in which a leader is owed."""
    if plan.schedule.health_bound_ns is not None:
        return plan.schedule.health_bound_ns
    return max(2 * plan.promise.leader_bound_ns, plan.promise.converge_ns or 0)


def quiet_time(plan: Plan) -> Ns:
    """How long nothing is done to healed nodes, until all that is owed can be seen: their bounds plus a quarter."""
    promise = plan.promise
    return max(promise.leader_bound_ns * 5 // 4, (promise.converge_ns or 0) * 5 // 4)


def with_allowance(plan: Plan, *, rtt_max_ns: Ns, fsync_max_ns: Ns) -> Plan:
    """The plan with the promise's bounds, each plus 4 × (largest round trip + largest fsync)."""
    # Where the agents measured it: a system that answers slowly must not widen its own bounds.
    rtt = int(plan.calibration.get("trip_max_ns", rtt_max_ns))
    extra = 4 * (rtt + fsync_max_ns)
    old = plan.promise
    promise = msgspec.structs.replace(
        old,
        leader_bound_ns=old.leader_bound_ns + extra,
        later_gap_ns=old.later_gap_ns + extra,
        step_down_ns=None if old.step_down_ns is None else old.step_down_ns + extra,
        converge_ns=None if old.converge_ns is None else old.converge_ns + extra,
    )
    warmup = {"rtt_max_ns": rtt, "fsync_max_ns": fsync_max_ns, "allowance_ns": extra}
    return msgspec.structs.replace(plan, promise=promise, warmup=warmup)
