"""Armed triggers: counts what they wait for, as events come, and says which hit and which ran out of time. Pure.

Guarantees: events are taken in the order in which they are fed; an occurrence that two events report counts once;
events are ignored while nothing is armed. ``Condition`` interprets events; what a hit leads to is out of scope.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.events import Invoke, Observed, Return
from dethrone.harness.core.interfaces import ClusterView, Condition, Occurrence
from dethrone.harness.core.schedule import ANYBODY, OnEvent

Key = tuple[str, int]
"""What a trigger is for: (``begin``, ``until`` or ``step``; a number of the caller's)."""


class Hit(msgspec.Struct, frozen=True):
    """A trigger got what it waited for, and is no longer armed."""

    key: Key
    trigger: OnEvent
    occurrence: Occurrence
    seen_ns: Ns


class _Armed:
    """One armed trigger."""

    __slots__ = ("condition", "deadline", "floor", "hears", "key", "left", "seen", "trigger")

    def __init__(self, key: Key, trigger: OnEvent, condition: Condition, deadline: Ns) -> None:
        self.key = key
        self.trigger = trigger
        self.condition = condition
        self.deadline = deadline
        self.floor = -1
        self.hears = frozenset(condition.hears())
        self.left = trigger.count
        self.seen: set[tuple[Any, ...]] = set()


class ArmedTriggers:
    """All triggers that wait now. ``traced``: the system writes traces, which say what polls say, and sooner."""

    def __init__(self, conditions: Mapping[str, Condition], *, traced: bool) -> None:
        self._conditions = conditions
        self._traced = traced
        self._armed: list[_Armed] = []
        self._asked: dict[int, Invoke] = {}
        self.observed: dict[tuple[str, str], Observed] = {}
        """(node, group) → what it said last, as who records it has put here after feeding it."""
        self.hears: frozenset[type] = frozenset()
        """The types of events that have to be fed now; empty: nothing is armed."""

    def know(self, conditions: Mapping[str, Condition]) -> None:
        """Of further triggers that may be armed."""
        self._conditions = {**self._conditions, **conditions}

    def __len__(self) -> int:
        """How many are armed."""
        return len(self._armed)

    def holds(self, kind: str) -> bool:
        """Whether one for this purpose is armed."""
        return any(armed.key[0] == kind for armed in self._armed)

    def arm(self, key: Key, trigger: OnEvent, now: Ns, view: ClusterView | None = None) -> None:
        """Wait for ``trigger`` from now on.

        ``view``: where polls stand in for traces, those that report terms up to its leader's are no news.
        """
        armed = _Armed(key, trigger, self._conditions[trigger.event], now + trigger.within_ns)
        if "traced" in armed.condition.channels():  # else it is about the polls themselves
            armed.floor = view.terms.get(view.leader, 0) if view is not None and view.leader is not None else 0
            armed.hears -= {Observed} if self._traced else set()
        self._armed.append(armed)
        self._listen()

    def disarm(self, key: Key) -> None:
        """Disarm it, if it is armed."""
        self._armed = [armed for armed in self._armed if armed.key != key]
        self._listen()

    def clear(self) -> None:
        """Disarm all."""
        self._armed.clear()
        self._listen()

    def deadline(self) -> Ns | None:
        """When the first of them runs out of time."""
        return min((armed.deadline for armed in self._armed), default=None)

    def expire(self, now: Ns) -> list[tuple[Key, OnEvent]]:
        """Those that ran out of time: misses, no longer armed."""
        late = [armed for armed in self._armed if armed.deadline <= now]
        if late:
            self._armed = [armed for armed in self._armed if armed.deadline > now]
            self._listen()
        return [(armed.key, armed.trigger) for armed in late]

    def feed(self, event: Any, now: Ns, view: Callable[[], ClusterView]) -> list[Hit]:
        """The hits of this event, of a type in ``hears``. ``view``: called only if a trigger compares nodes."""
        kind = type(event)
        if kind is Invoke:
            self._asked[event.op] = event
            return []
        before: Invoke | Observed | None = None
        if kind is Return:
            before = self._asked.pop(event.op, None)
        elif kind is Observed:
            before = self.observed.get((event.node, event.group))
        hits = []
        for armed in self._armed:
            if kind not in armed.hears or now > armed.deadline:
                continue
            found = armed.condition.match(event, armed.trigger, before)
            if found is None or found.key in armed.seen or (kind is Observed and found.term <= armed.floor):
                continue
            if armed.trigger.by != ANYBODY and not armed.condition.concerns(armed.trigger, found, view()):
                continue
            armed.seen.add(found.key)
            armed.left -= 1
            if armed.left == 0:
                hits.append(Hit(armed.key, armed.trigger, found, now))
        if hits:
            self._armed = [armed for armed in self._armed if armed.left > 0]
            self._listen()
        return hits

    def _listen(self) -> None:
        hears: set[type] = {kind for armed in self._armed for kind in armed.hears}
        if Return in hears:
            hears.add(Invoke)
        else:
            self._asked.clear()
        self.hears = frozenset(hears)
