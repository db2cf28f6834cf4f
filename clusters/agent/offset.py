"""The offset between an agent's clock and the harness', computed from exchanges of messages.

Guarantees: the bounds contain the true offset as long as the clocks drift by at most ``DRIFT_PPM``; on one kernel they
are exact. Out of scope: when messages are exchanged (``link``).
"""

from __future__ import annotations

from dethrone.harness.core.clock import Ns

CLOCK_SAMPLES = 16
DRIFT_PPM = 200
"""Upper bound of the drift between two machines' monotonic clocks; old samples are widened by it."""


class Offset:
    """The offset between the agent's clock and the harness': harness − agent is within ``bounds``, ns.

    Each exchange (asked, agent's time, answered) bounds it; the bounds are intersected, older ones widened by drift.
    On one kernel both clocks are the same, and the bounds are exact.
    """

    def __init__(self) -> None:
        self._samples: list[tuple[int, int, int]] = []
        self._same = False

    def same_kernel(self) -> None:
        """Both ends run on one boot of one kernel: they share a clock unless a sample contradicts that."""
        self._same = True

    def add(self, asked: Ns, said: Ns, answered: Ns) -> None:
        """Add one exchange."""
        self._samples = [*self._samples[1 - CLOCK_SAMPLES :], (asked - said, answered - said, answered)]

    @property
    def bounds(self) -> tuple[Ns, Ns]:
        """Lower and upper bound; (0, 0) before the first exchange."""
        samples = self._samples  # the reader's thread may replace the list
        if not samples:
            return 0, 0
        newest = samples[-1][2]
        wide = [(newest - at) * DRIFT_PPM // 1_000_000 for _, _, at in samples]
        lo = max(sample[0] - slack for sample, slack in zip(samples, wide, strict=True))
        hi = min(sample[1] + slack for sample, slack in zip(samples, wide, strict=True))
        if lo > hi:  # the clock was stepped or the machine slept: only the newest exchange counts
            lo, hi = samples[-1][:2]
        return (0, 0) if self._same and lo <= 0 <= hi else (lo, hi)
