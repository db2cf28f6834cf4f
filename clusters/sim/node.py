"""The shell around one core in virtual time: what ``clusters.node.loop`` does with threads, files and sockets.

Promises: effects are carried out in the order and behind the barriers of `harness.core.machine`, by the same code as in
the real shell; a kill may fall behind every prefix of the effects of a step, and within a disk batch behind every
prefix of its operations; a frozen process loses nothing that arrives, and handles late timers before late batches
before late messages; the trace holds what the real one holds, process ids and tracebacks apart. Leaves out links
(``network``), clients (``clients``) and who orders faults (``world``).
"""

from __future__ import annotations

import contextlib
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from heapq import heappush
from typing import Any

import msgspec

from clusters.node.clients import StatusFrame
from clusters.node.effects import Barrier
from clusters.node.journal import stream_name
from clusters.node.loop import EXIT_CORE_CRASHED, EXIT_HALTED, EXIT_STOPPED, HELD_MAX
from clusters.node.record import Grouped, Persisted, group_record, make_record, persisted_of
from clusters.sim.calls import Answer, Calls, Question
from clusters.sim.chance import uniform
from clusters.sim.clock import FAR, HostClock
from clusters.sim.disk import SimDisk
from clusters.sim.network import Link, Network, Timeline
from clusters.sim.settings import Settings
from harness.core.clock import MS, Clocks, Ns, Span
from harness.core.hoststate import HEALTHY, DiskTrouble, HostState, Signal
from harness.core.machine import (
    Await,
    Core,
    CoreEvent,
    Disk,
    DiskDone,
    Effect,
    Fired,
    Fsync,
    Glance,
    Glancing,
    Halt,
    Message,
    Note,
    Rename,
    Reply,
    Request,
    Send,
    SendFailed,
    SetTimer,
    Target,
    Witness,
    Witnessed,
)
from harness.core.rng import Rng
from harness.core.world import Traces, TraceTold

WALL_LOOK_NS = 25 * MS
SLOW_NS = 100 * MS
"""A batch that syncs longer, and a stall that lasts longer, is traced."""

_ENCODER = msgspec.json.Encoder()

EXIT_CODES: Mapping[Signal, int] = {"SIGKILL": -9, "SIGTERM": EXIT_STOPPED, "POWER": -9}


class Build:
    """What all nodes of one cluster are made of."""

    __slots__ = ("knobs", "members", "profile", "seed", "settings", "target", "variant", "words")

    def __init__(
        self,
        target: Target,
        *,
        knobs: Any,
        words: Mapping[str, str],
        members: tuple[str, ...],
        profile: str,
        variant: str | None,
        seed: int,
        settings: Settings,
    ) -> None:
        self.target = target
        self.knobs = knobs
        self.words = words
        self.members = members
        self.profile = profile
        self.variant = variant
        self.seed = seed
        self.settings = settings


class Ears:
    """Where a node's doings are told: traces, starts and ends of its processes, answers to clients."""

    __slots__ = ("answered", "ended", "opened", "started", "traced")

    def __init__(
        self,
        *,
        traced: Callable[[Traces], None],
        started: Callable[[SimNode], None],
        opened: Callable[[SimNode], None],
        answered: Callable[[SimNode, int, Any], None],
        ended: Callable[[SimNode, int], None],
    ) -> None:
        self.traced = traced
        self.started = started
        self.opened = opened
        self.answered = answered
        self.ended = ended


