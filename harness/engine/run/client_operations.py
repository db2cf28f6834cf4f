"""The operations of a run's clients: which generator feeds them in which phase, and their records in the history.

Guarantees: an invoke is written together with its action, so that it is in the history before it is sent; outcomes are
counted as they are written; of a read that shows a growing list or set, only what is new is written
(``dethrone.harness.core.shown``). Out of scope: pacing (``op_pacing``), threads and connections (``live_world``).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import msgspec

from dethrone.harness.core import world as w
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.events import Invoke, Return
from dethrone.harness.core.interfaces import ClusterView, Workload
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.shown import Recorder, key_of
from dethrone.harness.engine.run.op_pacing import OpPump
from dethrone.harness.engine.run.write_before_effect import Outbox

READ = "read"
"""The operation whose lists and sets are recorded by what is new in them."""


class ClientOperations:
    """All client processes of one run. They pause until ``begin``."""

    def __init__(self, workload: Workload, plan: Plan, rng: Rng, outbox: Outbox) -> None:
        self._workload = workload
        self._nodes = plan.nodes
        self._asked = plan.workload
        self._rng = rng
        self._outbox = outbox
        self._recorder = Recorder(getattr(workload, "shows", None))
        self._retire = bool(getattr(workload, "keys_retire", False))
        self._keys: dict[str, None] = {}
        """Keys that were asked for, where keys retire."""
        self._reads: dict[int, Hashable] = {}
        """Reads under way → what they are about."""
        self._pump = OpPump(processes=plan.workload.processes, rate_per_s=plan.workload.rate_per_s)
        self.wake_at = self._pump.wake_at
        """When ``invoke`` may have something again without any return; None: not before one."""
        self.counts = {"ok": 0, "fail": 0, "info": 0}

    def begin(self) -> None:
        """From now on what the workload does while faults happen."""
        if self._asked.processes:
            self._pump.use(
                self._workload.main(
                    self._rng.stream("main"),
                    nodes=self._nodes,
                    processes=self._asked.processes,
                    rate_per_s=self._asked.rate_per_s,
                )
            )

    def conclude(self) -> None:
        """From now on its last reads, as fast as they are answered."""
        final = None
        if self._asked.processes:
            more: dict[str, Any] = {"used": tuple(self._keys)} if self._retire else {}
            final = self._workload.final(
                self._rng.stream("final"), nodes=self._nodes, processes=self._asked.processes, **more
            )
        self._pump.use(final, unpaced=True)

    def pause(self) -> None:
        """Invoke nothing more."""
        self._pump.use(None)

    @property
    def exhausted(self) -> bool:
        """Whether the workload has nothing more for any process, and none is at work."""
        return self._pump.exhausted

    def invoke(self, now: Ns, view: ClusterView) -> None:
        """Invoke every operation that is due."""
        for op, process, thread, plan in self._pump.due(now, view):
            event = self._outbox.write(
                Invoke, now, op=op, process=process, f=plan.f, value=plan.value, target=plan.target
            )
            if self._retire:
                self._keys[_key(plan.value)] = None
            if plan.f == READ:
                self._reads[op] = key_of(event)
            self._outbox.act(w.InvokeOp(op, thread, plan, self._asked.op_timeout_ns))

    def returned(self, _now: Ns, done: w.OpDone) -> None:
        """An operation ended, or its outcome stays unknown."""
        outcome = done.outcome
        value = outcome.value
        if (key := self._reads.pop(done.op, None)) is not None:
            value = self._recorder.record(key, value)
        self.counts[outcome.status] += 1
        event = self._outbox.write(
            Return,
            done.at,
            op=done.op,
            status=outcome.status,
            value=value,
            error=outcome.error,
            node=outcome.node,
        )
        self._pump.returned(event if value is outcome.value else msgspec.structs.replace(event, value=outcome.value))


def _key(value: Any) -> str:
    """What an operation is about: the key itself, or what it begins with."""
    return str(value[0] if isinstance(value, list | tuple) and value else value)
