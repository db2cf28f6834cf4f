"""Every rule of KRaft that a planted bug or a flip may override, one small pure method each, with the bugs.

Guarantees: the honest build is exactly this class; a planted bug overrides the one rule that it is named for,
and nothing else decides what the rule decides. Rules take values and return values; only the two draws use the
generator that they are given. Out of scope: what no knob and no variant changes; the handlers hold that.

Source: Apache Kafka 3.3.1, KafkaRaftClient, QuorumState and LeaderState.
"""

# ruff: noqa: ARG002 - an honest rule often ignores its arguments, which a broken one looks at

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

import msgspec

from dethrone.clusters.targets.kit import by
from dethrone.clusters.targets.kit.mutants import mutant
from dethrone.clusters.targets.kraft.knobs import KraftKnobs
from dethrone.clusters.targets.kraft.messages import NOBODY, UNKNOWN_OFFSET
from dethrone.clusters.targets.kraft.storage import QuorumState, state_bytes
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.rng import Rng

UNATTACHED, VOTED, CANDIDATE = "Unattached", "Voted", "Candidate"
LEADER, FOLLOWER, RESIGNED = "Leader", "Follower", "Resigned"

Position = tuple[int, int]
"""(epoch of the last record, log end offset): compared in this order."""

File = Literal["state", "log"]


class Start(NamedTuple):
    """The state in which a node starts: ``row`` is the row of the table of start states that decides, 1 to 6."""

    row: int
    state: str
    epoch: int
    leader: int = NOBODY
    voted: int = NOBODY


RESIGNS = {"check_quorum": "1.0|1.5"}


