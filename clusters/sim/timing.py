"""The timers of a simulated node, on its two clocks: one lazy entry of the agenda for all of them.

Guarantees: as ``dethrone.clusters.node.timers``: a timer is due only when its own clock shows its moment, the one that
is longest due comes first, one that was replaced or cancelled never fires; a stepped wall clock is noticed at the next
look, at most ``WALL_LOOK_NS`` later. Out of scope: what a due timer does.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from dethrone.clusters.node.timers import WALL_LOOK_NS
from dethrone.clusters.sim.clock import FAR, HostClock
from dethrone.clusters.sim.links import Timeline
from dethrone.clusters.sim.telling import Teller
from dethrone.harness.core.clock import Clocks, Ns
from dethrone.harness.core.hoststate import HEALTHY, HostState
from dethrone.harness.core.machine import CoreEvent, Effect, Fired, Renewed, SetTimer
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.world import Traces


class Timed(Teller):
    """The side of a node that knows time. A subclass handles events and carries effects out."""

    __slots__ = (
        "_armed",
        "_barred",
        "_mono",
        "_order",
        "_out",
        "_renew",
        "_ring",
        "_rng",
        "_step",
        "_stepped",
        "_wake",
        "_wall",
        "_walls",
        "alive",
        "busy",
        "chance",
        "clock",
        "frozen",
        "life",
        "restless",
        "share",
        "state",
        "stirred",
    )

    def __init__(self, name: str, line: Timeline, traced: Callable[[Traces], None], chance: Rng) -> None:
        self.chance = chance
        self.clock = HostClock(chance.stream("clock"))
        self.state: HostState = HEALTHY
        self._mono: Ns = 0
        self._wall: Ns = 0
        self.life = 0
        """Counts starts and ends: what belongs to an older life must not happen any more."""
        self.alive = False
        self.frozen = False
        self.share: int | None = None
        """Percent of a processor that is left to the process, if it is starved of it."""
        self.busy = True
        """Something is out of the ordinary: a message takes the long way."""
        super().__init__(name, line, traced)

    def _forget(self) -> None:
        super()._forget()
        self._armed: dict[str, tuple[Ns, int, bool]] = {}
        """Timer → (when, order, on the wall clock)."""
        self._walls = 0
        self._order = 0
        self._wake: Ns = FAR
        """No timer is due before, unless ``_stepped``."""
        self._stepped = False
        """A clock was set, or time passed unseen: a timer may be due although no event woke the node for it."""
        self._out: list[Effect] = []
        self.stirred = True
        """What the core says of itself may be something new: more happened than a ``Steady`` one does the short way."""
        self.restless = True
        """Time alone may change it, too: the core is not ``Glancing``."""
        self._step: Callable[[CoreEvent, Clocks, Rng, list[Effect]], None] = _no_core
        self._ring: Callable[[str, Ns, Ns, list[Effect]], None] = self._ring_as_event
        self._renew: Callable[[str, Ns, Ns], Renewed | None] = _never
        self._barred = True
        """Effects take the long way: some are held back, or the node is not plain."""
        self._rng = Rng(0)

    # --- what a subclass does -------------------------------------------------------------------------------------

    def look_again(self) -> None:
        """Find out whether anything is out of the ordinary."""
        raise NotImplementedError

    def _handle(self, event: CoreEvent) -> None:
        """Let the core handle an event, and carry out what it wants."""
        raise NotImplementedError

    def _carry(self, out: list[Effect], *, admitted: bool = False) -> None:
        """Carry out what one step produced, behind its barriers; ``admitted``: what these have let pass."""
        raise NotImplementedError

    def _pass(self, messages: Iterable[tuple[str, Any]]) -> None:
        """Messages that no barrier holds back leave, each to its peer."""
        raise NotImplementedError

    def _crashed(self, where: str, error: BaseException) -> None:
        """The core raised: its process ends."""
        raise NotImplementedError

    # --- clocks and timers ----------------------------------------------------------------------------------------

    def set_clock(self) -> None:
        """The host's clocks were set as its state says."""
        now = self._line.now
        self.clock.set(self.state.clock, now)
        self.look_again()
        if not self.alive or self.frozen:
            return
        self._wake = FAR
        if self._walls:  # no event wakes a process when its wall clock is stepped: it looks now and then
            self._stepped = True
            look = now + self.chance.below(WALL_LOOK_NS)
            self._arm(min([look, *(self.clock.mono_due(at) for at, _, wall in self._armed.values() if not wall)]))
        else:
            self._rearm()

    def _set_timer(self, effect: SetTimer) -> None:
        armed = self._armed
        name, at = effect.name, effect.at
        if self._walls:
            old = armed.get(name)
            if old is not None and old[2]:
                self._walls -= 1
        if at is None:
            armed.pop(name, None)
            return
        self._order = order = self._order + 1
        if effect.clock == "wall":
            armed[name] = (at, order, True)
            self._walls += 1
            when = self._wall_due(at)
        else:
            armed[name] = (at, order, False)
            clock = self.clock
            when = at - self._mono if clock.plain else clock.mono_due(at)
        if when < self._wake:
            self._arm(when)

    def _wall_due(self, at: Ns) -> Ns:
        now = self._line.now
        return max(now, self.clock.wall_due(at, now))

    def _arm(self, when: Ns) -> None:
        self._wake = when
        line = self._line
        insort(line.agenda, (when if when > line.now else line.now, line.order(), self._rang, when, self.life))  # noqa: FURB136 - a call less

    def _rang(self, when: Ns, life: int) -> None:
        if life != self.life or when != self._wake or self.frozen:
            return
        self._wake = FAR
        armed = self._armed
        if self.busy or self._walls:
            self._fire_due()
        elif len(armed) == 1:  # nothing to choose from: the most frequent case
            name, entry = armed.popitem()
            if entry[0] <= self._line.now + self._mono:
                self._ring_at(name)  # a timer that this arms sets its own wake
                if self._lines:
                    self.tell()
                return
            armed[name] = entry
        else:
            for _ in range(len(armed) + 1):
                due = self._pop_due()
                if due is None:
                    break
                self._ring_at(due)
                if life != self.life:
                    return
        if life != self.life:
            return
        self._rearm()
        if self._lines:
            self.tell()

    def _ring_at(self, name: str) -> None:
        """A timer is due in a node of which nothing is out of the ordinary."""
        line = self._line
        mono = self._mono
        now = line.now + mono
        wall = line.now + self._wall
        renewed = None
        try:
            if not self._barred:
                renewed = self._renew(name, now, wall)
            if renewed is None:
                self.stirred = True
                self._ring(name, now, wall, self._out)
        except Exception as error:  # noqa: BLE001 - see _boot
            self._crashed("handle(Fired)", error)
            return
        if renewed is not None:
            at, messages = renewed
            self._order = order = self._order + 1
            self._armed[name] = (at, order, False)
            at -= mono
            if at < self._wake:
                self._wake = at
                insort(line.agenda, (at, line.order(), self._rang, at, self.life))
            if messages:
                self._pass(messages)
        elif self._out:
            self._carry(self._out)

    def _ring_as_event(self, name: str, mono: Ns, wall: Ns, out: list[Effect]) -> None:
        """For cores that are not ``Direct``."""
        self._step(_fired(name), Clocks(mono, wall), self._rng, out)

    def _rearm(self) -> None:
        """See to it that the next timer wakes the node."""
        armed = self._armed
        if not armed or self.frozen:
            return
        clock = self.clock
        self._stepped = False
        if clock.plain and not self._walls:
            when = min([entry[0] for entry in armed.values()]) - self._mono
        else:
            when = min([self._wall_due(at) if wall else clock.mono_due(at) for at, _, wall in armed.values()])
        if when < self._wake:
            self._arm(when)

    def _fire_due(self) -> None:
        for _ in range(len(self._armed) + 1):
            name = self._pop_due()
            if name is None:
                return
            self._handle(_fired(name))
            if not self.alive:
                return

    def _pop_due(self) -> str | None:
        """Disarm and name the timer that has been due longest."""
        now = self._line.now
        armed = self._armed
        mono = now + self.clock.mono_offset if self.clock.plain else self.clock.mono(now)
        found = None
        if not self._walls:
            first: tuple[Ns, int, bool] | None = None
            for name, entry in armed.items():
                if entry[0] <= mono and (first is None or entry < first):
                    first, found = entry, name
            if found is not None:
                del armed[found]
            return found
        wall = self.clock.wall(now)
        best: tuple[Ns, bool, int] | None = None
        for name, (at, order, on_wall) in armed.items():
            late = (wall if on_wall else mono) - at
            if late >= 0:
                rank = (-late, on_wall, order)
                if best is None or rank < best:
                    best, found = rank, name
        if found is not None and armed.pop(found)[2]:
            self._walls -= 1
        return found

    def _look(self) -> bool:
        """Timers that are due come first; whether the node still lives then."""
        if self._line.now < self._wake and not self._stepped:
            return self.alive
        life = self.life
        self._fire_due()
        return life == self.life and self.alive


@lru_cache(maxsize=256)
def _fired(name: str) -> Fired:
    return Fired(name)


def _never(_timer: str, _mono: Ns, _wall: Ns) -> None:
    """For cores that are not ``Steady``."""


def _no_core(_event: CoreEvent, _now: Clocks, _rng: Rng, _out: list[Effect]) -> None:
    """No core."""
