"""Lists that many reads share: what is wrong with the beginnings of one, without looking at each beginning again.

Guarantees: pure; linear in the shared list, however many reads show a beginning of it. Out of scope: lists that are
recorded whole, and what an anomaly is (``log_reads``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dethrone.harness.core.operations import NEVER, Operation
from dethrone.harness.core.shown import Growing, Shown


@dataclass(frozen=True, slots=True)
class Profile:
    """``since[n]``: the place from which on a read may show the first n values, NEVER: none may. ``double``: how many
    values stand before the first one that is there a second time, with it."""

    since: list[int]
    double: int


def profiles_of(shown: Iterable[Sequence[Any]], appends: Mapping[Any, Operation]) -> dict[int, Profile]:
    """Shared list, by its identity → its profile. ``appends``: of each value."""
    shared = {id(values.known): values.known for values in shown if isinstance(values, Shown)}
    return {key: _profile(known, appends) for key, known in shared.items()}


def _profile(known: Growing, appends: Mapping[Any, Operation]) -> Profile:
    since, held, double = [-1], set[Any](), NEVER
    for number, value in enumerate(known.values, 1):
        append = appends.get(value)
        since.append(NEVER if append is None or append.status == "fail" else max(since[-1], append.invoked))
        if value in held and double == NEVER:
            double = number
        held.add(value)
    return Profile(since, double)


def begins(longest: Sequence[Any], shown: Sequence[Any]) -> bool:
    """Whether the longer list begins with the other one."""
    if isinstance(longest, Shown) and isinstance(shown, Shown) and longest.known is shown.known:
        return True
    return list(longest[: len(shown)]) == list(shown)
