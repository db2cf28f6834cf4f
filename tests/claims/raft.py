"""What the source on Raft claims, as data: claims 15 to 32 of source 1.

Promises: every claim names its flip, also those of liveness and timing. Leaves out claims 33 and up (Paxos), and the
tests (``tests/claims/test_raft.py``).
"""

from __future__ import annotations

from tests.claims.claim import Claim, Kind, Level


def _claim(number: int, kind: Kind, level: Level, text: str) -> Claim:
    return Claim(number=f"1-{number}", kind=kind, system="raft", text=text, level=level, flip=f"flip-1-{number}")


CLAIMS: tuple[Claim, ...] = (
    _claim(15, "safety", "restart", "A node is follower, candidate or leader, and leads only after being a candidate."),
    _claim(16, "liveness", "cluster", "At the start, and when the leader is dead or out of reach, a follower stands."),
    _claim(17, "safety", "vector", "A term that ends without a winner is over; the next campaign has a new one."),
    _claim(18, "safety", "order", "After its timeout a node stands, votes for itself first, and then asks the others."),
    _claim(19, "safety", "restart", "A node gives one vote a term, to who asks first."),
    _claim(20, "safety", "vector", "A majority of votes makes the leader; without one a new term begins in time."),
    _claim(21, "safety", "vector", "A candidate that hears a leader whose term is not lower follows it at once."),
    _claim(22, "timing", "timing", "Followers wait between 150 and 300 ms, at random."),
    _claim(23, "timing", "timing", "Candidates that tied wait for a random time before they try again."),
    _claim(24, "safety", "cluster", "One leader takes all reads and writes of clients."),
    _claim(25, "safety", "vector", "The leader sends entries to all, and needs a majority to have them."),
    _claim(26, "liveness", "cluster", "While a minority is down, the others go on."),
    _claim(27, "safety", "cluster", "The leader sends heartbeats to all followers."),
    _claim(28, "liveness", "cluster", "When the leader dies another is elected; nobody is served meanwhile."),
    _claim(29, "safety", "order", "The leader appends an entry to its own log before it sends it on."),
    _claim(30, "liveness", "cluster", "The leader goes on sending to a follower out of reach until it has everything."),
    _claim(31, "safety", "order", "An entry is committed when a majority has it; then followers are told to apply it."),
    _claim(
        32, "safety", "vector", "After the last common entry followers drop their own; in the end logs are the same."
    ),
)
