"""Short names of the checkers by which planted bugs must be caught: ``caught_by=(by.VOTE, by.LEADER)``."""

from __future__ import annotations

VOTE, LEADER, TERM = "one-vote-per-term", "one-leader-per-term", "term-never-decreases"
MAJORITY, DURABLE, MEMBERS = "leader-has-majority", "vote-is-durable", "members-only"
OWED, LIVELOCK, STABLE = "leader-when-owed", "no-livelock", "leader-stability"
STEP_DOWN, CONVERGES = "step-down-without-quorum", "convergence-after-heal"
COMPLETE, COMMIT, ACKED = "leader-completeness", "commit-never-regresses", "acknowledged-survives"
MATCHING, LEASE = "log-matching", "lease-exclusion"
LOST = (COMPLETE, COMMIT, ACKED, MATCHING)
"""What was committed is gone."""
