"""The planted bugs that need code, and the harmless builds, which must raise no alarm: one class of broken rules each.

A bug that always answers the same stands on the rule that it breaks, in ``rules``.

Guarantees: each build breaks one rule (21, 22, 25 and 44 two, of which one lets
the other show) and is named by its number (docs/sources.md, planted-bugs; ``plain``: no number; ``px``: a known
weakness of Paxos). It inherits the promise of its profile. Numbers about leaders that step down, leases, pre-votes,
membership and log ends have no counterpart here. 06 has none as the file is only appended to; 33 and 34 have none as
equal waits split nothing: of attempts that begin together the highest number wins, and its PROPOSE is ahead of a
loser's next PREPARE by at least the shortest back-off. Out of scope: finding the bugs, which is the exam's task.
"""

# ruff: noqa: D101, D102 - `says` and `rules` document them; a mistake often ignores its arguments

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from dethrone.clusters.targets.kit import by
from dethrone.clusters.targets.kit.files import Unreadable
from dethrone.clusters.targets.kit.mutants import mutant
from dethrone.clusters.targets.paxos.messages import Value
from dethrone.clusters.targets.paxos.rules import AGREE, Report, Rules, Tally
from dethrone.clusters.targets.paxos.storage import Acceptor, DiskRecord, Loaded, Promised, load
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.machine import DiskImage
from dethrone.harness.core.quorum import quorum
from dethrone.harness.core.rng import Rng

# --- the acceptor's disk ----------------------------------------------------------------------------------------


@mutant(
    "01-acceptance-not-written",
    says="writes the number of what it accepted but not the value",
    caught_by=(AGREE, by.DURABLE),
)
class AcceptanceNotWritten(Rules):  # The number is on disk, what was accepted under it is not
    def accepted_record(self, instance: int, acceptor: Acceptor) -> DiskRecord | None:
        return Promised(instance, acceptor.max_id)


@mutant("02-promise-before-persist", says="promises before the promise is on disk", caught_by=(AGREE, by.DURABLE))
class PromiseBeforePersist(Rules):
    def waits_for_disk(self, what: Literal["promise", "accepted"]) -> bool:
        return what != "promise"


@mutant(
    "07-unreadable-means-fresh",
    says="treats an unreadable file as a node that never took part",
    caught_by=(AGREE, by.DURABLE),
)
class UnreadableMeansFresh(Rules):
    def load(self, disk: DiskImage, *, node: int, nodes: int) -> Loaded:
        try:
            return super().load(disk, node=node, nodes=nodes)
        except Unreadable:
            return Loaded()


@mutant("10-resumes-number", says="after a restart proposes another value under its last number", caught_by=(AGREE,))
class ResumesNumber(Rules):
    """After a restart it proposes under the number of its last life, as if it still held promises for it."""

    def resumes(self, acceptor: Acceptor, *, place: int, nodes: int) -> int:
        return acceptor.max_id if acceptor.max_id and acceptor.max_id % nodes == place else 0


@mutant(
    "11-forgets-own-acceptances",
    says="after a restart knows nothing of its own proposals that it accepted",
    caught_by=(AGREE,),
)
class ForgetsOwnAcceptances(Rules):  # After a restart it does not know what it accepted of its own proposals
    def load(self, disk: DiskImage, *, node: int, nodes: int) -> Loaded:
        loaded = load(disk)
        for number, state in loaded.acceptors.items():
            if state.accepted_id % nodes == node:
                loaded.acceptors[number] = Acceptor(state.max_id)
        return loaded


@mutant("46-accepts-before-sync", says="reports acceptances that a crash can undo", caught_by=(AGREE, by.DURABLE))
class AcceptsBeforePersist(Rules):
    def waits_for_disk(self, what: Literal["promise", "accepted"]) -> bool:
        return what != "accepted"


# --- promises ---------------------------------------------------------------------------------------------------


@mutant(
    "14-accepted-under-promised",
    says="reports what it accepted under the number that it promises now",
    caught_by=(AGREE,),
)
class ReportsPromisedNumber(Rules):  # The accepted value is reported under the number that is promised now
    def reports(self, acceptor: Acceptor) -> Report:
        return None if acceptor.accepted_value is None else (acceptor.max_id, acceptor.accepted_value)


