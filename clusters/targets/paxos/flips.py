"""One small broken rule for each safety claim: the build under which the claim's test must turn red.

Guarantees: each class overrides only the rule of its claim (docs/sources.md, claims). Out of scope: the claims.
"""

from __future__ import annotations

from collections.abc import Mapping

from dethrone.clusters.targets.paxos.broken import (
    AcceptsAnyNumber,
    CountsAcrossNumbers,
    HidesAccepted,
    IgnoresAccepted,
    LearnsFromOne,
    PromiseMayFall,
    TellsProposerOnly,
)
from dethrone.clusters.targets.paxos.messages import Prepare, Value
from dethrone.clusters.targets.paxos.rules import Report, Rules
from dethrone.clusters.targets.paxos.storage import Acceptor


class _LoadedPrepare(Prepare, frozen=True, gc=False, tag="prepare", kw_only=True):
    value: Value | None = None


class RepeatsNumbers(Rules):
    """1-33: the number under way is used again for the next attempt."""

    def next_counter(self, cnt: int, *, seen: int, place: int, nodes: int) -> int:  # noqa: D102
        del seen, place, nodes
        return max(cnt, 1)


class PrepareWithValue(Rules):
    """1-34."""

    def prepare(self, instance: int, number: int, value: Value | None) -> Prepare:  # noqa: D102
        return _LoadedPrepare(instance, number, value=value)


class StartsAlone(Rules):
    """1-35."""

    def may_start(self, reachable: int, *, own: bool, acceptors: int) -> bool:  # noqa: D102
        del reachable, own, acceptors
        return True


class ProposesOnFirstPromise(Rules):
    """1-39."""

    def majority(self, acceptors: int, *, reachable: int) -> int:  # noqa: D102
        del acceptors, reachable
        return 1


class NeverChooses(Rules):
    """1-41: a value of the proposer's own is never proposed."""

    def select(self, reports: Mapping[str, Report], own: Value | None) -> tuple[Value | None, int]:  # noqa: D102
        del own
        return super().select(reports, None)


class ProposesOtherNumber(Rules):
    """1-42."""

    def propose_number(self, number: int) -> int:  # noqa: D102
        return number + 1


class AcceptsAboveOnly(Rules):
    """1-43: only a number above the promised one is accepted."""

    def accepts(self, number: int, acceptor: Acceptor) -> bool:  # noqa: D102
        return number > acceptor.max_id


class AcceptsOnce(Rules):
    """1-45."""

    def accepts(self, number: int, acceptor: Acceptor) -> bool:  # noqa: D102
        return acceptor.accepted_value is None and super().accepts(number, acceptor)


class NeverRetries(Rules):
    """1-48."""

    def retries(self) -> bool:  # noqa: D102
        return False


class OneInstance(Rules):
    """1-49: all client instances share one state."""

    def instance(self, number: int) -> int:  # noqa: D102
        return min(number, 1)


FLIPS: Mapping[str, type[Rules]] = {
    "flip-1-33": RepeatsNumbers,
    "flip-1-34": PrepareWithValue,
    "flip-1-35": StartsAlone,
    "flip-1-36": HidesAccepted,
    "flip-1-37": PromiseMayFall,
    "flip-1-38": AcceptsAnyNumber,
    "flip-1-39": ProposesOnFirstPromise,
    "flip-1-40": IgnoresAccepted,
    "flip-1-41": NeverChooses,
    "flip-1-42": ProposesOtherNumber,
    "flip-1-43": AcceptsAboveOnly,
    "flip-1-44": TellsProposerOnly,
    "flip-1-45": AcceptsOnce,
    "flip-1-46": CountsAcrossNumbers,
    "flip-1-47": LearnsFromOne,
    "flip-1-48": NeverRetries,
    "flip-1-49": OneInstance,
}
"""Variant name → rules."""
