"""The flips of the claims about KRaft: builds in which the very rule of one claim is broken.

Guarantees: a flip overrides one rule and is named ``flip-<source>-<n>`` after its claim (docs/sources.md, claims); a
planted bug that breaks this rule serves as its flip. Out of scope: checkers; only the claim's test must
catch a flip.
"""

from __future__ import annotations

from collections.abc import Mapping

from dethrone.clusters.targets.kit.mutants import broken
from dethrone.clusters.targets.kraft.rules import FOLLOWER, Rules, Start

ObserversVote = broken(Rules, takes_part=True, electorate=lambda _, _voters, everybody: everybody)
ForgetsEverything = broken(Rules, uses_stored=False)


StaysInStoredEpoch = broken(Rules, start_rows=lambda rules: set(Rules.start_rows(rules)) - {1})
ForgetsCandidacy = broken(Rules, start_rows=lambda rules: set(Rules.start_rows(rules)) - {3})
ForgetsVote = broken(Rules, start_rows=lambda rules: set(Rules.start_rows(rules)) - {4})
ForgetsLeader = broken(Rules, start_rows=lambda rules: set(Rules.start_rows(rules)) - {5})
StartsAsFollower = broken(Rules, start_unknowing=lambda _, epoch: Start(6, FOLLOWER, epoch, leader=2))
LeavesFieldsOut = broken(
    Rules, state_content=lambda _, state: b'{"leaderEpoch":%d,"votedId":%d}\n' % (state.leader_epoch, state.voted_id)
)
CampaignsInOldEpoch = broken(Rules, campaign_epoch=lambda _, epoch: max(1, epoch))
StaysUnattached = broken(Rules, remembers_vote=False)
TellsOneVoter = broken(Rules, notified=lambda _, others: others[:1])
IgnoresAnnouncements = broken(Rules, follows_announced=False)
WritesSomeStates = broken(Rules, persists=lambda _, state: state != "Unattached")
TellsInclusiveOffset = broken(Rules, last_position=lambda _, last_epoch, end, _own: (last_epoch, end - 1))
LeaderAlone = broken(Rules, majority_offset=lambda _, descending: descending[0])
HwBeyondLog = broken(Rules, follower_hw=lambda _, own, _end, leaders: max(own, leaders))
AssumesOthersCurrent = broken(Rules, initial_end=lambda _, own_end: own_end)
FetchesFromBefore = broken(Rules, fetch_offset=lambda _, end: max(0, end - 1))
HwOneShort = broken(Rules, may_advance=lambda _, offset, epoch_start: offset > epoch_start + 1)
KeepsOwnHw = broken(Rules, follower_hw=lambda _, own, *_more: own)
NoLeaderChange = broken(Rules, appends_leader_change=False)


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
