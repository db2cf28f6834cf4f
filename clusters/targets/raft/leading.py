"""What a node holds only while it leads or campaigns: plain records without behaviour.

Guarantees: a leadership's state ends with it; nothing here is stored. Out of scope: what changes it (the handlers).

Source: Raft paper, figure 2 (volatile state on leaders); thesis 3.10, 4.2, 6.4, 9.6.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from dethrone.clusters.targets.client_api import Get, Holder
from dethrone.harness.core.clock import Ns

NEVER: Ns = -(1 << 62)
FAR: Ns = 1 << 62


class PreRound:
    """An open pre-vote round: who granted, who refused."""

    __slots__ = ("granted", "no", "refused", "req_term")

    def __init__(self, req_term: int, no: int) -> None:
        self.req_term = req_term
        self.no = no
        self.granted: set[str] = set()
        self.refused: set[str] = set()


class Progress:
    """What a leader knows of one peer's log, and of when it last answered."""

    __slots__ = (
        "acked_at",
        "acked_lease",
        "acked_seq",
        "inflight_at",
        "inflight_to",
        "leave_seq",
        "leaving",
        "match",
        "next",
    )

    def __init__(self, next_index: int) -> None:
        self.next = next_index
        self.match = 0
        self.inflight_at = NEVER
        """When the one outstanding batch was sent; NEVER: none is."""
        self.inflight_to = 0
        self.acked_seq = 0
        self.acked_at = NEVER
        """When the newest answered round was SENT, on the leader's clock."""
        self.acked_lease = NEVER
        self.leaving = 0
        """The entry that removed this peer; 0: it is a member."""
        self.leave_seq = 0
        """The first round that reports its removal as committed; 0: not yet committed."""


class Read:
    """A client's read that waits for its round. ``seq`` 0: no round yet; ``index`` -1: no own-term commit yet."""

    def __init__(self, request: int, asked: Get | Holder, mode: str) -> None:
        self.id = request
        self.asked = asked
        self.mode = mode
        self.index = -1
        self.seq = 0


class Handover:
    """A leadership transfer under way."""

    def __init__(self, request: int, target: str, deadline: Ns) -> None:
        self.id = request
        self.target = target
        self.deadline = deadline
        self.sent = False


class Change:
    """A membership change under way. ``index``: the entry that finishes it, 0 while a learner still catches up."""

    def __init__(self, request: int, node: str, now: Ns) -> None:
        self.id = request
        self.node = node
        self.index = 0
        self.rounds = 0
        self.target = 0
        self.since = now
        self.started = now


class Leading:
    """What exists only while leading; gone with it."""

    __slots__ = (
        "change",
        "early",
        "handover",
        "lease_checked",
        "lease_checked_at",
        "lease_disabled",
        "lease_shown",
        "own_first",
        "own_term_committed",
        "progress",
        "read_seq",
        "reads",
        "rounds",
        "rounds_lease",
        "seq",
        "since",
        "stuck",
        "tick_due",
        "ticked",
        "writes",
    )

    def __init__(self, since: Ns, own_first: int) -> None:
        self.since = since
        self.own_first = own_first
        """The first index that belongs to the own term."""
        self.own_term_committed = False
        self.progress: dict[str, Progress] = {}
        self.seq = 0
        self.rounds: dict[int, Ns] = {}
        """Round → when it was sent (monotonic); old ones are forgotten."""
        self.rounds_lease: dict[int, Ns] = {}
        """The same on the lease's clock, where that is another one."""
        self.tick_due: Ns = since
        self.ticked: Ns = NEVER
        self.lease_checked_at: Ns = NEVER
        self.lease_checked = False
        self.writes: dict[int, int] = {}
        """Log index → the client's request that waits for its commit."""
        self.early: dict[int, Any] = {}
        """Log index → the answer fixed by a rule before the entry was ordered, regardless of the result."""
        self.reads: deque[Read] = deque()
        self.read_seq = 0
        """The outstanding round of reads; 0: none."""
        self.handover: Handover | None = None
        self.change: Change | None = None
        self.lease_disabled = False
        self.lease_shown = False
        self.stuck = False
