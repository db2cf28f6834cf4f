"""The loop of a node process: one thread around a pure core, one turn after another.

A turn: sleep; fire due timers; take finished disk batches; take what arrived (again timers first, if one fell due
meanwhile: after a pause, late timers come before queued messages); flush journal and trace; only then write to
sockets. So everything that others can see of this node is in its trace. Guarantees: effects are carried out in the
order and behind the barriers of `dethrone.harness.core.machine`; no exception is swallowed; the process ends with 0
(stopped), 70 (``Halt``), 71 (the core raised) or 72 (the shell did). Out of scope: every wire format and file format.
"""

from __future__ import annotations

import contextlib
import gc
import os
import selectors
import signal
import sys
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dethrone.clusters.node.clients import Clients
from dethrone.clusters.node.clocks import read_clocks
from dethrone.clusters.node.clocksock import ClockSocket
from dethrone.clusters.node.config import NodeConfig
from dethrone.clusters.node.disk import DiskThread, Done, read_image
from dethrone.clusters.node.effects import Barrier
from dethrone.clusters.node.inbox import Arrival, Inbox
from dethrone.clusters.node.journal import VERSION, Head, Journal, RecordingRng, stream_name
from dethrone.clusters.node.kept_marks import KeptMarks
from dethrone.clusters.node.linksock import LinkSocket
from dethrone.clusters.node.record import Grouped, Persisted, Record, make_record, persisted_of
from dethrone.clusters.node.timers import Timers
from dethrone.clusters.node.trace import TraceLog
from dethrone.clusters.node.transport import FAR, Transport
from dethrone.clusters.node.waits import Waits
from dethrone.harness.core.clock import MS, US, Ns
from dethrone.harness.core.errors import ClusterError
from dethrone.harness.core.log_marks import Remembering
from dethrone.harness.core.machine import (
    SHUTDOWN,
    Await,
    CoreEvent,
    Disk,
    DiskDone,
    DiskImage,
    Effect,
    Fired,
    Graceful,
    Message,
    Note,
    Reply,
    Request,
    Send,
    SendFailed,
    SetTimer,
    Target,
    Witnessed,
)
from dethrone.harness.core.rng import Rng

EXIT_STOPPED = 0
EXIT_HALTED = 70
EXIT_CORE_CRASHED = 71
EXIT_SHELL_FAILED = 72
HELD_MAX = 50_000
"""Effects behind a hanging disk; beyond, messages of peers are dropped (they may be lost), counted."""
STOP_LIMIT_S = 2.0
"""How long a stop waits for the disk to finish what it has in hand."""
GOODBYE_NS = 1000 * MS
"""How long the last words of a graceful core may take to leave."""


class CoreCrashed(Exception):  # noqa: N818 - names what happened; the cause is the core's own exception
    """The core raised, or broke the contract of effects. ``str`` says in which call."""


class Halted(Exception):  # noqa: N818 - a wish of the core, not an error
    """The core asked to be stopped; ``str`` is its reason."""


