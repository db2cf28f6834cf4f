"""The flips of the claims about Paxos: builds in which the very rule of one claim is broken.

Guarantees: a flip overrides the rule of its claim only (docs/sources.md, claims); the class of a planted bug that
breaks this rule serves as its flip. Out of scope: the claims, and checkers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from dethrone.clusters.targets.kit.mutants import broken
from dethrone.clusters.targets.paxos.messages import Prepare, Value
from dethrone.clusters.targets.paxos.planted_bugs import (
    AcceptsAnyNumber,
    CountsAcrossNumbers,
    HidesAccepted,
    IgnoresAccepted,
    LearnsFromOne,
    PromiseMayFall,
)
from dethrone.clusters.targets.paxos.rules import Report, Rules
from dethrone.clusters.targets.paxos.storage import Acceptor


class _LoadedPrepare(Prepare, frozen=True, gc=False, tag="prepare", kw_only=True):
    value: Value | None = None


class RepeatsNumbers(Rules):
    def next_counter(self, cnt: int, *, seen: int, place: int, nodes: int) -> int:
        del seen, place, nodes
        return max(cnt, 1)


class PrepareWithValue(Rules):
    def prepare(self, instance: int, number: int, value: Value | None) -> Prepare:
        return _LoadedPrepare(instance, number, value=value)


StartsAlone = broken(Rules, may_start=True)
ProposesOnFirstPromise = broken(Rules, majority=1)


class NeverChooses(Rules):
    def select(self, reports: Mapping[str, Report], own: Value | None) -> tuple[Value | None, int]:
        del own
        return super().select(reports, None)


class ProposesOtherNumber(Rules):
    def propose_number(self, number: int) -> int:
        return number + 1


class AcceptsAboveOnly(Rules):
    def accepts(self, number: int, acceptor: Acceptor) -> bool:
        return number > acceptor.max_id


class TellsProposerOnly(Rules):
    def tells(self, learners: Collection[str], proposer: str) -> Collection[str]:
        return (proposer,)


class AcceptsOnce(Rules):
    def accepts(self, number: int, acceptor: Acceptor) -> bool:
        return acceptor.accepted_value is None and super().accepts(number, acceptor)


NeverRetries = broken(Rules, retries=False)


class OneInstance(Rules):
    def instance(self, number: int) -> int:
        return min(number, 1)


FLIPS: Mapping[str, type[Rules]] = {
    "flip-1-33": RepeatsNumbers,  # uses the number under way again for the next attempt
    "flip-1-34": PrepareWithValue,  # sends a value with PREPARE
    "flip-1-35": StartsAlone,  # starts without a majority in reach
    "flip-1-36": HidesAccepted,  # promises without reporting what it accepted
    "flip-1-37": PromiseMayFall,  # promises a lower number than before
    "flip-1-38": AcceptsAnyNumber,  # accepts regardless of its promise
    "flip-1-39": ProposesOnFirstPromise,  # proposes after one promise
    "flip-1-40": IgnoresAccepted,  # proposes its own value despite accepted ones
    "flip-1-41": NeverChooses,  # never proposes a value of its own
    "flip-1-42": ProposesOtherNumber,  # proposes under another number than that of its PREPARE
    "flip-1-43": AcceptsAboveOnly,  # accepts only above the promised number
    "flip-1-44": TellsProposerOnly,  # reports acceptances to the proposer only
    "flip-1-45": AcceptsOnce,  # accepts one value only
    "flip-1-46": CountsAcrossNumbers,  # counts acceptances under different numbers together
    "flip-1-47": LearnsFromOne,  # treats one acceptance as a decision
    "flip-1-48": NeverRetries,  # never repeats an attempt that failed
    "flip-1-49": OneInstance,  # keeps one state for all client instances
}
