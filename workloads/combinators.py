"""Generators made of generators: what clients do when, in which order, how often, and which of them do it.

    Phases([TimeLimit(30 * SECOND, Stagger(rng, 5 * MS, Reserve([(2, writes)], reads, processes=6))), Sleep(SECOND),
            EachProcess(lambda who: Ops(final), processes=6)], processes=6)

Every part is a ``dethrone.harness.core.interfaces.Generator`` and takes others: it answers with an operation, with a
moment at which to ask again, or with None: no more for this process. Guarantees: pure and deterministic, for time and
chance are arguments; a return goes to the part that made the operation, and to no other; a part that answered None to a
process is not relied on to be asked by it again. A generator may be used in one place only. Out of scope: the rate over
all clients (the engine's), and what operations mean.

Source: the vocabulary is that of Jepsen's ``jepsen.generator``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from dethrone.harness.core.clock import MS, Ns
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.events import Return
from dethrone.harness.core.interfaces import ClusterView, Generator, OpPlan
from dethrone.harness.core.rng import Rng

Asked = OpPlan | Ns | None

LOOK_AGAIN_NS = 10 * MS
"""How soon a process that must wait for the others asks again."""

DROPS_MAX = 1000
"""Operations that ``Kept`` may drop in one go before it makes its process wait."""


class Part:
    """What all share: a return finds its way back to the part that made the operation."""

    def __init__(self) -> None:
        self._makers: dict[int, Generator] = {}

    def ask(self, maker: Generator, process: int, now: Ns, view: ClusterView) -> Asked:
        """What ``maker`` answers; an operation is noted as its own."""
        asked = maker.next(process, now, view)
        if isinstance(asked, OpPlan):
            self._makers[process] = maker
        return asked

    def returned(self, process: int, op: OpPlan, result: Return) -> None:
        """Pass it on. What was asked before this part was in use belongs to no part."""
        maker = self._makers.pop(process, None)
        if maker is not None:
            maker.returned(process, op, result)

    @property
    def outstanding(self) -> int:
        """Operations that have not returned."""
        return len(self._makers)


# --- leaves -----------------------------------------------------------------------------------------------------


class Ops:
    """Each of these operations once, in order, whichever process asks."""

    def __init__(self, ops: Iterable[OpPlan]) -> None:
        self._ops = iter(tuple(ops))

    def next(self, process: int, now: Ns, view: ClusterView) -> OpPlan | None:
        """The next one."""
        del process, now, view
        return next(self._ops, None)

    def returned(self, process: int, op: OpPlan, result: Return) -> None:
        """Nothing is learnt from it."""


class Forever:
    """A new operation for each call; endless."""

    def __init__(self, make: Callable[[ClusterView], OpPlan]) -> None:
        self._make = make

    def next(self, process: int, now: Ns, view: ClusterView) -> OpPlan:
        """A new one."""
        del process, now
        return self._make(view)

    def returned(self, process: int, op: OpPlan, result: Return) -> None:
        """Nothing is learnt from it."""


class Sleep:
    """Nothing for so long, from the first question on."""

    def __init__(self, span_ns: Ns) -> None:
        self._span_ns = span_ns
        self._until: Ns | None = None

    def next(self, process: int, now: Ns, view: ClusterView) -> Ns | None:
        """The end of the sleep, then None."""
        del process, view
        if self._until is None:
            self._until = now + self._span_ns
        return self._until if now < self._until else None

    def returned(self, process: int, op: OpPlan, result: Return) -> None:
        """Never called."""


# --- how much and how fast --------------------------------------------------------------------------------------


class Limit(Part):
    """At most this number of operations."""

    def __init__(self, count: int, inner: Generator) -> None:
        super().__init__()
        self._left, self._inner = count, inner

    def next(self, process: int, now: Ns, view: ClusterView) -> Asked:
        """The inner one's, until the count is used up."""
        if self._left <= 0:
            return None
        asked = self.ask(self._inner, process, now, view)
        self._left -= isinstance(asked, OpPlan)
        return asked


class TimeLimit(Part):
    """For so long, from the first question on; operations that began in time may end later."""

    def __init__(self, span_ns: Ns, inner: Generator) -> None:
        super().__init__()
        self._span_ns, self._inner = span_ns, inner
        self._until: Ns | None = None

    def next(self, process: int, now: Ns, view: ClusterView) -> Asked:
        """The inner one's, until the time is over. No process waits beyond it."""
        if self._until is None:
            self._until = now + self._span_ns
        if now >= self._until:
            return None
        asked = self.ask(self._inner, process, now, view)
        return asked if asked is None or isinstance(asked, OpPlan) else min(asked, self._until)


