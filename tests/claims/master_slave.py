"""What the sources say about RocketMQ's deployments without election, as numbered claims."""

from __future__ import annotations

from tests.claims.claim import Claim, Kind, Level

_SYSTEM = "rocketmq master/slave"


def _claim(number: str, kind: Kind, level: Level, text: str, flip: str | None = None) -> Claim:
    return Claim(number=number, kind=kind, system=_SYSTEM, text=text, level=level, flip=flip)


CLAIMS: tuple[Claim, ...] = (
    _claim("0-1", "liveness", "cluster", "Before 4.5, a dead master stays dead until an operator acts.", "flip-0-1"),
    _claim("0-42", "architecture", "vector", "Storage is the plain CommitLog unless DLedger mode is configured."),
    _claim("1-1", "architecture", "vector", "A group has exactly one master and any number of slaves."),
    _claim("1-2", "architecture", "cluster", "Slaves copy synchronously or asynchronously.", "flip-1-2"),
    _claim("1-3", "liveness", "cluster", "A slave does not replace its dead master: restart or switch.", "flip-1-3"),
    _claim("1-4", "architecture", "cluster", "Without its master a group takes no writes.", "flip-1-4"),
    _claim("1-5", "safety", "vector", "The master takes reads and writes, a slave reads only.", "flip-1-5"),
    _claim("1-6", "architecture", "vector", "Of the slaves only brokerId 1 takes balanced reads.", "flip-1-6"),
    _claim("1-7", "safety", "vector", "brokerId 0 is the master, and only that.", "flip-1-7"),
    _claim(
        "1-8", "architecture", "vector", "Deployments: 1M+1S, 1M+nS synchronous or asynchronous, nM without slaves."
    ),
    _claim("1-9", "liveness", "documentation", "The new architecture (4.5, on Raft) elects a master automatically."),
)
