"""A user's pattern over command lines, or what a command printed, matched in a process of its own.

Guarantees: a pattern that takes too long is refused after a bounded time, while the agent continues to serve. Out of
scope: which command lines are matched (``adopted``).
"""

from __future__ import annotations

import json
import re
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from dethrone.clusters.agent.host.asked import AskedProcess
from dethrone.clusters.agent.host.common import Refused
from dethrone.clusters.agent.host.processes import Processes

"""The agent's own file, which also runs the matcher; this module alone does not (see ``agent.bundle``)."""
MATCH_LIMIT_S = 0.05
"""Limit of processor time for a user's pattern on one text."""
MATCHED_MAX = 64 << 10
"""How many characters of a command line are matched, from its beginning."""
MATCH_WAIT_S = 5.0
"""Limit for all command lines of a machine, including the start of the process that matches them."""


class TooSlow(Exception):  # noqa: N818 - names the thing found
    """A pattern exceeded its time limit."""


def _too_slow(*_: object) -> None:
    raise TooSlow


def matched(pattern: str, texts: Sequence[str], *, grouped: bool = False) -> dict[str, Any]:
    """``found``: the indices of the texts that a pattern matches; ``grouped``: its named groups in each of those
    instead. ``slow``: which text took too long; ``error``: why none.

    Runs in the main thread of a process whose SIGVTALRM raises TooSlow: a pattern blocks the whole process.
    """

    def search(compiled: re.Pattern[str], text: str) -> re.Match[str] | None:
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, MATCH_LIMIT_S)
            return compiled.search(text)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return {"error": f"it is no valid pattern here: {error}"}
    found: list[Any] = []
    for place, text in enumerate(texts):
        try:
            match = search(compiled, text[:MATCHED_MAX])
        except TooSlow:
            return {"slow": place}
        if match is not None:
            found.append(match.groupdict() if grouped else place)
    return {"found": found}


def match() -> int:
    """Answer questions ``{"pattern", "texts", "grouped"}``, one per line of stdin, until it ends."""
    signal.signal(signal.SIGVTALRM, _too_slow)
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        answer = matched(asked["pattern"], asked["texts"], grouped=asked.get("grouped") is True)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    return 0


def found_by(pattern: str, texts: Sequence[str], answer: Mapping[str, Any]) -> list[Any]:
    """What an answer of ``match`` found. Raises Refused if the pattern could not be matched."""
    if "slow" in answer:
        text = texts[int(answer["slow"])]
        raise Refused(f"the pattern {pattern!r} needs longer than {MATCH_LIMIT_S * 1000:.0f} ms for {text[:200]!r}")
    if "error" in answer:
        raise Refused(f"the pattern {pattern!r} cannot be matched: {answer['error']}")
    return list(answer["found"])


class Matcher:
    """Matches a user's pattern in a process of its own, which is killed if it does not answer in time."""

    def __init__(self, pattern: str, processes: Processes) -> None:
        self._pattern = pattern
        self._lock = threading.Lock()
        self._process = AskedProcess(
            "match", processes, limit_s=MATCH_WAIT_S, ended="the process that matches it ended"
        )

    def places(self, texts: Sequence[str]) -> list[int]:
        """The indices of the texts that match. Raises Refused if that cannot be determined."""
        return self._ask(texts, grouped=False)

    def groups(self, text: str) -> Mapping[str, str | None] | None:
        """The named groups; None if it does not match. Raises Refused if that cannot be determined."""
        return next(iter(self._ask([text], grouped=True)), None)

    def _ask(self, texts: Sequence[str], *, grouped: bool) -> list[Any]:
        with self._lock:
            try:
                answer = self._process.ask({"pattern": self._pattern, "texts": texts, "grouped": grouped})
            except (OSError, ValueError) as error:
                why = str(error) or type(error).__name__
                raise Refused(f"the pattern {self._pattern!r} cannot be matched: {why}") from error
        return found_by(self._pattern, texts, answer)
