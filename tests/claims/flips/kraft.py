"""The flips of the claims about KRaft: builds in which the very rule of one claim is broken.

Guarantees: a flip overrides one rule and is named ``flip-<source>-<n>`` after its claim (docs/sources.md, claims); a
planted bug that breaks this rule serves as its flip. Out of scope: checkers; only the claim's test must
catch a flip.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from dethrone.clusters.targets.kraft.rules import FOLLOWER, Position, Rules, Start
from dethrone.clusters.targets.kraft.storage import QuorumState


class ObserversVote(Rules):
    def takes_part(self, *, voter: bool) -> bool:
        return True

    def electorate(self, voters: tuple[int, ...], everybody: tuple[int, ...]) -> tuple[int, ...]:
        return everybody


class ForgetsEverything(Rules):
    def uses_stored(self) -> bool:
        return False


class _WithoutRow(Rules):
    row = 0

    def start_rows(self) -> Collection[int]:
        return [row for row in super().start_rows() if row != self.row]


class StaysInStoredEpoch(_WithoutRow):
    row = 1


class ForgetsCandidacy(_WithoutRow):
    row = 3


class ForgetsVote(_WithoutRow):
    row = 4


class ForgetsLeader(_WithoutRow):
    row = 5


class StartsAsFollower(Rules):
    def start_unknowing(self, epoch: int) -> Start:
        return Start(6, FOLLOWER, epoch, leader=2)


class LeavesFieldsOut(Rules):
    def state_content(self, state: QuorumState) -> bytes:
        return msgspec.json.encode({"leaderEpoch": state.leader_epoch, "votedId": state.voted_id}) + b"\n"


class CampaignsInOldEpoch(Rules):
    def campaign_epoch(self, epoch: int) -> int:
        return max(1, epoch)


class StaysUnattached(Rules):
    def remembers_vote(self) -> bool:
        return False


class TellsOneVoter(Rules):
    def notified(self, others: tuple[int, ...]) -> tuple[int, ...]:
        return others[:1]


class IgnoresAnnouncements(Rules):
    def follows_announced(self, leader: int, me: int) -> bool:
        return False


class WritesSomeStates(Rules):
    def persists(self, state: str) -> bool:
        return state != "Unattached"


class TellsInclusiveOffset(Rules):
    def last_position(self, last_epoch: int, end: int, own_epoch: int) -> Position:
        return last_epoch, end - 1


class LeaderAlone(Rules):
    def majority_offset(self, descending: Sequence[int]) -> int:
        return descending[0]


class HwBeyondLog(Rules):
    def follower_hw(self, own: int, end: int, leaders: int) -> int:
        return max(own, leaders)


class AssumesOthersCurrent(Rules):
    def initial_end(self, own_end: int) -> int:
        return own_end


class FetchesFromBefore(Rules):
    def fetch_offset(self, end: int) -> int:
        return max(0, end - 1)


class HwOneShort(Rules):
    def may_advance(self, offset: int, epoch_start: int) -> bool:
        return offset > epoch_start + 1


class KeepsOwnHw(Rules):
    def follower_hw(self, own: int, end: int, leaders: int) -> int:
        return own


class NoLeaderChange(Rules):
    def appends_leader_change(self) -> bool:
        return False


FLIPS: Mapping[str, type[Rules] | str] = {
    "flip-4-2": ObserversVote,  # observers vote
    "flip-4-3": ForgetsEverything,  # starts without looking at quorum-state
    "flip-4-4": StaysInStoredEpoch,  # stays in the stored epoch when its log knows a newer one
    "flip-4-5": "10-resumes-leadership",  # a restarted leader keeps leading
    "flip-4-6": ForgetsCandidacy,  # a restarted candidate forgets its candidacy
    "flip-4-7": ForgetsVote,  # a restarted voter forgets its vote
    "flip-4-8": ForgetsLeader,  # a restarted follower forgets its leader
    "flip-4-9": StartsAsFollower,  # an empty disk makes a follower
    "flip-4-10": LeavesFieldsOut,  # the file lacks fields
    "flip-4-11": CampaignsInOldEpoch,  # campaigns without a new epoch
    "flip-4-12": StaysUnattached,  # stays Unattached after its vote
    "flip-4-13": "22-half-is-enough",  # half of the votes are enough
    "flip-4-14": TellsOneVoter,  # announces its election to one voter only
    "flip-4-15": IgnoresAnnouncements,  # does not follow a leader that announces itself
    "flip-4-16": "plain-votes-twice",  # votes for every candidate of an epoch
    "flip-4-17": WritesSomeStates,  # does not write an epoch in which it knows nothing else
    "flip-4-18": TellsInclusiveOffset,  # sends the offset of its last record, not its log end
    "flip-4-19": "12-grant-without-log-check",  # votes without looking at the logs
    "flip-4-24": LeaderAlone,  # commits what the leader alone holds
    "flip-4-25": HwBeyondLog,  # the high watermark passes the end of the log
    "flip-4-26": AssumesOthersCurrent,  # a new leader believes that all others are where it is
    "flip-4-27": FetchesFromBefore,  # fetches from before its log end
    "flip-4-28": "40-commits-old-epochs",  # commits records of earlier epochs by counting
    "flip-4-29": HwOneShort,  # wants two records of its epoch on a majority
    "flip-4-30": KeepsOwnHw,  # a follower does not adopt the high watermark
    "flip-4-32": NoLeaderChange,  # an election appends no record
}
