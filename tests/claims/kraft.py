"""What the description of KRaft claims, as data: the 32 claims of source 4.

Promises: each safety claim names its flip. Leaves out the tests (``tests/claims/test_kraft.py``).
"""

from __future__ import annotations

from tests.claims.claim import Claim, Kind, Level


def _claim(number: int, kind: Kind, level: Level, text: str) -> Claim:
    flip = f"flip-4-{number}" if kind == "safety" else None
    return Claim(number=f"4-{number}", kind=kind, system="kraft", text=text, level=level, flip=flip)


CLAIMS: tuple[Claim, ...] = (
    _claim(1, "architecture", "cluster", "Metadata lives in the log __cluster_metadata; there is no ZooKeeper."),
    _claim(2, "safety", "vector", "Only nodes with the controller's role vote, campaign and lead."),
    _claim(3, "safety", "restart", "The state in which a node starts is computed from the file quorum-state."),
    _claim(4, "safety", "restart", "If a newer epoch than the stored one is known, the node starts Unattached in it."),
    _claim(5, "safety", "restart", "A node that is stored as the leader of the epoch starts Resigned, never Leader."),
    _claim(6, "safety", "restart", "A node whose stored vote is for itself starts as Candidate of that epoch."),
    _claim(7, "safety", "restart", "A node whose stored vote is for another starts Voted in that epoch."),
    _claim(8, "safety", "restart", "A node that has another stored as leader starts as its Follower."),
    _claim(9, "safety", "restart", "A node with nothing stored starts Unattached."),
    _claim(10, "safety", "restart", "The file holds cluster, leader, epoch, vote, applied offset, voters, version."),
    _claim(11, "safety", "order", "A voter without a vote becomes Candidate: one epoch higher, with its own vote."),
    _claim(12, "safety", "vector", "Voted means: gave the vote of this epoch to another node."),
    _claim(13, "safety", "vector", "More than half of the votes make a leader."),
    _claim(14, "safety", "order", "A new leader tells all other voters by BeginQuorumEpoch."),
    _claim(15, "safety", "vector", "A voter that is told of a leader other than itself becomes its Follower."),
    _claim(16, "safety", "restart", "A vote once given cannot be changed within the epoch, across restarts either."),
    _claim(17, "safety", "restart", "Every change of state is stored before it shows, so the epoch cannot fall back."),
    _claim(
        18,
        "safety",
        "vector",
        "A vote request carries partition, candidate epoch and id, last epoch and offset.",
    ),
    _claim(19, "safety", "vector", "Only a node with a newest log of a majority can win."),
    _claim(20, "timing", "timing", "A round without a majority in its time is repeated after a random, bounded delay."),
    _claim(21, "liveness", "cluster", "The random delay ends dead-locked elections."),
    _claim(
        22, "timing", "cluster", "A leader without fetches of a majority for the fetch time-out starts an election."
    ),
    _claim(23, "timing", "timing", "A follower without a fetch answer for the fetch time-out starts an election."),
    _claim(24, "safety", "vector", "A record is committed only when a majority has fetched it."),
    _claim(25, "safety", "vector", "The log end counts uncommitted records, the high watermark does not pass it."),
    _claim(26, "safety", "vector", "A new leader knows only its own position; its high watermark is unknown."),
    _claim(27, "safety", "vector", "A follower fetches without pause, from its own log end."),
    _claim(28, "safety", "vector", "Records of earlier epochs on a majority do not move the high watermark."),
    _claim(29, "safety", "vector", "The high watermark moves when a majority holds a record of the current epoch."),
    _claim(30, "safety", "vector", "A follower learns the high watermark from the answer and updates its own."),
    _claim(31, "architecture", "vector", "A leader keeps voters and observers apart."),
    _claim(32, "safety", "order", "The log grows with every change of metadata, elections included."),
)
