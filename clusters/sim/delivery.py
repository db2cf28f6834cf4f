"""The delivery of messages to a simulated node and from it, and the effects between which they leave.

Guarantees: effects are carried out in the order and behind the barriers of `dethrone.harness.core.machine`, by the same
code as in the real shell; a kill may fall behind every prefix of the effects of a step; a frozen process loses nothing
that arrives; a message that passes an open link without a quality takes one entry of the agenda and no further
call. Out of scope: links that are cut, or have a quality (``network``), requests of clients (``clients``), and the life
of the process (``node``).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable
from typing import Any

from dethrone.clusters.node.loop import EXIT_HALTED, HELD_MAX
from dethrone.clusters.sim.building import Ears
from dethrone.clusters.sim.calls import Answer, Calls, Question
from dethrone.clusters.sim.links import Link, Timeline
from dethrone.clusters.sim.network import Network
from dethrone.clusters.sim.settings import Settings
from dethrone.clusters.sim.storing import Storing
from dethrone.harness.core.clock import Clocks, Ns
from dethrone.harness.core.hoststate import Signal
from dethrone.harness.core.machine import (
    NOTHING,
    CoreEvent,
    Disk,
    Effect,
    Halt,
    Message,
    Note,
    Reply,
    Send,
    SendFailed,
    SetTimer,
    Witnessed,
)
from dethrone.harness.core.rng import Rng


class Delivering(Storing):
    """The side of a node that has peers. A subclass makes its process, and ends it."""

    __slots__ = (
        "_after_inbox",
        "_answer",
        "_delay",
        "_dying",
        "_ears",
        "_hear",
        "_hears",
        "_inbox",
        "_network",
        "_sent",
        "calls",
        "links",
        "reachable",
    )

    def __init__(
        self, name: str, *, line: Timeline, network: Network, ears: Ears, chance: Rng, settings: Settings
    ) -> None:
        self._network = network
        self._delay = network.delay
        self._ears = ears
        self.links: dict[str, Link] = {}
        self.reachable = True
        """Whether packets of clients and of the observer arrive at the host."""
        super().__init__(name, line, ears.traced, chance, settings)
        self.calls = Calls(self, line, network, rpc_timeout_ns=network.rpc_timeout_ns, used=not network.flows)

    def _forget(self) -> None:
        super()._forget()
        self._sent: Callable[[str, Any], list[Witnessed]] = _nothing
        self._hear: Callable[[str, Any, Ns, Ns, list[Effect]], None] = self._hear_as_event
        self._answer: Callable[[str, Any, Ns, Ns], Any] = _never
        self._hears: frozenset[type] | None = None
        self._inbox: list[Callable[[], None]] = []
        self._after_inbox: list[Callable[[], None]] = []
        self._dying: Signal | None = None

    # --- what a subclass does -------------------------------------------------------------------------------------

    def _die(self, code: int, *, power: bool = False) -> None:
        """The process ends."""
        raise NotImplementedError

    def spend(self) -> None:
        """A step of a process that is starved of CPU."""
        raise NotImplementedError

    # --- what arrives ---------------------------------------------------------------------------------------------

    def arrive(self, link: Link, body: Any) -> None:
        """A peer's message."""
        if link.closed:
            self._network.missed(link, body)
            return
        now = self._line.now
        if self.busy or (self._walls and (now >= self._wake or self._stepped)):
            self._arrive_slowly(link, body)
            return
        src = link.name
        mono = now + self._mono
        wall = now + self._wall
        try:
            answer = None if self._barred else self._answer(src, body, mono, wall)
            if answer is None:
                hears = self._hears
                if hears is None or type(body) in hears:
                    self._witnessed(self._witness.received(src, body))  # type: ignore[union-attr]  # alive: there is one
                self.stirred = True
                self._hear(src, body, mono, wall, self._out)
        except Exception as error:  # noqa: BLE001 - see _boot
            self._crashed("handle(Message)", error)
            return
        if answer is None:
            if self._out:
                self._carry(self._out)
        elif answer is not NOTHING:
            back = self.links[src]
            if back.plain:
                self._leave(back, answer)
            else:
                self._pass(((src, answer),))
        if self._lines:
            self.tell()

    def _hear_as_event(self, src: str, body: Any, mono: Ns, wall: Ns, out: list[Effect]) -> None:
        """For cores that are not ``Direct``."""
        self._step(Message(src, body), Clocks(mono, wall), self._rng, out)

    def _arrive_slowly(self, link: Link, body: Any) -> None:
        if self.frozen:
            self._inbox.append(lambda: self._arrive_slowly(link, body))
            return
        if not self.alive:
            return
        if self._barrier.held > HELD_MAX:
            return
        if not self._look():
            return
        kind = type(body)
        src = link.name
        if kind is Question:
            request = self.calls.asked(link, body)
            self._witnessed(self._witness.received(src, body.body))  # type: ignore[union-attr]
            self._handle(Message(src, body.body, request))
        elif kind is Answer:
            asked = self.calls.answered(body)
            if asked is not None:
                self._witnessed(self._witness.received(src, body.body))  # type: ignore[union-attr]
                self._handle(Message(src, body.body))
        else:
            self._witnessed(self._witness.received(src, body))  # type: ignore[union-attr]
            self._handle(Message(src, body))
        self.tell()

    def leaving(self, link: Link, body: Any) -> None:
        """A message of ours leaves now."""
        kind = type(body)
        shown = body.body if kind is Question or kind is Answer else body
        self._witnessed(self._sent(link.to, shown))

    def unheard(self, link: Link, body: Any) -> None:
        """A message of this node met a closed link, on a transport without flows."""
        self.calls.unheard(link, body)

    def failed(self, to: str, body: Any, error: str) -> None:
        """A call of ours will not be answered."""
        if self.frozen:
            self._inbox.append(lambda: self.failed(to, body, error))
        elif self.alive and self._look():
            self._handle(SendFailed(to, body, error))
            self.tell()

    def after_thaw(self, call: Callable[[], None]) -> None:
        """Do this after a freeze, behind everything that arrived meanwhile."""
        self._after_inbox.append(call)

    def look_again(self) -> None:
        """Is the node plain?"""
        clock = self.clock
        self._mono, self._wall = clock.mono_offset, clock.wall_offset
        self._slow = self._dying is not None
        self._barred = self._slow or self._barrier.held > 0
        self.busy = not (
            self.alive
            and not self.frozen
            and self._dying is None
            and self.clock.plain
            and not self.calls.used
            and self.share is None
        )

    # --- events and effects ---------------------------------------------------------------------------------------

    def _handle(self, event: CoreEvent) -> None:
        if not self.alive:
            return
        now = self._line.now
        clock = self.clock
        out = self._out
        clocks = Clocks(now + self._mono, now + self._wall) if clock.plain else clock.read(now)
        self.stirred = True
        try:
            self._step(event, clocks, self._rng, out)
        except Exception as error:  # noqa: BLE001 - see _boot
            self._crashed(f"handle({type(event).__name__})", error)
            return
        if self.share is not None:
            self.spend()
        if out:
            self._carry(out)

    def _carry(self, out: list[Effect], *, admitted: bool = False) -> None:
        """Carry out what one step produced, behind its barriers; ``admitted``: what these have let pass.

        A process that is to die within the effects of a step does so behind some of them.
        """
        effects = out
        dying = None
        if self._barred:
            # A tick waits for nothing, even behind held effects.
            if not admitted and (len(out) > 1 or type(out[0]) is not SetTimer or self._dying is not None):
                effects, admitted = self._admitted(out), True
            dying = self._dying if effects else None
            if dying is not None:
                effects = effects[: self.chance.below(len(effects) + 1)]
        effect: Any
        for effect in effects:
            kind = type(effect)
            if kind is Send:
                self._pass(((effect.to, effect.body),), effect.answers)
            elif kind is Note:
                self._note(effect)
            elif kind is SetTimer:
                self._set_timer(effect)
            elif kind is Reply:
                self._ears.answered(self.name, effect.id, effect.body)
            elif not admitted:
                self._carry(self._admitted(effects[effects.index(effect) :]), admitted=True)
                break
            elif kind is Disk:
                self._batches.append(effect)
                if len(self._batches) == 1:
                    self._begin_batch()
            else:
                known = isinstance(effect, Halt)
                reason = effect.reason if known else f"an effect of no known kind: {kind.__name__}"
                self._shell("halt", {"reason": reason})
                self._die(EXIT_HALTED)
                break
        if dying is not None and self.alive:
            self._die(-9, power=dying == "POWER")
        out.clear()

    def _admitted(self, effects: list[Effect]) -> list[Effect]:
        """Those that no barrier holds back."""
        try:
            ready = self._barrier.admit(effects)
        except ValueError as error:
            self._crashed("effects", error)
            return []
        self._barred = self._slow or self._barrier.held > 0
        return ready

    def _pass(self, messages: Iterable[tuple[str, Any]], answers: int | None = None) -> None:
        """Messages that no barrier holds back leave, each to its peer."""
        links = self.links
        for to, body in messages:
            link = links.get(to)
            if link is not None and link.plain:
                self._leave(link, body)
            elif self.calls.used:
                leaves = self.calls.begin(to, body, answers)
                if leaves is not None:
                    self._network.send(*leaves)
            elif link is not None:
                self._network.send(link, body)

    def _leave(self, link: Link, body: Any) -> None:
        """A message leaves over a plain link: ``Network.send`` with less calls, for most messages of a run."""
        seen = self._sent(link.to, body)
        if seen:
            self._witnessed(seen)
        line = self._line
        at = line.now + self._delay()
        if at < link.last:
            at = link.last
        else:
            link.last = at
        insort(line.agenda, (at, line.order(), link.arrive, link, body))


def _never(_src: str, _body: Any, _mono: Ns, _wall: Ns) -> None:
    """For cores that are not ``Steady``."""


def _nothing(_to: str, _body: Any) -> list[Witnessed]:
    return []
