"""What the sources of ZAB claim, as data: 19 claims; the flip of each is the planted bug that breaks its rule.

Guarantees: each safety claim names its flip. Out of scope: the tests (``tests/claims/test_zab.py``).
"""

from __future__ import annotations

from tests.claims.claim import Claim, Kind, Level


def _claim(number: int, kind: Kind, level: Level, text: str, flip: str) -> Claim:
    return Claim(number=f"ZAB-{number}", kind=kind, system="zab", text=text, level=level, flip=flip)


CLAIMS: tuple[Claim, ...] = (
    _claim(1, "safety", "restart", "An epoch is won by one leader.", "a-not-persisted"),
    _claim(2, "safety", "restart", "An epoch is proposed once, even by a leader that restarts.", "leader-a-late"),
    _claim(3, "safety", "order", "A new epoch is above what its leader accepted itself.", "own-a-ignored"),
    _claim(4, "safety", "vector", "A follower acknowledges an epoch to one leader, to be counted.", "recount-equal"),
    _claim(5, "safety", "order", "An epoch is won by a quorum of ACKEPOCH.", "skip-epoch-acks"),
    _claim(6, "safety", "restart", "currentEpoch never runs ahead of the log.", "c-before-log"),
    _claim(7, "safety", "restart", "The acknowledgement of NEWLEADER means a durable history.", "ack-before-log"),
    _claim(8, "safety", "cluster", "The epoch of a history outranks its zxid.", "no-epoch-compare"),
    _claim(9, "safety", "cluster", "A tail that diverges from the leader's history is removed.", "no-trunc"),
    _claim(10, "safety", "vector", "A vote shows the end of the log, committed or not.", "committed-end"),
    _claim(11, "safety", "order", "A joining follower misses no proposal.", "forward-late"),
    _claim(12, "safety", "order", "A leader does not serve before a quorum acknowledged NEWLEADER.", "early-uptodate"),
    _claim(13, "safety", "restart", "An acknowledged write survives the loss of unsynced data.", "ack-before-fsync"),
    _claim(14, "liveness", "order", "A joining follower commits what was committed meanwhile.", "commit-in-sync-lost"),
    _claim(15, "liveness", "cluster", "A leader is established while a quorum is up.", "self-not-counted"),
    _claim(16, "liveness", "cluster", "A newcomer joins a working ensemble.", "stored-vote-stale"),
    _claim(17, "liveness", "cluster", "Nodes of different rounds elect a leader together.", "round-not-adopted"),
    _claim(18, "liveness", "cluster", "Synchronizing a lagging follower costs no further epoch.", "proposal-ack-first"),
    _claim(19, "timing", "timing", "A leader that is cut off leaves within syncLimit + 1 ticks.", "no-step-down"),
)
