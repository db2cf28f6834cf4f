"""Which version ran on which node since when, out of a history: as it was started, and as its process reported itself.

Guarantees: pure; a version that a node did not report is None, never what was asked for. Out of scope: systems of which
one version only is at hand: a history says nothing of those.
"""

from __future__ import annotations

import msgspec

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.events import NodeProcess
from dethrone.harness.core.history import History


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """One process. ``version``: as which it was started; ``reported``: which one it said it is, None: it did not."""

    node: str
    incarnation: int
    since_ns: Ns
    version: str
    reported: str | None = None


def versions_ran(history: History) -> tuple[Ran, ...]:
    """Every process that was started as one of several versions, node by node, in order."""
    found: dict[tuple[str, int], Ran] = {}
    for event in history.of(NodeProcess):
        key, said = (event.node, event.incarnation), event.version or ""
        if event.phase == "started" and said:
            found[key] = Ran(node=event.node, incarnation=event.incarnation, since_ns=event.span.lo, version=said)
        elif event.phase == "ready" and key in found:
            found[key] = msgspec.structs.replace(found[key], reported=said or None)
    return tuple(found[key] for key in sorted(found))
