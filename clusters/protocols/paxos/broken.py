"""The rules of the planted bugs, and of the harmless builds: each class overrides what it is named for.

Promises: the number is the one of the table of planted bugs, its sense carried over: a promise or an acceptance is
Paxos' vote, what an acceptor reports is its log check. Leaves out which knobs and checkers belong to it (`variants`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

from clusters.protocols.kit.files import Unreadable
from clusters.protocols.paxos.messages import Value
from clusters.protocols.paxos.rules import Report, Rules, Tally
from clusters.protocols.paxos.storage import Acceptor, DiskRecord, Loaded, Promised, load
from harness.core.clock import Ns
from harness.core.machine import DiskImage
from harness.core.quorum import quorum
from harness.core.rng import Rng

# --- the acceptor's disk ----------------------------------------------------------------------------------------


class AcceptanceNotWritten(Rules):
    """01: the number is on disk, what was accepted under it is not."""

    def accepted_record(self, instance: int, acceptor: Acceptor) -> DiskRecord | None:  # noqa: D102
        return Promised(instance, acceptor.max_id)


class PromiseBeforePersist(Rules):
    """02."""

    def waits_for_disk(self, what: Literal["promise", "accepted"]) -> bool:  # noqa: D102
        return what != "promise"


class IgnoreFailedWrite(Rules):
    """04: the answer of that moment is lost with the write, later ones are not."""

    def on_persist_error(self) -> Literal["halt", "ignore"]:  # noqa: D102
        return "ignore"


class NotSynced(Rules):
    """05."""

    def syncs(self) -> bool:  # noqa: D102
        return False


class UnreadableMeansFresh(Rules):
    """07."""

    def load(self, disk: DiskImage, *, node: int, nodes: int) -> Loaded:  # noqa: D102
        try:
            return super().load(disk, node=node, nodes=nodes)
        except Unreadable:
            return Loaded()


class ResumesNumber(Rules):
    """10: after a restart it proposes under the number of its last life, for which it holds promises, it thinks."""

    def resumes(self, acceptor: Acceptor, *, place: int, nodes: int) -> int:  # noqa: D102
        return acceptor.max_id if acceptor.max_id and acceptor.max_id % nodes == place else 0


class ForgetsOwnAcceptances(Rules):
    """11: after a restart it does not know what it accepted of its own proposals."""

    def load(self, disk: DiskImage, *, node: int, nodes: int) -> Loaded:  # noqa: D102
        loaded = load(disk)
        for number, state in loaded.acceptors.items():
            if state.accepted_id % nodes == node:
                loaded.acceptors[number] = Acceptor(state.max_id)
        return loaded


class AcceptsBeforePersist(Rules):
    """46."""

    def waits_for_disk(self, what: Literal["promise", "accepted"]) -> bool:  # noqa: D102
        return what != "accepted"


class PromiseNotWritten(Rules):
    """Beside 01: what was accepted is on disk, promises are not."""

    def promised_record(self, instance: int, acceptor: Acceptor) -> DiskRecord | None:  # noqa: D102
        del instance, acceptor
        return None


# --- promises ---------------------------------------------------------------------------------------------------


class HidesAccepted(Rules):
    """12: the promise does not tell what was accepted."""

    def reports(self, acceptor: Acceptor) -> Report:  # noqa: D102
        del acceptor
        return None


class ReportsPromisedNumber(Rules):
    """14: the accepted value is reported under the number that is promised now."""

    def reports(self, acceptor: Acceptor) -> Report:  # noqa: D102
        return None if acceptor.accepted_value is None else (acceptor.max_id, acceptor.accepted_value)


class CountsOlderPromises(Rules):
    """16."""

    def counts_promise(self, number: int, *, current: int) -> bool:  # noqa: D102
        return number <= current


class NackIsPromise(Rules):
    """17: a refusal with a higher number is tallied all the same."""

    def nack_is_promise(self) -> bool:  # noqa: D102
        return True


class PromisesChoose(Rules):
    """18: a majority of the first phase is taken for one of the second."""

    def promises_choose(self) -> bool:  # noqa: D102
        return True


class MajorityOfReachable(Rules):
    """21."""

    def majority(self, acceptors: int, *, reachable: int) -> int:  # noqa: D102
        return quorum(min(acceptors, max(1, reachable)))

    def may_start(self, reachable: int, *, own: bool, acceptors: int) -> bool:  # noqa: D102
        return reachable + own >= 1 and acceptors > 0


class HalfIsEnough(Rules):
    """22."""

    def majority(self, acceptors: int, *, reachable: int) -> int:  # noqa: D102
        del reachable
        return -(-acceptors // 2)

    def may_start(self, reachable: int, *, own: bool, acceptors: int) -> bool:  # noqa: D102
        return reachable + own >= -(-acceptors // 2)


class PromiseMayFall(Rules):
    """25: a request with a lower number is promised, and lowers what is promised."""

    def promises(self, number: int, *, max_id: int) -> bool:  # noqa: D102
        return number != max_id

    def promised(self, number: int, *, max_id: int) -> int:  # noqa: D102
        del max_id
        return number


# --- proposals --------------------------------------------------------------------------------------------------


class IgnoresAccepted(Rules):
    """PX-B5: proposes its own value whatever the promises report."""

    def select(self, reports: Mapping[str, Report], own: Value | None) -> tuple[Value | None, int]:  # noqa: D102
        return (own, 0) if own is not None else super().select(reports, own)


class AdoptsLowest(Rules):
    """Adopts the value of the lowest number that was reported."""

    def select(self, reports: Mapping[str, Report], own: Value | None) -> tuple[Value | None, int]:  # noqa: D102
        least = min((one for one in reports.values() if one is not None), key=lambda one: one[0], default=None)
        return (own, 0) if least is None else (least[1], least[0])


class AcceptsAnyNumber(Rules):
    """44: accepts whatever is proposed, promised higher or not."""

    def accepts(self, number: int, acceptor: Acceptor) -> bool:  # noqa: D102
        del number, acceptor
        return True

    def max_after_accept(self, number: int, *, max_id: int) -> int:  # noqa: D102
        return max(number, max_id)


# --- what is called chosen --------------------------------------------------------------------------------------


class CountsAcrossNumbers(Rules):
    """40: counts everybody who ever accepted anything for the number that it heard of last."""

    def chosen(self, tally: Tally, number: int, *, majority: int) -> bool:  # noqa: D102
        del number
        return len({name for _, acceptors in tally.values() for name in acceptors}) >= majority


class LearnsFromOne(Rules):
    """42 and 45: the first acceptance that is heard of counts as the decision, the own one included."""

    def chosen(self, tally: Tally, number: int, *, majority: int) -> bool:  # noqa: D102
        del majority
        return bool(tally[number][1])


class AnswersOwnValue(Rules):
    """56: tells a client its own value once something was decided."""

    def answer(self, chosen: Value, own: Value | None) -> Value:  # noqa: D102
        return chosen if own is None else own


# --- time -------------------------------------------------------------------------------------------------------


class TimersOnWallClock(Rules):
    """52."""

    def clock(self) -> Literal["mono", "wall"]:  # noqa: D102
        return "wall"


# --- harmless ---------------------------------------------------------------------------------------------------


class LongerBackoff(Rules):
    """Waits twice as long, jitter included."""

    def backoff(self, rng: Rng, failures: int) -> Ns:  # noqa: D102
        return super().backoff(rng, failures + 1)


class SilentRefusals(Rules):
    """Never says that it refuses."""

    def nacks(self) -> bool:  # noqa: D102
        return False


class ReversedSends(Rules):
    """Sends to the last member first."""

    def order(self, peers: tuple[str, ...]) -> tuple[str, ...]:  # noqa: D102
        return peers[::-1]


class DoubleProposals(Rules):
    """Sends every PROPOSE twice."""

    def copies(self) -> int:  # noqa: D102
        return 2


class HalfHeartbeat(Rules):
    """Sends heartbeats twice as often."""

    def heartbeat(self) -> Ns:  # noqa: D102
        return max(1, self.knobs.heartbeat_interval // 2)


# --- flips of claims --------------------------------------------------------------------------------------------


class TellsProposerOnly(Rules):
    """1-44."""

    def tells(self, learners: Collection[str], proposer: str) -> Collection[str]:  # noqa: D102
        del learners
        return (proposer,)
