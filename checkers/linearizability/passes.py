"""Passes of a search over one object, one after another, until one of them knows: narrow and cheap ones first.

Guarantees: ``Stuck`` only from a pass that left nothing out, ``Fits`` from none that counts unknown operations
generously; never more steps than ``Bounds`` has. Out of scope: what a pass does (``frontier``, ``fast``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from dethrone.checkers.linearizability.frontier import Bounds, Fits, Found, GaveUp, Stuck

W = TypeVar("W", bound=str)


def by_passes(
    passes: Sequence[tuple[W, tuple[int, ...], int]],
    run: Callable[[W, tuple[int, ...], int], tuple[Found, bool]],
    *,
    returns: int,
    bounds: Bounds,
    steps_least: int,
    unbounded: tuple[int, ...],
) -> Found:
    """The result of the passes. ``passes``: (mode, widths, steps a return); ``run``: one of them with at most this many
    steps, and whether what it found is exact. ``unbounded``: the widths of a pass that keeps everything.
    """
    settled: set[W] = set()
    """Modes of which the widest pass will not say more than it did."""
    furthest = steps = 0
    reason = "out of steps"
    for mode, widths, each in passes:
        if widths == unbounded and mode in settled:
            continue
        found, exact = run(mode, widths, min(steps_least + each * returns, bounds.steps - steps))
        steps += found.steps
        if isinstance(found, GaveUp):
            furthest, reason = max(furthest, found.returns_done), found.reason
            if reason == "out of time" or steps >= bounds.steps:
                break
            if reason == "out of memory" and widths == unbounded:
                settled.add(mode)
        elif isinstance(found, Stuck):
            if exact:
                return msgspec.structs.replace(found, steps=steps)
            furthest = max(furthest, found.returns_done)
        elif mode == "generous":
            settled.add(mode)
        else:
            return Fits(steps)
    return GaveUp(reason, furthest, returns, steps)