class Until(Part):
    """Until an operation returned of which ``over`` says so."""

    def __init__(self, over: Callable[[OpPlan, Return], bool], inner: Generator) -> None:
        super().__init__()
        self._over, self._inner = over, inner
        self._ended = False

    def next(self, process: int, now: Ns, view: ClusterView) -> Asked:
        """The inner one's, until it is over."""
        return None if self._ended else self.ask(self._inner, process, now, view)

    def returned(self, process: int, op: OpPlan, result: Return) -> None:
        """Look at it; only at what was made here."""
        if process in self._makers and self._over(op, result):
            self._ended = True
        super().returned(process, op, result)


class Delay(Part):
    """Over all processes together, at least so long from one operation to the next."""

    def __init__(self, span_ns: Ns, inner: Generator) -> None:
        super().__init__()
        self._span_ns, self._inner = span_ns, inner
        self._next_at: Ns = 0

    def next(self, process: int, now: Ns, view: ClusterView) -> Asked:
        """The inner one's, not before its time."""
        if now < self._next_at:
            return self._next_at
        asked = self.ask(self._inner, process, now, view)
        if isinstance(asked, OpPlan):
            self._next_at = now + self._gap_ns()
        return asked

    def _gap_ns(self) -> Ns:
        return self._span_ns


class Stagger(Delay):
    """Over all processes together one operation in ``mean_ns`` on average: between two of them 0 to twice as long."""

    def __init__(self, rng: Rng, mean_ns: Ns, inner: Generator) -> None:
        super().__init__(mean_ns, inner)
        self._rng = rng

    def _gap_ns(self) -> Ns:
        return self._rng.between(0, 2 * self._span_ns)


# --- one after another ------------------------------------------------------------------------------------------


class Phases(Part):
    """One after another; the next begins when the one before has no more for any process, and all has returned.

    ``askers``: how many of the ``processes`` ask here, where others are reserved for something else.
    """

    def __init__(self, parts: Sequence[Generator], *, processes: int, askers: int | None = None) -> None:
        super().__init__()
        self._parts = list(parts)
        self._processes = max(1, processes)
        self._askers = self._processes if askers is None else askers
        self._through: set[int] = set()
        """Processes for which the present phase has no more."""

    def next(self, process: int, now: Ns, view: ClusterView) -> Asked:
        """The present phase's; a process that is through with it waits for the others."""
        who = process % self._processes
        while self._parts:
            if who not in self._through:
                asked = self.ask(self._parts[0], process, now, view)
                if asked is not None:
                    return asked
                self._through.add(who)
            if len(self._through) < self._askers or self.outstanding:
                return now + LOOK_AGAIN_NS
            self._parts.pop(0)
            self._through.clear()
        return None


class Cycle(Part):
    """A new one each time the one before has no more for the asking process; ends with one that has nothing at all."""

    def __init__(self, make: Callable[[], Generator], *, times: int | None = None) -> None:
        super().__init__()
        self._make, self._left = make, times
        self._inner: Generator | None = None

    def next(self, process: int, now: Ns, view: ClusterView) -> Asked:
        """The present one's, or a new one's."""
        if self._inner is not None:
            asked = self.ask(self._inner, process, now, view)
            if asked is not None:
                return asked
            self._inner = None
        if self._left == 0:
            return None
        self._left = None if self._left is None else self._left - 1
        self._inner = self._make()
        return self.ask(self._inner, process, now, view)


# --- several at once --------------------------------------------------------------------------------------------


class Choice(Part):
    """For each question one of several, by weight; one that has no more for the asker is skipped for that asker."""

    def __init__(self, rng: Rng, parts: Sequence[tuple[int, Generator]]) -> None:
        super().__init__()
        self._rng = rng
        self._parts = tuple(parts)

    def next(self, process: int, now: Ns, view: ClusterView) -> Asked:
        """The chosen one's; None when none has any more."""
        left = list(self._parts)
        while left:
            draw = self._rng.below(sum(weight for weight, _ in left))
            at = 0
            while draw >= left[at][0]:
                draw -= left[at][0]
                at += 1
            asked = self.ask(left[at][1], process, now, view)
            if asked is not None:
                return asked
            del left[at]
        return None


class Soonest(Part):
    """Whichever has an operation first, the earlier one of the list where several have."""

    def __init__(self, parts: Sequence[Generator]) -> None:
        super().__init__()
        self._parts = tuple(parts)

    def next(self, process: int, now: Ns, view: ClusterView) -> Asked:
        """The first operation; else the earliest moment; None when none has any more."""
        moment: Ns | None = None
        for part in self._parts:
            asked = self.ask(part, process, now, view)
            if isinstance(asked, OpPlan):
                return asked
            if asked is not None:
                moment = asked if moment is None else min(moment, asked)
        return moment


