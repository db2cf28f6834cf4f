"""How a client uses routes: where it writes, where it reads, when it asks for routes again. Pure.

Guarantees: producers write to any group's master; consumers read from the master, from brokerId 1 when it is suggested,
and from any slave when the master is gone; routes are at most one refresh period old. Out of scope: sockets.

Source: docs/sources.md, master-slave.
"""

from __future__ import annotations

from collections.abc import Mapping

from dethrone.clusters.targets.master_slave.knobs import MASTER_ID, READ_BALANCED_ID
from dethrone.harness.core.clock import Ns


class Routes:
    """A client's copy of the name server's table."""

    def __init__(self, refresh: Ns) -> None:
        self.refresh = refresh
        self.asked: Ns | None = None
        self.table: dict[str, dict[int, str]] = {}

    def due(self, now: Ns) -> bool:
        """Whether routes should be asked for."""
        return self.asked is None or now - self.asked >= self.refresh

    def learn(self, routes: Mapping[str, Mapping[str, str]], now: Ns) -> None:
        """A name server's answer; with none left, the last routes are kept."""
        self.asked = now
        self.table = {name: {int(broker_id): at for broker_id, at in ids.items()} for name, ids in routes.items()}

    def groups(self) -> list[str]:
        """All broker names."""
        return sorted(self.table)

    def writers(self, turn: int) -> list[str]:
        """Masters to try for a write: each group's, beginning with the ``turn``-th."""
        masters = [ids[MASTER_ID] for _, ids in sorted(self.table.items()) if MASTER_ID in ids]
        if not masters:
            return []
        start = turn % len(masters)
        return masters[start:] + masters[:start]

    def readers(self, group: str, *, suggested: int = MASTER_ID) -> list[str]:
        """Whom to ask for a group's messages, in this order: the suggested broker, the master, then any slave."""
        ids = self.table.get(group, {})
        order = [suggested, MASTER_ID, *sorted(ids)]
        return list(dict.fromkeys(ids[broker_id] for broker_id in order if broker_id in ids))

    def balances_reads(self, group: str) -> bool:
        """Whether a slave takes balanced reads: only brokerId 1 does."""
        return READ_BALANCED_ID in self.table.get(group, {})