class Rules:
    """The honest rules under these knobs. One object per core."""

    def __init__(self, knobs: KraftKnobs) -> None:
        self.knobs = knobs

    # --- start ------------------------------------------------------------------------------------------------------

    @mutant(
        "23-observers-vote",
        answers=True,
        says="asks and counts observers",
        caught_by=(by.MEMBERS, by.MAJORITY, by.LEADER),
        needs={"observers": "*"},
        advised={"observers": "n4,n5"},
        nodes_min=5,
    )
    def takes_part(self, *, voter: bool) -> bool:
        """Only a node with the controller's role, a voter, votes, campaigns and leads."""
        return voter

    def uses_stored(self) -> bool:
        """Whether the start state comes from ``quorum-state`` at all."""
        return True

    def start_rows(self) -> Collection[int]:
        """The rows of the table of start states that are looked at, in order; row 6 is what is left."""
        return (1, 2, 3, 4, 5)

    def start(self, stored: QuorumState, *, me: int, log_epoch: int, voter: bool) -> Start:
        """The start state: never Leader, and never without a vote that was given."""
        rows = self.start_rows()
        epoch = stored.leader_epoch
        if log_epoch > epoch and 1 in rows:
            return Start(1, UNATTACHED, log_epoch)
        if voter:
            if stored.leader_id == me and 2 in rows:
                return self.start_as_former_leader(epoch, me)
            if stored.voted_id == me and 3 in rows:
                return self.start_as_candidate(epoch, me)
            if stored.voted_id not in (NOBODY, me) and 4 in rows:
                return Start(4, VOTED, epoch, voted=stored.voted_id)
        if stored.leader_id not in (NOBODY, me) and 5 in rows:
            return Start(5, FOLLOWER, epoch, leader=stored.leader_id)
        return self.start_unknowing(epoch)

    @mutant(
        "10-resumes-leadership",
        instead=lambda _, epoch, me: Start(2, LEADER, epoch, leader=me),
        caught_by=(by.MATCHING, by.MAJORITY),
    )
    @mutant(
        "11-forgets-own-vote",
        instead=lambda _, epoch, _me: Start(2, UNATTACHED, epoch),
        says="after a restart votes in an epoch that it led, or in which it voted for itself",
    )
    def start_as_former_leader(self, epoch: int, me: int) -> Start:
        """Resigned: no offset of that epoch is given twice, no second vote in it."""
        return Start(2, RESIGNED, epoch, leader=me)

    @mutant("11-forgets-own-vote", instead=lambda _, epoch, _me: Start(3, UNATTACHED, epoch))
    def start_as_candidate(self, epoch: int, me: int) -> Start:
        """Candidate: the vote of that epoch is given, to itself."""
        return Start(3, CANDIDATE, epoch, voted=me)

    def start_unknowing(self, epoch: int) -> Start:
        """Neither vote nor leader is stored."""
        return Start(6, UNATTACHED, epoch)

    # --- elections --------------------------------------------------------------------------------------------------

    @mutant("plain-votes-twice", instead=lambda rules, _: rules.knobs.election_timeout_ms)
    @mutant("33-no-jitter", instead=lambda rules, _: rules.knobs.election_timeout_ms, caught_by=(by.LIVELOCK,))
    @mutant(
        "harmless-longer-jitter",
        instead=lambda rules, rng: (
            rules.knobs.election_timeout_ms + rng.below(rules.knobs.election_timeout_ms * 5 // 4 + 1)
        ),
    )
    def election_timeout_ms(self, rng: Rng) -> int:
        """A fresh election timer: E and a random part below E."""
        e = self.knobs.election_timeout_ms
        return e + rng.below(e)

    @mutant(
        "33-no-jitter", instead=lambda rules, *_: min(rules.knobs.backoff_unit_ms, rules.knobs.election_backoff_max_ms)
    )
    def backoff_ms(self, rng: Rng, retries: int) -> int:
        """The random wait before a new round: the more rounds failed, the longer it may be, up to its bound."""
        drawn = self.knobs.backoff_unit_ms * rng.below(1 << min(max(retries, 1), 21))
        return min(drawn, self.knobs.election_backoff_max_ms)

    def campaign_epoch(self, epoch: int) -> int:
        """A campaign has an epoch of its own."""
        return epoch + 1

    @mutant("17-counts-higher-epoch", answers=True)
    def may_lead_from(self, state: str) -> bool:
        """Only a candidate becomes leader."""
        return state == CANDIDATE

    # The epoch before the campaign: the campaign's own would be refused as impossible
    @mutant(
        "14-last-epoch-is-current",
        instead=lambda _, _last, end, own_epoch: (own_epoch - 1, end),
        says="gives the epoch before its campaign as the one of its last record",
        caught_by=(by.COMPLETE,),
    )
    def last_position(self, last_epoch: int, end: int, own_epoch: int) -> Position:
        """What a candidate reports of its log: the epoch of its last record, and its end."""
        return last_epoch, end

    @mutant("12-grant-without-log-check", answers=True)
    def log_up_to_date(self, candidate: Position, own: Position) -> bool:
        """A vote goes to a log at least as far as the own one only: so a most advanced node wins."""
        return candidate >= own

    @mutant(
        "plain-votes-twice",
        instead=lambda _, state, up_to_date, **__: up_to_date if state == UNATTACHED else state == VOTED,
    )
    def grants(self, state: str, *, voted: int, candidate: int, up_to_date: bool) -> bool:
        """By state: who has not voted looks at the logs, who voted repeats that vote, all others refuse."""
        if state == UNATTACHED:
            return up_to_date
        return state == VOTED and voted == candidate

    def remembers_vote(self) -> bool:
        """A vote for another node makes this one Voted."""
        return True

    @mutant("31-any-request-restarts-timers", answers=True)
    def restarts_on_request(self) -> bool:
        """Whether any vote request, granted or not, restarts the timers that lead to a campaign."""
        return False

    @mutant("22-half-is-enough", instead=lambda _, voters: (voters + 1) // 2)
    def majority(self, voters: int) -> int:
        """More than half."""
        return voters // 2 + 1

    # It is not elected by itself alone
    @mutant(
        "21-majority-of-responders",
        instead=lambda rules, granted, answered, voters: (
            len(granted) >= rules.majority(len(answered) if len(answered) > 1 < len(voters) else len(voters))
        ),
        nodes_min=5,
    )
    @mutant("plain-wants-every-vote", instead=lambda _, granted, _answered, voters: len(granted) >= len(voters))
    def has_majority(self, granted: Collection[int], answered: Collection[int], voters: Sequence[int]) -> bool:
        """Whether these votes elect; ``answered``: who voted either way."""
        return len(granted) >= self.majority(len(voters))

    @mutant(
        "16-counts-older-epoch",
        instead=lambda _, granted, epoch, own_epoch, candidate, from_voter: (
            granted and candidate and epoch <= own_epoch and from_voter
        ),
    )
    @mutant(
        "17-counts-higher-epoch",
        instead=lambda _, granted, epoch, own_epoch, candidate, from_voter: (
            candidate and from_voter and ((granted and epoch == own_epoch) or epoch > own_epoch)
        ),
    )
    def counts_vote(self, *, granted: bool, epoch: int, own_epoch: int, candidate: bool, from_voter: bool) -> bool:
        """A granted answer of the own epoch from a voter, while campaigning."""
        return granted and candidate and epoch == own_epoch and from_voter

    @mutant("23-observers-vote", instead=lambda _, _voters, everybody: everybody)
    def electorate(self, voters: tuple[int, ...], everybody: tuple[int, ...]) -> tuple[int, ...]:
        """Who is asked for votes and counted."""
        return voters

    # --- epochs and leaders -----------------------------------------------------------------------------------------

    @mutant("25-epoch-may-fall", answers=False)
    def is_stale(self, epoch: int, own_epoch: int) -> bool:
        """A message of an older epoch changes nothing here."""
        return epoch < own_epoch

    def follows_announced(self, leader: int, me: int) -> bool:
        """A voter that learns of a leader other than itself becomes its follower."""
        return leader != me

    def notified(self, others: tuple[int, ...]) -> tuple[int, ...]:
        """The nodes that a new leader notifies: all other voters."""
        return others

    @mutant("28-never-resigns", answers=None, needs=RESIGNS)
    def check_quorum_ns(self) -> Ns | None:
        """How long a leader leads without fetches of a majority; None: for ever."""
        return self.knobs.check_quorum_ns

    @mutant(
        "30-own-append-is-contact",
        answers=True,
        says="counts its own writing as contact with the voters",
        needs=RESIGNS,
    )
    def own_append_is_contact(self) -> bool:
        """Whether a leader counts its own writing as contact with the voters."""
        return False

    # --- the high watermark -----------------------------------------------------------------------------------------

    def appends_leader_change(self) -> bool:
        """An election appends a record of its epoch."""
        return True

    def initial_end(self, own_end: int) -> int:
        """What a new leader knows of the others' log ends: nothing."""
        return UNKNOWN_OFFSET

    def majority_offset(self, descending: Sequence[int]) -> int:
        """The offset up to which a majority holds the log, of the voters' ends in descending order."""
        return descending[len(descending) // 2]

    @mutant("40-commits-old-epochs", answers=True, says="moves the high watermark by records of earlier epochs")
    def may_advance(self, offset: int, epoch_start: int) -> bool:
        """The high watermark moves by records of the own epoch only."""
        return offset > epoch_start

    # A new leader does not know its high watermark: then there is none
    @mutant(
        "42-follower-hw-unchecked",
        instead=lambda _, _own, _end, leaders: max(0, leaders),
        says="adopts the leader's high watermark unchecked",
    )
    def follower_hw(self, own: int, end: int, leaders: int) -> int:
        """What a follower makes of its leader's high watermark: never beyond its own log, never back."""
        return max(own, min(end, leaders))

    @mutant("45-acks-after-local-append", answers=True)
    def acks_client(self, at: Literal["appended", "committed"]) -> bool:
        """Whether a write is acknowledged at this moment."""
        return at == "committed"

    # --- fetching ---------------------------------------------------------------------------------------------------

    def fetch_offset(self, end: int) -> int:
        """Where a replica continues: at its own log end."""
        return end

    @mutant(
        "harmless-half-fetch-wait",
        instead=lambda rules: max(1, rules.knobs.fetch_max_wait_ms // 2),
        says="fetches twice as often",
    )
    def fetch_wait_ms(self) -> int:
        """How long a leader may keep an empty fetch."""
        return self.knobs.fetch_max_wait_ms

    # A leader believes every follower that its log is a piece of its own
    @mutant(
        "plain-never-diverges",
        answers=False,
        says="as leader, never makes a follower cut its log",
        caught_by=(by.MATCHING, by.ACKED),
    )
    def diverges(self, asked: Position, own: Position) -> bool:
        """Whether the asker's (last epoch, end) is not on this log; ``own``: the end of the largest epoch up to it."""
        return own[0] != asked[0] or own[1] < asked[1]

    # Followers learn of a commit at once, as of later versions (KIP-1166)
    @mutant("harmless-eager-high-watermark", answers=True, says="notifies followers of a commit at once")
    def answers_on_commit(self) -> bool:
        """Whether parked fetches are answered when the high watermark moves. They are not: it waits for the next."""
        return False

    @mutant("harmless-no-linger", answers=0, says="appends every write by itself")
    def linger_ms(self) -> int:
        """How long a leader gathers writes into one batch."""
        return self.knobs.append_linger_ms

    @mutant(
        "harmless-quick-retry",
        instead=lambda rules: max(1, rules.knobs.retry_backoff_ms // 2),
        says="repeats failed requests sooner",
    )
    def retry_backoff_ms(self) -> int:
        """The wait after a failed request."""
        return self.knobs.retry_backoff_ms

    # --- disk and clocks --------------------------------------------------------------------------------------------

    def persists(self, state: str) -> bool:
        """Whether a change to this state is written."""
        return True

    @mutant("01-vote-not-written", instead=lambda _, state: msgspec.structs.replace(state, voted_id=NOBODY))
    @mutant(
        "plain-writes-epoch-before",
        instead=lambda _, state: msgspec.structs.replace(state, leader_epoch=max(0, state.leader_epoch - 1)),
        says="stores each epoch one too low, so that any restart goes back",
        caught_by=(by.TERM,),
    )
    def stored(self, state: QuorumState) -> QuorumState:
        """What is written for this state."""
        return state

    def state_content(self, state: QuorumState) -> bytes:
        """The file's content."""
        return state_bytes(state)

    @mutant("04-ignore-failed-vote-write", answers=False)
    @mutant("02-answer-before-persist", answers=False)
    def answers_after_persist(self) -> bool:
        """Nothing that shows a new epoch, vote or leader leaves before it is on disk."""
        return True

    # No answer waits for what becomes of the write
    @mutant("04-ignore-failed-vote-write", instead=lambda _, file: "ignore" if file == "state" else "halt")
    def on_persist_error(self, file: File) -> Literal["halt", "ignore"]:
        """A node that cannot write the file stops: it would forget what it is about to send."""
        return "halt"

    @mutant("05-vote-not-synced", instead=lambda _, file: file != "state")
    @mutant("46-fetches-before-sync", instead=lambda _, file: file != "log")
    def syncs(self, file: File) -> bool:
        """Whether writes of this file survive a power loss before they count."""
        return True

    @mutant("06-delete-then-rename", answers=True)
    def deletes_first(self) -> bool:
        """Whether the file is deleted before the new one takes its place."""
        return False

    @mutant("52-timers-on-wall-clock", answers="wall")
    def clock(self) -> Literal["mono", "wall"]:
        """The clock of the election, fetch, back-off and check-quorum timers."""
        return "wall" if self.knobs.clock == "wall" else "mono"
