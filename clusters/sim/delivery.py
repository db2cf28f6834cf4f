"""The delivery of messages to a simulated node and from it, and the effects between which they leave.

Guarantees: effects are carried out in the order and behind the barriers of `dethrone.harness.core.machine`, by the same
code as in the real shell; a kill may fall behind every prefix of the effects of a step; a frozen process loses nothing
that arrives; a message that passes an open link without a quality takes one entry of the event heap and no further
call. Out of scope: links that are cut, or have a quality (``network``), requests of clients (``clients``), and the life
of the process (``node``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappush
from typing import Any

from dethrone.clusters.node.loop import EXIT_HALTED, HELD_MAX
from dethrone.clusters.sim.building import Ears
from dethrone.clusters.sim.calls import Answer, Calls, Question
from dethrone.clusters.sim.network import Link, Network, Timeline
from dethrone.clusters.sim.settings import Settings
from dethrone.clusters.sim.storing import Storing
from dethrone.harness.core.clock import Clocks, Ns
from dethrone.harness.core.hoststate import Signal
from dethrone.harness.core.machine import (
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
        self._hears: frozenset[type] | None = None
        self._inbox: list[Callable[[], None]] = []
        self._after_inbox: list[Callable[[], None]] = []
        self._dying: Signal | None = None

    # --- what a subclass does -------------------------------------------------------------------------------------

    def _die(self, code: int, *, power: bool = False) -> None:
        """The process ends."""
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
        hears = self._hears
        if hears is None or type(body) in hears:
            self._witnessed(self._witness.received(src, body))  # type: ignore[union-attr]  # alive: there is one
        out = self._out
        try:
            self._hear(src, body, now + self._mono, now + self._wall, out)
        except Exception as error:  # noqa: BLE001 - see _boot
            self._crashed("handle(Message)", error)
            return
        if out:
            self._carry(out)
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
        self._witnessed(self._sent(link.dst.name, shown))

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
        self._slow = self._dying is not None or self.calls.used
        self._barred = self._slow or self._barrier.held > 0
        self.busy = not (
            self.alive and not self.frozen and self._dying is None and self.clock.plain and not self.calls.used
        )

    # --- events and effects ---------------------------------------------------------------------------------------

    def _handle(self, event: CoreEvent) -> None:
        if not self.alive:
            return
        now = self._line.now
        clock = self.clock
        out = self._out
        clocks = Clocks(now + self._mono, now + self._wall) if clock.plain else clock.read(now)
        try:
            self._step(event, clocks, self._rng, out)
        except Exception as error:  # noqa: BLE001 - see _boot
            self._crashed(f"handle({type(event).__name__})", error)
            return
        if out:
            self._carry(out)

    def _carry(self, out: list[Effect]) -> None:
        """Carry out what one step produced."""
        if self._barred:
            if len(out) == 1 and self._dying is None:
                only = out[0]
                if type(only) is SetTimer:  # a tick: it waits for nothing, even behind held effects
                    out.clear()
                    self._set_timer(only)
                    return
            self._carry_all(out, 0)
            return
        line, links = self._line, self.links
        effect: Any
        for effect in out:
            kind = type(effect)
            if kind is Send:
                to, body = effect.to, effect.body
                link = links.get(to)
                if link is None:
                    continue
                if link.plain:  # ``Network.send``, spelled out: calls less for most messages of a run
                    seen = self._sent(to, body)
                    if seen:
                        self._witnessed(seen)
                    at = line.now + self._delay()
                    if at < link.last:
                        at = link.last
                    else:
                        link.last = at
                    heappush(line.heap, (at, line.order(), link.arrive, link, body))
                else:
                    self._network.send(link, body)
            elif kind is Note:
                self._note(effect)
            elif kind is SetTimer:
                self._set_timer(effect)
            elif kind is Reply:
                self._ears.answered(self, effect.id, effect.body)
            else:
                self._carry_all(out, out.index(effect))
                return
        out.clear()

    def _carry_all(self, out: list[Effect], place: int) -> None:
        rest = out[place:] if place else list(out)
        out.clear()
        try:
            ready = self._barrier.admit(rest)
        except ValueError as error:
            self._crashed("effects", error)
            return
        self._barred = self._slow or self._barrier.held > 0
        self._carry_slowly(ready)

    def _carry_slowly(self, effects: Sequence[Effect]) -> None:
        if self._dying is not None and effects:
            signal = self._dying
            for effect in effects[: self.chance.below(len(effects) + 1)]:
                self._carry_one(effect)
                if not self.alive:
                    return
            self._die(-9, power=signal == "POWER")
            return
        life = self.life
        carry = self._carry_one
        for effect in effects:
            carry(effect)
            if life != self.life:
                return

    def _carry_one(self, effect: Any) -> None:
        kind = type(effect)
        if kind is Send:
            if self.calls.used:
                self._send_call(effect)
                return
            link = self.links.get(effect.to)
            if link is None:
                return
            self._network.send(link, effect.body)
        elif kind is Note:
            self._note(effect)
        elif kind is SetTimer:
            self._set_timer(effect)
        elif kind is Reply:
            self._ears.answered(self, effect.id, effect.body)
        elif kind is Disk:
            self._batches.append(effect)
            if len(self._batches) == 1:
                self._begin_batch()
        else:
            reason = (
                effect.reason if isinstance(effect, Halt) else f"an effect of no known kind: {type(effect).__name__}"
            )
            self._shell("halt", {"reason": reason})
            self._die(EXIT_HALTED)

    def _send_call(self, effect: Send) -> None:
        leaves = self.calls.begin(effect.to, effect.body, effect.answers)
        if leaves is None:
            return
        self._network.send(*leaves)


def _nothing(_to: str, _body: Any) -> list[Witnessed]:
    return []
