"""The disk of a simulated node and the batches that it carries out, one after another, as the real shell's thread does.

Guarantees: a batch takes as long as its writes and syncs, longer on a slow disk; a disk in trouble ends a batch early
and the core gets the error; a kill leaves any prefix of the operations under way, a loss of power what was synced. Out
of scope: the files themselves (``disk``).
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable

from dethrone.clusters.node.effects import Barrier
from dethrone.clusters.sim.chance import uniform
from dethrone.clusters.sim.disk import SimDisk
from dethrone.clusters.sim.links import Timeline
from dethrone.clusters.sim.settings import Settings
from dethrone.clusters.sim.timing import Timed
from dethrone.harness.core.clock import MS, Ns
from dethrone.harness.core.hoststate import DAMAGES, DiskTrouble
from dethrone.harness.core.machine import Disk, DiskDone, Fsync, Rename, Witness
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.world import Traces

FAILING = ("full", "readonly", "eio")
"""Troubles of a disk that fail operations."""

SLOW_NS = 100 * MS
"""A batch that syncs longer, and a stall that lasts longer, is traced."""

SLICE_NS = 20 * MS
"""How soon a batch that a slow disk delays resumes once the disk is well again."""


class Storing(Timed):
    """The side of a node that has a disk. A subclass carries effects out."""

    __slots__ = (
        "_barrier",
        "_batches",
        "_disk_late",
        "_slow",
        "_start_batches",
        "_sync",
        "_witness",
        "_write",
        "disk",
    )

    def __init__(
        self, name: str, line: Timeline, traced: Callable[[Traces], None], chance: Rng, settings: Settings
    ) -> None:
        self._write = uniform(chance, "write", *settings.write)
        self._sync = uniform(chance, "sync", *settings.sync)
        self.disk = SimDisk()
        super().__init__(name, line, traced, chance)

    def _forget(self) -> None:
        super()._forget()
        self._witness: Witness | None = None
        self._barrier = Barrier()
        self._slow = True
        self._batches: deque[Disk] = deque()
        self._start_batches: set[int] = set()
        self._disk_late: list[Callable[[], None]] = []

    # --- what a subclass does -------------------------------------------------------------------------------------

    def _open(self) -> None:
        """The start is over: serve clients."""
        raise NotImplementedError

    # --- batches --------------------------------------------------------------------------------------------------

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
        if trouble is not None and trouble.kind == "slow" and syncs:
            now = self._line.now
            self._line.at(now + took, self._batch_hangs, self.life, (now, now + took + syncs * trouble.latency_ns))
            return
        self._line.at(self._line.now + took, self._batch_done, self.life, took if syncs else 0)

    def _batch_hangs(self, life: int, times: tuple[Ns, Ns]) -> None:
        """A slow disk works on a batch, from the first to the second time; sooner if it is slow no more."""
        if life != self.life:
            return
        began, due = times
        now = self._line.now
        trouble = self.state.disk
        if now >= due or trouble is None or trouble.kind != "slow":
            self._batch_done(life, now - began)
        else:
            self._line.at(min(due, now + SLICE_NS), self._batch_hangs, life, times)

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
        self._carry(released, admitted=True)
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
            if trouble is None or trouble.kind not in FAILING:
                for op in batch.ops:
                    disk.carry_out(op)
                return None
            for op in batch.ops:
                if trouble.percent and self.chance.below(100) >= trouble.percent:
                    disk.carry_out(op)
                elif (error := disk.fail(op, trouble, self.chance)) is not None:
                    return error
        except KeyError:
            return "rename: [Errno 2] No such file or directory"
        return None

    def _break_off(self, *, power: bool) -> None:
        """The process ends: some of the batch under way is done, and power takes what was not synced."""
        if self._batches:
            ops = self._batches[0].ops
            done = ops[: self.chance.below(len(ops) + 1)]
            if self.state.disk is None or self.state.disk.kind not in FAILING:
                with contextlib.suppress(KeyError):  # it would have failed there
                    for op in done:
                        self.disk.carry_out(op)
        if power:
            torn = self.state.disk is not None and self.state.disk.kind == "torn"
            self.disk.lose_power(torn=self.chance.stream(f"torn-{self.life}") if torn else None)

    def damage(self, trouble: DiskTrouble) -> str | None:
        """What a state's disk trouble does once to the files of a process that is down; which file, if it is one."""
        if trouble.kind == "wiped":
            self.disk.wipe()
        elif trouble.kind in DAMAGES:
            chance = self.chance.stream(f"damage-{self.life}")
            return self.disk.damage(trouble.kind, trouble.path, chance, age=trouble.age or None)
        return None
