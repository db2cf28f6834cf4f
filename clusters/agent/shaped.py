"""What a burst of datagrams must look like on a link of a given quality, and what is wrong with one that arrived. Pure.

Guarantees: a burst is long enough to distinguish the quality from none, as far as a second allows; chance alone makes a
good link look wrong less than once in ten thousand rounds. Out of scope: sending bursts, and rounds (``link_proof``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from dethrone.harness.core.clock import MS, SECOND, Ns
from dethrone.harness.core.hoststate import LinkQuality

HEADERS_BYTES = 28
"""Of IPv4 and UDP, which a rate counts, too."""
SMALL_BYTES, LARGE_BYTES = 100, 1000
COUNT_MIN, COUNT_MAX = 40, 400
PLAIN_COUNT = 20
EVIDENT = 10
"""How many datagrams that suffer are wanted in a burst."""
DEVIATIONS = 4
"""How many standard deviations a share may be off."""
RATE_WINDOW_NS = SECOND // 10
RATE_TOLERANCE = 0.1
RATE_FULL_KBIT_PER_S = 50_000
"""A faster link is not filled by the agents' bursts; only that it is not faster than wanted is proved."""
SLACK_NS = 10 * MS
"""How much later than wanted the soonest of a burst may be, or a fifth of what is wanted."""
EARLY_NS = MS // 2
PLAIN_LATE_NS = 20 * MS
"""A link whose median is later is not healed."""
PROVABLE_NS = 10 * SECOND
"""A longer delay is not waited for."""


class Burst(NamedTuple):
    """How many datagrams are sent, and of how many bytes."""

    datagrams: int
    size: int


class Arrived(NamedTuple):
    """What arrived of a burst (``agent.host.bursts.summary``): ``late_lo``, ``late_hi``: by how much the clocks of both
    ends may differ, at least and at most, added to each ``late_…``."""

    found: Mapping[str, int]
    late_lo: Ns
    late_hi: Ns
    checksum_errors: int


def latest_ns(quality: LinkQuality) -> Ns:
    """The longest time that a datagram may take, apart from a rate."""
    return quality.delay_ns + quality.jitter_ns + quality.reorder_ns


def burst_of(quality: LinkQuality | None) -> Burst:
    """The burst that distinguishes this quality from none; None: a plain link."""
    if quality is None:
        return Burst(PLAIN_COUNT, SMALL_BYTES)
    count, size = COUNT_MIN, SMALL_BYTES
    for percent in (_missing(quality) * 100, quality.duplicate_percent, quality.reorder_percent):
        if percent:
            count = max(count, math.ceil(EVIDENT * 100 / percent))
    rate = quality.rate_kbit_per_s or 0
    if rate:
        size = SMALL_BYTES if rate < 1000 else LARGE_BYTES
        in_window = rate * 1000 * RATE_WINDOW_NS // SECOND // ((size + HEADERS_BYTES) * 8)
        fits = max(2, 9 * in_window)  # a longer burst is dropped in part, as a router would
        count = min(max(count, in_window), fits)
    return Burst(min(count, COUNT_MAX), size)


def time_of(quality: LinkQuality | None) -> Ns:
    """How long its burst may take to arrive."""
    if quality is None:
        return 0
    burst = burst_of(quality)
    rate = quality.rate_kbit_per_s or 0
    carried = burst.datagrams * (burst.size + HEADERS_BYTES) * 8 * 1_000_000 // rate if rate else 0
    return latest_ns(quality) + carried


def is_certain(quality: LinkQuality | None) -> bool:
    """Whether all datagrams arrive, each once, so that there is nothing to wait for afterwards."""
    return quality is None or not (_missing(quality) or quality.duplicate_percent)


def _missing(quality: LinkQuality) -> float:
    """The share of datagrams that does not arrive."""
    return 1 - (1 - quality.loss_percent / 100) * (1 - (quality.corrupt_percent or 0) / 100)


def wrong(quality: LinkQuality | None, burst: Burst, arrived: Arrived | None) -> str:
    """What contradicts that the link has this quality ("": nothing). ``arrived`` None: nothing did."""
    share = 0.0 if quality is None else _missing(quality)
    count = 0 if arrived is None else arrived.found["arrived"]
    problem = _off("arrived", count, burst.datagrams, 1 - share)
    if problem or arrived is None or quality is None or not count:
        return problem or ("" if arrived is None or quality is not None else _not_plain(arrived))
    checks = (
        _off("arrived twice", arrived.found["twice"], count, quality.duplicate_percent / 100),
        _not_reordered(quality, arrived, count),
        _mistimed(quality, arrived),
        _unlike_rate(quality, burst, arrived),
        "no checksum was wrong" if quality.corrupt_percent and not arrived.checksum_errors else "",
    )
    return "; ".join(filter(None, checks))


def _off(what: str, seen: int, of: int, share: float) -> str:
    """Whether the share of those seen is too far from the wanted one; a certain share is exact."""
    most = DEVIATIONS * math.sqrt(of * share * (1 - share))
    evident = of * share * (1 - share) >= EVIDENT / 2
    if abs(seen - of * share) <= most + (0 if share in {0, 1} else 0.5) and not (evident and seen in {0, of}):
        return ""
    return f"{seen} of {of} probes {what}, {100 * share:.4g} % are wanted"


def _not_plain(arrived: Arrived) -> str:
    if arrived.found["twice"]:
        return f"{arrived.found['twice']} probes arrived twice"
    late = arrived.found["late_median"] + arrived.late_lo
    return f"probes still take {late / MS:.3g} ms" if late > PLAIN_LATE_NS else ""


def _not_reordered(quality: LinkQuality, arrived: Arrived, count: int) -> str:
    wanted = quality.reorder_ns >= MS and count * quality.reorder_percent / 100 >= EVIDENT / 2
    return "no probe was overtaken" if wanted and not arrived.found["overtaken"] else ""


def _mistimed(quality: LinkQuality, arrived: Arrived) -> str:
    earliest = arrived.found["late_min"] + arrived.late_hi
    if earliest < quality.delay_ns - EARLY_NS:
        return f"a probe took {earliest / MS:.3g} ms, {quality.delay_ns / MS:.4g} ms are wanted"
    most = latest_ns(quality)
    soonest = arrived.found["late_min"] + arrived.late_lo
    if not quality.rate_kbit_per_s and soonest > most + max(SLACK_NS, most // 5):
        return f"every probe took {soonest / MS:.3g} ms or longer, at most {most / MS:.4g} ms are wanted"
    latest = arrived.found["late_max"] + arrived.late_hi
    if quality.jitter_ns > MS and latest < quality.delay_ns + quality.jitter_ns // 10:
        return f"no probe took longer than {latest / MS:.3g} ms, there is no jitter"
    return ""


def _unlike_rate(quality: LinkQuality, burst: Burst, arrived: Arrived) -> str:
    rate, count, took = quality.rate_kbit_per_s or 0, arrived.found["arrived"], arrived.found["took"]
    if not rate or count < 3 or quality.reorder_percent or quality.duplicate_percent or quality.corrupt_percent:
        return ""
    measured = (count - 1) * (burst.size + HEADERS_BYTES) * 8 * 1_000_000 / max(1, took)
    slow = measured < rate * (1 - RATE_TOLERANCE) and rate <= RATE_FULL_KBIT_PER_S
    if slow or measured > rate * (1 + RATE_TOLERANCE):
        return f"the link carried {measured:.4g} kbit/s, {rate} are wanted"
    return ""
