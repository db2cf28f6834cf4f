"""Every rule of the protocol that a planted bug breaks, as a switch that is on in the honest build, or a function.

Guarantees: no state. A build that differs overrides one of them (`variants`). Out of scope: what happens then.

Source: docs/sources.md, zab: discovery, synchronization and broadcast of the paper, and Leader, LearnerHandler,
Learner, QuorumPeer and FastLeaderElection of Apache ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Collection

from dethrone.clusters.targets.zab.knobs import ZabKnobs
from dethrone.clusters.targets.zab.messages import Vote

LOOKING, FOLLOWING, LEADING, NOMINATED = "LOOKING", "FOLLOWING", "LEADING", "NOMINATED"
ELECTION, DISCOVERY, SYNCHRONIZATION, BROADCAST = "ELECTION", "DISCOVERY", "SYNCHRONIZATION", "BROADCAST"


class Rules:
    """The honest ones."""

    compares_epochs = True
    """A vote, and a follower's history, are compared by epoch before zxid."""
    adopts_round = True
    """A node that learns of a later round of the election joins it."""
    refreshes_stored_vote = True
    """A follower that reaches broadcast stores the new epoch in the vote that it answers newcomers with."""
    shows_log_end = True
    """A vote, and an ACKEPOCH, carry the end of the log, committed or not."""
    follower_stores_accepted = True
    """acceptedEpoch is on disk before ACKEPOCH leaves."""
    leader_stores_accepted = True
    """acceptedEpoch is on disk before LEADERINFO leaves."""
    counts_own_accepted = True
    """The new epoch is above the leader's own accepted one, too."""
    counts_itself = True
    """The leader is one of the quorum."""
    counts_once = True
    """A follower that accepted this epoch before sends -1: it is synced, and not counted."""
    waits_for_epoch_acks = True
    """An epoch is won by a quorum of ACKEPOCH."""
    truncates = True
    """A follower whose log diverges is sent TRUNC."""
    forwards_at_once = True
    """A follower gets new proposals from the moment at which its sync was computed."""
    log_before_current = True
    """The synced history is on disk before currentEpoch."""
    log_before_ack = True
    """The synced history is on disk before NEWLEADER is acknowledged."""
    acks_leader_first = True
    """The first ACK of a connection answers NEWLEADER."""
    keeps_commits = True
    """A COMMIT between NEWLEADER and UPTODATE is kept."""
    serves_when_established = True
    """A leader serves after a quorum acknowledged NEWLEADER."""
    steps_down = True
    """A leader that does not hear a quorum goes back to the election."""
    syncs_before_ack = True
    """A proposal is on disk before its ACK leaves."""

    def __init__(self, knobs: ZabKnobs) -> None:
        self.knobs = knobs

    def enough(self, nodes: Collection[str], me: str, ensemble: int) -> bool:
        """Whether these nodes are a quorum."""
        count = len(nodes) if self.counts_itself else len([node for node in nodes if node != me])
        return count >= ensemble // 2 + 1

    def rank(self, vote: Vote, sid: int) -> tuple[int, int, int]:
        """What votes are compared by; ``sid``: the place of the proposed leader among the members."""
        return (vote.peer_epoch if self.compares_epochs else 0), vote.zxid, sid

    def ahead(self, theirs: tuple[int, int], own: tuple[int, int]) -> bool:
        """Whether a follower's (currentEpoch, last zxid) is ahead of the leader's."""
        return theirs > own if self.compares_epochs else theirs[1] > own[1]
