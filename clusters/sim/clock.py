"""The two clocks of one simulated host: what they show at a moment of the simulation, and when they show something.

Guarantees: integers only; the monotonic clock never goes back, under all faults, and keeps the offset of a wrong rate;
the wall clock is true again when its skew ends. Out of scope: timers.
"""

from __future__ import annotations

from dethrone.harness.core.clock import SECOND, Clocks, Ns
from dethrone.harness.core.hoststate import ClockSkew
from dethrone.harness.core.rng import Rng

FAR: Ns = 1 << 62
EPOCH_NS: Ns = 1_700_000_000 * SECOND
"""What a true wall clock shows at moment 0 of every simulation."""

_MILLION = 1_000_000
_BOOTED_BEFORE = (10 * SECOND, 3600 * SECOND)


class HostClock:
    """Both clocks of a host. ``mono_offset`` and ``wall_offset`` are all there is to them while ``plain``."""

    __slots__ = (
        "_mono_base",
        "_mono_ppm",
        "_mono_since",
        "_skew",
        "_skewed_since",
        "mono_offset",
        "plain",
        "wall_offset",
    )

    def __init__(self, rng: Rng) -> None:
        self._mono_base: Ns = rng.between(*_BOOTED_BEFORE)
        self._mono_since: Ns = 0
        self._mono_ppm = 0
        self._skew = ClockSkew()
        self._skewed_since: Ns = 0
        self.mono_offset = self._mono_base
        self.wall_offset = EPOCH_NS
        self.plain = True

    def set(self, skew: ClockSkew | None, now: Ns) -> None:
        """From now on the clocks are skewed like this; None: they run true."""
        self._mono_base, self._mono_since = self.mono(now), now
        self._skew = ClockSkew() if skew is None else skew
        self._skewed_since = now
        self._mono_ppm = self._skew.mono_rate_ppm
        self.mono_offset = self._mono_base - now
        self.wall_offset = EPOCH_NS + self._skew.offset_ns
        self.plain = not (self._mono_ppm or self._skew.rate_ppm or self._skew.strobe)

    def read(self, now: Ns) -> Clocks:
        """What both show."""
        return Clocks(self.mono(now), self.wall(now))

    def mono(self, now: Ns) -> Ns:
        """The monotonic clock."""
        since = now - self._mono_since
        return self._mono_base + since + since * self._mono_ppm // _MILLION

    def wall(self, now: Ns) -> Ns:
        """The wall clock."""
        skew, since = self._skew, now - self._skewed_since
        shown = EPOCH_NS + now + skew.offset_ns + since * skew.rate_ppm // _MILLION
        if skew.strobe is not None and since // skew.strobe.period_ns % 2:
            shown += skew.strobe.amplitude_ns
        return shown

    def mono_due(self, at: Ns) -> Ns:
        """The first moment at which the monotonic clock shows ``at`` or more, if its rate stays; may be in the past."""
        if not self._mono_ppm:
            return at - self.mono_offset
        when = self._mono_since + (at - self._mono_base) * _MILLION // (_MILLION + self._mono_ppm)
        while self.mono(when) < at:
            when += 1
        return when

    def wall_due(self, at: Ns, now: Ns) -> Ns:
        """A moment from ``now`` on at which it is worth looking whether the wall clock shows ``at``: not too late."""
        skew = self._skew
        missing = at - self.wall(now)
        if missing <= 0:
            return now
        if skew.rate_ppm > 0:
            missing = max(1, missing * _MILLION // (_MILLION + skew.rate_ppm))
        when = now + missing
        if skew.strobe is not None:
            period = skew.strobe.period_ns
            when = min(when, self._skewed_since + ((now - self._skewed_since) // period + 1) * period)
        return when