class SimNode:
    """One host with its disk, its clocks and its process, which comes and goes."""

    __slots__ = (
        "_after_inbox",
        "_armed",
        "_backlog",
        "_barred",
        "_barrier",
        "_batches",
        "_build",
        "_core",
        "_delay",
        "_disk_late",
        "_dying",
        "_ears",
        "_frozen_at",
        "_glance",
        "_hears",
        "_inbox",
        "_last_request",
        "_line",
        "_lines",
        "_mono",
        "_n",
        "_network",
        "_order",
        "_out",
        "_persisted",
        "_rng",
        "_roles",
        "_sent",
        "_slow",
        "_start",
        "_start_batches",
        "_step",
        "_sync",
        "_term",
        "_traced",
        "_wake",
        "_wall",
        "_walls",
        "_witness",
        "_write",
        "alive",
        "busy",
        "calls",
        "chance",
        "clock",
        "disk",
        "frozen",
        "incarnation",
        "life",
        "links",
        "log",
        "name",
        "open",
        "reachable",
        "running",
        "state",
    )

    def __init__(self, name: str, build: Build, *, line: Timeline, network: Network, rng: Rng, ears: Ears) -> None:
        self.name = name
        self._build = build
        self._line = line
        self._network = network
        self._delay = network.delay
        self._mono: Ns = 0
        self._wall: Ns = 0
        self._ears = ears
        self._traced = ears.traced
        self.links: dict[str, Link] = {}
        self.chance = rng.stream(f"node/{name}")
        settings = build.settings
        self._write = uniform(self.chance, "write", *settings.write)
        self._sync = uniform(self.chance, "sync", *settings.sync)
        self._start = uniform(self.chance, "start", *settings.start)
        self.clock = HostClock(self.chance.stream("clock"))
        self.disk = SimDisk()
        self.state: HostState = HEALTHY
        self.reachable = True
        """Whether packets of clients and of the observer arrive at the host."""
        self.log = bytearray()
        self.incarnation = 0
        self.life = 0
        """Counts starts and ends: what belongs to an older life must not happen any more."""
        self.running = False
        """A process exists. ``alive``: it has booted. ``open``: clients and observers are served."""
        self.alive = False
        self.open = False
        self.frozen = False
        self.busy = True
        """Something is out of the ordinary: a message takes the long way."""
        self.calls = Calls(self, line, network, rpc_timeout_ns=network.rpc_timeout_ns, used=not network.flows)
        self._forget()

    def _forget(self) -> None:
        self._core: Core | None = None
        self._witness: Witness | None = None
        self._sent: Callable[[str, Any], list[Witnessed]] = _nothing
        self._hears: frozenset[type] | None = None
        self._glance: Callable[[], Glance] | None = None
        self._barrier = Barrier()
        self._batches: deque[Disk] = deque()
        self._start_batches: set[int] = set()
        self._armed: dict[str, tuple[Ns, int, bool]] = {}
        """Timer → (when, order, on the wall clock)."""
        self._walls = 0
        self._order = 0
        self._wake: Ns = FAR
        self._inbox: list[Callable[[], None]] = []
        self._disk_late: list[Callable[[], None]] = []
        self._after_inbox: list[Callable[[], None]] = []
        self._backlog: list[Callable[[], None]] = []
        self._out: list[Effect] = []
        self._lines: list[TraceTold] = []
        self._persisted: dict[str, Persisted] = {}
        self._n = 0
        self._term = 0
        self._roles: dict[str, str] = {}
        """Group → role, as the last note said."""
        self._last_request = 0
        self._dying: Signal | None = None
        self._barred = True
        """Effects take the long way: some are held back, or the node is not plain."""
        self._slow = True
        self._step: Callable[[CoreEvent, Clocks, Rng, list[Effect]], None] = _no_core
        self._frozen_at: Ns = 0
        self._rng = Rng(0)

    # --- life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """A process is made; it boots a little later."""
        self._forget()
        self.incarnation += 1
        self.life += 1
        self.running = True
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
        core = self._core = build.target.core(
            node=self.name, members=build.members, knobs=build.knobs, variant=build.variant
        )
        witness = self._witness = build.target.witness(node=self.name, members=build.members)
        self._glance = core.glance if isinstance(core, Glancing) else None
        self._step = core.handle
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
        self._ears.opened(self)
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
        """SIGTERM: what the disk has in hand is finished, the core is not told."""
        for batch in list(self._batches):
            if self._carry_out_batch(batch) is None:
                self._witnessed(self._witness.synced(batch.ops) if self._witness else ())
        self._batches.clear()
        self._shell("stopped", {"signal": "SIGTERM", "disk_finished": True})
        self.tell()
        self._die(EXIT_STOPPED)

    def _die(self, code: int, *, power: bool = False) -> None:
        self.tell()
        if self._batches:  # the disk was in the middle of one
            ops = self._batches[0].ops
            done = ops[: self.chance.below(len(ops) + 1)]
            if self.state.disk is None or self.state.disk.kind not in ("full", "eio"):
                with contextlib.suppress(KeyError):  # it would have failed there
                    for op in done:
                        self.disk.carry_out(op)
        if power:
            torn = self.state.disk is not None and self.state.disk.kind == "torn"
            self.disk.lose_power(torn=self.chance.stream(f"torn-{self.life}") if torn else None)
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

    def set_clock(self) -> None:
        """The host's clocks were set as its state says."""
        now = self._line.now
        self.clock.set(self.state.clock, now)
        self.look_again()
        if not self.alive or self.frozen:
            return
        self._wake = FAR
        if self._walls:  # nobody wakes a process when its wall clock is stepped: it looks now and then
            look = now + self.chance.below(WALL_LOOK_NS)
            self._arm(min([look, *(self.clock.mono_due(at) for at, _, wall in self._armed.values() if not wall)]))
        else:
            self._rearm()

    def damage(self, trouble: DiskTrouble) -> str | None:
        """What a state's disk trouble does once to the files of a process that is down; which file, if it is one."""
        if trouble.kind == "wiped":
            self.disk.wipe()
        elif trouble.kind in ("flipped", "truncated", "unreadable"):
            return self.disk.damage(trouble.kind, trouble.path, self.chance.stream(f"damage-{self.life}"))
        return None

    def look_again(self) -> None:
        """Is the node plain?"""
        clock = self.clock
        self._mono, self._wall = clock.mono_offset, clock.wall_offset
        self._slow = self._dying is not None or self.calls.used
        self._barred = self._slow or self._barrier.held > 0
        self.busy = not (
            self.alive
            and not self.frozen
            and self._dying is None
            and self.clock.plain
            and not self._walls
            and not self.calls.used
        )

    # --- what arrives ---------------------------------------------------------------------------------------------

    def arrive(self, link: Link, body: Any) -> None:
        """A peer's message."""
        if link.closed:
            self._network.missed(link, body)
            return
        if self.busy:
            self._arrive_slowly(link, body)
            return
        now = self._line.now
        src = link.name
        hears = self._hears
        if hears is None or type(body) in hears:
            self._witnessed(self._witness.received(src, body))  # type: ignore[union-attr]  # alive: there is one
        out = self._out
        try:
            self._step(Message(src, body), Clocks(now + self._mono, now + self._wall), self._rng, out)
        except Exception as error:  # noqa: BLE001 - see _boot
            self._crashed("handle(Message)", error)
            return
        if out:
            self._carry(out)
        if self._lines:
            self.tell()

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
        """A message of ours came to a closed link, on a transport without flows."""
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
        core = self._core
        if core is None:
            return None
        try:
            if self._glance is not None:
                return self._glance()
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
            statuses = core.statuses(now) if isinstance(core, Grouped) else (core.status(now),)
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

    # --- timers ---------------------------------------------------------------------------------------------------

    def _set_timer(self, effect: SetTimer) -> None:
        armed = self._armed
        name, at = effect.name, effect.at
        if self._walls:
            old = armed.get(name)
            if old is not None and old[2]:
                self._walls -= 1
                self.look_again()
        if at is None:
            armed.pop(name, None)
            return
        self._order = order = self._order + 1
        if effect.clock == "wall":
            armed[name] = (at, order, True)
            self._walls += 1
            self.busy = True
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
        heappush(line.heap, (when if when > line.now else line.now, line.order(), self._rang, when, self.life))  # noqa: FURB136 - a call less

    def _rang(self, when: Ns, life: int) -> None:
        if life != self.life or when != self._wake or self.frozen:
            return
        self._wake = FAR
        armed = self._armed
        if len(armed) == 1 and not self.busy:  # nothing to choose from: by far the most frequent case
            name, entry = armed.popitem()
            now = self._line.now
            if entry[0] > now + self._mono:
                armed[name] = entry
                self._rearm()
                return
            out = self._out
            try:
                self._step(_fired(name), Clocks(now + self._mono, now + self._wall), self._rng, out)
            except Exception as error:  # noqa: BLE001 - see _boot
                self._crashed("handle(Fired)", error)
                return
            if out:
                self._carry(out)  # whatever timer this arms sees to its own wake
        else:
            self._fire_due()
            if life != self.life:
                return
            self._rearm()
        if self._lines:
            self.tell()

    def _rearm(self) -> None:
        """See to it that the next timer wakes the node."""
        armed = self._armed
        if not armed or self.frozen:
            return
        clock = self.clock
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
        wall = self.clock.wall(now) if self._walls else 0
        best: tuple[Ns, bool, int] | None = None
        found = None
        for name, (at, order, on_wall) in armed.items():
            late = (wall if on_wall else mono) - at
            if late >= 0:
                rank = (-late, on_wall, order)
                if best is None or rank < best:
                    best, found = rank, name
        if found is not None and armed.pop(found)[2]:
            self._walls -= 1
            self.look_again()
        return found

    def _look(self) -> bool:
        """Timers that are due come first; whether the node still lives then."""
        life = self.life
        self._fire_due()
        return life == self.life and self.alive

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
        for effect in effects:
            self._carry_one(effect)
            if life != self.life:
                return

    def _carry_one(self, effect: Effect) -> None:
        if isinstance(effect, Send):
            if self.calls.used:
                self._send_call(effect)
                return
            link = self.links.get(effect.to)
            if link is not None:
                self._network.send(link, effect.body)
        elif isinstance(effect, Note):
            self._note(effect)
        elif isinstance(effect, SetTimer):
            self._set_timer(effect)
        elif isinstance(effect, Reply):
            self._ears.answered(self, effect.id, effect.body)
        elif isinstance(effect, Disk):
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

    # --- the disk -------------------------------------------------------------------------------------------------

    def _begin_batch(self) -> None:
        batch = self._batches[0]
        took = syncs = 0
        for op in batch.ops:
            if type(op) is Fsync or type(op) is Rename:
                syncs += 1
                took += self._sync()
            else:
                took += self._write()
        trouble = self.state.disk
        if trouble is not None and trouble.kind == "slow":
            took += syncs * trouble.latency_ns
        self._line.at(self._line.now + took, self._batch_done, self.life, took if syncs else 0)

    def _batch_done(self, life: int, took: Ns) -> None:
        if life != self.life:
            return
        if self.frozen:
            self._disk_late.append(lambda: self._batch_done(life, took))
            return
        if not self._look():
            return
        batch = self._batches[0]
        error = self._carry_out_batch(batch)
        self._batches.popleft()
        if took > SLOW_NS:
            self._shell("fsync_slow", {"ms": took // MS, "token": batch.token})
        if error is None:
            self._witnessed(self._witness.synced(batch.ops))  # type: ignore[union-attr]  # alive: there is one
        else:
            self._shell("disk_error", {"token": batch.token, "error": error})
        if self._batches:
            self._begin_batch()
        released = self._barrier.done(batch.token, error)
        self._barred = self._slow or self._barrier.held > 0
        self._carry_slowly(released)
        if life != self.life:
            return
        self._handle(DiskDone(batch.token, error))
        if life != self.life:
            return
        if batch.token in self._start_batches:
            self._start_batches.discard(batch.token)
            if not self._start_batches:
                self._open()
        if self._lines:
            self.tell()

    def _carry_out_batch(self, batch: Disk) -> str | None:
        trouble = self.state.disk
        disk = self.disk
        try:
            if trouble is None or trouble.kind not in ("full", "eio"):
                for op in batch.ops:
                    disk.carry_out(op)
                return None
            for op in batch.ops:
                error = disk.fail(op, "full" if trouble.kind == "full" else "eio", self.chance)
                if error is not None:
                    return error
        except KeyError:
            return "rename: [Errno 2] No such file or directory"
        return None

    # --- the trace ------------------------------------------------------------------------------------------------

    def _note(self, note: Note) -> None:
        self._n = n = self._n + 1
        data = note.data
        group = data.get("group", "")
        self._term = note.term
        self._roles[group] = note.role
        self._lines.append(TraceTold(n, note.name, note.term, note.role, "core", data, group))

    def _shell(self, name: str, data: Mapping[str, Any]) -> None:
        self._n = n = self._n + 1
        self._lines.append(TraceTold(n, name, self._term, self._roles.get("", ""), "shell", data))

    def _witnessed(self, seen: Iterable[Witnessed]) -> None:
        for each in seen:
            self._n = n = self._n + 1
            data = each.data
            group = data.get("group", "")
            if each.name == "persisted":
                self._persisted[group] = persisted_of(each)
            self._lines.append(TraceTold(n, each.name, each.term, self._roles.get(group, ""), "shell", data, group))

    def tell(self) -> None:
        """Hand over what was traced since the last time."""
        lines = self._lines
        if lines:
            self._lines = []
            now = self._line.now
            self._traced(Traces(self.name, self.incarnation, Span(now, now), lines))


@lru_cache(maxsize=256)
def _fired(name: str) -> Fired:
    return Fired(name)


def _no_core(_event: CoreEvent, _now: Clocks, _rng: Rng, _out: list[Effect]) -> None:
    """Nobody is there."""


def _nothing(_to: str, _body: Any) -> list[Witnessed]:
    return []
