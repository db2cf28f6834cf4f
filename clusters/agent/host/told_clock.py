"""The wall clock of the node as the node itself prints it, by a command that its description names.

Guarantees: a skew that is wrong by more than the description tolerates, besides the time of the question, is found;
what was printed is evidence; a pattern that runs away, and a command that does not end, cost a bounded time. A step
smaller than what the printed digits show is not distinguished from none: ``within_ns`` says how exact an answer is. Out
of scope: whether the command asks the node: a program that prints its own clock has none that is skewed.
"""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from dethrone.clusters.agent.host.common import SECOND, Refused, now_ns
from dethrone.clusters.agent.host.confinement import Confined
from dethrone.clusters.agent.host.patterns import Matcher
from dethrone.clusters.agent.host.processes import Processes

TOLD_LIMIT_S = 1.0
"""How long the command may take."""
TOLD_TRIES = 3
"""How often it is asked before its clock counts as wrong."""
TOLD_MAX = 4096
"""How many bytes of its output are looked at."""
TOLD_SHOWN = 120
UNITS_NS = {"s": SECOND, "ms": SECOND // 1000, "us": 1000, "ns": 1}
"""Groups of a pattern, which add up → ns; the group ``time`` is a date and a time instead."""
DATE_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?\s*(?:(Z|UTC)|([+-])(\d\d):?(\d\d)?)?\s*"
)


def printed_time(groups: Mapping[str, str | None]) -> tuple[int, int]:
    """The wall time (ns) in a pattern's groups, and the ns to which it is exact. ValueError: there is none."""
    text = groups.get("time")
    if text is not None:
        return _date_time(text)
    total = exact = 0
    for unit, size in UNITS_NS.items():
        number = groups.get(unit)
        if number is not None:
            whole, _, part = number.partition(".")
            total += int(whole) * size + int(part or "0") * size // 10 ** len(part)
            exact = max(1, size // 10 ** len(part))
    if not exact:
        raise ValueError("no group of the pattern matched")
    return total, exact


def _date_time(text: str) -> tuple[int, int]:
    found = DATE_TIME.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text[:TOLD_SHOWN]!r} is no date and time")
    part = found[7] or ""
    total = calendar.timegm((*(int(found[place]) for place in range(1, 7)), 0, 0, 0)) * SECOND
    total += int(part or "0") * SECOND // 10 ** len(part)
    if found[9]:
        east = int(found[10]) * 3600 + int(found[11] or "0") * 60
        total -= (east if found[9] == "+" else -east) * SECOND
    return total, SECOND // 10 ** len(part)


class Told(NamedTuple):
    """One answer: what was printed, the time in it, the ns to which it is exact, and our clocks around the question."""

    printed: str
    wall_ns: int
    exact_ns: int
    wall: tuple[int, int]
    mono: tuple[int, int]

    def skew(self) -> tuple[int, int]:
        """The skew (ns) of what was printed, and how far it may be from that."""
        low, high = self.wall_ns - self.wall[1], self.wall_ns + self.exact_ns - self.wall[0]
        return (low + high) // 2, (high - low + 1) // 2

    def error(self, right: Iterable[int]) -> int:
        """By how much (ns) it is wrong for certain, where one of these skews is right."""
        skew, within = self.skew()
        return min(max(0, abs(skew - one) - within) for one in right)


class ToldClock:
    """Asks the node. ``question``: argv, pattern and tolerance; ``runs_as``: the command's user, None: the agent's."""

    def __init__(
        self, processes: Processes, question: Mapping[str, Any], runs_as: Callable[[], Confined | None]
    ) -> None:
        self.question = question
        self._processes = processes
        self._runs_as = runs_as
        self._matcher = Matcher(question["pattern"], processes)

    def ask(self, wall: Callable[[], int] = time.time_ns) -> Told:
        """One answer. Raises Refused if there is none, with what was printed. ``wall``: a clock without skew."""
        argv = self.question["argv"]
        began = wall(), now_ns()
        code, out, err = self._processes.tool(argv, limit_s=TOLD_LIMIT_S, cap=TOLD_MAX, node=self._runs_as())
        ended = wall(), now_ns()
        printed = out.decode("utf-8", "replace").strip()
        shown = " ".join((printed or err.decode("utf-8", "replace")).split())[:TOLD_SHOWN]
        if code != 0:
            raise Refused(f"{argv[0]} ended with {code}: {shown}")
        groups = self._matcher.groups(printed)
        if groups is None:
            raise Refused(f"{argv[0]} printed {shown!r}, in which the pattern finds no time")
        try:
            told, exact = printed_time(groups)
        except ValueError as error:
            raise Refused(f"{argv[0]} printed {shown!r}: {error}") from error
        return Told(shown, told, exact, (began[0], ended[0]), (began[1], ended[1]))

    def compared(
        self, expected: Callable[[int], tuple[int, ...]], wall: Callable[[], int] = time.time_ns
    ) -> tuple[str, dict[str, Any]]:
        """Why its clock is not as expected, and what it printed. ``expected``: the right skews at a monotonic time.

        A command without an answer says nothing for or against: that is among what was found.
        """
        why, found = "", {}
        for _ in range(TOLD_TRIES):
            try:
                told = self.ask(wall)
            except Refused as refused:
                return "", {"unanswered": str(refused)}
            error = told.error((*expected(told.mono[0]), *expected(told.mono[1])))
            skew, within = told.skew()
            found = {"printed": told.printed, "skew_ns": skew, "within_ns": within, "error_ns": error}
            if error <= self.question["tolerance_ns"]:
                return "", found
            why = f"the process itself printed {told.printed!r}: a skew of {skew} ns, off by {error} ns"
        return why, found
