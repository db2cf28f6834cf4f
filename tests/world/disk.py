"""The simulator's disk as tests look at it: what a process finds, and what a loss of power would spare.

Guarantees: everything that `dethrone.clusters.sim.disk` does, and no write that leaves a hole in a file.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

from dethrone.clusters.sim.disk import SimDisk
from dethrone.harness.core.machine import Fsync, Unlink, Write


class Disk(SimDisk):
    """See the module."""

    __slots__ = ()

    def carry_out(self, op):
        """One operation."""
        if type(op) is Write and op.offset:
            assert op.offset <= len(self._open(op.path).data), "a hole in a file"
        super().carry_out(op)

    def carry_out_all(self, ops):
        """A batch."""
        for op in ops:
            self.carry_out(op)

    @property
    def shown(self):
        """Path → content, as a process finds it now."""
        return self.image()

    @property
    def durable(self):
        """Path → content, as it would be found after a loss of power."""
        copied = copy.deepcopy(self)
        copied.lose_power()
        return copied.image()

    def store(self, files: Mapping[str, bytes]):
        """Put these files there, synced."""
        for path, content in files.items():
            self.carry_out(Write(path, content, 0, truncate=True))
            self.carry_out(Fsync(path))

    def remove(self, path):
        """Remove a file; its content."""
        content = self.shown[path]
        self.carry_out(Unlink(path))
        return content
