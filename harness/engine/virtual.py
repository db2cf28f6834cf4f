"""One run in virtual time, from its draft to its verdict: the same director, history and checkers, but no hosts.

Promises: the same draft gives the same bytes of history; what the director decides takes no time of the simulated
world; SIGINT and SIGTERM end the run as they do a live one. There is nothing to heal and so no ledger. Leaves out the
world itself, which is a backend's.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager

from harness.core import store
from harness.core.clock import MS, SECOND, Ns
from harness.core.errors import ClusterError, HarnessError
from harness.core.events import AnyEvent
from harness.core.history import HistoryWriter
from harness.core.world import Stop, VirtualBackend, VirtualWorld
from harness.engine.course import Course, signals
from harness.engine.director import Director
from harness.engine.model import RunResult

TICK_NS = 100 * MS
"""The longest simulated time between two steps of the director; sooner wherever it has something to do."""

REST_NS = 500 * MS
"""The same while nothing is to be decided."""

LIVE_EVERY_NS = 400 * MS
"""Of real time."""

BATCH = 512
"""Events that are written at once."""

ENDLESS = 20
"""A run that lasts this many times its time limit, and ten minutes, is a bug of ours: it is given up."""


class VirtualRun(Course):
    """A run on a ``VirtualBackend``."""

    signal = ""
    """The user's wish to end; "" : none yet."""

    def carry_out(self) -> RunResult:
        """Run, judge what was written, store."""
        started = time.monotonic_ns()
        with signals(self._on_signal):
            for part in (self.direct, self._judge):
                try:
                    part()
                except HarnessError as error:
                    self.trouble.append(str(error))
        return self.result(started)

    def _judge(self) -> None:
        self.listener.progress("judging")
        self.write_columns(self.judge())

    def _on_signal(self, name: str) -> None:
        self.signal = name
        self.interrupted.set()

    def direct(self) -> None:
        """Run, and write the history; ``figures`` tell how fast."""
        backend = self.draft.backend
        if not isinstance(backend, VirtualBackend):
            raise ClusterError(f"the backend {backend.name!r} makes no worlds")
        world = backend.world(self.draft.system, self.plan)
        director = self.director()
        director.tick_ns, director.rest_ns = TICK_NS, REST_NS
        writer = HistoryWriter(self.run_dir / store.HISTORY, sync=False)
        began = time.perf_counter_ns()
        try:
            with no_garbage():
                self._loop(director, world, writer)
            writer.end(t=world.now(), reason=director.end_reason)
        finally:
            spent = max(1, time.perf_counter_ns() - began)
            self.figures["simulated_s"] = round(world.now() / SECOND, 3)
            self.figures["times_real_time"] = world.now() // spent
            self.figures["simulated_events"] = world.happened
            self.directed(director)
            self._store_logs(world)
            writer.close()

    def _loop(self, director: Director, world: VirtualWorld, writer: HistoryWriter) -> None:
        limit: Ns = ENDLESS * (self.plan.time_limit_ns + 30 * SECOND) + 600 * SECOND
        step, wait, submit, wake_at = director.step, world.wait, world.submit, director.wake_at
        stopped = False
        waiting: list[AnyEvent] = []
        shown = time.monotonic_ns()
        events, actions = director.open(world.now())
        while True:
            if events:
                waiting += events
                self.tell(events)
            for action in actions:
                submit(action)
            if len(waiting) >= BATCH:
                writer.write(waiting)
                waiting.clear()
                if time.monotonic_ns() - shown > LIVE_EVERY_NS:
                    shown = time.monotonic_ns()
                    self.listener.live(director.live(world.now()))
            if director.done:
                writer.write(waiting)
                return
            world.eager = director.attentive
            happenings = wait(wake_at(world.now()))
            if self.signal and not stopped:
                stopped = True
                happenings = [*happenings, Stop(self.signal)]
            now = world.now()
            if now > limit:
                writer.write(waiting)
                raise ClusterError("the simulated run does not end", next_step="this is a bug of dethrone: report it")
            events, actions = step(now, happenings)

    def _store_logs(self, world: VirtualWorld) -> None:
        for node, content in world.logs().items():
            directory = self.run_dir / store.NODES / node
            try:
                directory.mkdir(parents=True, exist_ok=True)
                (directory / "node.log").write_bytes(content)
            except OSError as error:
                self.trouble.append(f"cannot write the log of {node}: {error.strerror}")


@contextmanager
def no_garbage() -> Iterator[None]:
    """Without the cyclic collector: the loop makes few cycles, and looking for them costs a tenth of it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
