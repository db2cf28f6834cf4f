"""The strategy ``mixed``: every other step, by chance, as ``triggered`` draws it, the rest as ``random`` does.

Guarantees: as the two. Out of scope: everything else.
"""

from __future__ import annotations

from dethrone.nemesis.strategies.triggered import TriggeredStrategy


class MixedStrategy(TriggeredStrategy, frozen=True, kw_only=True):
    """See ``dethrone.harness.core.interfaces.Strategy``."""

    name: str = "mixed"
    share_percent: int = 50


STRATEGY = MixedStrategy()
