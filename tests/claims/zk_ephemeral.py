"""What the source says about Kafka's election through ZooKeeper's ephemeral nodes, as numbered claims."""

from __future__ import annotations

from tests.claims.claim import Claim

_KAFKA = "kafka on zookeeper"

CLAIMS: tuple[Claim, ...] = (
    Claim(
        number="1-10",
        kind="safety",
        system=_KAFKA,
        text="A follower replica serves neither reads nor writes: it only copies its leader.",
        level="vector",
        flip="flip-1-10",
    ),
    Claim(
        number="1-11",
        kind="architecture",
        system=_KAFKA,
        text="So no client reads stale data from a follower, and reads do not scale with replicas.",
        level="cluster",
        flip="flip-1-11",
    ),
    Claim(
        number="1-12",
        kind="safety",
        system=_KAFKA,
        text="The leader owns an ephemeral node of the coordination service, and the followers watch it.",
        level="cluster",
        flip="flip-1-12",
    ),
    Claim(
        number="1-13",
        kind="liveness",
        system=_KAFKA,
        text="When the leader dies its node vanishes, and all followers of the ISR try to create it.",
        level="cluster",
        flip="flip-1-13",
    ),
    Claim(
        number="1-14",
        kind="safety",
        system=_KAFKA,
        text="Exactly one creation succeeds: that node leads, the others follow it.",
        level="cluster",
        flip="flip-1-14",
    ),
)
