"""The deliberately broken builds, and the harmless ones that must raise no alarm.

Guarantees: each build switches one rule off, is the flip of a claim (docs/sources.md, claims) and names a
checker that must catch it. Out of scope: the exam.

Source: the issues of Apache ZooKeeper that the comments name, and the violations that its TLA+ specifications list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from dethrone.clusters.targets.kit.mutants import Mutant, bug, scaled
from dethrone.clusters.targets.zab.rules import Rules

_VOTE, _LEADER, _MAJORITY = "one-vote-per-term", "one-leader-per-term", "leader-has-majority"
_DURABLE, _TERM, _OWED = "vote-is-durable", "term-never-decreases", "leader-when-owed"
_COMPLETE, _COMMIT, _ACKED = "leader-completeness", "commit-never-regresses", "acknowledged-survives"
_MATCHING, _CONVERGE, _STEP_DOWN = "log-matching", "convergence-after-heal", "step-down-without-quorum"
_LOST = (_COMPLETE, _COMMIT, _ACKED, _MATCHING)


def without(*rules: str) -> Callable[[Any], Rules]:
    """The rules with these switched off."""
    return type("Broken", (Rules,), dict.fromkeys(rules, False))


VARIANTS: Mapping[str, Mutant] = {
    "proposal-ack-first": bug(  # ZOOKEEPER-4685
        "acknowledges the synced transactions before NEWLEADER", without("acks_leader_first"), _OWED, _CONVERGE
    ),
    "a-not-persisted": bug(
        "as follower keeps acceptedEpoch in memory", without("follower_stores_accepted"), _DURABLE, _TERM, _LEADER
    ),
    "leader-a-late": bug(  # ZOOKEEPER-1291
        "as leader does not store the epoch that it proposes", without("leader_stores_accepted"), _DURABLE, _TERM
    ),
    "own-a-ignored": bug(
        "proposes an epoch that may be the one that it accepted", without("counts_own_accepted"), _VOTE, _LEADER, _TERM
    ),
    "self-not-counted": bug("needs a quorum besides itself", without("counts_itself"), _OWED),
    "skip-epoch-acks": bug(  # ZOOKEEPER-1192
        "wins an epoch before a quorum acknowledged it", without("waits_for_epoch_acks"), _MAJORITY, _LEADER
    ),
    "round-not-adopted": bug("ignores votes of a later round", without("adopts_round"), _OWED, _CONVERGE),
    "stored-vote-stale": bug(  # ZOOKEEPER-1732
        "as follower answers newcomers with the vote of before the epoch",
        without("refreshes_stored_vote"),
        _CONVERGE,
        _OWED,
    ),
    "committed-end": bug(  # ZOOKEEPER-2845
        "votes with its last committed transaction when it leaves a role", without("shows_log_end"), *_LOST
    ),
    "no-trunc": bug(  # ZOOKEEPER-1154
        "does not have a diverging follower cut its log", without("truncates"), *_LOST, _CONVERGE
    ),
    "no-step-down": bug("keeps leading without a quorum", without("steps_down"), _STEP_DOWN),
    "ack-before-fsync": bug("acknowledges proposals that a power loss can undo", without("syncs_before_ack"), *_LOST),
    "harmless-more-notifications": bug(
        "repeats its vote sooner", scaled(Rules, "min_notification_interval", Fraction(1, 2))
    ),
    "harmless-patient-vote": bug(
        "waits a little longer before it decides", scaled(Rules, "finalize_wait", Fraction(3, 2))
    ),
    "harmless-quick-vote": bug("waits less long before it decides", scaled(Rules, "finalize_wait", Fraction(3, 4))),
    "harmless-quick-connect": bug("pauses less long between two tries", scaled(Rules, "connect_wait", Fraction(1, 2))),
    "harmless-more-tries": bug("tries twice as often to reach its leader", scaled(Rules, "connect_tries", Fraction(2))),
}
