"""list-append: transactions append unique values to several lists and read them, at one moment each.

    txn   value [["append", list, v], ["r", list, None], …]   ok: the same, with the list that was read in place of None

A few lists are in use at a time; one that took ``APPENDS_MAX`` appends is replaced by a new one, so that reads stay
short. In the end the lists are read once more, a batch of them in one transaction. Guarantees: no value is ever
appended twice in a run, so the order of each list shows who wrote after whom. Out of scope: judging.

Source: the workload of Kingsbury, Alvaro, "Elle", VLDB 2020.
"""

from __future__ import annotations

from typing import Any

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.events import Return
from dethrone.harness.core.interfaces import ClusterView, Generator, OpPlan
from dethrone.harness.core.rng import Rng
from dethrone.workloads.base import Base, Round
from dethrone.workloads.generators import Targets

LISTS = 4
"""In use at a time."""

STEPS_MAX = 4
"""Of one transaction; one at least."""

APPENDS_MAX = 32
"""Tried on one list before another one takes its place."""


class ListAppendWorkload(Base):
    name = "list-append"
    ops = frozenset({"txn"})
    rate = 30

    def main(self, rng: Rng, *, nodes: tuple[str, ...], processes: int, rate_per_s: int) -> Generator:
        """Endless."""
        del processes, rate_per_s  # the asker's pace
        return _Transactions(rng, nodes=nodes)

    def final(self, rng: Rng, *, nodes: tuple[str, ...], processes: int) -> Generator:
        """All lists, shared out over the processes."""
        return _FinalTransactions(rng, nodes=nodes, processes=processes)


def list_name(number: int) -> str:
    """The lists are numbered from 0."""
    return f"x{number}"


class _Transactions:
    """See ``dethrone.harness.core.interfaces.Generator``."""

    def __init__(self, rng: Rng, *, nodes: tuple[str, ...]) -> None:
        self._steps, self._choice = rng.stream("steps"), rng.stream("lists")
        self._targets = Targets(rng.stream("targets"), nodes)
        self._lists = list(range(LISTS))
        self._taken = dict.fromkeys(self._lists, 0)
        self._last = 0

    def next(self, process: int, now: Ns, view: ClusterView) -> OpPlan:
        """A transaction for whichever process asks."""
        del process, now
        steps = [self._step() for _ in range(self._steps.between(1, STEPS_MAX))]
        return OpPlan(f="txn", value=steps, target=self._targets.choose(view))

    def _step(self) -> list[Any]:
        at = self._choice.below(LISTS)
        number = self._lists[at]
        if self._steps.chance(1, 2):
            return ["r", list_name(number), None]
        self._last += 1
        self._taken[number] += 1
        if self._taken[number] >= APPENDS_MAX:
            del self._taken[number]
            self._lists[at] = max(self._lists) + 1
            self._taken[self._lists[at]] = 0
        return ["append", list_name(number), self._last]

    def returned(self, process: int, op: OpPlan, result: Return) -> None:
        """Learn whom to ask next."""
        del process, op
        self._targets.learn(result)


def _reads(batch: int) -> list[list[Any]]:
    return [["r", list_name(batch * LISTS + at), None] for at in range(LISTS)]


class _FinalTransactions:
    """Process p reads batch p, then p + processes, and so on, up to a batch of empty lists."""

    def __init__(self, rng: Rng, *, nodes: tuple[str, ...], processes: int) -> None:
        self._processes = max(1, processes)
        self._round = Round(rng, nodes=nodes, processes=self._processes)
        self._batch: dict[int, int | None] = {who: who for who in range(self._processes)}

    def next(self, process: int, now: Ns, view: ClusterView) -> OpPlan | Ns | None:
        """The batch of this process; a pause after each fruitless round; None when it has read everything."""
        who = process % self._processes
        batch = self._batch[who]
        return None if batch is None else self._round.ask(who, now, view, "txn", _reads(batch))

    def returned(self, process: int, op: OpPlan, result: Return) -> None:
        """On to the next batch once this one was read, or after the last round."""
        who = process % self._processes
        self._round.learn(result)
        batch = self._batch[who]
        if batch is None or op.value != _reads(batch):
            return  # a transaction of the main phase that took its time
        if self._round.over(who, result, mine=True):
            shown = result.status == "ok" and any(step[2] for step in result.value)
            self._batch[who] = batch + self._processes if shown else None


WORKLOAD = ListAppendWorkload()
