"""election: no client asks anything; the observers and the trace logs are the whole evidence."""

from __future__ import annotations

from dethrone.harness.core.interfaces import Generator
from dethrone.harness.core.rng import Rng
from dethrone.workloads.generators import Nothing


class ElectionWorkload:
    """See ``dethrone.harness.core.interfaces.Workload``."""

    name = "election"

    def needs(self) -> frozenset[str]:
        """No operation."""
        return frozenset()

    def processes(self, nodes: int) -> int:
        """None."""
        del nodes
        return 0

    def rate_per_s(self) -> int:
        """None."""
        return 0

    def main(self, rng: Rng, *, nodes: tuple[str, ...], processes: int, rate_per_s: int) -> Generator:
        """Nothing."""
        del rng, nodes, processes, rate_per_s
        return Nothing()

    def final(self, rng: Rng, *, nodes: tuple[str, ...], processes: int) -> Generator:
        """Nothing."""
        del rng, nodes, processes
        return Nothing()


WORKLOAD = ElectionWorkload()
