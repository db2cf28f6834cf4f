"""election: no client asks anything; the observers and the trace logs are the whole evidence."""

from __future__ import annotations

from typing import ClassVar

from dethrone.harness.core.interfaces import Generator
from dethrone.harness.core.rng import Rng
from dethrone.workloads.base import Base
from dethrone.workloads.generators import Nothing


class ElectionWorkload(Base):
    name = "election"
    ops: ClassVar[frozenset[str]] = frozenset()
    per_node = least = 0
    rate = 0

    def main(self, rng: Rng, *, nodes: tuple[str, ...], processes: int, rate_per_s: int) -> Generator:
        """Nothing."""
        del rng, nodes, processes, rate_per_s
        return Nothing()

    def final(self, rng: Rng, *, nodes: tuple[str, ...], processes: int) -> Generator:
        """Nothing."""
        del rng, nodes, processes
        return Nothing()


WORKLOAD = ElectionWorkload()
