"""Draws a schedule in which every requested fault kind happens, or says what would make room for it.

Guarantees: pure; a draw that has every kind stays as it is, so that its seed keeps its schedule; drawing again is
bounded, and a function of the seed. Out of scope: the strategies themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.duration import show_duration
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.interfaces import Fault, Strategy, Thorough
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import Schedule

TRIES = 16
"""Draws from further streams of the seed before a kind counts as one for which there is no room."""

LONGER = 8
"""Up to this many times the time limit is looked for."""


class Hat(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a schedule is drawn from."""

    strategy: Strategy
    rng: Rng
    faults: Mapping[str, Fault]
    nodes: int
    time_limit_ns: Ns
    interval_ns: Ns
    promise: Promise

    def draw(self, stream: str = "") -> Schedule:
        """A schedule; of another stream of the same seed, if one is named. Raises ConfigError."""
        return self.strategy.draw(
            self.rng.stream(stream) if stream else self.rng,
            faults=self.faults,
            nodes=self.nodes,
            time_limit_ns=self.time_limit_ns,
            interval_ns=self.interval_ns,
            promise=self.promise,
        )

    def missing(self, schedule: Schedule) -> list[str]:
        """The kinds that do not happen in it."""
        return sorted(set(self.faults) - set(schedule.kinds))


def draw_each_kind(hat: Hat, *, demanded: bool) -> Schedule:
    """What the seed draws, if each kind is in it; else the first further draw in which each is.

    ``demanded``: the user named the kinds, so ConfigError if there is no such draw but a shorter interval or a longer
    time limit would give one. Else what was drawn at first.
    """
    first = hat.draw()
    missing = hat.missing(first)
    if not missing:
        return first
    found = _whole(hat)
    if found is not None or not demanded:
        return found or first
    remedy = _remedy(hat)
    if not remedy:
        return first
    raise ConfigError(
        f"the run is too short for all requested fault kinds: {', '.join(missing)} would not occur",
        where=f"--time-limit {show_duration(hat.time_limit_ns)}, a fault every {show_duration(hat.interval_ns)}",
        next_step=f"use {remedy}, or fewer --faults",
    )


def _whole(hat: Hat) -> Schedule | None:
    for strategy, stream in _tries(hat.strategy):
        found = msgspec.structs.replace(hat, strategy=strategy).draw(stream)
        if not hat.missing(found):
            return found
    return None


def _tries(strategy: Strategy) -> Iterator[tuple[Strategy, str]]:
    if isinstance(strategy, Thorough):
        strategy = strategy.thorough()
        yield strategy, ""
    for number in range(TRIES):
        yield strategy, f"each-kind-{number}"


def _remedy(hat: Hat) -> str:
    """The longest whole number of seconds between faults that makes room, else the shortest time limit; "" : none."""
    for seconds in range(hat.interval_ns // SECOND - 1, 0, -1):
        if _fits(msgspec.structs.replace(hat, interval_ns=seconds * SECOND)):
            return f"--nemesis-interval {seconds}s"
    for times in range(2, LONGER + 1):
        if _fits(msgspec.structs.replace(hat, time_limit_ns=times * hat.time_limit_ns)):
            return f"--time-limit {times * hat.time_limit_ns // SECOND}s"
    return ""


def _fits(hat: Hat) -> bool:
    try:
        return _whole(hat) is not None
    except ConfigError:
        return False
