"""Bugs that only a transfer of leadership shows, for ``--variant tests/clusters/sim/impatient.py:NAME``."""

from __future__ import annotations

from typing import Any

from dethrone.clusters.targets.raft.rules import Rules


class _Asked(Rules):
    """Remembers, for as long as it lives, that a leader asked it to campaign."""

    asked = False

    def timeout_now_ok(self, **given: Any) -> bool:
        ok = super().timeout_now_ok(**given)
        self.asked = self.asked or ok
        return ok


class TakesOver(_Asked):
    """Leads without votes where it was asked to lead: what Redis Cluster calls a takeover."""

    def is_quorum(self, votes: Any, voters: Any, answered: Any) -> bool:
        return self.asked or super().is_quorum(votes, voters, answered)


class StaysImpatient(_Asked):
    """Asks for no pre-votes in any later election either: the mark of the transfer is never taken off."""

    def needs_pre_vote(self) -> bool:
        return not self.asked and super().needs_pre_vote()
