"""What a published description of basic Paxos claims about it, 1-33 … 1-49, in our own words, and how each is tested.

Promises: pure data. Leaves out the tests (``tests/claims/test_paxos.py``).
"""

from __future__ import annotations

from tests.claims.claim import Claim, Kind, Level


def _claim(n: int, text: str, level: Level, kind: Kind = "safety") -> Claim:
    return Claim(number=f"1-{n}", kind=kind, system="paxos", text=text, level=level, flip=f"flip-1-{n}")


CLAIMS: tuple[Claim, ...] = (
    _claim(
        33, "A proposer's number is unique and higher than every one that it used before, restarts included.", "restart"
    ),
    _claim(34, "PREPARE carries the number and no value.", "vector"),
    _claim(35, "A proposer that cannot reach the acceptors does not start.", "vector"),
    _claim(
        36,
        "A number above all seen is promised, with what was accepted earlier (number and value), if anything.",
        "vector",
    ),
    _claim(37, "A number not above all seen is not promised: silence, or a refusal.", "vector"),
    _claim(38, "After a promise, requests with lower numbers are ignored.", "vector"),
    _claim(39, "A majority of promises comes before a proposal.", "vector"),
    _claim(40, "The value accepted under the highest number that the promises tell must be proposed.", "vector"),
    _claim(41, "If the promises tell of no value, the proposer's own is proposed.", "vector"),
    _claim(42, "PROPOSE carries the number of its PREPARE.", "order"),
    _claim(43, "A proposal is accepted at the promised number; by the looser rule also above it.", "vector"),
    _claim(44, "An acceptance is told to the proposer and to every learner.", "vector"),
    _claim(45, "An acceptor may accept several proposals, also with different values.", "vector"),
    _claim(
        46,
        "A majority of acceptances under one number decides; what is decided is the value, not the number.",
        "vector",
    ),
    _claim(47, "Two values are never decided.", "cluster"),
    _claim(
        48,
        "Rounds that fail are followed by others, and end; without back-off two proposers may duel for ever.",
        "cluster",
        "liveness",
    ),
    _claim(49, "Paxos decides one value; a log repeats it, each instance by itself.", "cluster"),
)
