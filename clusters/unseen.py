"""What a run cannot see of nodes that another user started: backends that adopt such nodes skip it.

Guarantees: pure; what is left are polls and what clients were answered. Out of scope: who adopts what.
"""

from __future__ import annotations

UNSEEN = frozenset({"traced", "witness", "shell", "found", "incarnation"})
"""What nodes write into their own files, and which start it is: the same command says the same number each time."""


def from_outside(observable: tuple[str, ...]) -> tuple[str, ...]:
    """Of a system's channels (``BackendTraits.shows``) those that are left where its nodes are another user's."""
    return tuple(channel for channel in observable if channel not in UNSEEN)
