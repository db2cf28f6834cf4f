"""The shell around one core in virtual time: what ``dethrone.clusters.node.loop`` does with threads, files and sockets.

Guarantees: an end of the process may fall within a disk batch, behind every prefix of its operations; a thawed process
handles late timers before late batches before late messages; the trace holds what the real one holds, process ids and
tracebacks apart. Out of scope: messages and effects (``delivery``), the disk (``storing``), links (``network``),
clients (``clients``) and the order of faults (``world``).
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dethrone.clusters.node.clients import StatusFrame
from dethrone.clusters.node.journal import stream_name
from dethrone.clusters.node.loop import EXIT_CORE_CRASHED, EXIT_STOPPED
from dethrone.clusters.node.record import Grouped, make_record
from dethrone.clusters.sim.building import Build, Ears
from dethrone.clusters.sim.chance import uniform
from dethrone.clusters.sim.clock import FAR
from dethrone.clusters.sim.delivery import Delivering
from dethrone.clusters.sim.links import Timeline
from dethrone.clusters.sim.network import Network
from dethrone.clusters.sim.storing import SLOW_NS
from dethrone.harness.core.clock import MS, US, Ns
from dethrone.harness.core.errors import HarnessError
from dethrone.harness.core.hoststate import Signal
from dethrone.harness.core.log_marks import LogMarks, Remembering
from dethrone.harness.core.machine import (
    SHUTDOWN,
    Await,
    Core,
    Direct,
    Disk,
    Effect,
    Fired,
    Glance,
    Glancing,
    Graceful,
    Request,
    Steady,
)
from dethrone.harness.core.rng import Rng

_ENCODER = msgspec.json.Encoder()

CPU_PERIOD_NS: Ns = 100 * MS
"""What a share of a processor is of, as on real hosts."""
STEP_NS: Ns = 400 * US
"""What one step takes of it: about what it takes a process of ours, with its share of sending and writing."""
EXIT_CODES: Mapping[Signal, int] = {"SIGKILL": -9, "SIGTERM": EXIT_STOPPED, "OOM": -9, "POWER": -9}


class SimNode(Delivering):
    """One host with its disk, its clocks and its process, which comes and goes."""

    __slots__ = (
        "_backlog",
        "_build",
        "_core",
        "_frozen_at",
        "_glance",
        "_grouped",
        "_last_request",
        "_left_ns",
        "_marks",
        "_start",
        "_starved",
        "_stopped",
        "_turn",
        "last_words",
        "log",
        "open",
        "running",
    )

    def __init__(self, name: str, build: Build, *, line: Timeline, network: Network, rng: Rng, ears: Ears) -> None:
        chance = rng.stream(f"node/{name}")
        self._build = build
        self._start = uniform(chance, "start", *build.settings.start)
        self.log = bytearray()
        self.last_words = ""
        """How the core crashed that ended the last process; "" if none did."""
        self.running = False
        """A process exists. ``alive``: it has booted. ``open``: clients and observers are served."""
        self.open = False
        self._marks = LogMarks()
        self._left_ns: Ns = 0
        """What is left of the share of this period, if it is starved of CPU; below 0: of later ones."""
        self._turn = 0
        """Counts changes of the share: what belongs to an older one must not happen any more."""
        self._starved = False
        """The process waits for its next share."""
        self._stopped = False
        """SIGSTOP. ``frozen``: the process stands still, for either reason."""
        super().__init__(name, line=line, network=network, ears=ears, chance=chance, settings=build.settings)

    def _forget(self) -> None:
        super()._forget()
        self._core: Core | None = None
        self._glance: Callable[[], Glance] | None = None
        self._grouped: Grouped | None = None
        self._backlog: list[Callable[[], None]] = []
        self._last_request = 0
        self._frozen_at: Ns = 0

    # --- life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """A process is made; it boots a little later."""
        self._forget()
        self.incarnation += 1
        self.life += 1
        self.running = True
        self.last_words = ""
        self._ears.started(self.name)
        if self._starved:
            self._stand_still()
        self._line.at(self._line.now + self._start(), self._boot, self.life, None)

    def _boot(self, life: int, _: None) -> None:
        if life != self.life:
            return
        if self.frozen:
            self._inbox.append(lambda: self._boot(life, None))
            return
        build = self._build
        image = self.disk.image()
        self.disk.older = dict(image)
        trouble = self.state.disk
        if trouble is not None and trouble.of == "reads":
            image = self.disk.unread(trouble, self.chance.stream(f"reads-{life}"))
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
        witness: Any = build.target.witness(node=self.name, members=build.members)
        self._witness = witness
        if build.able(witness, Remembering):
            witness.marks = self._marks
        self._step = core.handle
        if build.able(core, Glancing):
            self._glance = core.glance
            self.restless = False
        if build.able(core, Grouped):
            self._grouped = core
        if build.able(core, Direct):
            self._hear, self._ring = core.hear, core.ring
        if build.able(core, Steady):
            self._answer, self._renew = core.answer, core.renew
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
        self._carry(ready, admitted=True)
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
        if signal == "SIGTERM" and not self._stopped and self.alive:
            self._move_on()
            if self.alive:
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
                self._carry(self._barrier.done(batch.token, error), admitted=True)
        if not self.alive:
            return
        self._shell("stopped", {"signal": "SIGTERM", "disk_finished": True})
        self.tell()
        self._die(EXIT_STOPPED)

    def _die(self, code: int, *, power: bool = False) -> None:
        self.tell()
        self._break_off(power=power)
        self.life += 1
        self.running = self.alive = self.open = self.frozen = self._stopped = False
        self.busy = True
        self._network.lost(self)
        self.calls.forget()
        self._forget()
        self._ears.ended(self.name, code)

    def _crashed(self, where: str, error: BaseException) -> None:
        self._shell("crashed", {"where": where, "error": repr(error)})
        self.log += "".join(traceback.format_exception(error)).encode()
        self.last_words = traceback.format_exception_only(error)[-1].strip()
        self._die(EXIT_CORE_CRASHED)

    def freeze(self) -> None:
        """SIGSTOP."""
        if self.running:
            self._stopped = True
            self._stand_still()

    def thaw(self) -> None:
        """SIGCONT."""
        self._stopped = False
        if not self._starved:
            self._move_on()

    def starve(self, percent: int | None) -> None:
        """From now on the steps of the process take no more than this share of each period; None: no limit."""
        if percent == self.share:
            return
        self.share = percent
        self._turn += 1
        self._left_ns = 0
        self.look_again()
        self._feed(self._turn, None)

    def _feed(self, turn: int, _: None) -> None:
        """A period begins: what was not used is lost, what was used too much is missing."""
        if turn != self._turn:
            return
        if self.share is not None:
            self._left_ns = min(0, self._left_ns) + CPU_PERIOD_NS * self.share // 100
            self._line.at(self._line.now + CPU_PERIOD_NS, self._feed, turn, None)
        self._starved = self.share is not None and self._left_ns <= 0
        if not self._starved and not self._stopped:
            self._move_on()

    def spend(self) -> None:
        """A step of a starved process: when its share is used up, it waits for the next period."""
        self._left_ns -= STEP_NS
        if self._left_ns <= 0 and not self._starved:
            self._starved = True
            if self.running:
                self._stand_still()

    def _stand_still(self) -> None:
        if not self.frozen:
            self.frozen = True
            self._frozen_at = self._line.now
            self.look_again()

    def _move_on(self) -> None:
        """Late timers, then disk results, then what arrived meanwhile."""
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

    # --- clients and the observer ---------------------------------------------------------------------------------

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
        record = make_record(
            statuses,
            stored=self._persisted,
            node=self.name,
            system=self._build.target.name,
            incarnation=self.incarnation,
            held=self._barrier.held,
            started_at=0,
            now=now,
            counters={},
        )
        return _ENCODER.encode(StatusFrame(0, record))
