"""When a finding is excused: the realised faults that went beyond the promise, and from when to when.

Guarantees: safety is excused for good, by what no promise of safety bears; liveness by what ``Promise.tolerates`` does
not bear, and by crowds only while they last. Out of scope: what is a finding.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.events import FaultEvent
from dethrone.harness.core.history import History, per_history
from dethrone.harness.core.interfaces import declared
from dethrone.harness.core.promise import Promise, borne_as, with_model


def in_force(event: FaultEvent) -> bool:
    """Whether this is the begin of a fault that was, or may have been, in force."""
    return event.phase == "begin" and event.outcome in ("installed", "indeterminate")


def healed(event: FaultEvent) -> bool:
    """Whether this is the end of a fault after which it certainly is not in force, wherever it was until then."""
    return event.phase == "end" and event.outcome in ("healed", "indeterminate")


class _Beyond:
    """Which faults, fed in order, went beyond one map of tolerated faults, and from when to when."""

    def __init__(self, tolerated: Mapping[str, int | None]) -> None:
        self._tolerated = tolerated
        self.foreign: list[tuple[Ns, str, str]] = []
        """(from, kind, why): a kind that is not tolerated; it excuses everything after it."""
        self._crowds: list[tuple[Ns, Ns | None, str]] = []
        """(from, to, why): more victims at once than tolerated."""
        self._open: dict[str, tuple[Ns, str]] = {}
        self._active: dict[str, dict[int, frozenset[str]]] = defaultdict(dict)

    def feed(self, event: FaultEvent) -> None:
        """Take one fault event into account."""
        kind, key = event.kind, borne_as(self._tolerated, event.kind, event.params)
        if in_force(event):
            if event.evidence.get("killed") and borne_as(self._tolerated, "kill", {}) is None:
                why = f"{kind} on {', '.join(event.victims)} had to kill it, and kill is not among the tolerated faults"
                self.foreign.append((event.span.lo, kind, why))
                return
            if key is None:
                why = (
                    f"{with_model(kind, event.params)} on {', '.join(event.victims)} is not among the tolerated faults"
                )
                self.foreign.append((event.span.lo, kind, why))
                return
            self._active[kind][event.fault] = frozenset(event.victims)
        elif healed(event):
            self._active[kind].pop(event.fault, None)
        most = self._tolerated.get(key or "")
        hit = frozenset[str]().union(*self._active[kind].values())
        if most is not None and len(hit) > most:
            why = f"{kind} on {len(hit)} nodes at once ({', '.join(sorted(hit))}); tolerated: {most}"
            self._open.setdefault(kind, (event.span.lo, why))
        elif kind in self._open:
            since, why = self._open.pop(kind)
            self._crowds.append((since, event.span.hi, why))

    @property
    def crowds(self) -> list[tuple[Ns, Ns | None, str]]:
        """Those that are over, then those that last."""
        return [*self._crowds, *((since, None, why) for since, why in self._open.values())]


class Excuses:
    """Which realised faults went beyond the promise, and from when to when; fault events are fed in order.

    Safety is excused for good by what ``Promise.tolerated_for_safety`` does not bear, for what was lost stays lost;
    liveness by what ``Promise.tolerates`` does not bear, crowds only while they last.
    """

    def __init__(self, promise: Promise, events: Iterable[FaultEvent] = ()) -> None:
        self._safety = _Beyond(promise.tolerated_for_safety)
        self._liveness = _Beyond(promise.tolerates)
        for event in events:
            self.feed(event)

    def feed(self, event: FaultEvent) -> None:
        """Take one fault event into account."""
        self._safety.feed(event)
        self._liveness.feed(event)

    def safety(self, until: Ns) -> str | None:
        """Why something that happened up to ``until`` is excused, if it is."""
        beyond = [(since, why) for since, _, why in (*self._safety.foreign, *self._safety.crowds)]
        return next((why for since, why in beyond if since <= until), None)

    def timing(self, until: Ns) -> str | None:
        """As ``safety``, of what rests on clocks: they may also run apart by a fault under which only safety holds."""
        apart = ((since, why) for since, kind, why in self._liveness.foreign if declared(kind).harms == "clock")
        return self.safety(until) or next((why for since, why in apart if since <= until), None)

    def liveness(self, lo: Ns, hi: Ns) -> str | None:
        """Why a lack of progress within [lo, hi] is excused, if it is."""
        for since, _, why in self._liveness.foreign:
            if since <= hi:
                return why
        for since, to, why in self._liveness.crowds:
            if since <= hi and (to is None or to >= lo):
                return why
        return None

    def anything(self, lo: Ns, hi: Ns) -> str | None:
        """Why a fault of the system within [lo, hi] is excused, if it is."""
        return self.liveness(lo, hi) or self.safety(hi)


@per_history
def excuses(history: History, promise: Promise) -> Excuses:
    """The excuses of this history under this promise."""
    return Excuses(promise, sorted(history.of(FaultEvent), key=lambda item: (item.span.lo, item.seq)))
