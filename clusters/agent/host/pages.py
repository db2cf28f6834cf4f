"""Figures on a node's page of metrics, asked for again and again: which of them changed, or crossed a number.

Guarantees: a series is the text of its line up to the value, as the page prints it; a page that cannot be had, or lacks
the series, changes nothing, and the next value is compared with the last one known; every question and answer is
bounded. Out of scope: who waits for it (``sightings``).
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPConnection, HTTPException
from typing import Any, NamedTuple

from dethrone.clusters.agent.host.common import SECOND, now_ns

PAGE_EVERY_S = 0.05
"""From question to question: a page costs its node some milliseconds."""
PAGE_LIMIT_S = 0.5
PAGE_MAX = 8 << 20
HTTP_OK = 200


class SoughtFigure(NamedTuple):
    """A condition on one series; without ``above`` and ``below`` any change."""

    name: str
    series: str
    above: float | None
    below: float | None

    def crossed(self, before: float, now: float) -> bool:
        """Whether this change is looked for."""
        if self.above is None and self.below is None:
            return before != now
        rose = self.above is not None and before <= self.above < now
        return rose or (self.below is not None and before >= self.below > now)


def figure_in(page: bytes, series: str) -> float | None:
    """The value of this series on a page in the text format of Prometheus; None: it is not there, or no number."""
    start = b"\n" + series.encode() + b" "
    _, found, rest = (b"\n" + page).partition(start)
    words = rest.split(b"\n", 1)[0].split()
    try:
        value = float(words[0]) if found else math.nan
    except (IndexError, ValueError):
        return None
    return None if math.isnan(value) else value


class SearchedPage:
    """One page of the node. ``report``: takes each finding."""

    def __init__(
        self,
        address: str,
        port: int,
        path: str,
        sought: Sequence[SoughtFigure],
        report: Callable[[Mapping[str, Any]], None],
    ) -> None:
        self._connection = HTTPConnection(address, port, timeout=PAGE_LIMIT_S)
        self._path = path
        self._sought = sought
        self._report = report
        self._known: dict[str, tuple[float, int]] = {}
        """Name → its last value, and when that was asked for."""

    def watch(self) -> None:
        """Ask for ever."""
        while True:
            asked = now_ns()
            self.look(asked, self._page())
            time.sleep(max(0.001, PAGE_EVERY_S - (now_ns() - asked) / SECOND))

    def look(self, asked: int, page: bytes) -> None:
        """Compare a page, asked for at this moment, with what is known."""
        for one in self._sought:
            value = figure_in(page, one.series)
            if value is None:
                continue
            before, since = self._known.get(one.name, (value, asked))
            self._known[one.name] = (value, asked)
            if one.crossed(before, value):
                found = {"what": "metric", "lo": since, "hi": now_ns(), "name": one.name}
                self._report({**found, "before": before, "now": value})

    def _page(self) -> bytes:
        try:
            self._connection.request("GET", self._path)
            answer = self._connection.getresponse()
            page = answer.read(PAGE_MAX)
        except (OSError, HTTPException):
            self._connection.close()
            return b""
        if not answer.isclosed():  # it is longer than what is read of it
            self._connection.close()
        return page if answer.status == HTTP_OK else b""


def search_pages(
    address: str, sought: Sequence[Mapping[str, Any]], report: Callable[[Mapping[str, Any]], None]
) -> None:
    """Begin to ask this node for all pages on which something is looked for, a thread each."""
    pages: dict[tuple[int, str], list[SoughtFigure]] = {}
    for one in sought:
        figure = SoughtFigure(one["name"], one["metric"], one["above"], one["below"])
        pages.setdefault((one["port"], one["path"]), []).append(figure)
    for (port, path), figures in pages.items():
        page = SearchedPage(address, port, path, figures, report)
        threading.Thread(target=page.watch, name="page", daemon=True).start()
