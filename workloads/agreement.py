"""agreement: clients propose different values for the same instances through different nodes, and ask what was decided.

    propose  value [k, v]   ok: the value decided in instance k, proposed by any client
    learn    value k        ok: the value decided in instance k, None if the node cannot learn one

Each process proposes once in an instance, so an instance is contended by all of them; who was held up comes late, to a
decision that must stand. Besides, processes meet: they wait for the next beat and propose for one instance at the same
moment, as far as the rate lets them, so that proposers duel. And now and then a client proposes another value for an
older instance through a node of its choice: one that missed the decision has to find it before it may propose. In the
end every process asks every node for a choice of instances. Guarantees: no value is ever used twice in a run; instances
are 1, 2, 3 … Out of scope: judging.
"""

from __future__ import annotations

from dethrone.harness.core.clock import MS, Ns
from dethrone.harness.core.events import Return
from dethrone.harness.core.interfaces import ClusterView, Generator, OpPlan
from dethrone.harness.core.rng import Rng
from dethrone.workloads.base import Base

PROPOSALS, MEETINGS, QUESTIONS, LATE = 2, 2, 2, 1
"""Weights of proposals in turn, proposals at the next beat, questions, and proposals for older instances."""

BEAT_NS = 500 * MS

BEHIND_MAX = 12
"""A process that is further behind than this number of instances skips to the others."""

LOOK_BACK = 50
"""A question, or a late proposal, is for one of this number of latest instances."""

FINAL_INSTANCES = 24
"""Instances that are asked for in the end, spread evenly over all that were proposed for."""

FINAL_ROUNDS_MAX = 10
"""How often a final question is repeated at a node that does not answer it."""

FINAL_PAUSE_NS = 200 * MS
"""Between two tries of one final question."""


class AgreementWorkload(Base):
    name = "agreement"
    ops = frozenset({"propose", "learn"})
    per_node = 1
    least = 3
    rate = 20

    def main(self, rng: Rng, *, nodes: tuple[str, ...], processes: int, rate_per_s: int) -> Generator:
        """Proposals and questions, endlessly."""
        del rate_per_s  # the asker's pace
        return _Contention(rng, nodes=nodes, processes=processes)

    def final(self, rng: Rng, *, nodes: tuple[str, ...], processes: int) -> Generator:
        """Each process asks its share of (instance, node), until it is answered."""
        return FinalQuestions(rng, nodes=nodes, processes=processes)


