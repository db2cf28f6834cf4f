"""What a node holds only while it leads, or until it has answered a client: plain records.

Guarantees: the water marks of other terms are dropped, those of the own term never fall. Out of scope: behaviour.

Source: DLedger 0.2.7, ``DLedgerEntryPusher``: ``peerWaterMarksByTerm``, ``pendingAppendResponsesByTerm``, the
``EntryDispatcher`` of each peer.
"""

from __future__ import annotations

from dethrone.clusters.targets.dledger.rules import NEVER
from dethrone.harness.core.clock import Ns


class Pending:
    """A client's append that waits for a majority."""

    def __init__(self, request: int, term: int, since: Ns) -> None:
        self.request = request
        self.term = term
        self.since = since


class Pusher:
    """The dispatcher of one peer. ``compare`` and ``write`` are compareIndex and writeIndex."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.timer = f"push/{peer}"
        self.armed: Ns | None = None
        self.state = "COMPARE"
        self.compare = -1
        self.truncate = -1
        self.write = -1
        self.in_flight: dict[int, Ns] = {}
        """Index → when it was sent."""
        self.asked = 0
        """The COMPARE or TRUNCATE that is unanswered; 0: none."""
        self.asked_at: Ns = NEVER
        self.retry_at: Ns = NEVER
        """Nothing is done before: the pause of a pusher that starts over."""
        self.commit_sent_at: Ns = NEVER
        self.since = 0
        """Answers to older calls say nothing about this phase."""


class Leading:
    """What exists only while leading."""

    def __init__(self, term: int, peers: tuple[str, ...], marks: dict[str, int], inherited: int) -> None:
        self.term = term
        self.marks = marks
        """Who → the highest index known to be stored there."""
        self.pushers = {peer: Pusher(peer) for peer in peers}
        self.inherited = inherited
        """The log's end at the election."""
