"""thrice: the same kind hits the leader three times in a row. A toy: one file, and the whole of a strategy."""

from __future__ import annotations

from collections.abc import Mapping

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.interfaces import Fault
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import Schedule, Step


class Thrice:
    """See ``dethrone.harness.core.interfaces.Strategy``."""

    def draw(
        self, rng: Rng, *, faults: Mapping[str, Fault], nodes: int, time_limit_ns: Ns, interval_ns: Ns, promise: Promise
    ) -> Schedule:
        """Three steps of one fault."""
        del time_limit_ns
        kind = rng.choice(sorted(faults))
        one = faults[kind].draw(rng, nodes=nodes, hold_ns=interval_ns, knobs={"victims": "leader"})
        steps = (Step(faults=(one,), gap_ns=promise.election_timeout_ns),) * 3
        return Schedule(seed=rng.seed, strategy="thrice", steps=steps)


STRATEGY = Thrice()
