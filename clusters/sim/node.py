"""The shell around one core in virtual time: what ``dethrone.clusters.node.loop`` does with threads, files and sockets.

Guarantees: effects are carried out in the order and behind the barriers of `dethrone.harness.core.machine`, by the same
code as in the real shell; a kill may fall behind every prefix of the effects of a step, and within a disk batch behind
every prefix of its operations; a frozen process loses nothing that arrives, and handles late timers before late batches
before late messages; the trace holds what the real one holds, process ids and tracebacks apart. Out of scope: links
(``network``), clients (``clients``) and who orders faults (``world``).
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from heapq import heappush
from typing import Any

import msgspec

from dethrone.clusters.node.clients import StatusFrame
from dethrone.clusters.node.journal import stream_name
from dethrone.clusters.node.loop import EXIT_CORE_CRASHED, EXIT_HALTED, EXIT_STOPPED, HELD_MAX
from dethrone.clusters.node.record import Grouped, Persisted, group_record, make_record
from dethrone.clusters.sim.building import Build, Ears
from dethrone.clusters.sim.calls import Answer, Calls, Question
from dethrone.clusters.sim.chance import uniform
from dethrone.clusters.sim.clock import FAR
from dethrone.clusters.sim.network import Link, Network, Timeline
from dethrone.clusters.sim.storing import SLOW_NS, Storing
from dethrone.harness.core.clock import MS, Clocks, Ns
from dethrone.harness.core.errors import HarnessError
from dethrone.harness.core.hoststate import Signal
from dethrone.harness.core.machine import (
    SHUTDOWN,
    Await,
    Core,
    CoreEvent,
    Direct,
    Disk,
    Effect,
    Fired,
    Glance,
    Glancing,
    Graceful,
    Halt,
    Message,
    Note,
    Reply,
    Request,
    Send,
    SendFailed,
    SetTimer,
    Witnessed,
)
from dethrone.harness.core.rng import Rng

_ENCODER = msgspec.json.Encoder()

EXIT_CODES: Mapping[Signal, int] = {"SIGKILL": -9, "SIGTERM": EXIT_STOPPED, "POWER": -9}


class SimNode(Storing):
    """One host with its disk, its clocks and its process, which comes and goes."""

    __slots__ = (
        "_after_inbox",
        "_backlog",
        "_build",
        "_core",
        "_delay",
        "_dying",
        "_ears",
        "_frozen_at",
        "_glance",
        "_grouped",
        "_hear",
        "_hears",
        "_inbox",
        "_last_request",
        "_network",
        "_sent",
        "_start",
        "calls",
        "last_words",
        "links",
        "log",
        "open",
        "reachable",
        "running",
    )

    def __init__(self, name: str, build: Build, *, line: Timeline, network: Network, rng: Rng, ears: Ears) -> None:
        chance = rng.stream(f"node/{name}")
        self._build = build
        self._network = network
        self._delay = network.delay
        self._ears = ears
        self.links: dict[str, Link] = {}
        self._start = uniform(chance, "start", *build.settings.start)
        self.reachable = True
        """Whether packets of clients and of the observer arrive at the host."""
        self.log = bytearray()
        self.last_words = ""
        """How the core crashed that ended the last process; "" if none did."""
        self.running = False
        """A process exists. ``alive``: it has booted. ``open``: clients and observers are served."""
        self.open = False
        super().__init__(name, line, ears.traced, chance, build.settings)
        self.calls = Calls(self, line, network, rpc_timeout_ns=network.rpc_timeout_ns, used=not network.flows)

    def _forget(self) -> None:
        super()._forget()
        self._core: Core | None = None
        self._sent: Callable[[str, Any], list[Witnessed]] = _nothing
        self._hear: Callable[[str, Any, Ns, Ns, list[Effect]], None] = self._hear_as_event
        self._hears: frozenset[type] | None = None
        self._glance: Callable[[], Glance] | None = None
        self._grouped: Grouped | None = None
        self._inbox: list[Callable[[], None]] = []
        self._after_inbox: list[Callable[[], None]] = []
        self._backlog: list[Callable[[], None]] = []
        self._last_request = 0
        self._dying: Signal | None = None
        self._frozen_at: Ns = 0

    # --- life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """A process is made; it boots a little later."""
        self._forget()
        self.incarnation += 1
        self.life += 1
        self.running = True
        self.last_words = ""
        self._ears.started(self)
        self._line.at(self._line.now + self._start(), self._boot, self.life, None)

    def _boot(self, life: int, _: None) -> None:
        if life != self.life:
            return
        if self.frozen:
            self._inbox.append(lambda: self._boot(life, None))
            return
        build = self._build
        image = self.disk.image()
        core: Any
        try:
            core = self._core = build.target.core(
                node=self.name, members=build.members, knobs=build.knobs, variant=build.variant
            )
        except HarnessError:
            raise
        except Exception as error:  # noqa: BLE001 - a core that cannot be made ends its process, as in the real shell
            self.alive = True
            self._crashed("the constructor", error)
            return
        witness = self._witness = build.target.witness(node=self.name, members=build.members)
        self._step = core.handle
        if build.able(core, Glancing):
            self._glance = core.glance
        if build.able(core, Grouped):
            self._grouped = core
        if build.able(core, Direct):
            self._hear, self._ring = core.hear, core.ring
        self._sent = witness.sent
        self._hears = getattr(witness, "hears", None)
        self._rng = Rng(Rng(build.seed).stream(stream_name(self.name, self.incarnation)).seed)
        self.alive = True
        self.look_again()
        boot = {
            "target": build.target.name,
            "profile": build.profile,
            "variant": build.variant,
            "knobs": build.words,
            "seed": build.seed,
            "members": list(build.members),
            "files": len(image),
        }
        self._shell("boot", boot)
        self._witnessed(witness.booted(image))
        self._network.booted(self)
        out: list[Effect] = []
        try:
            core.boot(image, self.clock.read(self._line.now), self._rng, out)
            ready = self._barrier.admit(out)
        except Exception as error:  # noqa: BLE001 - a core that raises ends its process, as in the real shell
            self._crashed("boot", error)
            return
        self._start_batches = {effect.token for effect in out if isinstance(effect, Await)}
        self._start_batches &= {effect.token for effect in out if isinstance(effect, Disk)}
        self._carry_slowly(ready)
        self.tell()
        if self.alive and not self._start_batches:
            self._open()

    def _open(self) -> None:
        self.open = True
        backlog, self._backlog = self._backlog, []
        for call in backlog:
            if self.open:
                call()

    def kill(self, signal: Signal) -> None:
        """The process ends now, between two steps."""
        if not self.running:
            return
        if signal == "SIGTERM" and not self.frozen and self.alive:
            self._stop()
            return
        self._die(EXIT_CODES[signal] if signal != "SIGTERM" else -9, power=signal == "POWER")

    def kill_within(self, signal: Signal) -> None:
        """The process ends within the effects of its next step, or when ``kill`` is called."""
        self._dying = signal
        self.look_again()

    def _stop(self) -> None:
        """SIGTERM: notify a graceful core, send what it says at that, finish the disk's current work."""
        core: Any = self._core
        told = isinstance(core, Graceful) and self._look()
        if told:
            self._handle(Fired(SHUTDOWN))
        while self.alive and self._batches:
            batch = self._batches.popleft()
            error = self._carry_out_batch(batch)
            if error is None:
                self._witnessed(self._witness.synced(batch.ops) if self._witness else ())
            if told:
                self._carry_slowly(self._barrier.done(batch.token, error))
        if not self.alive:
            return
        self._shell("stopped", {"signal": "SIGTERM", "disk_finished": True})
        self.tell()
        self._die(EXIT_STOPPED)

    def _die(self, code: int, *, power: bool = False) -> None:
        self.tell()
        self._break_off(power=power)
        self.life += 1
        self.running = self.alive = self.open = self.frozen = False
        self.busy = True
        self._network.lost(self)
        self.calls.forget()
        self._forget()
        self._ears.ended(self, code)

    def _crashed(self, where: str, error: BaseException) -> None:
        self._shell("crashed", {"where": where, "error": repr(error)})
        self.log += "".join(traceback.format_exception(error)).encode()
        self.last_words = traceback.format_exception_only(error)[-1].strip()
        self._die(EXIT_CORE_CRASHED)

    def freeze(self) -> None:
        """SIGSTOP."""
        if self.running and not self.frozen:
            self.frozen = True
            self._frozen_at = self._line.now
            self.look_again()

    def thaw(self) -> None:
        """SIGCONT: late timers, then disk results, then what arrived meanwhile."""
        if not self.frozen:
            return
        self.frozen = False
        stopped = self._line.now - self._frozen_at
        self._wake = FAR
        self._stepped = True
        self.look_again()
        if self.alive and stopped > SLOW_NS:
            self._shell("stall", {"ms": stopped // MS, "where": "sleep"})
        life = self.life
        self._fire_due()
        for late in (self._disk_late, self._inbox, self._after_inbox):
            calls = list(late)
            late.clear()
            for call in calls:
                if life != self.life:
                    return
                call()
        self.tell()
        self._rearm()

    def look_again(self) -> None:
        """Is the node plain?"""
        clock = self.clock
        self._mono, self._wall = clock.mono_offset, clock.wall_offset
        self._slow = self._dying is not None or self.calls.used
        self._barred = self._slow or self._barrier.held > 0
        self.busy = not (
            self.alive and not self.frozen and self._dying is None and self.clock.plain and not self.calls.used
        )

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

    def when_open(self, call: Callable[[], None]) -> None:
        """Do this as soon as clients are served: now, after a freeze, or when the start is over."""
        if self.frozen:
            self._inbox.append(lambda: self.when_open(call))
        elif self.open:
            call()
        else:
            self._backlog.append(call)

    def next_request(self) -> int:
        """An id for a client's request, unique within this life."""
        self._last_request += 1
        return self._last_request

    def serve(self, number: int, body: Any) -> None:
        """Handle the request."""
        if self._look():
            self._handle(Request(number, body))
            self.tell()

    def glance(self) -> Glance | None:
        """What the core says of itself now; None: it has none, or crashed over the question."""
        glance, core = self._glance, self._core
        if core is None:
            return None
        try:
            if glance is not None:
                return glance()
            status = core.status(self.clock.read(self._line.now))
        except Exception as error:  # noqa: BLE001 - see _boot
            self._crashed("status", error)
            return None
        log_end = status.log_end
        return status.role, status.term, status.leader, status.voted_for, (log_end.term, log_end.index), status.commit

    def answer(self) -> bytes | None:
        """The whole answer to a status question, as bytes of the real shell; None as above."""
        core = self._core
        if core is None:
            return None
        now = self.clock.read(self._line.now)
        try:
            statuses = (core.status(now),) if self._grouped is None else self._grouped.statuses(now)
        except Exception as error:  # noqa: BLE001 - see _boot
            self._crashed("status", error)
            return None
        stored, none = self._persisted, Persisted()
        status = statuses[0]
        several = statuses if len(statuses) > 1 else ()
        record = make_record(
            status,
            node=self.name,
            system=self._build.target.name,
            incarnation=self.incarnation,
            persisted=stored.get(status.group, none),
            held=self._barrier.held,
            started_at=0,
            now=now,
            counters={},
            groups=tuple(group_record(one, persisted=stored.get(one.group, none)) for one in several),
        )
        return _ENCODER.encode(StatusFrame(0, record))

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
                if link.plain:
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
            if link.plain:
                self._send(link, effect.body)
            else:
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

    def _send(self, link: Link, body: Any) -> None:
        """Send over a plain link; `_carry` spells it out."""
        seen = self._sent(link.dst.name, body)
        if seen:
            self._witnessed(seen)
        line = self._line
        link.last = at = max(line.now + self._delay(), link.last)
        heappush(line.heap, (at, line.order(), link.arrive, link, body))

    def _send_call(self, effect: Send) -> None:
        leaves = self.calls.begin(effect.to, effect.body, effect.answers)
        if leaves is None:
            return
        self._network.send(*leaves)


def _nothing(_to: str, _body: Any) -> list[Witnessed]:
    return []
