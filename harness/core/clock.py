"""Times as values: what a clock showed, and the span in which something was true.

Guarantees: integers only, nanoseconds everywhere. Out of scope: reading any clock: shells do that and pass the values
in.
"""

from __future__ import annotations

import msgspec

Ns = int
"""Integer nanoseconds. In a history: since the run began, on the harness' monotonic clock."""

US = 1_000
MS = 1_000_000
SECOND = 1_000_000_000


class Clocks(msgspec.Struct, frozen=True, gc=False):
    """What one node's two clocks showed at one moment, in ns: ``mono`` never goes back, ``wall`` may."""

    mono: Ns
    wall: Ns


class Span(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Something was true at SOME moment t with ``lo <= t <= hi`` (ns)."""

    lo: Ns
    hi: Ns
