"""What the description of JoyQueue's election claims, as data: the 22 claims of source 2.

Promises: every claim names its flip, those of liveness, timing and architecture as well. Leaves out the tests
(``tests/claims/test_joyqueue.py``).
"""

from __future__ import annotations

from tests.claims.claim import Claim, Kind, Level


def _claim(number: int, kind: Kind, level: Level, text: str) -> Claim:
    return Claim(number=f"2-{number}", kind=kind, system="joyqueue", text=text, level=level, flip=f"flip-2-{number}")


CLAIMS: tuple[Claim, ...] = (
    _claim(1, "liveness", "cluster", "The election timer starts with the service, and its expiry brings an election."),
    _claim(2, "timing", "timing", "The election timeout is drawn evenly from T up to, but not including, twice T."),
    _claim(3, "liveness", "cluster", "Because timeouts are random, two nodes seldom stand at once."),
    _claim(4, "safety", "order", "A reset cancels the pending timer before it schedules another: never are there two."),
    _claim(5, "safety", "vector", "An expiry while the service is stopped is an error and does nothing."),
    _claim(6, "safety", "vector", "The only node of a group becomes leader without an election."),
    _claim(7, "safety", "vector", "An expiry at a leader changes nothing."),
    _claim(
        8,
        "safety",
        "vector",
        "Any other expiry forgets the leader, pre-votes, and arms the timer again even if the pre-vote failed.",
    ),
    _claim(9, "safety", "vector", "A pre-vote asks all other nodes, and the node counts itself."),
    _claim(10, "safety", "vector", "A pre-vote carries the term as it is; neither term nor vote changes by it."),
    _claim(
        11, "safety", "vector", "Pre-vote answers count for a follower only; null and foreign answers are passed over."
    ),
    _claim(12, "safety", "vector", "A higher term in a pre-vote answer makes the node step down, and nothing more."),
    _claim(13, "safety", "vector", "More than half of the pre-votes open the real election."),
    _claim(
        14, "safety", "vector", "A campaign raises the term by one: candidate, no leader known, its vote for itself."
    ),
    _claim(15, "safety", "order", "The metadata is stored before any request for a vote leaves."),
    _claim(
        16, "safety", "vector", "The start of the election is published, and the local store is offline while it lasts."
    ),
    _claim(
        17, "timing", "cluster", "A vote timer limits the campaign; after its expiry the node goes back to pre-votes."
    ),
    _claim(
        18,
        "safety",
        "vector",
        "Vote requests go to all others, say that they are no pre-votes, and carry the log's end.",
    ),
    _claim(19, "safety", "vector", "Votes count for a candidate only; null and foreign answers are passed over."),
    _claim(
        20,
        "safety",
        "vector",
        "A higher term in a vote answer makes the node step down (and the tally goes on: JQ-B1).",
    ),
    _claim(21, "safety", "vector", "More than half of the votes make a leader."),
    _claim(22, "architecture", "cluster", "The replicas' data is kept consistent by Raft, as well."),
)
