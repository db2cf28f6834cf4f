"""How many seeds go out together and in which pieces: pure arithmetic of a campaign on Spark.

A *wave* is one Spark job, a *task* some seeds that one core takes. Guarantees: a task lasts about ``TASK_NS``, as soon
as the time per seed is known, so that Spark's cost per task is hidden; towards the end tasks get smaller, so that no
core waits long for the last; a wave never has more than ``SEEDS_MAX`` seeds, on any cluster, which bounds the driver's
memory. Out of scope: Spark (``campaign``).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import msgspec

from dethrone.harness.core.clock import SECOND, Ns

TASK_NS = 2 * SECOND
TASKS_A_SLOT = 4
"""Tasks of a wave, for each core."""

SEEDS_MAX = 20_000
FIRST = 2
"""Seeds per task until the time per seed is known."""

_SHARES = 4
"""The rest is dealt to each core in at least this number of pieces."""


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """A wave: the number of its tasks, and of seeds per task; the last may have fewer."""

    tasks: int
    seeds: int


def shape(*, left: int, slots: int, seed_ns: Ns | None) -> Shape:
    """The next wave, where ``left`` seeds wait for ``slots`` cores. ``seed_ns``: how long a seed takes, if known."""
    if seed_ns is None:
        a_task, tasks = FIRST, slots
    else:
        a_task = min(max(1, TASK_NS // max(1, seed_ns)), max(1, left // (slots * _SHARES)))
        tasks = slots * TASKS_A_SLOT
    a_task = min(a_task, max(1, SEEDS_MAX // tasks), left)
    tasks = min(tasks, SEEDS_MAX, -(-left // a_task))
    return Shape(tasks=tasks, seeds=a_task)


def pieces(seeds: Iterator[int], wanted: Shape) -> list[tuple[int, ...]]:
    """The seeds of a wave, a tuple per task; fewer at the end."""
    found = (tuple(itertools.islice(seeds, wanted.seeds)) for _ in range(wanted.tasks))
    return [piece for piece in found if piece]


def halves(wave: list[tuple[int, ...]]) -> list[list[tuple[int, ...]]]:
    """A failed wave as two halves with the same seeds; none for a single seed."""
    if len(wave) > 1:
        return [wave[: len(wave) // 2], wave[len(wave) // 2 :]]
    [piece] = wave
    if len(piece) == 1:
        return []
    return [[piece[: len(piece) // 2]], [piece[len(piece) // 2 :]]]


def mean_ns(took_ns: Iterable[Ns], before: Ns | None) -> Ns | None:
    """How long a seed takes, from those that came last; what was known before, if none came."""
    found = list(took_ns)
    if not found:
        return before
    mean = sum(found) // len(found)
    return mean if before is None else (mean + before) // 2
