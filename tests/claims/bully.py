"""What is claimed of bully elections, as data: 8 claims; the flip of each turns the knobs that the claim rests on.

Guarantees: each names its flip. Out of scope: the tests (``tests/claims/test_bully.py``).
"""

from __future__ import annotations

from tests.claims.claim import Claim, Kind


def _claim(n: int, kind: Kind, text: str) -> Claim:
    return Claim(number=f"BU-{n}", kind=kind, system="bully", text=text, level="cluster", flip=f"flip-bu-{n}")


CLAIMS: tuple[Claim, ...] = (
    _claim(1, "liveness", "All follow the highest id that is up."),
    _claim(2, "liveness", "A top id that returns takes over."),
    _claim(3, "safety", "Classic: both sides of a cut elect a leader."),
    _claim(4, "safety", "mongo: no node is primary without a majority."),
    _claim(5, "safety", "mongo: a voter gives one candidate its vote within a lease."),
    _claim(6, "safety", "mongo: a reachable fresher node blocks a candidate."),
    _claim(7, "timing", "mongo: a primary that is cut off leaves within failTimeout and a heartbeat."),
    _claim(8, "liveness", "After a heal one leader remains."),
)
