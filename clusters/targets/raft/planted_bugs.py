"""The planted bugs that need more than an expression: one class of broken rules each.

All others stand in ``rules``, at the rule that they break: those of votes and elections among them.

Out of scope: finding the bugs, which is the exam's task.
"""

# ruff: noqa: ARG002, D101, D102 - `says` and `rules` document them; a mistake often ignores its arguments

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from dethrone.clusters.targets.kit import by
from dethrone.clusters.targets.kit.files import Unreadable
from dethrone.clusters.targets.kit.mutants import mutant
from dethrone.clusters.targets.raft.knobs import RaftKnobs
from dethrone.clusters.targets.raft.messages import Config
from dethrone.clusters.targets.raft.rules import SINGLE, Rules
from dethrone.clusters.targets.raft.storage import HardState
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.rng import Rng


@mutant("07-unreadable-means-fresh")
class UnreadableMeansFresh(Rules):  # DLedger
    def load_state(self, content: bytes | Literal["unreadable"] | None, *, node: str, last_log_term: int) -> HardState:
        try:
            return super().load_state(content, node=node, last_log_term=last_log_term)
        except Unreadable:
            return HardState(0, None)


@mutant("11-forgets-own-vote")
class ForgetsOwnVote(Rules):  # KAFKA-10661
    def load_state(self, content: bytes | Literal["unreadable"] | None, *, node: str, last_log_term: int) -> HardState:
        state = super().load_state(content, node=node, last_log_term=last_log_term)
        return HardState(state.term, None) if state.voted_for == node else state


@mutant("23-non-members-vote", needs=SINGLE)
class NonMembersVote(Rules):
    """Seen in hashicorp 477, NATS: every node that any configuration in the log named is asked and counted."""

    def electorate(self, config: Config, configs: Sequence[tuple[int, Config]]) -> tuple[str, ...]:
        names = dict.fromkeys(config.voters)
        for _, known in configs:
            names.update(dict.fromkeys((*known.voters, *known.learners)))
        return tuple(names)


@mutant("34-same-seed", caught_by=(by.LIVELOCK,))
class SameSeedEverywhere(Rules):  # etcd 15784
    def __init__(self, knobs: RaftKnobs) -> None:
        super().__init__(knobs)
        self._own = Rng(0)

    def deadline(self, rng: Rng) -> Ns:
        return super().deadline(self._own)
