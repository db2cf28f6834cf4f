"""The election deadline: how long a node waits without hearing from a leader.

Guarantees: the election timeout is uniform in its range and drawn again at each reset; the draw is delayed until the
shortest possible timeout has passed without another reset. The delay keeps the distribution and saves a draw and a
timer per heartbeat. Out of scope: what resets the deadline (the handlers).

Source: Raft paper, 5.2, 9.3.
"""

from __future__ import annotations

from dethrone.clusters.targets.raft.election import ask_for_votes, start_election
from dethrone.clusters.targets.raft.leading import FAR
from dethrone.clusters.targets.raft.node import CANDIDATE, Node
from dethrone.clusters.targets.raft.prevote import ask_for_pre_votes, open_round


def on_election_timer(n: Node) -> None:
    """The timer rang: too early, or the deadline passed."""
    n.armed = FAR
    if n.leading is not None:
        return
    now = n.election_now()
    if n.deadline is None:
        if now < n.reset_at + n.timeout_min:
            n.arm(n.reset_at + n.timeout_min)
            return
        n.deadline = n.reset_at + n.rules.deadline(n.rng)
    if now < n.deadline:
        n.arm(n.deadline)
        return
    deadline_passed(n)


def deadline_passed(n: Node) -> None:
    """No leader, no grant in time: ask or campaign, as far as this node may."""
    if n.leader is not None:
        n.leader = None
        n.note("leader_seen", {"leader": None, "why": "deadline"})
    if not n.may_campaign() or n.holds_off():
        n.close_round("expired")
        n.reset_deadline()
    elif n.role == CANDIDATE and n.rules.retries_same_term():
        n.reset_deadline()
        n.note("election_started", {"term": n.term, "log": n.own_log(), "again": True})
        n.answered.clear()
        ask_for_votes(n)
    elif n.rules.needs_pre_vote():
        open_round(n)
    else:
        start_election(n, why="deadline")


def on_retry_timer(n: Node) -> None:
    """Send unanswered requests again."""
    if n.role == CANDIDATE:
        ask_for_votes(n)
    elif n.round is not None:
        ask_for_pre_votes(n, n.round)
