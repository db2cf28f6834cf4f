"""log: clients append unique values to a few lists and read them back; in the end every list is read once more.

    append  value [key, v]   ok: {"index": …, "term": …} of the entry, None where the system does not say
    read    value key        ok: the list of values, in the order in which they were appended

Guarantees: no value is ever used twice in a run, so every acknowledged write can be accounted for. Out of scope:
judging.
"""

from __future__ import annotations

from collections.abc import Sequence

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.events import Return
from dethrone.harness.core.interfaces import ClusterView, Generator, OpPlan
from dethrone.harness.core.rng import Rng
from dethrone.workloads.base import Base, Round
from dethrone.workloads.generators import numbered_writes
from dethrone.workloads.keys import known

KEYS = ("k0", "k1", "k2", "k3", "k4")
"""The first ones. Few, so that each list shows the order of many writes."""

RECENT = 2
"""As many times the keys that are in use at once are read by every process in the end."""

APPENDS, READS = 3, 2
"""Weights of the two operations."""


class LogWorkload(Base):
    name = "log"
    ops = frozenset({"append", "read"})
    shows = "list"
    keys_retire = True
    per_node = 1
    least = 3
    rate = 20

    def main(self, rng: Rng, *, nodes: tuple[str, ...], processes: int, rate_per_s: int) -> Generator:
        """Appends and reads, endlessly."""
        del processes, rate_per_s  # the asker's pace
        return numbered_writes(rng, nodes=nodes, f="append", keys=KEYS, named="keys", writes=APPENDS, reads=READS)

    def final(self, rng: Rng, *, nodes: tuple[str, ...], processes: int, used: Sequence[str] = ()) -> Generator:
        """Each process reads every list once, through one node after another until it is answered."""
        return FinalReads(rng, nodes=nodes, processes=processes, used=used)


class FinalReads:
    """Reads of every key by every process; ends by itself. See ``dethrone.harness.core.interfaces.Generator``.

    ``used``: the keys of the main phase. Of those that retired long before its end, each is read by one process.
    """

    def __init__(
        self,
        rng: Rng,
        *,
        nodes: tuple[str, ...],
        processes: int,
        keys: tuple[str, ...] = KEYS,
        f: str = "read",
        used: Sequence[str] = (),
    ) -> None:
        self._f = f
        self._processes = max(1, processes)
        self._round = Round(rng, nodes=nodes, processes=self._processes)
        names = known(keys, used)
        older, recent = names[: -RECENT * len(keys)], names[-RECENT * len(keys) :]
        self._left = {
            p: [*rng.stream(f"keys-{p}").shuffle(recent), *older[p :: self._processes]] for p in range(self._processes)
        }

    def next(self, process: int, now: Ns, view: ClusterView) -> OpPlan | Ns | None:
        """The next read of this process; a pause after each fruitless round; None when it has read everything."""
        who = process % self._processes
        return self._round.ask(who, now, view, self._f, self._left[who][0]) if self._left[who] else None

    def returned(self, process: int, op: OpPlan, result: Return) -> None:
        """On to the next key once this one was read, or after the last round."""
        left = self._left[process % self._processes]
        self._round.learn(result)
        if self._round.over(process % self._processes, result, mine=left[:1] == [op.value]):
            left.pop(0)


WORKLOAD = LogWorkload()
