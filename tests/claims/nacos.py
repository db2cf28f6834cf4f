"""What the source on the naming Raft of Nacos claims, as data: claims 1 to 32 of source 3.

Promises: every claim names its flip, also those of liveness, timing and architecture. Leaves out the tests
(``tests/claims/test_nacos.py``), and temporary instances, which are no part of this protocol (claim 32 says so).
"""

from __future__ import annotations

from tests.claims.claim import Claim, Kind, Level


def _claim(number: int, kind: Kind, level: Level, text: str) -> Claim:
    return Claim(number=f"3-{number}", kind=kind, system="nacos", text=text, level=level, flip=f"flip-3-{number}")


CLAIMS: tuple[Claim, ...] = (
    _claim(
        1, "safety", "cluster", "Of three roles, normally one node leads, the others follow and none is a candidate."
    ),
    _claim(2, "liveness", "cluster", "An election happens when the cluster starts and after its leader died."),
    _claim(3, "safety", "vector", "A campaign votes for itself first; floor(N / 2) + 1 votes elect."),
    _claim(4, "safety", "cluster", "A follower hands clients' writes on to the leader."),
    _claim(5, "safety", "cluster", "A write is fine once floor(N / 2) + 1 nodes have it."),
    _claim(6, "safety", "cluster", "The leader beats; a follower that is long without beats starts an election."),
    _claim(
        7, "safety", "restart", "A start loads the data, then the term from meta.properties, 0 where there is none."
    ),
    _claim(8, "timing", "timing", "Both tasks run every 500 ms."),
    _claim(9, "timing", "timing", "The first leader due is random in [0, 15 s)."),
    _claim(10, "timing", "timing", "A reset leader due is random in [15 s, 20 s)."),
    _claim(11, "timing", "timing", "The first beat due is random in [0, 5 s), a reset one is 5 s."),
    _claim(12, "safety", "vector", "Nothing happens while the work is stopped or the peers are not known."),
    _claim(13, "safety", "order", "When the due ran out, both counters are reset, and then votes are asked for."),
    _claim(
        14, "safety", "vector", "A campaign clears all votes, raises the term, votes for itself and asks all others."
    ),
    _claim(15, "safety", "vector", "Vote calls that fail are ignored."),
    _claim(16, "safety", "vector", "A vote request of an unknown peer is an error."),
    _claim(
        17,
        "safety",
        "vector",
        "A term not above the own is refused; an empty vote becomes the own name; the record is the answer.",
    ),
    _claim(
        18, "safety", "vector", "A term above the own resets the due, makes a follower, and is adopted with the vote."
    ),
    _claim(19, "safety", "vector", "The larger term wins, and nothing else is compared."),
    _claim(20, "timing", "cluster", "Of two nodes with equal terms the one whose due ends first wins."),
    _claim(21, "safety", "vector", "The peer named most, by a majority, is made leader and announced once a change."),
    _claim(22, "safety", "vector", "A majority is half the number of peers, rounded down, plus one."),
    _claim(23, "safety", "vector", "Only the leader of a cluster beats, and by that puts off its own campaign."),
    _claim(24, "safety", "vector", "Beats carry key and timestamp of every item, unless beats are sent bare."),
    _claim(25, "safety", "vector", "A beat of a node that does not lead is refused."),
    _claim(26, "safety", "vector", "A beat of a lower term is refused."),
    _claim(27, "safety", "vector", "An accepted beat turns a node that is no follower into one that names the sender."),
    _claim(28, "safety", "vector", "An accepted beat resets both dues."),
    _claim(29, "liveness", "cluster", "While beats arrive, no follower starts an election."),
    _claim(
        30, "safety", "vector", "A new leader is recorded and announced, and its predecessor's record asked for anew."
    ),
    _claim(31, "safety", "cluster", "Switching to the new version stops the protocol."),
    _claim(
        32, "architecture", "cluster", "Permanent instances are published by this protocol; temporary ones are not."
    ),
)
