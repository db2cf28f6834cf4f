"""A candidate that asks for votes while its own vote is being written, not after: as safe, and one write faster.

Its own vote counts when it is on disk, as ever. In the published figures, and in the formula with one write W in it,
an election takes one write, the voter's; our candidate writes first, as its own vote must not be forgotten once others
may have seen its term. ``--variant tests/benchmarks/asks_while_writing.py:AsksWhileWriting``.
"""

from __future__ import annotations

from collections.abc import Sequence

from dethrone.clusters.targets.raft.rules import Rules
from dethrone.clusters.targets.raft.storage import HardState


class AsksWhileWriting(Rules):
    """Only a write that holds the own vote delays nothing; whatever is said to others of their votes waits as ever."""

    _me: str | None = None
    _own = False

    def may_campaign(self, node: str, voters: Sequence[str], *, leaving: bool) -> bool:
        """As ever; it tells who this is."""
        self._me = node
        return super().may_campaign(node, voters, leaving=leaving)

    def persist_vote(self, state: HardState) -> HardState:
        """As ever; it tells whose vote is about to be written."""
        self._own = state.voted_for is not None and state.voted_for == self._me
        return state

    def answers_after_persist(self) -> bool:
        """A campaign needs no answer to be held back."""
        return not self._own
