"""How much of what a node says is taken: the limits on answers, trace lines and values, in one place.

What is over a limit is not cut to fit, which would be a guess, but treated as an answer that says nothing; the reason
names the limit. Guarantees: pure, and linear in what is given with an end of its own. Out of scope: reading bytes
(``http_answer``, the poller), and what goes to a screen (``clean``).
"""

from __future__ import annotations

from typing import Any

from dethrone.harness.core.interfaces import Reading, TraceLine

STATUS_BYTES_MAX = 4 << 20
"""One status answer."""
CLIENT_BYTES_MAX = 16 << 20
"""One answer to a client operation."""
TEXT_MAX = 256
"""Characters of a role, a name, a group."""
ERROR_MAX = 500
"""Characters of the reason why an operation failed; the rest is cut off, for it is for people only."""
GROUPS_MAX = 1024
"""Groups that one status answer may report."""
VALUE_ITEMS_MAX = 1_000_000
"""Numbers, words and containers in the value of one operation."""
VALUE_CHARS_MAX = 16 << 20
VALUE_DEPTH_MAX = 32
INT_MAX = (1 << 63) - 1
"""Beyond it no column can hold a number."""


def reading_trouble(reading: Reading) -> str:
    """What is over a limit in a status answer; empty: nothing."""
    if len(reading.others) >= GROUPS_MAX:
        return f"{len(reading.others) + 1} groups; at most {GROUPS_MAX}"
    for one in (reading, *reading.others):
        for name, text in (
            ("role", one.role),
            ("leader", one.leader),
            ("voted_for", one.voted_for),
            ("group", one.group),
        ):
            if text is not None and len(text) > TEXT_MAX:
                return f"{name} has {len(text)} characters; at most {TEXT_MAX}"
        numbers = (one.term, one.commit, one.incarnation, *(one.log_end or ()))
        if any(number is not None and not -1 <= number <= INT_MAX for number in numbers):
            return "a number that is below -1 or does not fit into 63 bits"
    return ""


def trace_trouble(line: TraceLine) -> str:
    """What is over a limit in a trace line; empty: nothing. Its data is bounded by the line's length."""
    for name, text in (("the name of the event", line.name), ("role", line.role), ("group", line.group)):
        if len(text) > TEXT_MAX:
            return f"{name} has {len(text)} characters; at most {TEXT_MAX}"
    for name, number in (("term", line.term), ("n", line.n), ("incarnation", line.incarnation)):
        if not -1 <= number <= INT_MAX:
            return f"{name} is below -1 or does not fit into 63 bits"
    if line.mono_ns is not None and not 0 <= line.mono_ns <= INT_MAX:
        return "mono_ns is below 0 or does not fit into 63 bits"
    return ""


def value_trouble(value: Any) -> str:
    """What is over a limit in the value of an operation; empty: nothing."""
    if value is None or type(value) is bool:
        return ""
    items, chars = 0, 0
    level: list[Any] = [value]
    for _ in range(VALUE_DEPTH_MAX):
        below: list[Any] = []
        for one in level:
            if isinstance(one, str):
                chars += len(one)
            elif isinstance(one, int):
                if not -INT_MAX <= one <= INT_MAX:
                    return "a number that does not fit into 64 bits"
            elif isinstance(one, float):
                if one != one or one in (float("inf"), float("-inf")):  # noqa: PLR0124 - not a number
                    return "a number that is not finite"
            elif isinstance(one, dict):
                below.extend(one.keys())
                below.extend(one.values())
            elif isinstance(one, list | tuple):
                below.extend(one)
        items += len(level)
        if items + len(below) > VALUE_ITEMS_MAX:
            return f"over {VALUE_ITEMS_MAX} values"
        if chars > VALUE_CHARS_MAX:
            return f"over {VALUE_CHARS_MAX} characters"
        if not below:
            return ""
        level = below
    return f"values nested over {VALUE_DEPTH_MAX} deep"
