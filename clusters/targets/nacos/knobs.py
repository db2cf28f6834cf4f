"""Knobs and constants of the naming Raft, with the defaults that are faithful to the original.

The dues are counted in protocol milliseconds, tick by tick; ``time_factor`` scales how long one of them lasts. The
constants are no knobs, as in the original.

Source: docs/sources.md, nacos: ``GlobalExecutor`` and ``RaftPeer``. ``late_ticks``, ``namespace`` and
``version_switch_ms`` are ours: by default a starved process delays its election, while the original's fixed-rate timer
catches up on every missed tick at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Annotated, Literal

from dethrone.clusters.targets.kit.knobs import KnobTable, Settings, one_of, protocol_ms, scaling, switch, text
from dethrone.harness.core.clock import MS

TICK_PERIOD_MS = 500
LEADER_TIMEOUT_MS = 15_000
RANDOM_MS = 5_000
HEARTBEAT_INTERVAL_MS = 5_000
PUBLISH_TIMEOUT_MS = 5_000
PUBLISH_TERM_INCREASE_COUNT = 100
FETCH_BATCH_MAX = 50
FORWARD_TIMEOUT_MS = 2 * PUBLISH_TIMEOUT_MS
"""A follower's patience with the leader that it forwarded a write to: longer than the leader's own with the others."""
FORWARD_HOPS_MAX = 3
"""Two nodes that take each other for the leader would forward a write back and forth without end."""


def _namespace(word: str) -> str:
    if not (word and word.isascii() and word.replace("-", "").replace("_", "").isalnum()):
        raise ValueError(word)
    return word


class Knobs(Settings, frozen=True, kw_only=True):
    """All knobs. The four safe variants are false by default: false is the original's behaviour."""

    time_factor: Annotated[Fraction, scaling("0.002", "1000")]
    persist_vote: Annotated[
        bool, switch("false", "term and voteFor are on disk before a vote leaves, and never go back")
    ]
    count_current_term_only: Annotated[bool, switch("false", "only records of the own current term count in the tally")]
    leader_needs_majority_acks: Annotated[
        bool, switch("false", "a leader's beat or write keeps it from electing only once a majority answered")
    ]
    beat_raises_term: Annotated[bool, switch("false", "an accepted beat raises the term to the sender's")]
    term_jump: Annotated[int, one_of("0", {"0": 0, "100": 100}, "what a publish adds to the leader's term")]
    restart_term: Annotated[
        Literal["loaded", "zero"],
        one_of("loaded", ("loaded", "zero"), "whether the stored term reaches the own record at start"),
    ]
    beat_data: Annotated[bool, switch("true", "followers fetch and delete items after the list in a beat")]
    send_beat_only: Annotated[bool, switch("false", "beats carry no items, and no node asks for them")]
    standalone: Annotated[bool, switch("false", "one node that leads by itself and sends no beats")]
    version_switch_ms: Annotated[
        int, protocol_ms("0", "after how many protocol ms the cluster runs the new version; 0: never", least=0)
    ]
    late_ticks: Annotated[
        Literal["skip", "burst"],
        one_of("skip", ("skip", "burst"), "what the election task does with ticks missed by a starved process"),
    ]
    namespace: Annotated[str, text("public", _namespace, "letters, digits, - and _", "the folder of the data items")]

    def ms_left(self, protocol_ms: int) -> int:
        """How long they last in whole milliseconds of this node's clock, for people to read."""
        return self.ns(protocol_ms) // MS

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """See `Settings`."""
        if self.persist_vote and self.restart_term == "zero":
            yield (
                "persist_vote and restart_term=zero contradict each other: the term of a stored vote would be lost",
                "leave restart_term at loaded",
            )


KNOBS = KnobTable(
    "nacos",
    Knobs,
    profiles={
        "nacos": {},
        "nacos-mended": {
            "persist_vote": "true",
            "count_current_term_only": "true",
            "leader_needs_majority_acks": "true",
            "beat_raises_term": "true",
        },
    },
)
