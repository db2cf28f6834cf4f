"""One run in virtual time, from its draft to its verdict: the same director, history and checkers, but no hosts.

Guarantees: the same draft gives the same bytes of history; the director's decisions take no simulated time; SIGINT and
SIGTERM end the run as they do a live one. There is nothing to heal and so no ledger. The world itself belongs to a
backend.
"""

from __future__ import annotations

import time

from dethrone.harness.core import store
from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.errors import ClusterError, HarnessError
from dethrone.harness.core.events import AnyEvent
from dethrone.harness.core.history_writer import HistoryWriter
from dethrone.harness.core.world import VirtualWorld
from dethrone.harness.engine.run.judgement import RunResult
from dethrone.harness.engine.run.lifecycle import Course, signals
from dethrone.harness.engine.run.virtual_loop import play, world_of

LIVE_EVERY_NS = 400 * MS
"""Of real time."""

BATCH = 32
"""Events that are written, and shown to live views, at once. Few: while they wait they push the simulation's own state
out of the processor's caches, which costs more than the calls that larger batches would save."""


class VirtualRun(Course):
    """A run on a ``VirtualBackend``."""

    signal = ""
    """By which the user asked the run to end; "" : not yet."""

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
        self.judge()
        self.seal()

    def _on_signal(self, name: str) -> None:
        self.signal = name
        self.interrupted.set()

    def direct(self) -> None:
        """Run, and write the history; ``figures`` say how fast."""
        world = world_of(self.draft)
        director = self.director()
        writer = HistoryWriter(self.run_dir / store.HISTORY, sync=False)
        began = time.perf_counter_ns()
        waiting: list[AnyEvent] = []
        shown = time.monotonic_ns()

        def write_down() -> None:
            self.tell(waiting)
            writer.write(waiting)
            waiting.clear()

        def take(events: list[AnyEvent]) -> None:
            nonlocal shown
            waiting.extend(events)
            if len(waiting) < BATCH:
                return
            write_down()
            if time.monotonic_ns() - shown > LIVE_EVERY_NS:
                shown = time.monotonic_ns()
                self.listener.live(director.live(world.now()))

        try:
            try:
                play(director, world, take, lambda: self.signal)
            except ClusterError:
                write_down()
                raise
            write_down()
            writer.end(t=world.now(), reason=director.end_reason)
        finally:
            spent = max(1, time.perf_counter_ns() - began)
            self.figures["simulated_s"] = round(world.now() / SECOND, 3)
            self.figures["times_real_time"] = world.now() // spent
            self.figures["simulated_events"] = world.happened
            self.directed(director)
            self._store_logs(world)
            writer.close()

    def _store_logs(self, world: VirtualWorld) -> None:
        for node, content in world.logs().items():
            directory = self.run_dir / store.NODES / node
            try:
                directory.mkdir(parents=True, exist_ok=True)
                (directory / "node.log").write_bytes(content)
            except OSError as error:
                self.trouble.append(f"cannot write the log of {node}: {error.strerror}")
