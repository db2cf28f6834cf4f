"""Flips: builds that break the one rule of one claim, so that the claim's test can be seen to turn red.

Guarantees: each overrides one rule and is named ``flip-<source>-<n>`` after its claim (docs/sources.md, claims). Out of
scope: whether a checker notices (`variants`). The honest build never refers to this module.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import msgspec

from dethrone.clusters.targets.kit.mutants import Mutant
from dethrone.clusters.targets.kraft.broken import (
    CommitsOldEpochs,
    HalfIsEnough,
    NoLogCheck,
    ObserversVote,
    ResumesLeadership,
    VotesTwice,
)
from dethrone.clusters.targets.kraft.knobs import KraftKnobs
from dethrone.clusters.targets.kraft.rules import FOLLOWER, Position, Rules, Start
from dethrone.clusters.targets.kraft.storage import QuorumState


class ForgetsEverything(Rules):
    """4-3."""

    def uses_stored(self) -> bool:  # noqa: D102
        return False


class _WithoutRow(Rules):
    row = 0

    def start_rows(self) -> Collection[int]:
        return [row for row in super().start_rows() if row != self.row]


class StaysInStoredEpoch(_WithoutRow):
    """4-4."""

    row = 1


class ForgetsCandidacy(_WithoutRow):
    """4-6."""

    row = 3


class ForgetsVote(_WithoutRow):
    """4-7."""

    row = 4


class ForgetsLeader(_WithoutRow):
    """4-8."""

    row = 5


class StartsAsFollower(Rules):
    """4-9."""

    def start_unknowing(self, epoch: int) -> Start:  # noqa: D102
        return Start(6, FOLLOWER, epoch, leader=2)


class LeavesFieldsOut(Rules):
    """4-10."""

    def state_content(self, state: QuorumState) -> bytes:  # noqa: D102
        return msgspec.json.encode({"leaderEpoch": state.leader_epoch, "votedId": state.voted_id}) + b"\n"


class CampaignsInOldEpoch(Rules):
    """4-11."""

    def campaign_epoch(self, epoch: int) -> int:  # noqa: D102
        return max(1, epoch)


class StaysUnattached(Rules):
    """4-12."""

    def remembers_vote(self) -> bool:  # noqa: D102
        return False


class TellsOneVoter(Rules):
    """4-14."""

    def notified(self, others: tuple[int, ...]) -> tuple[int, ...]:  # noqa: D102
        return others[:1]


class IgnoresAnnouncements(Rules):
    """4-15."""

    def follows_announced(self, leader: int, me: int) -> bool:  # noqa: ARG002, D102
        return False


class WritesSomeStates(Rules):
    """4-17: the mere epoch of an Unattached node is not written."""

    def persists(self, state: str) -> bool:  # noqa: D102
        return state != "Unattached"


class TellsInclusiveOffset(Rules):
    """4-18."""

    def last_position(self, last_epoch: int, end: int, own_epoch: int) -> Position:  # noqa: ARG002, D102
        return last_epoch, end - 1


class LeaderAlone(Rules):
    """4-24."""

    def majority_offset(self, descending: Sequence[int]) -> int:  # noqa: D102
        return descending[0]


class HwBeyondLog(Rules):
    """4-25."""

    def follower_hw(self, own: int, end: int, leaders: int) -> int:  # noqa: ARG002, D102
        return max(own, leaders)


class AssumesOthersCurrent(Rules):
    """4-26."""

    def initial_end(self, own_end: int) -> int:  # noqa: D102
        return own_end


class FetchesFromBefore(Rules):
    """4-27."""

    def fetch_offset(self, end: int) -> int:  # noqa: D102
        return max(0, end - 1)


class HwOneShort(Rules):
    """4-29."""

    def may_advance(self, offset: int, epoch_start: int) -> bool:  # noqa: D102
        return offset > epoch_start + 1


class KeepsOwnHw(Rules):
    """4-30."""

    def follower_hw(self, own: int, end: int, leaders: int) -> int:  # noqa: ARG002, D102
        return own


class NoLeaderChange(Rules):
    """4-32."""

    def appends_leader_change(self) -> bool:  # noqa: D102
        return False


def _flip(number: str, says: str, rules: Callable[[KraftKnobs], Rules]) -> tuple[str, Mutant]:
    return f"flip-{number}", Mutant(says=says, rules=rules)


FLIPS: dict[str, Mutant] = dict(
    (
        _flip("4-2", "observers vote", ObserversVote),
        _flip("4-3", "starts without looking at quorum-state", ForgetsEverything),
        _flip("4-4", "stays in the stored epoch when its log knows a newer one", StaysInStoredEpoch),
        _flip("4-5", "a restarted leader keeps leading", ResumesLeadership),
        _flip("4-6", "a restarted candidate forgets its candidacy", ForgetsCandidacy),
        _flip("4-7", "a restarted voter forgets its vote", ForgetsVote),
        _flip("4-8", "a restarted follower forgets its leader", ForgetsLeader),
        _flip("4-9", "an empty disk makes a follower", StartsAsFollower),
        _flip("4-10", "the file lacks fields", LeavesFieldsOut),
        _flip("4-11", "campaigns without a new epoch", CampaignsInOldEpoch),
        _flip("4-12", "stays Unattached after its vote", StaysUnattached),
        _flip("4-13", "half of the votes are enough", HalfIsEnough),
        _flip("4-14", "announces its election to one voter only", TellsOneVoter),
        _flip("4-15", "does not follow a leader that announces itself", IgnoresAnnouncements),
        _flip("4-16", "votes for every candidate of an epoch", VotesTwice),
        _flip("4-17", "does not write an epoch in which it knows nothing else", WritesSomeStates),
        _flip("4-18", "sends the offset of its last record, not its log end", TellsInclusiveOffset),
        _flip("4-19", "votes without looking at the logs", NoLogCheck),
        _flip("4-24", "commits what the leader alone holds", LeaderAlone),
        _flip("4-25", "the high watermark passes the end of the log", HwBeyondLog),
        _flip("4-26", "a new leader believes that all others are where it is", AssumesOthersCurrent),
        _flip("4-27", "fetches from before its log end", FetchesFromBefore),
        _flip("4-28", "commits records of earlier epochs by counting", CommitsOldEpochs),
        _flip("4-29", "wants two records of its epoch on a majority", HwOneShort),
        _flip("4-30", "a follower does not adopt the high watermark", KeepsOwnHw),
        _flip("4-32", "an election appends no record", NoLeaderChange),
    )
)
