"""Counters of one campaign and of one heartbeat round: what the loop thread waits for.

Guarantees: plain records; a peer counts once. Out of scope: what follows from them (`rules`, `election`, `heartbeat`).

Source: DLedger 0.2.7, ``DLedgerLeaderElector.maintainAsCandidate`` and ``sendHeartbeats``.
"""

from __future__ import annotations

from dethrone.harness.core.clock import Ns

WAIT_TO_REVOTE = "WAIT_TO_REVOTE"
WAIT_TO_VOTE_NEXT = "WAIT_TO_VOTE_NEXT"
REVOTE_IMMEDIATELY = "REVOTE_IMMEDIATELY"
PASSED = "PASSED"


class _Wait:
    """A wait for the answers of all ``members``."""

    def __init__(self, term: int, members: int, opaque: int, deadline: Ns) -> None:
        self.term = term
        self.members = members
        self.opaque = opaque
        self.deadline = deadline
        self.answered: set[str] = set()
        """Who answered or certainly failed to."""
        self.not_ready = 0


class Campaign(_Wait):
    """One round of vote requests in ``term``, of ``members`` nodes."""

    def __init__(self, term: int, members: int, *, opaque: int = 0, deadline: Ns = 0) -> None:
        super().__init__(term, members, opaque, deadline)
        self.voters: list[str] = []
        self.valid = 0
        self.accepted = 0
        self.bigger = 0
        """Voters whose log is longer."""
        self.has_leader = False
        self.max_term = term


class Round(_Wait):
    """One round of heartbeats in ``term``. The leader itself is its first success."""

    def __init__(self, term: int, members: int, *, opaque: int = 0, deadline: Ns = 0) -> None:
        super().__init__(term, members, opaque, deadline)
        self.succ = 1
        self.max_term = -1
        self.inconsistent = False
