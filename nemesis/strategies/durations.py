"""Times that strategies draw: by order of magnitude, and around the protocol's own timeouts.

What breaks an election is seldom long or short as such: it is about as long as something that the protocol waits for.
Guarantees: pure, integers only. Out of scope: which fault takes that long.
"""

from __future__ import annotations

from dethrone.harness.core.clock import MS, US, Ns
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.rng import Rng

MOMENT_NS: Ns = 100 * US
"""The shortest time that is drawn: a message is under way, a disk has not begun."""


def log_between(rng: Rng, lo: Ns, hi: Ns) -> Ns:
    """An integer of [lo, hi], ``lo`` above 0: each doubling is as likely as any other, within it all are."""
    doublings = 0
    while lo << (doublings + 1) <= hi:
        doublings += 1
    begin = lo << rng.between(0, doublings)
    return rng.between(begin, min(hi, 2 * begin - 1))


def around(rng: Rng, promise: Promise) -> Ns:
    """About a heartbeat, more often about an election timeout: from half of it to twice of it."""
    unit = rng.choice((promise.heartbeat_ns, promise.election_timeout_ns, promise.election_timeout_ns))
    return log_between(rng, max(1, unit // 2), max(1, 2 * unit))


def soon(rng: Rng, promise: Promise) -> Ns:
    """While what an event set off is still under way: on the wire, on a disk."""
    return log_between(rng, MOMENT_NS, max(2 * MS, promise.heartbeat_ns // 4))


def within_patience(rng: Rng, promise: Promise) -> Ns:
    """From a moment to an election timeout."""
    return log_between(rng, MOMENT_NS, max(MOMENT_NS, promise.election_timeout_ns))
