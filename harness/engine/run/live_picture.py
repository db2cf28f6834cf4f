"""The picture of a run under way that live views show, out of what is believed of its nodes and faults.

Guarantees: it looks and changes nothing. Out of scope: drawing it, and how often (``listener``).
"""

from __future__ import annotations

from collections.abc import Mapping

from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.plan import Plan
from dethrone.harness.engine.run.cluster_view import ViewKeeper
from dethrone.harness.engine.run.listener import LiveView, NodeView
from dethrone.harness.engine.run.nemesis_driver import NemesisDriver


def live_picture(
    now: Ns,
    *,
    plan: Plan,
    phase: str,
    keeper: ViewKeeper,
    nemesis: NemesisDriver,
    counts: Mapping[str, int],
    elections: int,
) -> LiveView:
    """What is known at this moment. ``counts``: operations by outcome."""
    roles = keeper.view(now).roles
    return LiveView(
        elapsed_ns=now,
        limit_ns=plan.time_limit_ns,
        phase=phase,
        step=nemesis.step_index + 1,
        steps=len(plan.schedule.steps),
        nodes=tuple(_node_view(keeper, node, roles[node], now) for node in plan.nodes),
        ops_ok=counts["ok"],
        ops_fail=counts["fail"],
        ops_info=counts["info"],
        ops_per_s=counts["ok"] * SECOND / max(1, now),
        elections=elections,
        active_faults=tuple(f"{fault.kind}({','.join(fault.victims)})" for fault in nemesis.active),
    )


def _node_view(keeper: ViewKeeper, node: str, role: str, now: Ns) -> NodeView:
    last = keeper.readings.get(node)
    state = keeper.state[node]
    faults = []
    if state.cuts:
        faults.append("cut from " + ",".join(state.cuts))
    if state.refuses:
        faults.append("no new connections from " + ",".join(state.refuses))
    if state.down:
        faults.append(f"down ({state.down})")
    if state.frozen:
        faults.append("paused")
    if state.clock:
        faults.append("clock")
    faults += [trouble.kind for trouble in state.troubles or ()]
    return NodeView(
        name=node,
        role=role,
        term=last[1].term if last else 0,
        leads=bool(last and last[1].leads),
        faults=tuple(faults),
        answers=node in keeper.answering(now),
        commit=last[1].commit if last else None,
    )
