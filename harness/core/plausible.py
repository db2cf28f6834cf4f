"""Whether the times and counts in a plan can be meant: a stored plan may be another's, or damaged by hand.

Guarantees: pure; every field that ends in ``_ns`` is checked, in any struct. Out of scope: whether a plan
is a good one (``dethrone.harness.engine.run.planning``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

LONGEST_NS = 100 * 366 * 86400 * 1_000_000_000
MOST = 1_000_000
"""Of anything that is counted."""


def wrong_times(*parts: msgspec.Struct) -> str:
    """The first time in these that is negative or longer than a century; "" if there is none."""
    for part in parts:
        for name in part.__struct_fields__:
            value = getattr(part, name)
            if name.endswith("_ns") and isinstance(value, int) and not 0 <= value <= LONGEST_NS:
                return f"{name} of {type(part).__name__} is {value}"
    return ""


def wrong_counts(counts: Mapping[str, int | None]) -> str:
    """The first count that is negative, or too large to be meant; "" if there is none."""
    for name, value in counts.items():
        if value is not None and not 0 <= value <= MOST:
            return f"{name} is {value}"
    return ""


def wrong_members(nodes: Iterable[str], voters: Iterable[str]) -> str:
    """Why these cannot be a cluster; "" if they can."""
    members, chosen = tuple(nodes), tuple(voters)
    if len(set(members)) != len(members) or len(set(chosen)) != len(chosen):
        return "a node is listed twice"
    strangers = set(chosen) - set(members)
    return f"{min(strangers)} votes but is not a node" if strangers else ""