class NodeShell:
    """One node. Opens its files and ports at once (ClusterError if it cannot); ``run`` returns the exit code."""

    def __init__(self, config: NodeConfig, target: Target) -> None:
        self.counters: Counter[str] = Counter()
        self._config = config
        self._target = target
        self._now = read_clocks()
        self._awake_since = self._now.mono
        self._started_at = self._now.wall // MS
        self._stopping = ""
        self._gone_at: Ns | None = None
        """When the process ends, even if output is still unsent."""
        self._timers = Timers()
        self._barrier = Barrier()
        self._start_batches: set[int] = set()
        self._failures: deque[SendFailed] = deque()
        self._persisted: dict[str, Persisted] = {}
        """Group → what is durably stored."""
        self._noise_max_ns = config.noise_max_ns
        self._waits = Waits()
        members = tuple(config.members)
        # Knobs and variant are judged before anything is touched: a wrong word must leave no trace of a start.
        knobs = target.knobs(config.knobs, profile=config.profile)
        self._core = target.core(node=config.node, members=members, knobs=knobs, variant=config.variant)
        self._grouped = self._core if isinstance(self._core, Grouped) else None
        self._witness = target.witness(node=config.node, members=members)
        self._rng = RecordingRng(Rng(config.seed).stream(stream_name(config.node, config.incarnation)).seed)
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._wake_read, selectors.EVENT_READ, self._drain_wake)
        self._peers = self._make_peers()
        clock, links = config.clock_socket, config.link_socket
        self._sockets: list[Any] = [ClockSocket(clock, self._selector)] if clock else []
        self._inbox = Inbox(Rng(config.seed).stream(f"inbox/{stream_name(config.node, config.incarnation)}"))
        self._sockets += [LinkSocket(links, self._selector, self._inbox, self._take)] if links else []
        # Last of all that listens: whom it lets in finds the other sockets there.
        self._clients = Clients(
            bind=config.bind,
            port=config.client_port,
            request_type=target.request_type,
            selector=self._selector,
            counters=self.counters,
            on_request=self._on_request,
            status=self._status,
        )
        self._trace = TraceLog(config.trace_path, node=config.node, incarnation=config.incarnation)
        self._disk = DiskThread(Path(config.data_dir), self._wake)
        self._journal: Journal | None = None
        self._marks: KeptMarks | None = None

    # --- life -----------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Boot, turn until stopped, and return how it ended."""
        try:
            self._catch_signals()
            self._boot()
            gc.collect()
            gc.freeze()  # what the start made stays: later collections need not look at it
            self._waits.look()
            self._awake_since = read_clocks().mono
            self._waits.mark(self._awake_since)
            while not self._stopping:
                self._turn()
            return self._stop()
        except Halted as halted:
            self._trace.shell(self._now, "halt", {"reason": str(halted)})
            self._show()
            self._end("halt")
            return EXIT_HALTED
        except CoreCrashed as crash:
            return self._crash("crashed", crash.__cause__ or crash, where=str(crash), code=EXIT_CORE_CRASHED)
        except Exception as error:  # noqa: BLE001 - the last place that can say it; the process ends
            return self._crash("shell_failed", error, where="shell", code=EXIT_SHELL_FAILED)

    def _boot(self) -> None:
        config = self._config
        files = [Path(path) for path in (config.trace_path, config.marks_path, config.journal_path) if path]
        image: DiskImage = read_image(Path(config.data_dir), leave_out=files)
        if config.journal_path is not None:
            self._journal = self._open_journal(config.journal_path, image)
        boot = {
            "pid": os.getpid(),
            "target": config.target,
            "profile": config.profile,
            "variant": config.variant,
            "knobs": config.knobs,
            "seed": config.seed,
            "members": list(config.members),
            "files": len(image),
        }
        self._trace.shell(self._now, "boot", boot)
        if isinstance(self._witness, Remembering):
            self._marks = KeptMarks(config.marks_path, incarnation=config.incarnation)
            self._witness.marks = self._marks.marks
        self._witnessed(self._witness.booted(image))
        out: list[Effect] = []
        self._now = read_clocks()
        try:
            self._core.boot(image, self._now, self._rng, out)
            ready = self._barrier.admit(out)
        except Exception as error:
            raise CoreCrashed("boot") from error
        finally:
            if self._journal is not None:
                self._journal.boot(self._now, self._rng.take(), out)
        # What a node says before it is sure of its own disk may be less than it said in its last life, so clients and
        # observers wait in the backlog until every batch that the start awaits is done.
        self._start_batches = {effect.token for effect in out if isinstance(effect, Await)}
        self._start_batches &= {effect.token for effect in out if isinstance(effect, Disk)}
        if not self._start_batches:
            self._clients.open()
        self._carry_out(ready)
        self._show()

    def _say_goodbye(self) -> None:
        """Report the stop to the core and send its last words, until they have left or time is up."""
        self._look()
        self._gone_at = self._now.mono + GOODBYE_NS
        self._handle(Fired(SHUTDOWN))
        self._show()
        while (self._barrier.held or self._peers.waiting) and self._now.mono < self._gone_at:
            self._turn()

    def _stop(self) -> int:
        if isinstance(self._core, Graceful):
            self._say_goodbye()
        finished = self._disk.stop(STOP_LIMIT_S)
        self._now = read_clocks()
        for done in self._disk.results:
            if isinstance(done, Done) and done.error is None:
                self._witnessed(self._witness.synced(done.ops))
        self._trace.shell(self._now, "stopped", {"signal": self._stopping, "disk_finished": finished})
        self._end("stopped")
        return EXIT_STOPPED

    def _crash(self, event: str, error: BaseException, *, where: str, code: int) -> int:
        import traceback

        text = "".join(traceback.format_exception(error))
        sys.stderr.write(text)
        # A trace that cannot be written is itself a reason to be here; the exit code still reports it.
        with contextlib.suppress(ClusterError):
            self._trace.shell(self._now, event, {"where": where, "error": repr(error), "traceback": text})
            self._end(event)
        return code

    def _end(self, reason: str) -> None:
        if self._journal is not None:
            self._journal.close(reason)
        self._trace.close()
        if self._marks is not None:
            self._marks.close()
        self._peers.close()
        self._clients.close()
        for sock in self._sockets:
            sock.close()

    # --- one turn -------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        self._waits.look()
        self._now = before = read_clocks()
        if before.mono - self._awake_since > self._noise_max_ns:
            self._stalled("turn", before.mono - self._awake_since)
        self._waits.mark(before.mono)
        due = self._peers.tick(before.mono)
        sleep = self._sleep_ns(due)
        ready = self._selector.select(None if sleep is None else sleep / 1e9)
        self._waits.look()
        self._now = after = read_clocks()
        self._awake_since = after.mono
        if sleep is not None and after.mono - before.mono > sleep + self._noise_max_ns:
            self._stalled("sleep", after.mono - before.mono - sleep)
        self._waits.mark(after.mono)
        self._fire_due()
        self._take_disk_results()
        for one in self._inbox.due(after.mono):
            self._take(one)
        for key, mask in ready:
            key.data(mask)
        for _ in range(len(self._failures)):
            self._look()
            self._handle(self._failures.popleft())
        self._show()

    def _sleep_ns(self, due: Ns) -> Ns | None:
        if self._failures or self._disk.results or (self._stopping and self._gone_at is None):
            return 0
        sleep = self._timers.sleep_ns(self._now)
        due = min(due, self._inbox.next_at)
        if self._gone_at is not None:
            left = max(0, self._gone_at - self._now.mono)
            sleep = left if sleep is None else min(sleep, left)
        if due != FAR:
            wait = max(0, due - self._now.mono)
            sleep = wait if sleep is None else min(sleep, wait)
        return sleep

    def _show(self) -> None:
        """Let the world see this turn: first the records, then the bytes."""
        self._peers.stage()
        if self._journal is not None:
            self._journal.flush()
            if self._journal.stopped is not None:
                self._trace.shell(self._now, "journal_stopped", {"reason": self._journal.stopped})
                self._journal.close(self._journal.stopped)
                self._journal = None
        self._trace.flush()
        if self._marks is not None:
            self._marks.keep()
        self._peers.write()
        self._clients.write()

    def _look(self) -> None:
        """Read the clocks; a timer that fell due meanwhile comes first."""
        self._now = read_clocks()
        self._fire_due()

    def _fire_due(self) -> None:
        # A core that re-arms a timer for a past moment must not block messages for ever.
        for _ in range(len(self._timers) + 1):
            name = self._timers.pop_due(self._now)
            if name is None:
                return
            self._handle(Fired(name))
            self._now = read_clocks()

    def _take_disk_results(self) -> None:
        results = self._disk.results
        while results:
            done = results.popleft()
            if not isinstance(done, Done):
                raise done
            self._now = read_clocks()
            if done.syncs:
                self.counters["fsyncs"] += done.syncs
                self.counters["fsync_us_sum"] += done.sync_ns // US
                self.counters["fsync_us_max"] = max(self.counters["fsync_us_max"], done.sync_ns // US)
                if done.sync_ns > self._noise_max_ns:
                    self._slow_sync(done)
            if done.error is None:
                self._witnessed(self._witness.synced(done.ops))
            else:
                self.counters["disk_errors"] += 1
                self._trace.shell(self._now, "disk_error", {"token": done.token, "error": done.error})
            self._carry_out(self._barrier.done(done.token, done.error))
            self._handle(DiskDone(done.token, done.error))
            if done.token in self._start_batches:
                self._start_batches.discard(done.token)
                if not self._start_batches:
                    self._clients.open()

    # --- events and effects ---------------------------------------------------------------------------------------

    def _handle(self, event: CoreEvent) -> None:
        now = self._now
        out: list[Effect] = []
        try:
            self._core.handle(event, now, self._rng, out)
            ready = self._barrier.admit(out)
        except Exception as error:
            raise CoreCrashed(f"handle({type(event).__name__})") from error
        finally:  # also the step that crashed: it is the one worth executing again
            if self._journal is not None:
                self._journal.step(event, now, self._rng.take(), out)
        self._carry_out(ready)

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            kind = type(effect)
            if isinstance(effect, Send):
                self._peers.send(effect.to, effect.body, effect.answers)
            elif isinstance(effect, Note):
                self._trace.note(self._now, effect.name, effect.term, effect.role, effect.data)
            elif isinstance(effect, SetTimer):
                self._timers.set(effect.name, effect.at, effect.clock)
            elif isinstance(effect, Reply):
                self._clients.reply(effect.id, effect.body)
            elif isinstance(effect, Disk):
                self._disk.submit(effect)
            else:
                raise Halted(getattr(effect, "reason", f"an effect of no known kind: {kind.__name__}"))

    def _witnessed(self, seen: Iterable[Witnessed]) -> None:
        for each in seen:
            if each.name == "persisted":
                self._persisted[str(each.data.get("group", ""))] = persisted_of(each)
            self._trace.shell(self._now, each.name, each.data, term=each.term)

    def _on_request(self, request: int, body: Any) -> None:
        self._look()
        self._handle(Request(request, body))

    def _status(self) -> Record:
        now = read_clocks()
        try:
            statuses = (self._core.status(now),) if self._grouped is None else self._grouped.statuses(now)
        except Exception as error:
            raise CoreCrashed("status") from error
        return make_record(
            statuses,
            stored=self._persisted,
            node=self._config.node,
            system=self._target.name,
            incarnation=self._config.incarnation,
            held=self._barrier.held,
            started_at=self._started_at,
            now=now,
            counters={**self.counters, "effects_dropped": self._barrier.dropped},
        )

    # --- what transports call -------------------------------------------------------------------------------------

    def mono(self) -> Ns:
        """The monotonic clock as last read."""
        return self._now.mono

    def arrived(self, src: str, body: Any, request: int | None) -> None:
        """A message of a peer."""
        for one in self._inbox.arrive(self._now.mono, Arrival(src, body, request)):
            self._take(one)

    def _take(self, one: Arrival) -> None:
        src, body, request = one
        if self._barrier.held > HELD_MAX:
            self.counters["peer_dropped_held"] += 1
            return
        self._look()
        self._witnessed(self._witness.received(src, body))
        self._handle(Message(src, body, request))

    def failed(self, to: str, body: Any, error: str) -> None:
        """A message that will not be answered; the core learns of it later in this turn or in the next."""
        self._failures.append(SendFailed(to, body, error))

    def leaving(self, to: str, body: Any) -> None:
        """A message is about to be written; the trace is flushed in between."""
        self._witnessed(self._witness.sent(to, body))

    # --- small parts ----------------------------------------------------------------------------------------------

    def _make_peers(self) -> Transport:
        config = self._config
        if self._target.transport == "http":
            from dethrone.clusters.node.http import HttpPeers, wire_of

            return HttpPeers(
                self,
                node=config.node,
                members=config.members,
                bind=config.bind,
                port=config.peer_port,
                rpc_timeout_ms=config.rpc_timeout_ms,
                wire=wire_of(config.target),
                selector=self._selector,
            )
        from dethrone.clusters.node.tcp import TcpPeers

        return TcpPeers(
            self,
            node=config.node,
            incarnation=config.incarnation,
            members=config.members,
            bind=config.bind,
            port=config.peer_port,
            rpc_timeout_ms=config.rpc_timeout_ms,
            message_type=self._target.message_type,
            selector=self._selector,
        )

    def _open_journal(self, path: str, image: DiskImage) -> Journal:
        config = self._config
        head = Head(
            version=VERSION,
            target=config.target,
            node=config.node,
            incarnation=config.incarnation,
            members=tuple(config.members),
            knobs=config.knobs,
            profile=config.profile,
            variant=config.variant,
            seed=config.seed,
            stream=stream_name(config.node, config.incarnation),
            disk={name: data for name, data in image.items() if isinstance(data, bytes)},
            unreadable=tuple(name for name, data in image.items() if not isinstance(data, bytes)),
        )
        try:
            return Journal(path, head, bytes_max=config.journal_bytes_max)
        except OSError as error:
            raise ClusterError(f"cannot open the journal: {error.strerror}", where=path) from error

    def _stalled(self, where: str, ns: Ns) -> None:
        self.counters["stalls"] += 1
        self._trace.shell(self._now, "stall", {"ms": ns // MS, "ns": ns, "where": where, **self._waits.since_mark()})

    def _slow_sync(self, done: Done) -> None:
        """``ms``: all syncs of the batch; ``ns``: the longest of them, which began ``ago_ns`` before this event."""
        ago = max(done.longest_ns, self._now.mono - done.longest_at)
        data = {"ms": done.sync_ns // MS, "ns": done.longest_ns, "ago_ns": ago, "token": done.token}
        self._trace.shell(self._now, "fsync_slow", data)

    def _catch_signals(self) -> None:
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _frame: object) -> None:
        self._stopping = signal.Signals(number).name

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):  # a full pipe wakes as well
            os.write(self._wake_write, b"d")

    def _drain_wake(self, _mask: int) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_read, 4096)