class FlipFlop(Part):
    """In turn, one operation of each; ends when the one whose turn it is has no more."""

    def __init__(self, parts: Sequence[Generator]) -> None:
        super().__init__()
        self._parts = tuple(parts)
        self._turn = 0
        self._ended = not parts

    def next(self, process: int, now: Ns, view: ClusterView) -> Asked:
        """That of the one whose turn it is."""
        if self._ended:
            return None
        asked = self.ask(self._parts[self._turn], process, now, view)
        if isinstance(asked, OpPlan):
            self._turn = (self._turn + 1) % len(self._parts)
        self._ended = asked is None
        return asked


# --- who does it ------------------------------------------------------------------------------------------------


class Reserve(Part):
    """The first group of processes does this, the next group that …, all others the rest.

    ConfigError: more are reserved than there are.
    """

    def __init__(self, shares: Sequence[tuple[int, Generator]], rest: Generator, *, processes: int) -> None:
        super().__init__()
        self._processes = max(1, processes)
        owners = [part for count, part in shares for _ in range(count)]
        if len(owners) > self._processes:
            raise ConfigError(
                f"{len(owners)} processes are reserved, and there are {self._processes}",
                next_step="reserve fewer, or raise the concurrency",
            )
        self._owners = [*owners, *[rest] * (self._processes - len(owners))]

    def next(self, process: int, now: Ns, view: ClusterView) -> Asked:
        """That of the part that this process is reserved for."""
        return self.ask(self._owners[process % self._processes], process, now, view)


class EachProcess(Part):
    """Every process has a generator of its own. ``make`` is given its number, below ``processes``."""

    def __init__(self, make: Callable[[int], Generator], *, processes: int) -> None:
        super().__init__()
        self._processes = max(1, processes)
        self._own = [make(who) for who in range(self._processes)]

    def next(self, process: int, now: Ns, view: ClusterView) -> Asked:
        """That of its own."""
        return self.ask(self._own[process % self._processes], process, now, view)


class PerKey(Part):
    """Groups of ``group`` processes, each at one key at a time; the next key when all of the group are through with it.

    ``make`` is given the key. The keys are shared by all groups, in order; processes that fill no group do nothing.
    """

    def __init__(self, keys: Iterable[str], make: Callable[[str], Generator], *, group: int, processes: int) -> None:
        super().__init__()
        self._keys, self._make = iter(keys), make
        self._group, self._processes = max(1, group), max(1, processes)
        self._at: dict[int, Phases] = {}

    def next(self, process: int, now: Ns, view: ClusterView) -> Asked:
        """That of the key at which its group is."""
        who = process % self._processes
        number = who // self._group
        if (number + 1) * self._group > self._processes:
            return None
        while True:
            if number not in self._at:
                key = next(self._keys, None)
                if key is None:
                    return None
                self._at[number] = Phases([self._make(key)], processes=self._processes, askers=self._group)
            asked = self.ask(self._at[number], process, now, view)
            if asked is not None:
                return asked
            del self._at[number]


# --- other operations -------------------------------------------------------------------------------------------


class Changed(Part):
    """Every operation as ``change`` makes it; the part inside hears of it as it was made there."""

    def __init__(self, change: Callable[[OpPlan], OpPlan], inner: Generator) -> None:
        super().__init__()
        self._change, self._inner = change, inner
        self._made: dict[int, OpPlan] = {}

    def next(self, process: int, now: Ns, view: ClusterView) -> Asked:
        """The inner one's, changed."""
        asked = self.ask(self._inner, process, now, view)
        if not isinstance(asked, OpPlan):
            return asked
        self._made[process] = asked
        return self._change(asked)

    def returned(self, process: int, op: OpPlan, result: Return) -> None:
        """With the operation as it was made."""
        super().returned(process, self._made.pop(process, op), result)


class Kept(Part):
    """Only operations of which ``keep`` says so; the others are dropped, and count as failed where they were made."""

    def __init__(self, keep: Callable[[OpPlan], bool], inner: Generator) -> None:
        super().__init__()
        self._keep, self._inner = keep, inner

    def next(self, process: int, now: Ns, view: ClusterView) -> Asked:
        """The next one that is kept."""
        for _ in range(DROPS_MAX):
            asked = self.ask(self._inner, process, now, view)
            if not isinstance(asked, OpPlan) or self._keep(asked):
                return asked
            self.returned(process, asked, Return(seq=-1, t=now, op=-1, status="fail", error="dropped"))
        return now + LOOK_AGAIN_NS
