"""The strategy ``pauses``: the leader, and a follower, frozen for multiples of what the protocol itself waits for.

The waits are the system's own: its heartbeat, its election timeout, and how long a leader without a majority may lead
(about its lease). A pause just below such a wait must change nothing that is owed, one just above it must be borne.
Guarantees: as ``enumerated``; the shortest pauses come first. Out of scope: drawn lengths (``random``, ``triggered``).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dethrone.harness.core.clock import MS, Ns
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.schedule import PlannedFault
from dethrone.nemesis.faults import pause
from dethrone.nemesis.strategies.enumerated import Entry, EnumeratedStrategy

MULTIPLES = (Fraction(1, 2), Fraction(9, 10), Fraction(11, 10), Fraction(2), Fraction(4))
"""Of each wait."""
VICTIMS = ("leader", "follower")


class PausesStrategy(EnumeratedStrategy, frozen=True, kw_only=True):
    """See ``dethrone.harness.core.interfaces.Strategy``."""

    name: str = "pauses"
    kinds: frozenset[str] = frozenset({pause.FAULT.kind})

    def entries(self, nodes: int, hold_ns: Ns, promise: Promise) -> Sequence[Entry]:
        """One pause each, as long as the promise says and not as long as the interval."""
        del hold_ns
        some = VICTIMS if nodes > 1 else VICTIMS[:1]
        return [
            (PlannedFault(kind=pause.FAULT.kind, victims=victims, hold_ns=length_ns),)
            for length_ns in lengths(promise)
            for victims in some
        ]


def lengths(promise: Promise) -> list[Ns]:
    """Every multiple of every wait, each once, the shortest first; none below a millisecond."""
    waits = {promise.heartbeat_ns, promise.election_timeout_ns, promise.step_down_ns or promise.election_timeout_ns}
    return sorted({max(MS, int(wait * multiple)) for wait in waits for multiple in MULTIPLES})


STRATEGY = PausesStrategy()
