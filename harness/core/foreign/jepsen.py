"""Jepsen's ``history.edn``: a vector of op maps, or one map after another.

An op map has ``:type`` (``:invoke``, ``:ok``, ``:fail``, ``:info``), ``:process``, ``:f``, ``:value``, and may have
``:time`` (ns), ``:index`` and ``:key``. The order of events is that of ``:index``, where there is one, else that of the
lines; a line may stand up to ``WINDOW`` events away from its place. Processes that are no numbers (``:nemesis``) are
passed over and counted. Keywords are words with their colon; of ``:f`` and ``:type`` the colon goes.

Source: Jepsen's documentation of histories, jepsen.io; github.com/jepsen-io/history.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Any

from dethrone.harness.core.foreign.edn import KNOWN_MAX, forms
from dethrone.harness.core.foreign.pairing import FileEvent, Pairing

WINDOW = 10_000
"""Events that wait for one with a smaller index, at most."""


def read(pieces: Iterable[str], where: str, pairing: Pairing) -> None:
    """Feed a file's text into ``pairing``. Raises HistoryError with the line of what is wrong."""
    words = _Words()
    for op, line in _in_order(forms(pieces, where, unpack=True), pairing):
        process = op.get(":process")
        kind = op.get(":type")
        kind = words[kind] if type(kind) is str else None
        f = op.get(":f")
        if type(process) is not int:
            if kind is None and process is None:
                raise pairing.fault("a map without :type and :process", line, cause="this is no history of Jepsen")
            pairing.ignore()
            continue
        time_ns = op.get(":time")
        event = FileEvent(
            kind or "",
            process,
            words[f] if type(f) is str else None,
            op.get(":key"),
            op.get(":value"),
            time_ns if type(time_ns) is int else None,
            line,
        )
        if not pairing.take(event):
            return


def _in_order(lines: Iterable[tuple[Any, int]], pairing: Pairing) -> Iterator[tuple[Mapping[Any, Any], int]]:
    """Op maps with their lines, by index; a map without one stands where it is."""
    early: list[tuple[int, int, int, Mapping[Any, Any]]] = []
    last = -1
    for number, (op, line) in enumerate(lines):
        if not isinstance(op, Mapping):
            raise pairing.fault(
                f"{str(op)[:40]!r} is no operation",
                line,
                cause="a history is a vector of maps, or one map after another",
            )
        index = op.get(":index")
        if index == last + 1 and not early and type(index) is int:
            last = index
            yield op, line
            continue
        wait = WINDOW
        if type(index) is int:
            heapq.heappush(early, (index, number, line, op))
        else:
            wait = 0
        while early and (early[0][0] <= last + 1 or len(early) > wait):
            last = yield from _next(early, last, pairing)
        if not wait:
            yield op, line
    while early:
        last = yield from _next(early, last, pairing)


def _next(
    early: list[tuple[int, int, int, Mapping[Any, Any]]], last: int, pairing: Pairing
) -> Generator[tuple[Mapping[Any, Any], int], None, int]:
    """Hand out the event with the smallest index; returns that index."""
    index, _, line, op = heapq.heappop(early)
    if index <= last:
        raise pairing.fault(f"the index goes from {last} to {index}", line, cause="two histories in one file")
    yield op, line
    return index


class _Words(dict[str, str]):
    """Words without their colon, as they come up."""

    def __missing__(self, word: str) -> str:
        bare = word.removeprefix(":")
        if len(self) < KNOWN_MAX:
            self[word] = bare
        return bare
