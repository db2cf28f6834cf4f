"""How slow a machine is, and by which factor a run on it must be slower: measurements in, a time scale out, pure.

Measured are wake-ups (how late a thread runs that asked to), syncs of small writes, and round trips between hosts, by
the agents, before the first node starts. Nothing of it comes from the tested system: a slow system must not widen its
own limits.

The rule. A heartbeat must be sent, received, stored and answered in a quarter of the election timeout: one wake-up,
two syncs and one round trip, each the slowest of a hundred. And at most a tenth of the measured time may be what the
checkers would charge to noise (``dethrone.checkers.noise``: each longer stretch without progress of any host, and an
election round after it), counted with some headroom, for what comes later may be a little worse. The scale is the
smallest of ``SCALES`` at which both hold. Out of scope: measuring (``dethrone.harness.engine.run.measurement``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.duration import show_duration
from dethrone.harness.core.intervals import union
from dethrone.harness.core.promise import NOISE_SHARE_MAX_PERCENT, Promise
from dethrone.harness.core.timescale import SCALE_MAX, SCALES, longer, show_scale

ROUND_SHARE = 4
"""A heartbeat and its answer take at most this part of an election timeout."""

CHARGED_MAX_PERCENT = NOISE_SHARE_MAX_PERCENT // 2
"""What a calibration looks for; the run itself may be a little noisier."""

HEADROOM_PERCENT = 75
"""A stall counts from this part of the limit on."""

BEYOND = (12.0, 16.0, 24.0, 32.0, 64.0)
"""Factors above the cap, to say how slow a machine is that needs them."""

TAIL_PERMILLE, COMMON_PERMILLE = 999, 990


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What the hosts' agents measured, in ns, in any order. ``lost``: probes without an answer."""

    wakeups_ns: Sequence[Ns] = ()
    syncs_ns: Sequence[Ns] = ()
    trips_ns: Sequence[Ns] = ()
    stalls_ns: Sequence[tuple[Ns, Ns]] = ()
    """(since the measurement began, length) of the longer wake-ups, syncs, and waits for a processor."""
    watched_ns: Ns = 0
    """How long it was measured."""
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
        out["stalls"] = len(self.stalls_ns)
        out["lost"] = self.lost
        if self.unreadable:
            out["unreadable"] = list(self.unreadable)
        return out


def pooled(parts: Iterable[Measured]) -> Measured:
    """The measurements of several hosts in one window as one."""
    parts = tuple(parts)
    return Measured(
        wakeups_ns=tuple(value for part in parts for value in part.wakeups_ns),
        syncs_ns=tuple(value for part in parts for value in part.syncs_ns),
        trips_ns=tuple(value for part in parts for value in part.trips_ns),
        stalls_ns=tuple(stall for part in parts for stall in part.stalls_ns),
        watched_ns=max((part.watched_ns for part in parts), default=0),
        lost=sum(part.lost for part in parts),
        unreadable=tuple(dict.fromkeys(why for part in parts for why in part.unreadable)),
    )


def joined(windows: Sequence[Measured]) -> Measured:
    """Windows one after the other as one measurement."""
    begun: list[Measured] = []
    watched = 0
    for window in windows:
        later = tuple((watched + at, length) for at, length in window.stalls_ns)
        begun.append(msgspec.structs.replace(window, stalls_ns=later))
        watched += window.watched_ns
    return msgspec.structs.replace(pooled(begun), watched_ns=watched)


def quantile(ordered: Sequence[Ns], permille: int) -> Ns:
    """The smallest value that this many in a thousand do not exceed; 0 of nothing."""
    if not ordered:
        return 0
    rank = -(-permille * len(ordered) // 1000)
    return ordered[max(0, rank - 1)]


def needed(measured: Measured, promise: Promise) -> float:
    """By how much the system's timers would have to be longer here; 1 or less: they fit as they are.

    ``promise``: at the scale of 1.
    """
    wakeups, syncs, trips = (sorted(values) for values in (measured.wakeups_ns, measured.syncs_ns, measured.trips_ns))
    answered = (
        quantile(wakeups, COMMON_PERMILLE) + 2 * quantile(syncs, COMMON_PERMILLE) + quantile(trips, COMMON_PERMILLE)
    )
    return max(_calm(measured, promise), answered * ROUND_SHARE / max(1, promise.election_timeout_ns))


def _calm(measured: Measured, promise: Promise) -> float:
    """The smallest scale at which noise takes little enough of the run; else the one at which it takes least."""
    shares = {one: charged_percent(measured, promise, one) for one in (*SCALES, *BEYOND)}
    little = next((one for one, share in shares.items() if share <= CHARGED_MAX_PERCENT), BEYOND[-1])
    least = min(SCALES, key=lambda one: (shares[one], one))
    return least if little > SCALE_MAX and shares[least] <= NOISE_SHARE_MAX_PERCENT else little


def charged_percent(measured: Measured, promise: Promise, scale: float) -> float:
    """How much of the measured time noise would be charged for at this scale, in percent."""
    limit = longer(promise.noise_max_ns, scale) * HEADROOM_PERCENT // 100
    round_ns = longer(promise.election_timeout_ns, scale)
    charges = union((at, at + length + round_ns) for at, length in measured.stalls_ns if length > limit)
    return 100 * sum(hi - lo for lo, hi in charges) / max(1, measured.watched_ns)


def restless(measured: Measured, promise: Promise) -> bool:
    """Whether this looks like a machine on which a short measurement proves little."""
    return needed(measured, promise) > 1 or any(2 * length > promise.noise_max_ns for _, length in measured.stalls_ns)


def slowness(measured: Measured, promise: Promise) -> tuple[float, float]:
    """What to compare two measurements by: the scale that each needs, and what noise would cost at the scale of 1."""
    return max(1.0, needed(measured, promise)), charged_percent(measured, promise, 1)


def choose(factor: float) -> float | None:
    """The smallest sufficient one of ``SCALES``; None: the machine is too slow for all."""
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
    return "; ".join(parts) or "no measurements"
