"""Faults that the promise does not bear, and that do not heal: a disk that was wiped or damaged.

What comes after one of them is excused, or has a node less; so it comes last. Of damage, what is drawn is damage to a
file, and in a way, of which the promise says that it is borne (``tolerates = {"damage:vote": …}``, or
``{"damage:log:flipped": …}``), if it says so of any.

Guarantees: pure. Out of scope: faults that end by themselves, however bad.
"""

from __future__ import annotations

from collections.abc import Mapping

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.interfaces import Fault, traits_of
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import PlannedFault


def lasting(kinds: Mapping[str, Fault], promise: Promise) -> dict[str, Fault]:
    """Those of these kinds."""
    return {
        kind: fault
        for kind, fault in kinds.items()
        if traits_of(fault).lasts == "for-good" and kind not in promise.tolerates
    }


def outright(kinds: Mapping[str, Fault], promise: Promise) -> dict[str, Fault]:
    """All others."""
    last = lasting(kinds, promise)
    return {kind: fault for kind, fault in kinds.items() if kind not in last}


def last_fault(rng: Rng, kinds: Mapping[str, Fault], *, nodes: int, hold_ns: Ns, promise: Promise) -> PlannedFault:
    """One of them: of one node, so that a quorum is left where there is one."""
    kind = rng.choice(sorted(kinds))
    borne = sorted(key.partition(":")[2] for key in promise.tolerates if key.startswith(f"{kind}:"))
    knobs = {"victims": rng.choice(("leader", "random"))}
    if borne:
        knobs["path"], _, how = rng.choice(borne).partition(":")
        if how:
            knobs["how"] = how
    return kinds[kind].draw(rng.stream(kind), nodes=nodes, hold_ns=hold_ns, knobs=knobs)
