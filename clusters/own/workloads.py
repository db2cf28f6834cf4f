"""Which workload asks which operations of a description, and which operations none asks.

Guarantees: pure. Out of scope: what the workloads do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from dethrone.harness.core.interfaces import No

WORKLOADS = {
    "register": frozenset({"put", "get", "cas"}),
    "log": frozenset({"append", "read"}),
    "set": frozenset({"add", "read"}),
}
"""The default workload is the first that the operations serve."""


def unasked(operations: Collection[str]) -> Iterator[tuple[str, No]]:
    """Operations that no workload asks, and what the nearest one lacks."""
    given = frozenset(operations)
    served = frozenset[str]().union(*(needs for needs in WORKLOADS.values() if needs <= given))
    for name, needs in WORKLOADS.items():
        idle = sorted((needs & given) - served)
        if idle:
            lacks = ", ".join(sorted(needs - given))
            why = f"no workload asks for it: {name} needs {lacks}, too"
            yield ", ".join(idle), No(why, "describe it in [ops], or serve another workload (docs/own-system.md)")
