"""What the machine did to the hosts, counted event by event: figures a host and kind, the longest disturbances, totals.

Guarantees: memory does not grow with the history. Out of scope: what noise excuses (``coverage`` judges that).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import msgspec

from dethrone.harness.core.events import NOISE_FIGURES, TRACE_MALFORMED, Noise

LONGEST_MAX = 500
"""Disturbances that are drawn."""

_SHOWN_APART = frozenset({"sources", "load"})


class Figure(msgspec.Struct, kw_only=True):
    """One kind of noise on one host. ``event``: the worst; of a ``summary`` the last, of malformed lines the first."""

    count: int
    event: Noise


class NoiseFold:
    """The noise of a history so far."""

    def __init__(self) -> None:
        self.figures: dict[tuple[str, str], Figure] = {}
        """Host and kind → what is known of it."""
        self.sources: dict[str, Mapping[str, Any]] = {}
        """Host → what was read there to notice noise, as it was said last."""
        self.totals: dict[str, Counter[str]] = defaultdict(Counter)
        """Host → how busy its machine was."""
        self.disturbances = 0
        self._longest: list[Noise] = []

    def add(self, event: Noise) -> None:
        """One event more."""
        if event.kind == "sources":
            self.sources[event.host] = event.detail
        elif event.kind == "load":
            self.totals[event.host].update({k: value for k, value in event.detail.items() if isinstance(value, int)})
        if event.kind not in _SHOWN_APART:
            self._count(event)
        if event.kind not in NOISE_FIGURES:
            self.disturbances += 1
            self._longest.append(event)
            if len(self._longest) > 4 * LONGEST_MAX:
                self._longest = _longest(self._longest)

    def longest(self) -> list[Noise]:
        """The disturbances: all, or the longest."""
        return self._longest if self.disturbances <= LONGEST_MAX else _longest(self._longest)

    def _count(self, event: Noise) -> None:
        known = self.figures.get((event.host, event.kind))
        if known is None:
            self.figures[event.host, event.kind] = Figure(count=1, event=event)
            return
        known.count += 1
        if event.kind == "summary" or (
            event.kind != TRACE_MALFORMED and abs(event.value_ns) > abs(known.event.value_ns)
        ):
            known.event = event


def _longest(events: list[Noise]) -> list[Noise]:
    return sorted(events, key=lambda event: (-abs(event.value_ns), event.seq))[:LONGEST_MAX]
