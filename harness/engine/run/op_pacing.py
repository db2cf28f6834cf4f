"""Pacing of client operations: which free process does what, when. Pure.

Guarantees: at most one operation per process at a time; at most ``rate_per_s`` invokes per second (0: no limit) without
bursts after a stall; after an unknown outcome the process gets a new number, for its operation may still take effect.
"""

from __future__ import annotations

from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.events import Return
from dethrone.harness.core.interfaces import ClusterView, Generator, OpPlan


class OpPump:
    """Feeds one generator to a fixed set of client threads."""

    def __init__(self, *, processes: int, rate_per_s: int, first_op: int = 0) -> None:
        self._processes = processes
        self._interval_ns: Ns = SECOND // rate_per_s if rate_per_s else 0
        self._next_at: Ns = 0
        self._number = list(range(processes))
        self._asleep_until: list[Ns] = [0] * processes
        self._running: dict[int, tuple[int, OpPlan]] = {}
        self._busy: set[int] = set()
        self._done: set[int] = set()
        self._generator: Generator | None = None
        self._turn = 0
        self._soonest: Ns | None = None
        """When the first idle process is awake; None: none is idle, or ``_changed``."""
        self._changed = True
        self.next_op = first_op

    def use(self, generator: Generator | None, *, unpaced: bool = False) -> None:
        """From now on ask this generator (None: pause). ``unpaced``: no rate limit."""
        self._generator = generator
        self._changed = True
        self._done.clear()
        self._asleep_until = [0] * self._processes
        if unpaced:
            self._interval_ns = 0

    @property
    def in_flight(self) -> int:
        """Operations invoked and not returned."""
        return len(self._running)

    @property
    def exhausted(self) -> bool:
        """Whether the generator has nothing more for any process, and none is at work."""
        return self._generator is None or (len(self._done) == self._processes and not self._running)

    def due(self, now: Ns, view: ClusterView) -> list[tuple[int, int, int, OpPlan]]:
        """Operations to invoke now: (op, process number, thread, plan)."""
        out: list[tuple[int, int, int, OpPlan]] = []
        if self._generator is None:
            return out
        self._changed = True
        for offset in range(self._processes):
            thread = (self._turn + offset) % self._processes
            if now < self._next_at:
                break
            if thread in self._busy or thread in self._done or now < self._asleep_until[thread]:
                continue
            plan = self._generator.next(self._number[thread], now, view)
            if plan is None:
                self._done.add(thread)
                continue
            if not isinstance(plan, OpPlan):
                self._asleep_until[thread] = max(plan, now + 1)
                continue
            op = self.next_op
            self.next_op += 1
            self._running[op] = (thread, plan)
            self._busy.add(thread)
            out.append((op, self._number[thread], thread, plan))
            self._next_at = max(self._next_at + self._interval_ns, now)
        self._turn = (self._turn + len(out)) % max(1, self._processes)
        return out

    def returned(self, result: Return) -> None:
        """An operation ended."""
        thread, plan = self._running.pop(result.op)
        self._changed = True
        self._busy.discard(thread)
        if self._generator is not None:
            self._generator.returned(self._number[thread], plan, result)
        if result.status == "info":
            self._number[thread] += self._processes

    def wake_at(self, now: Ns) -> Ns | None:
        """When ``due`` may have something again without any return; None: not before one."""
        if self._generator is None:
            return None
        if self._changed:
            self._changed = False
            out = self._busy | self._done
            self._soonest = min(
                [until for thread, until in enumerate(self._asleep_until) if thread not in out], default=None
            )
        soonest = self._soonest
        return None if soonest is None else max(self._next_at, soonest, now)
