"""register: clients write, read and compare-and-set a few registers, and read each of them once more in the end.

    put   value [key, v]          ok: None
    get   value key               ok: the value, None while it was never written
    cas   value [key, old, new]   ok: whether the register held ``old`` and was set (bool)

Most cas expect what some client last saw in the register and succeed unless they are overtaken; the others expect what
it held before that, and should be refused. Guarantees: no value is ever written twice in a run, so that a value names
its write. Out of scope: judging.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.events import Return
from dethrone.harness.core.interfaces import ClusterView, Generator, OpPlan
from dethrone.harness.core.rng import Rng
from dethrone.workloads.base import Base
from dethrone.workloads.generators import Targets
from dethrone.workloads.keys import Keys
from dethrone.workloads.log import FinalReads

KEYS = ("r0", "r1", "r2", "r3")
"""The first ones. Few, so that clients meet at each of them."""

PUTS, GETS, SWAPS = 2, 4, 2
"""Weights of the three operations."""

OUTDATED_PERCENT = 20
"""Of the cas: those that expect what the register held before the value that was seen last."""


class RegisterWorkload(Base):
    name = "register"
    ops = frozenset({"put", "get", "cas"})
    keys_retire = True
    rate = 40

    def main(self, rng: Rng, *, nodes: tuple[str, ...], processes: int, rate_per_s: int) -> Generator:
        """Endless."""
        del processes, rate_per_s  # the asker's pace
        return _Registers(rng, nodes=nodes)

    def final(self, rng: Rng, *, nodes: tuple[str, ...], processes: int, used: Sequence[str] = ()) -> Generator:
        """Each process reads every register once, through one node after another until it is answered."""
        return FinalReads(rng, nodes=nodes, processes=processes, keys=KEYS, f="get", used=used)


class _Registers:
    """See ``dethrone.harness.core.interfaces.Generator``."""

    def __init__(self, rng: Rng, *, nodes: tuple[str, ...]) -> None:
        self._mix, self._draws = rng.stream("mix"), rng.stream("keys")
        self._keys = Keys(KEYS)
        self._targets = Targets(rng.stream("targets"), nodes)
        self._seen: dict[str, Any] = defaultdict(lambda: None)
        self._before: dict[str, Any] = defaultdict(lambda: None)
        self._last = 0

    def next(self, process: int, now: Ns, view: ClusterView) -> OpPlan:
        """An operation for whichever process asks."""
        del process, now
        key, target = self._keys.choose(self._draws), self._targets.choose(view)
        draw = self._mix.below(PUTS + GETS + SWAPS)
        if draw < GETS:
            return OpPlan(f="get", value=key, target=target)
        self._last += 1
        if draw < GETS + PUTS:
            return OpPlan(f="put", value=[key, self._last], target=target)
        known = self._before if self._mix.chance(OUTDATED_PERCENT, 100) else self._seen
        return OpPlan(f="cas", value=[key, known[key], self._last], target=target)

    def returned(self, process: int, op: OpPlan, result: Return) -> None:
        """Learn whom to ask next, and what the register holds."""
        del process
        self._targets.learn(result)
        if result.status != "ok":
            return
        if op.f == "get":
            self._learn(op.value, result.value)
        elif op.f == "put" or result.value is True:
            self._learn(op.value[0], op.value[-1])

    def _learn(self, key: str, value: Any) -> None:
        if value != self._seen[key]:
            self._before[key], self._seen[key] = self._seen[key], value


WORKLOAD = RegisterWorkload()
