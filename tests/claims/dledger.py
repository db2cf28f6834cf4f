"""What the description of DLedger's election claims, as data: claims 2 to 42 of source 0.

Promises: each safety claim names its flip, and so do the timing claims. Leaves out claim 1, which is about brokers
without DLedger (see master_slave), and the tests (``tests/claims/test_dledger.py``).
"""

from __future__ import annotations

from tests.claims.claim import Claim, Kind, Level


def _claim(number: int, kind: Kind, level: Level, text: str) -> Claim:
    flip = None if kind == "architecture" else f"flip-0-{number}"
    return Claim(number=f"0-{number}", kind=kind, system="dledger", text=text, level=level, flip=flip)


CLAIMS: tuple[Claim, ...] = (
    _claim(2, "liveness", "cluster", "With DLedger a dead master is replaced without an operator."),
    _claim(3, "safety", "order", "There are three roles, and the loop runs the handler of the present one."),
    _claim(4, "safety", "order", "Every node starts as a candidate, whatever it was, and an election follows."),
    _claim(5, "safety", "restart", "Terms only rise, across restarts, too."),
    _claim(6, "safety", "vector", "Winning takes more than half of all members: floor(N / 2) + 1."),
    _claim(7, "safety", "order", "No campaign begins before its time, unless a higher term was heard of."),
    _claim(8, "safety", "order", "A node that is no longer a candidate does not campaign."),
    _claim(
        9,
        "safety",
        "order",
        "The term rises after a result that asks for it or on the flag; else a campaign repeats it.",
    ),
    _claim(10, "safety", "order", "A candidate asks all members, itself included without the network, naming itself."),
    _claim(11, "safety", "vector", "Vote requests that name a stranger are refused."),
    _claim(12, "safety", "vector", "A candidate whose last term is older is refused."),
    _claim(13, "safety", "vector", "A candidate with the same last term and a shorter log is refused."),
    _claim(14, "safety", "vector", "Logs are compared before terms: a stale candidate moves nobody's term."),
    _claim(15, "safety", "vector", "A campaign in a lower term is refused as expired."),
    _claim(
        16, "safety", "restart", "In one term a node votes for one candidate; others hear of a leader or of a vote."
    ),
    _claim(
        17, "safety", "vector", "A higher term makes the receiver a candidate that must raise its term: no vote yet."
    ),
    _claim(18, "safety", "restart", "A campaign in a term below that of the receiver's last entry is refused."),
    _claim(19, "safety", "vector", "Only answers with a verdict count as valid."),
    _claim(20, "timing", "timing", "A campaign waits for votes at most 2000 ms and a random part."),
    _claim(21, "safety", "vector", "Case 1: a larger term was answered; the next campaign uses it."),
    _claim(22, "safety", "vector", "Case 2: somebody has a leader; the candidate waits."),
    _claim(23, "safety", "vector", "Case 3: too few valid answers; the candidate waits, and its term stays."),
    _claim(24, "timing", "timing", "Case 4: too few answers without longer logs; the candidate waits 1000 ms more."),
    _claim(
        25, "safety", "vector", "Of ten, seven valid answers with three longer logs fail case 4's test; with one, not."
    ),
    _claim(26, "safety", "vector", "Only a majority of acceptances wins, and a few longer logs do not prevent it."),
    _claim(27, "safety", "vector", "Case 6: with those not ready yet it is a majority; the vote is repeated at once."),
    _claim(28, "safety", "vector", "Case 7: everything else waits, and then uses a new term."),
    _claim(29, "timing", "timing", "A leader beats all other members whenever its interval has passed."),
    _claim(30, "safety", "vector", "A stranger's heartbeat is answered UNKNOWN_MEMBER."),
    _claim(31, "safety", "vector", "A heartbeat that names its receiver is answered UNEXPECTED_MEMBER."),
    _claim(32, "safety", "vector", "A heartbeat of a lower term is answered EXPIRED_TERM."),
    _claim(33, "safety", "vector", "A heartbeat of the known leader succeeds and renews the time it was heard."),
    _claim(34, "safety", "vector", "Without a known leader in this term, the receiver follows the sender."),
    _claim(35, "safety", "vector", "With another leader known in this term, the answer is INCONSISTENT_LEADER."),
    _claim(36, "safety", "vector", "A heartbeat of a higher term makes a candidate that raises its term first."),
    _claim(
        37, "safety", "vector", "A majority of successes renews the time of success, and nothing else is looked at."
    ),
    _claim(38, "safety", "vector", "Successes and those not ready make a majority: the next round follows at once."),
    _claim(39, "safety", "vector", "A larger term, or a peer with another leader, makes the leader a candidate again."),
    _claim(40, "timing", "timing", "A leader without success for maxHeartBeatLeak intervals becomes a candidate."),
    _claim(41, "timing", "timing", "A follower looks after two intervals and is a candidate after maxHeartBeatLeak."),
    _claim(
        42,
        "architecture",
        "documentation",
        "A broker stores into DLedgerCommitLog in DLedger mode, and into CommitLog otherwise.",
    ),
)
