"""Planted bugs as the harness' exam meets them: which mistake, who must name it, and under which settings it can show.

Promises: pure data and one interface. Leaves out the mistakes themselves, which belong to the protocol cores, and the
exam (``harness.engine.exam``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import msgspec


class Planted(msgspec.Struct, frozen=True, kw_only=True):
    """One deliberately changed build of a system.

    ``caught_by``: checkers of which any one counts as having found it; none: the build is harmless, and no checker may
    fail. ``settings``: knobs without which it cannot show, or shows late. ``nodes_min``: the smallest cluster in which
    it can show.
    """

    name: str
    says: str
    caught_by: tuple[str, ...] = ()
    settings: Mapping[str, str] = {}
    nodes_min: int = 3

    @property
    def harmless(self) -> bool:
        """Whether nothing may find it."""
        return not self.caught_by


@runtime_checkable
class Examinable(Protocol):
    """A system that knows planted bugs of itself."""

    def planted(self) -> Mapping[str, Planted]:
        """Name of the variant → what the exam needs to know of it. Flips of claims are not among them."""