class _Contention:
    """See ``dethrone.harness.core.interfaces.Generator``."""

    def __init__(self, rng: Rng, *, nodes: tuple[str, ...], processes: int) -> None:
        self._nodes = nodes
        self._processes = max(1, processes)
        self._mix, self._choice = rng.stream("mix"), rng.stream("questions")
        self._at = dict.fromkeys(range(self._processes), 0)
        self._newest = 0
        self._values = 0
        self._meets: dict[int, Ns] = {}
        """The beat that a process waits for."""
        self._beat: Ns = 0
        """The last beat that a process reached."""

    def next(self, process: int, now: Ns, view: ClusterView) -> OpPlan | Ns:
        """A proposal for this process' next instance or the one of the beat, a late one, a question; or a wait."""
        del view
        who = process % self._processes
        if (beat := self._meets.get(who)) is not None:
            return self._meet(who, beat) if now >= beat else beat
        drawn = self._mix.below(PROPOSALS + MEETINGS + QUESTIONS + LATE) if self._newest else 0
        if PROPOSALS <= drawn < PROPOSALS + MEETINGS:
            beat = self._meets[who] = (now // BEAT_NS + 1) * BEAT_NS
            return beat
        if drawn >= PROPOSALS:
            instance = self._choice.between(max(1, self._newest - LOOK_BACK), self._newest)
            target = self._choice.choice(self._nodes)
            if drawn < PROPOSALS + MEETINGS + QUESTIONS:
                return OpPlan(f="learn", value=instance, target=target)
            return self._propose(instance, target)
        instance = max(self._at[who] + 1, self._newest - BEHIND_MAX)
        return self._in_turn(who, instance)

    def _meet(self, who: int, beat: Ns) -> OpPlan:
        """Who comes first to a beat opens an instance for it."""
        del self._meets[who]
        instance = max(self._newest, self._at[who] + 1)
        if beat != self._beat:
            self._beat, instance = beat, self._newest + 1
        return self._in_turn(who, instance)

    def _in_turn(self, who: int, instance: int) -> OpPlan:
        self._at[who] = instance
        self._newest = max(self._newest, instance)
        return self._propose(instance, self._nodes[(who + instance) % len(self._nodes)])

    def _propose(self, instance: int, target: str) -> OpPlan:
        self._values += 1
        return OpPlan(f="propose", value=[instance, self._values], target=target)

    def returned(self, process: int, op: OpPlan, result: Return) -> None:
        """Nothing is learnt from it."""


class FinalQuestions:
    """Questions for a choice of instances at every node; ends by itself. See
    ``dethrone.harness.core.interfaces.Generator``.

    How many instances there are is not known here; the questions begin with 1 and double until no node knows a
    decision, then they are spread over what was found.
    """

    def __init__(self, rng: Rng, *, nodes: tuple[str, ...], processes: int) -> None:
        self._rng = rng.stream("instances")
        self._nodes = nodes
        self._processes = max(1, processes)
        self._probe: int | None = 1
        """The instance whose existence is asked for next; None: the end is known."""
        self._known = 0
        self._asking = False
        self._tries = 0
        self._left: dict[int, list[tuple[int, str]]] = {}
        self._again: dict[int, int] = dict.fromkeys(range(self._processes), 0)
        self._rest_until: dict[int, Ns] = dict.fromkeys(range(self._processes), 0)

    def next(self, process: int, now: Ns, view: ClusterView) -> OpPlan | Ns | None:
        """The next question of this process; a pause after a fruitless one; None when it has asked everything."""
        del view
        who = process % self._processes
        if now < self._rest_until[who]:
            return self._rest_until[who]
        if self._probe is not None:
            if self._asking:
                return now + FINAL_PAUSE_NS // 10
            self._asking = True
            return OpPlan(f="learn", value=self._probe, target=self._nodes[self._tries % len(self._nodes)])
        if not self._left.get(who):
            return None
        instance, target = self._left[who][0]
        self._rest_until[who] = now + FINAL_PAUSE_NS if self._again[who] else 0
        return OpPlan(f="learn", value=instance, target=target)

    def returned(self, process: int, op: OpPlan, result: Return) -> None:
        """On to the next question once this one was answered, or after the last try."""
        if self._probe is not None:
            if self._asking and op.value == self._probe:
                self._probed(result)
            return
        who = process % self._processes
        left = self._left.get(who)
        if not left or left[0] != (op.value, op.target):
            return
        self._again[who] += 1
        if result.status == "ok" or self._again[who] >= FINAL_ROUNDS_MAX:
            left.pop(0)
            self._again[who] = 0

    def _probed(self, result: Return) -> None:
        self._asking = False
        self._tries += 1
        if result.status == "ok" and result.value is not None:
            self._known = self._probe or 0
            self._probe, self._tries = 2 * self._known, 0
        elif self._tries >= (1 if result.status == "ok" else FINAL_ROUNDS_MAX) * len(self._nodes):
            self._end()

    def _end(self) -> None:
        self._probe = None
        if not self._known:
            return
        low = self._known
        wanted = sorted({1 + (low - 1) * step // FINAL_INSTANCES for step in range(FINAL_INSTANCES)} | {low})
        pairs = self._rng.shuffle([(instance, node) for instance in wanted for node in self._nodes])
        self._left = {who: pairs[who :: self._processes] for who in range(self._processes)}


WORKLOAD = AgreementWorkload()
