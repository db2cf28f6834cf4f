"""What of a description is asked over TLS: by whom its files are needed, and what ``doctor`` says of it.

Guarantees: pure. Out of scope: what the keys mean (``tls``).
"""

from __future__ import annotations

from collections.abc import Iterator

from dethrone.clusters.own.spec import Description
from dethrone.clusters.own.tls import Encrypted, shown


def encrypted(description: Description) -> Iterator[tuple[str, Encrypted]]:
    """Where ``tls`` stands, and what it says; each of these is asked over HTTP."""
    yield f"{description.path}: [probe]", description.probe.tls
    for table, ops in (("ops", description.ops), ("membership", description.membership.all)):
        for name, op in ops.items():
            if op.request:
                yield f"{description.path}: [{table}] {name}", op.tls


def over_tls(description: Description) -> tuple[str, ...]:
    """The same in words, those that are alike in one line."""
    alike: dict[Encrypted, list[str]] = {}
    for where, tls in encrypted(description):
        if tls is not False:
            alike.setdefault(tls, []).append(where.removeprefix(f"{description.path}: "))
    return tuple(f"{', '.join(places)} {shown(tls)}" for tls, places in alike.items())