@mutant("16-counts-older-promises", says="counts promises of an earlier number", caught_by=(AGREE,))
class CountsOlderPromises(Rules):
    def counts_promise(self, number: int, *, current: int) -> bool:
        return number <= current


@mutant(
    "21-majority-of-reachable",
    says="counts a majority of those it can reach",
    caught_by=(AGREE, by.MAJORITY),
    nodes_min=5,
)
class MajorityOfReachable(Rules):
    def majority(self, acceptors: int, *, reachable: int) -> int:
        return quorum(min(acceptors, max(1, reachable)))

    def may_start(self, reachable: int, *, own: bool, acceptors: int) -> bool:
        return reachable + own >= 1 and acceptors > 0


@mutant(
    "22-half-is-enough", says="counts half of an even number as a majority", caught_by=(AGREE, by.MAJORITY), nodes_min=4
)
class HalfIsEnough(Rules):
    def majority(self, acceptors: int, *, reachable: int) -> int:
        del reachable
        return -(-acceptors // 2)

    def may_start(self, reachable: int, *, own: bool, acceptors: int) -> bool:
        return reachable + own >= -(-acceptors // 2)


@mutant("25-promise-may-fall", says="promises a lower number than before", caught_by=(AGREE,))
class PromiseMayFall(Rules):  # A request with a lower number is promised, and lowers what is promised
    def promises(self, number: int, *, max_id: int) -> bool:
        return number != max_id

    def promised(self, number: int, *, max_id: int) -> int:
        del max_id
        return number


# --- proposals --------------------------------------------------------------------------------------------------


@mutant("px-b5-ignores-accepted", says="proposes its own value despite accepted ones", caught_by=(AGREE,))
class IgnoresAccepted(Rules):  # PX-B5: proposes its own value regardless of what the promises report
    def select(self, reports: Mapping[str, Report], own: Value | None) -> tuple[Value | None, int]:
        return (own, 0) if own is not None else super().select(reports, own)


@mutant("plain-adopts-lowest", says="adopts the value of the lowest number", caught_by=(AGREE,))
class AdoptsLowest(Rules):  # Adopts the value of the lowest number that was reported
    def select(self, reports: Mapping[str, Report], own: Value | None) -> tuple[Value | None, int]:
        least = min((one for one in reports.values() if one is not None), key=lambda one: one[0], default=None)
        return (own, 0) if least is None else (least[1], least[0])


@mutant("44-accepts-any-number", says="accepts regardless of its promise", caught_by=(AGREE,))
class AcceptsAnyNumber(Rules):  # Accepts every proposal, even below its promise
    def accepts(self, number: int, acceptor: Acceptor) -> bool:
        del number, acceptor
        return True

    def max_after_accept(self, number: int, *, max_id: int) -> int:
        return max(number, max_id)


# --- what is called chosen --------------------------------------------------------------------------------------


@mutant("40-counts-across-numbers", says="counts acceptances under different numbers together", caught_by=(AGREE,))
class CountsAcrossNumbers(Rules):  # Counts every earlier acceptor for the last number that it saw
    def chosen(self, tally: Tally, number: int, *, majority: int) -> bool:
        del number
        return len({name for _, acceptors in tally.values() for name in acceptors}) >= majority


@mutant("42-learns-from-one", says="treats one acceptance as a decision", caught_by=(AGREE, by.MAJORITY))
class LearnsFromOne(Rules):  # The first acceptance that arrives counts as the decision, the own one included
    def chosen(self, tally: Tally, number: int, *, majority: int) -> bool:
        del majority
        return bool(tally[number][1])


@mutant("56-answers-own-value", says="answers each client with its own value", caught_by=(AGREE,))
class AnswersOwnValue(Rules):  # Answers a client with its own value once something was decided
    def answer(self, chosen: Value, own: Value | None) -> Value:
        return chosen if own is None else own


# --- harmless ---------------------------------------------------------------------------------------------------


@mutant("harmless-longer-backoff", says="waits twice as long before its next number")
class LongerBackoff(Rules):  # Waits twice as long, jitter included
    def backoff(self, rng: Rng, failures: int) -> Ns:
        return super().backoff(rng, failures + 1)


@mutant("harmless-reversed-sends", says="sends to the last member first")
class ReversedSends(Rules):
    def order(self, peers: tuple[str, ...]) -> tuple[str, ...]:
        return peers[::-1]
