"""Knobs of the bully target: every rule that a claim flips, and the times.

Guarantees: the default is the classic form; the profile ``mongo`` follows MongoDB's protocol version 0 in meaning and
times. Out of scope: what the rules do.

Source: docs/sources.md, bully.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from dethrone.clusters.targets.kit.knobs import KnobTable, Settings, one_of, switch, text, time
from dethrone.harness.core.clock import Ns


def _priorities(word: str) -> dict[str, int]:
    pairs = [one.split(":") for one in word.split(",") if one]
    out = {name: int(number) for name, number in pairs}
    if any(not 0 <= number <= 1000 for number in out.values()):
        raise ValueError(word)
    return out


class BullyKnobs(Settings, frozen=True, kw_only=True):
    """One cluster's settings."""

    election: Annotated[str, one_of("classic", ("classic", "mongo"), "by id, or by freshness, votes and leases")]
    local_term: Annotated[bool, switch("off", "shows a node's own round as its term; nodes do not agree on it")]
    elect_at_start: Annotated[bool, switch("on", "a node that starts holds an election")]
    reply_ok: Annotated[bool, switch("on", "a higher id answers an election")]
    announce: Annotated[bool, switch("on", "a new coordinator announces itself, and says so in its heartbeats")]
    bully_back: Annotated[bool, switch("on", "a node that hears a lower coordinator holds an election")]
    yields: Annotated[bool, switch("on", "a leader that hears a better one follows it", name="yield")]
    majority_to_stand: Annotated[bool, switch("off", "no node stands or leads unless it hears a majority")]
    count_votes: Annotated[bool, switch("on", "mongo: the votes of a majority are needed")]
    step_down: Annotated[bool, switch("off", "a leader that hears no majority steps down")]
    freshness: Annotated[bool, switch("on", "mongo: a fresher node blocks a candidate")]
    lease: Annotated[bool, switch("on", "mongo: a vote binds the voter for the lease")]
    lease_persisted: Annotated[bool, switch("off", "mongo: the lease survives a restart")]
    tally_guard: Annotated[bool, switch("on", "mongo: votes that arrive after the lease do not count")]
    priority_takeover: Annotated[bool, switch("on", "mongo: a primary makes room for a higher priority")]
    priorities: Annotated[
        dict[str, int], text("", _priorities, "node:0..1000,..., such as n3:2,n1:0", "mongo: priorities other than 1")
    ]
    write_concern: Annotated[str, one_of("1", ("1", "majority"), "how many nodes hold a write when it is acknowledged")]
    heartbeat: Annotated[Ns, time("500", "between two heartbeats")]
    fail_timeout: Annotated[Ns, time("2000", "a node that was not heard for longer is down")]
    ok_timeout: Annotated[Ns, time("1000", "how long an election waits for a higher id")]
    coord_timeout: Annotated[
        Ns, time("2000", "how long a node waits for the announcement; mongo: before it asks again")
    ]
    vote_lease: Annotated[Ns, time("30000", "mongo: how long a vote binds")]
    fresh_window: Annotated[Ns, time("10000", "mongo: a log that ends further back is not electable")]

    def priority(self, node: str) -> int:
        """Its priority; 0: it never leads."""
        return self.priorities.get(node, 1)

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """See `Settings`."""
        if 2 * self.heartbeat > self.fail_timeout:
            yield "fail_timeout_ms is below two heartbeats", "set fail_timeout_ms to at least twice heartbeat_ms"


KNOBS = KnobTable(
    "bully",
    BullyKnobs,
    profiles={
        "classic": {},
        "mongo": {
            "election": "mongo",
            "majority_to_stand": "on",
            "step_down": "on",
            "heartbeat_ms": "2000",
            "fail_timeout_ms": "10000",
        },
    },
)
