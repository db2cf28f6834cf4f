"""The knobs of the Paxos target.

Source: Lamport, "Paxos Made Simple", for the rules; the times are ours, sized like Raft's (150-300 ms).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from dethrone.clusters.targets.kit.knobs import KnobTable, Settings, one_of, switch, text, time
from dethrone.harness.core.clock import Ns


def _acceptors(word: str) -> int:
    if word == "all":
        return 0
    if not (word.isascii() and word.isdigit() and int(word)):
        raise ValueError(word)
    return int(word)


class PaxosKnobs(Settings, frozen=True, kw_only=True):
    """One group's settings."""

    acceptors: Annotated[
        int,
        text(
            "all",
            _acceptors,
            "all, or a whole number",
            "how many members, from the first, accept (0: all); every member proposes and learns",
        ),
    ]
    accept_rule: Annotated[
        Literal["eq", "ge", "ge_literal"],
        one_of(
            "eq", ("eq", "ge", "ge_literal"), "a proposal is accepted when its number equals, or is at least, max_id"
        ),
    ]
    persist: Annotated[bool, switch("true", "acceptors and the counter are on disk before anything is answered")]
    id_scheme: Annotated[
        Literal["unique", "plain_counter"],
        one_of("unique", ("unique", "plain_counter"), "numbers: counter times nodes plus own place, or a bare counter"),
    ]
    nack: Annotated[bool, switch("true", "a refusal is said; false: silence")]
    backoff: Annotated[
        Literal["random", "none"],
        one_of("random", ("random", "none"), "how long a proposer waits before its next number"),
    ]
    start_needs: Annotated[
        Literal["majority", "one"],
        one_of("majority", ("majority", "one"), "how many acceptors must be reachable before a number is tried"),
    ]
    learner: Annotated[
        Literal["memory", "disk"], one_of("memory", ("memory", "disk"), "where a learner keeps what it learned")
    ]
    relearn: Annotated[
        Literal["ask", "attempt"],
        one_of("ask", ("ask", "attempt"), "how a learner that does not know learns: it asks acceptors, or proposes"),
    ]
    election: Annotated[bool, switch("false", "epochs: instance -k decides who leads epoch k")]
    phase_timeout: Annotated[Ns, time("200", "how long one phase may take")]
    retry_backoff_min: Annotated[Ns, time("50", "the shortest first wait")]
    retry_backoff_max: Annotated[Ns, time("150", "the longest first wait; both double with each failure")]
    retry_backoff_cap: Annotated[Ns, time("2000", "the longest wait of all")]
    patience: Annotated[Ns, time("2000", "how long a client's request is worked on")]
    heartbeat_interval: Annotated[Ns, time("50", "between two heartbeats of the leader of an epoch")]
    heartbeat_timeout_min: Annotated[Ns, time("150", "the shortest silence after which a node contends")]
    heartbeat_timeout_max: Annotated[Ns, time("300", "the longest such silence")]

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """See `Settings`."""
        for low, high in (
            ("retry_backoff_min", "retry_backoff_max"),
            ("retry_backoff_max", "retry_backoff_cap"),
            ("heartbeat_timeout_min", "heartbeat_timeout_max"),
        ):
            if getattr(self, low) > getattr(self, high):
                yield f"{low}_ms is above {high}_ms", "exchange the two, or leave them out"
        if 2 * self.heartbeat_interval > self.heartbeat_timeout_min:
            yield "a heartbeat timeout takes two heartbeats at least", "leave one of the two out"
        if self.learner == "disk" and not self.persist:
            yield "learner=disk needs persist=true", "set persist=true, or learner=memory"


KNOBS = KnobTable(
    "paxos",
    PaxosKnobs,
    profiles={"paxos": {}, "paxos-election": {"election": "true"}},
)
