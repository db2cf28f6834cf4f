"""Operations that are known to fall into phases one after the other: does real time agree?

Where reads show all that was written (sets that only grow, logs), they order everything into phases: what the first
read shows was written before it, what only the second one shows in between, and so on. Such an order can be made a
sequential one exactly if no operation of a later phase had returned before one of an earlier phase was asked: phases
and real time are both orders "by level", so any contradiction is one between two operations. Guarantees: linear once
the phases are sorted. Out of scope: how phases are found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dethrone.harness.core.operations import NEVER, Operation


@dataclass(frozen=True, slots=True)
class Spot:
    """One thing that happened in a phase: between ``lo`` and ``hi``; ``op`` is who did it."""

    phase: int
    lo: int
    hi: int
    op: Operation
    write: bool

    @classmethod
    def of(cls, phase: int, op: Operation, *, write: bool) -> Spot:
        """One operation."""
        return cls(phase, op.invoked, op.returned, op, write)


def contradictions(spots: Iterable[Spot]) -> Iterator[tuple[Spot, Spot]]:
    """(earlier, later) by phase, where ``later`` was over before ``earlier`` was asked; one for each ``later``."""
    latest: Spot | None = None
    """Of all phases before this one: who was asked last."""
    here: Spot | None = None
    phase = -1
    for spot in sorted(spots, key=lambda one: (one.phase, one.lo)):
        if spot.phase != phase:
            if here is not None and (latest is None or here.lo > latest.lo):
                latest = here
            phase, here = spot.phase, None
        if latest is not None and spot.hi < latest.lo and spot.hi < NEVER:
            yield latest, spot
        if here is None or spot.lo > here.lo:
            here = spot
