"""How slow a machine is, and by which factor a run on it must be slower: measurements in, a time scale out, pure.

Measured are wake-ups (how late a thread runs that asked to), syncs of small writes, and round trips between hosts, by
the agents, before the first node starts. Nothing of it comes from the tested system: a slow system must not widen its
own limits.

The rule. A system rides out a stretch of ``noise_max_ns``, and of a sixth of its election timeout; and a heartbeat must
be sent, received, stored and answered in a quarter of that timeout. The scale is the smallest of ``SCALES`` at which
the slowest wake-up and sync of a thousand fit into the former, and one wake-up, two syncs and one round trip of a
hundred into the latter. Out of scope: measuring (``harness.engine.calibrating``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from harness.core.clock import Ns
from harness.core.duration import show_duration
from harness.core.promise import Promise
from harness.core.timescale import SCALE_MAX, SCALES, show_scale

STRETCH_SHARE = 6
"""A stall of this part of an election timeout deposes nobody."""

ROUND_SHARE = 4
"""A heartbeat and its answer take at most this part of an election timeout."""

TAIL_PERMILLE, COMMON_PERMILLE = 999, 990


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What the hosts' agents measured, in ns, in any order. ``lost``: probes that nobody answered."""

    wakeups_ns: Sequence[Ns] = ()
    syncs_ns: Sequence[Ns] = ()
    trips_ns: Sequence[Ns] = ()
    lost: int = 0
    unreadable: Sequence[str] = ()
    """What could not be measured, and why."""

    def figures(self) -> dict[str, Any]:
        """The figures that the choice rests on, for plan and report."""
        out: dict[str, Any] = {}
        for name, values in (("wakeup", self.wakeups_ns), ("sync", self.syncs_ns), ("trip", self.trips_ns)):
            out[f"{name}s"] = len(values)
            if values:
                ordered = sorted(values)
                out[f"{name}_p99_ns"] = quantile(ordered, COMMON_PERMILLE)
                out[f"{name}_p999_ns"] = quantile(ordered, TAIL_PERMILLE)
                out[f"{name}_max_ns"] = ordered[-1]
        out["lost"] = self.lost
        if self.unreadable:
            out["unreadable"] = list(self.unreadable)
        return out


def pooled(parts: Iterable[Measured]) -> Measured:
    """The measurements of several hosts, or of several windows, as one."""
    parts = tuple(parts)
    return Measured(
        wakeups_ns=tuple(value for part in parts for value in part.wakeups_ns),
        syncs_ns=tuple(value for part in parts for value in part.syncs_ns),
        trips_ns=tuple(value for part in parts for value in part.trips_ns),
        lost=sum(part.lost for part in parts),
        unreadable=tuple(dict.fromkeys(why for part in parts for why in part.unreadable)),
    )


def quantile(ordered: Sequence[Ns], permille: int) -> Ns:
    """The smallest value that so many in a thousand do not exceed; 0 of nothing."""
    if not ordered:
        return 0
    rank = -(-permille * len(ordered) // 1000)
    return ordered[max(0, rank - 1)]


def needed(measured: Measured, promise: Promise) -> float:
    """By how much the system's timers would have to be longer here; 1 or less: they fit as they are.

    ``promise``: at the scale of 1.
    """
    wakeups, syncs, trips = (sorted(values) for values in (measured.wakeups_ns, measured.syncs_ns, measured.trips_ns))
    stretch = max(quantile(wakeups, TAIL_PERMILLE), quantile(syncs, TAIL_PERMILLE))
    room = max(promise.noise_max_ns, promise.election_timeout_ns // STRETCH_SHARE, 1)
    answered = (
        quantile(wakeups, COMMON_PERMILLE) + 2 * quantile(syncs, COMMON_PERMILLE) + quantile(trips, COMMON_PERMILLE)
    )
    return max(stretch / room, answered * ROUND_SHARE / max(1, promise.election_timeout_ns))


def choose(factor: float) -> float | None:
    """The smallest of ``SCALES`` that is enough; None: none is, the machine is too slow."""
    return next((scale for scale in SCALES if scale >= factor), None)


def too_slow(factor: float, figures: Mapping[str, Any]) -> str:
    """The sentence for a machine on which no scale is enough."""
    return (
        f"machine too slow: timers would have to be {factor:.1f} times as long ({words(figures)}), the most is"
        f" {show_scale(SCALE_MAX)}; run fewer nodes, stop what else runs here, or give --time-scale 1 to run all the"
        " same"
    )


def words(figures: Mapping[str, Any]) -> str:
    """The figures in one line."""
    parts = [
        f"{name} {show_duration(figures[f'{key}_p99_ns'])} (99 %), {show_duration(figures[f'{key}_p999_ns'])} (99.9 %)"
        for key, name in (("wakeup", "wake-ups late by"), ("sync", "syncs"), ("trip", "round trips"))
        if f"{key}_p99_ns" in figures
    ]
    return "; ".join(parts) or "nothing was measured"
