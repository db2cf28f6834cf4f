"""A whole run in at most ``BUCKETS_MAX`` stretches of equal length: leaders, troubles, elections, how clients fared.

Guarantees: what is kept does not grow with the history's events: a few numbers for each second of each lane, and the
troubles that a second separates; what is given out is bounded, however long the run. Times are whole µs.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dethrone.harness.core.clock import SECOND, US, Ns
from dethrone.harness.report.lanes import RoleSpan, TroubleSpan

BUCKETS_MAX = 2_000
INTERVALS_MAX = 4_000
"""Troubles, and faults: neighbours become one until there are at most as many."""

ELECTIONS_MAX = 2_000
"""Elections that are drawn one by one."""

_S = 1_000_000
"""µs of a second."""
SECONDS_MAX = 4_000_000
"""Seconds of a run that are drawn; a history that names later ones is damaged, or not ours."""
_WORDS_MAX = 64
_MINUTE = 60


class Overview:
    """The overview of a run so far. ``statuses``: how many ways there are for an operation to end."""

    def __init__(self, lanes: int) -> None:
        self.rate: list[list[int]] = []
        """Per second: how many operations ended ok, fail, info; µs that they took together, and the longest."""
        self._roles: dict[tuple[int, int, str], array[int]] = {}
        """Lane, role class and word → µs of each second."""
        self._terms: list[list[int]] = [[] for _ in range(lanes)]
        self._troubles: dict[tuple[int, str], list[list[Any]]] = defaultdict(list)
        self._elections: dict[str, Elections] = defaultdict(Elections)

    def operation(self, t: Ns, status: int, took: Ns) -> None:
        """An operation ended."""
        second = t // SECOND
        if not 0 <= second < SECONDS_MAX:
            return
        while len(self.rate) <= second:
            self.rate.append([0, 0, 0, 0, 0])
        row = self.rate[second]
        row[status] += 1
        row[3] += took // US
        row[4] = max(row[4], took // US)

    def role(self, lane: int, role: int, span: RoleSpan) -> None:
        """A node was in a role of this class."""
        key = (lane, role, span.role)
        if key not in self._roles and len(self._roles) >= _WORDS_MAX * len(self._terms):
            key = (lane, role, "")  # no system has as many words; a broken one may
        seconds = self._roles.setdefault(key, array("l"))
        terms = self._terms[lane]
        lo, hi = (min(max(0, at // US), SECONDS_MAX * _S - 1) for at in (span.lo, span.hi))
        last = max(hi - 1, lo) // _S
        for filled, empty in ((seconds, 0), (terms, 0)):
            filled.extend([empty] * (last + 1 - len(filled)))
        for second in range(lo // _S, last + 1):
            seconds[second] += min(hi, (second + 1) * _S) - max(lo, second * _S)
            terms[second] = max(terms[second], span.term)

    def trouble(self, lane: int, span: TroubleSpan) -> None:
        """Something was wrong with a node's host."""
        found = self._troubles[lane, span.kind]
        lo, hi = span.lo // US, span.hi // US
        if found and lo - found[-1][1] <= _S:
            last = found[-1]
            last[:] = [last[0], max(last[1], hi), last[2] + 1, last[3], last[4] and span.confirmed]
        else:
            found.append([lo, hi, 1, span.text, span.confirmed])

    def election(self, source: str, t: Ns, key: Any, row: Any) -> None:
        """A node was elected: by a mark with this source, sort key and row."""
        self._elections[source].add(t, key, row)

    # --- what is given out ------------------------------------------------------------------------------------------

    @staticmethod
    def width(end: Ns, *, most: int = BUCKETS_MAX, unit: int = 1) -> int:
        """Seconds of a bucket, a multiple of ``unit``."""
        return -(-length_s(end) // (most * unit)) * unit

    def roles(self, lane: int, end: Ns, leads: int, decided: Callable[[int, str], int]) -> list[int]:
        """Per bucket, one after another: percent of it in which the node led, its class the rest of the time (-1: not
        known), its highest term. ``leads``: the class of leaders; ``decided``: the class of a role, by class and word.
        """
        width = self.width(end)
        out: list[int] = []
        spans: dict[int, list[array[int]]] = defaultdict(list)
        for (of, role, word), seconds in self._roles.items():
            if of == lane:
                spans[decided(role, word)].append(seconds)
        for start in range(0, length_s(end), width):
            times = {kind: sum(sum(one[start : start + width]) for one in many) for kind, many in spans.items()}
            led = times.pop(leads, 0)
            share = max(1, led * 100 // (width * _S)) if led else 0
            other = max(times, key=lambda kind: times[kind], default=-1)
            rest = other if times.get(other) else -1
            out += [share, rest, max(self._terms[lane][start : start + width], default=0)]
        return out

    def troubles(self, lanes: int, end: Ns) -> list[list[list[Any]]]:
        """A list a lane: ``[lo, hi, kind, text, sure]``."""
        merged = fitting(self._troubles, self.width(end) * _S)
        out: list[list[list[Any]]] = [[] for _ in range(lanes)]
        for (lane, kind), spans in merged.items():
            out[lane] += [
                [lo, hi, kind, text if count == 1 else f"{count} × {kind}", sure] for lo, hi, count, text, sure in spans
            ]
        return [sorted(spans, key=lambda span: (span[0], span[2])) for spans in out]

    def rates(self, end: Ns) -> list[list[int]]:
        """Per bucket: ok, fail, info, mean µs, longest µs."""
        out = []
        for rows in _parts(self.rate, self.width(end), end):
            counts = [sum(column) for column in zip(*(row[:4] for row in rows), strict=True)] or [0, 0, 0, 0]
            total = sum(counts[:3])
            out.append([*counts[:3], counts[3] // total if total else 0, max((row[4] for row in rows), default=0)])
        return out

    def elections(self, end: Ns, counts: Callable[[str], bool]) -> tuple[int, list[int], list[Any], int]:
        """Seconds of a stretch (a minute, unless the run is very long), elections in each, those drawn one by one, and
        how many there were. ``counts``: whether a source does."""
        kept = [found for source, found in self._elections.items() if counts(source)]
        width = self.width(end, unit=_MINUTE)
        seconds = [sum(column) for column in zip(*(found.padded(end) for found in kept), strict=True)]
        bins = [sum(part) for part in _parts(seconds, width, end)]
        rows = sorted((item for found in kept for item in found.items), key=lambda item: item[0])
        return width, bins, [row for _, row in thinned(rows, ELECTIONS_MAX)], sum(bins)


class Elections:
    """Of one source: how many in each second, and some of them."""

    def __init__(self) -> None:
        self.seconds = array("l")
        self.items: list[tuple[Any, Any]] = []
        self._every = 1
        self._count = 0

    def add(self, t: Ns, key: Any, row: Any) -> None:
        """One more."""
        second = min(max(0, t // SECOND), SECONDS_MAX - 1)
        self.seconds.extend([0] * (second + 1 - len(self.seconds)))
        self.seconds[second] += 1
        if self._count % self._every == 0:
            self.items.append((key, row))
        self._count += 1
        if len(self.items) > 2 * ELECTIONS_MAX:
            self.items, self._every = self.items[::2], self._every * 2

    def padded(self, end: Ns) -> list[int]:
        """Each second of the run."""
        whole = length_s(end)
        return [*self.seconds[:whole], *[0] * (whole - len(self.seconds))]


def thinned(items: list[Any], most: int) -> list[Any]:
    """At most as many, evenly."""
    if len(items) <= most:
        return items
    return [items[index * len(items) // most] for index in range(most)]


def fitting(spans: dict[Any, list[list[Any]]], gap: int) -> dict[Any, list[list[Any]]]:
    """Spans ``[lo, hi, count, …, sure]``, by moment; those no further apart than ``gap`` (more, if they are too many)
    are one."""
    while True:
        spans = {key: _merged(some, gap) for key, some in spans.items()}
        if sum(map(len, spans.values())) <= max(INTERVALS_MAX, len(spans)):
            return spans
        gap *= 2


def _merged(spans: Iterable[list[Any]], gap: int) -> list[list[Any]]:
    out: list[list[Any]] = []
    for span in spans:
        if out and span[0] - out[-1][1] <= gap:
            last = out[-1]
            out[-1] = [last[0], max(last[1], span[1]), last[2] + span[2], *last[3:-1], last[-1] and span[-1]]
        else:
            out.append(span)
    return out


def _parts(values: Sequence[Any], width: int, end: Ns) -> list[Sequence[Any]]:
    return [values[start : start + width] for start in range(0, length_s(end), width)]


def length_s(end: Ns) -> int:
    """Seconds of a run that ends then, the last one begun."""
    return min(end // SECOND + 1, SECONDS_MAX)
