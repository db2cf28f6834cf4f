"""Every rule of the protocol that a planted bug breaks, as a switch that is on in the honest build, or a function.

Guarantees: no state. A planted bug stands on the rule that it switches off, is the flip of a claim (docs/sources.md,
claims) and names the checkers of which one must catch it; a comment names the issue of Apache ZooKeeper that made it.
The harmless builds, which must raise no alarm, stand on the class. Out of scope: what happens then.

Source: docs/sources.md, zab: discovery, synchronization and broadcast of the paper, and Leader, LearnerHandler,
Learner, QuorumPeer and FastLeaderElection of Apache ZooKeeper.
"""

from __future__ import annotations

from fractions import Fraction

from dethrone.clusters.targets.kit import by
from dethrone.clusters.targets.kit.mutants import Switched, mutant
from dethrone.clusters.targets.zab.knobs import ZabKnobs

HALF = Fraction(1, 2)
LOOKING, FOLLOWING, LEADING, NOMINATED = "LOOKING", "FOLLOWING", "LEADING", "NOMINATED"
ELECTION, DISCOVERY, SYNCHRONIZATION, BROADCAST = "ELECTION", "DISCOVERY", "SYNCHRONIZATION", "BROADCAST"


@mutant("harmless-more-notifications", says="repeats its vote sooner", scales={"min_notification_interval": HALF})
@mutant(
    "harmless-patient-vote",
    says="waits a little longer before it decides",
    scales={"finalize_wait": Fraction(3, 2)},
)
@mutant("harmless-quick-vote", says="waits less long before it decides", scales={"finalize_wait": Fraction(3, 4)})
@mutant("harmless-quick-connect", says="pauses less long between two tries", scales={"connect_wait": HALF})
@mutant("harmless-more-tries", says="tries twice as often to reach its leader", scales={"connect_tries": Fraction(2)})
class Rules:
    """The honest ones."""

    compares_epochs = True
    """A vote, and a follower's history, are compared by epoch before zxid."""
    adopts_round = Switched(
        "round-not-adopted", says="ignores votes of a later round", caught_by=(by.OWED, by.CONVERGES)
    )
    """A node that learns of a later round of the election joins it."""
    refreshes_stored_vote = Switched(
        "stored-vote-stale",
        says="as follower answers newcomers with the vote of before the epoch",
        caught_by=(by.CONVERGES, by.OWED),
    )  # ZOOKEEPER-1732
    """A follower that reaches broadcast stores the new epoch in the vote that it answers newcomers with."""
    shows_log_end = Switched(
        "committed-end", says="votes with its last committed transaction when it leaves a role", caught_by=by.LOST
    )  # ZOOKEEPER-2845
    """A vote, and an ACKEPOCH, carry the end of the log, committed or not."""
    follower_stores_accepted = Switched(
        "a-not-persisted", says="as follower keeps acceptedEpoch in memory", caught_by=(by.DURABLE, by.TERM, by.LEADER)
    )
    """acceptedEpoch is on disk before ACKEPOCH leaves."""
    leader_stores_accepted = Switched(
        "leader-a-late", says="as leader does not store the epoch that it proposes", caught_by=(by.DURABLE, by.TERM)
    )  # ZOOKEEPER-1291
    """acceptedEpoch is on disk before LEADERINFO leaves."""
    counts_own_accepted = Switched(
        "own-a-ignored",
        says="proposes an epoch that may be the one that it accepted",
        caught_by=(by.VOTE, by.LEADER, by.TERM),
    )
    """The new epoch is above the leader's own accepted one, too."""
    counts_itself = Switched("self-not-counted", says="needs a quorum besides itself", caught_by=(by.OWED,))
    """The leader is one of the quorum."""
    counts_once = True
    """A follower that accepted this epoch before sends -1: it is synced, and not counted."""
    waits_for_epoch_acks = Switched(
        "skip-epoch-acks", says="wins an epoch before a quorum acknowledged it", caught_by=(by.MAJORITY, by.LEADER)
    )  # ZOOKEEPER-1192
    """An epoch is won by a quorum of ACKEPOCH."""
    truncates = Switched(
        "no-trunc", says="does not have a diverging follower cut its log", caught_by=(*by.LOST, by.CONVERGES)
    )  # ZOOKEEPER-1154
    """A follower whose log diverges is sent TRUNC."""
    forwards_at_once = True
    """A follower gets new proposals from the moment at which its sync was computed."""
    log_before_current = True
    """The synced history is on disk before currentEpoch."""
    log_before_ack = True
    """The synced history is on disk before NEWLEADER is acknowledged."""
    acks_leader_first = Switched(
        "proposal-ack-first",
        says="acknowledges the synced transactions before NEWLEADER",
        caught_by=(by.OWED, by.CONVERGES),
    )  # ZOOKEEPER-4685
    """The first ACK of a connection answers NEWLEADER."""
    keeps_commits = True
    """A COMMIT between NEWLEADER and UPTODATE is kept."""
    serves_when_established = True
    """A leader serves after a quorum acknowledged NEWLEADER."""
    steps_down = Switched("no-step-down", says="keeps leading without a quorum", caught_by=(by.STEP_DOWN,))
    """A leader that does not hear a quorum goes back to the election."""
    syncs_before_ack = Switched(
        "ack-before-fsync", says="acknowledges proposals that a power loss can undo", caught_by=by.LOST
    )
    """A proposal is on disk before its ACK leaves."""

    def __init__(self, knobs: ZabKnobs) -> None:
        self.knobs = knobs

    def enough(self, nodes: set[str], me: str, quorum: int) -> bool:
        """Whether these nodes are a quorum of the leader ``me``."""
        return len(nodes if self.counts_itself else nodes - {me}) >= quorum

    def rank(self, epoch: int, zxid: int, sid: int = 0) -> tuple[int, int, int]:
        """What histories are compared by, and votes: also by the place ``sid`` of their leader among the members."""
        return (epoch if self.compares_epochs else 0), zxid, sid
