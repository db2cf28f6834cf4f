"""Every rule of DLedger that a planted bug or a flipped claim may override, one small pure method each, with the bugs.

Guarantees: the honest build is exactly this class; a variant overrides the rule that it is named for, and nothing else
decides what the rule decides. Rules take values and return values; only `vote_delay` and `vote_wait` draw, from the
generator that they are given. Out of scope: the order of the rows, which the handlers hold.

Source: DLedger 0.2.7, ``DLedgerLeaderElector``, ``DLedgerEntryPusher``, ``MemberState``.
"""

# ruff: noqa: ARG002 - an honest rule often ignores its arguments, which a broken one looks at

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from dethrone.clusters.targets.dledger import messages as m
from dethrone.clusters.targets.dledger.knobs import DledgerKnobs
from dethrone.clusters.targets.dledger.messages import Entry
from dethrone.clusters.targets.dledger.storage import Replacement, TermState, read_term
from dethrone.clusters.targets.dledger.tally import Campaign, Round
from dethrone.clusters.targets.kit import by
from dethrone.clusters.targets.kit.files import Unreadable
from dethrone.clusters.targets.kit.mutants import mutant
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.rng import Rng

NEVER: Ns = -(1 << 62)

CANDIDATE, LEADER, FOLLOWER = "CANDIDATE", "LEADER", "FOLLOWER"

_BIGGER = (m.SMALL_LEDGER_END_INDEX, m.EXPIRED_LEDGER_TERM)
_HIGHER_TERM = (m.EXPIRED_VOTE_TERM, m.TERM_SMALL_THAN_LEDGER)

ATOMIC = {"persist_mode": "atomic"}
PLAIN = {"noop_on_elect": "false"}
"""A blank entry at each election ends every log with the current term, and commits what came before."""
AT_ONCE = {**PLAIN, "push_retry_ms": "20"}
"""Besides: a new leader's first comparison, which comes before its first heartbeat and is refused, is soon repeated."""
IMPATIENT = {"vote_wait_ms": "100"}
"""A campaign ends sooner than a slow link or disk answers; with 2 s it takes a voter that is away for so long."""


class Rules:
    """The honest rules under these knobs. One object per core."""

    def __init__(self, knobs: DledgerKnobs) -> None:
        self.knobs = knobs

    # --- the loop -----------------------------------------------------------------------------------------------

    def initial_role(self) -> str:
        """Every node is a candidate at every start."""
        return CANDIDATE

    def still_candidate(self, role: str) -> bool:
        """Whether the candidate's handler runs: looked at again under the lock."""
        return role == CANDIDATE

    def leads(self, role: str) -> bool:
        """Whether the leader's handler runs; the follower's runs for the third role."""
        return role == LEADER

    def campaign_at(self, next_time: Ns, *, flag: bool) -> Ns:
        """No campaign before its time, unless a handler asked for a higher term at once."""
        return NEVER if flag else next_time

    def raises_term(self, *, vote_next: bool, flag: bool) -> bool:
        """The term rises after WAIT_TO_VOTE_NEXT and on the flag; otherwise a campaign repeats its term."""
        return vote_next or flag

    @mutant(
        "25-term-may-fall",
        instead=lambda _, current, known_max: known_max if 0 <= known_max != current else current + 1,
        says="adopts the largest term that it saw, even a lower one",
    )
    def next_term(self, current: int, known_max: int) -> int:
        """The largest term seen if that is larger, else the next one."""
        return known_max if known_max > current else current + 1

    def bump_only(self) -> bool:
        """Whether a pass that raised the term for the flag ends there, and the vote comes after a delay (K1)."""
        return self.knobs.flag_handling == "bump_only"

    @mutant("34-same-seed", instead=lambda *_: Rng(34))
    def seed(self, rng: Rng) -> Rng:
        """The generator behind delays and waits: each node's own."""
        return rng

    @mutant("33-no-jitter", instead=lambda rules, _: rules.knobs.min_vote_interval)
    def vote_delay(self, rng: Rng) -> Ns:
        """From now to the next campaign: uniform from the least delay to the upper bound, which is excluded."""
        low, high = self.knobs.min_vote_interval, self.knobs.max_vote_interval
        return low + rng.below(high - low)

    def vote_wait(self, rng: Rng) -> Ns:
        """The longest wait for votes."""
        return self.knobs.vote_wait + rng.below(self.knobs.max_vote_interval)

    def asked(self, members: Sequence[str], me: str) -> Sequence[str]:
        """Who is asked for a vote: every member, itself included and first, so that its own vote is on disk first."""
        return (me, *(name for name in members if name != me))

    def candidate_of(self, me: str) -> str:
        """Whom a candidate recommends: itself."""
        return me

    # --- counting votes -----------------------------------------------------------------------------------------

    @mutant("22-half-is-enough", instead=lambda _, members: (members + 1) // 2)
    def quorum(self, members: int) -> int:
        """⌊N/2⌋ + 1."""
        return members // 2 + 1

    def has_quorum(self, count: int, tally: Campaign | Round) -> bool:
        """Whether this count is a majority of all members."""
        return count >= self.quorum(tally.members)

    def is_valid(self, result: str) -> bool:
        """Everything but UNKNOWN is an answer."""
        return result != m.UNKNOWN

    @mutant("16-counts-other-campaigns", answers=True, says="counts answers to earlier campaigns", advised=IMPATIENT)
    def of_this_campaign(self, answer: int, campaign: int) -> bool:
        """Answers to another campaign are not counted."""
        return answer == campaign

    def count_vote(self, tally: Campaign, result: str, term: int, voter: str) -> None:
        """Count one answer."""
        if not self.is_valid(result):
            return
        tally.valid += 1
        if self.is_accept(result):
            tally.accepted += 1
            tally.voters.append(voter)
        elif result == m.ALREADY_HAS_LEADER:
            tally.has_leader = True
        elif result in _HIGHER_TERM:
            tally.max_term = max(tally.max_term, term)
        elif result in _BIGGER:
            tally.bigger += result == m.SMALL_LEDGER_END_INDEX or self.knobs.count_expired_ledger
        elif result == m.TERM_NOT_READY:
            tally.not_ready += 1

    @mutant(
        "17-counts-higher-term",
        instead=lambda _, result: result in (m.ACCEPT, m.EXPIRED_VOTE_TERM),
        says="counts refusals that carry a higher term as votes",
    )
    # The first contact of a higher term takes the place of a pre-vote here
    @mutant(
        "18-not-ready-is-a-vote",
        instead=lambda _, result: result in (m.ACCEPT, m.TERM_NOT_READY),
        says="counts those who must raise their term first as voters",
    )
    def is_accept(self, result: str) -> bool:
        """Whether an answer is a vote."""
        return result == m.ACCEPT

    def campaign_over(self, tally: Campaign) -> bool:
        """Whether the wait for votes ends early."""
        return (
            tally.has_leader
            or self.has_quorum(tally.accepted, tally)
            or self.has_quorum(tally.accepted + tally.not_ready, tally)
            or len(tally.answered) >= tally.members
        )

    def case_1(self, tally: Campaign) -> bool:
        """A peer answered with a larger term."""
        return tally.max_term > tally.term

    def case_2(self, tally: Campaign) -> bool:
        """A peer has a leader."""
        return tally.has_leader

    @mutant("21-majority-of-responders", answers=False)
    def case_3(self, tally: Campaign) -> bool:
        """Too few answers."""
        return not self.has_quorum(tally.valid, tally)

    @mutant("21-majority-of-responders", answers=False)
    def case_4(self, tally: Campaign) -> bool:
        """Too few answers of nodes whose log is not longer."""
        return not self.has_quorum(tally.valid - tally.bigger, tally)

    @mutant(
        "21-majority-of-responders", instead=lambda rules, tally: tally.accepted >= rules.quorum(max(1, tally.valid))
    )
    @mutant("plain-wants-every-vote", instead=lambda _, tally: tally.accepted >= tally.members)
    def case_5(self, tally: Campaign) -> bool:
        """A majority accepted: the only way to win."""
        return self.has_quorum(tally.accepted, tally)

    def case_6(self, tally: Campaign) -> bool:
        """With those who still had to catch up it would have been a majority."""
        return self.has_quorum(tally.accepted + tally.not_ready, tally)

    def extra_delay(self, case: int) -> Ns:
        """What is added to the drawn delay after this case."""
        if case == 4:
            return self.knobs.max_vote_interval
        if case == 2 and self.knobs.has_leader_delay == "leak":
            return self.knobs.heart_beat_interval * self.knobs.max_heart_beat_leak
        return 0

    def delays_after(self, case: int) -> bool:
        """Every case but the win and the immediate re-vote waits for the next campaign time."""
        return case not in (5, 6)

    def wins(self, case: int) -> bool:
        """Whether this case makes the candidate a leader."""
        return case == 5

    # --- answering vote requests --------------------------------------------------------------------------------

    def is_member(self, name: str, members: Collection[str], what: Literal["vote", "heartbeat"]) -> bool:
        """Whether the sender belongs to the group."""
        return name in members

    def log_before_term(self) -> bool:
        """Whether logs are compared before terms are even looked at."""
        return True

    # Of two logs the longer one wins, regardless of its last term
    @mutant(
        "14-last-log-term-is-current",
        instead=lambda _, _last, current: current,
        says="compares logs with its current term as its last entry's",
    )
    def log_term(self, last: int, current: int) -> int:
        """What counts as the term of the own log's end where logs are compared: that of the last entry."""
        return last

    @mutant("12-grant-without-log-check", answers=False)
    def older_ledger_term(self, asked: int, own: int) -> bool:
        """Row 3: the candidate's last term is lower."""
        return asked < own

    @mutant("12-grant-without-log-check", answers=False)
    def shorter_ledger(self, asked: int, own: int) -> bool:
        """Row 4: with equal last terms, the candidate's log is shorter."""
        return asked < own

    def vote_expired(self, asked: int, own: int) -> bool:
        """Row 5: the campaign's term is lower."""
        return asked < own

    @mutant("39-repeated-request-refused", instead=lambda _, voted_for, _candidate: voted_for is None)
    @mutant("plain-votes-twice", answers=True)
    def vote_left(self, voted_for: str | None, candidate: str) -> bool:
        """Row 6a: no vote given in this term, or given to this very candidate."""
        return voted_for is None or voted_for == candidate

    def flags_higher_term(self, source: Literal["vote", "heartbeat"]) -> bool:
        """A higher term makes a candidate that raises its term at once; it is not voted for on first contact."""
        return True

    def below_ledger(self, asked: int, own_ledger_term: int) -> bool:
        """Row 8: the campaign's term is below that of the own last entry."""
        return asked < own_ledger_term

    @mutant("31-any-request-resets-timers", answers=True)
    def renews_on_request(self) -> bool:
        """Whether a vote request counts as hearing from a leader: it touches no timer."""
        return False

    # --- heartbeats ---------------------------------------------------------------------------------------------

    @mutant("harmless-half-heartbeat", instead=lambda rules: rules.knobs.heart_beat_interval // 2)
    def heartbeat_interval(self) -> Ns:
        """The period of a leader's rounds."""
        return self.knobs.heart_beat_interval

    def names_me(self, leader: str, me: str) -> bool:
        """Whether a heartbeat names its receiver as the leader."""
        return leader == me

    def beat_expired(self, asked: int, own: int) -> bool:
        """Whether a heartbeat's term is too low."""
        return asked < own

    def renews_on_beat(self) -> bool:
        """A beat of the known leader renews the time at which it was heard."""
        return True

    @mutant(
        "27-refuses-campaigned-term",
        instead=lambda _, campaigned: not campaigned,
        caught_by=(by.CONVERGES, by.OWED, by.LIVELOCK),
        advised={"leader_checks_max_term_first": "true"},
    )
    def follows_unknown(self, *, campaigned: bool) -> bool:
        """With no leader known in this term, the sender is it, regardless of this node's vote or campaign."""
        return True

    def accepts_other_leader(self) -> bool:
        """Whether another leader of the same term may take over: never."""
        return False

    def checks_max_term_first(self) -> bool:
        """Whether a larger term in an answer outweighs a majority of successes (K4)."""
        return self.knobs.leader_checks_max_term_first

    def beats_again(self, tally: Round) -> bool:
        """With those who still had to catch up it would have been a majority: the next round follows at once."""
        return self.has_quorum(tally.succ + tally.not_ready, tally)

    def steps_down_on(self, what: Literal["max_term", "inconsistent"]) -> bool:
        """A larger term, or a peer that follows another leader of this term, ends a leadership without majority."""
        return True

    @mutant(
        "30-sending-is-contact",
        instead=lambda _, sent, *_now, **__: sent,
        says="counts its own sending as a majority's success",
    )
    def success_at(self, sent: Ns, now: Ns, *, majority: bool) -> Ns | None:
        """The new time of the last success, if there is one: only a majority counts."""
        return now if majority else None

    @mutant("28-never-steps-down", answers=False)
    def leader_gives_up(self, silence: Ns) -> bool:
        """Whether a leader that reached no majority for so long becomes a candidate."""
        return silence > self.knobs.max_heart_beat_leak * self.knobs.heart_beat_interval

    def follower_looks_after(self) -> Ns:
        """The cheap first test, without the lock: silence of more than two periods."""
        return 2 * self.knobs.heart_beat_interval

    def follower_gives_up_after(self) -> Ns:
        """The second test, under the lock: more than maxHeartBeatLeak periods."""
        return self.knobs.max_heart_beat_leak * self.knobs.heart_beat_interval

    # --- what is stored -----------------------------------------------------------------------------------------

    @mutant("01-vote-not-written", instead=lambda _, state: TermState(state.term, None), needs=ATOMIC)
    @mutant(
        "plain-writes-term-before",
        instead=lambda _, state: TermState(max(0, state.term - 1), state.voted_for),
        needs=ATOMIC,
    )
    def stored_state(self, state: TermState) -> TermState:
        """What is written of term and vote: both."""
        return state

    @mutant("02-answer-before-persist", answers=False, needs=ATOMIC)
    def answers_after_persist(self) -> bool:
        """Whether everything sent after a change of term or vote waits for the disk."""
        return True

    @mutant("05-vote-not-synced", answers="unsynced", needs=ATOMIC)
    @mutant("06-delete-then-rename", answers="delete_rename", needs=ATOMIC)
    def replaces_term_file(self) -> Replacement:
        """How the term file is replaced."""
        return "upstream" if self.knobs.persist_mode == "upstream" else "atomic"

    @mutant("04-ignore-failed-vote-write", instead=lambda _, file: "ignore" if file == "term" else "halt", needs=ATOMIC)
    def on_persist_error(self, file: Literal["term", "log"]) -> Literal["halt", "ignore"]:
        """A node that cannot store what it is about to send stops; upstream logs the error and continues."""
        return "ignore" if file == "term" and self.knobs.persist_mode == "upstream" else "halt"

    def load_state(self, content: bytes | str | None, *, node: str) -> TermState:
        """What the term file says at the start; missing: nothing. `Unreadable` if the node must not start."""
        if content is None:
            return TermState()
        try:
            if isinstance(content, str):
                raise Unreadable("currterm: cannot be read")
            return read_term(content)
        except Unreadable:
            if self.knobs.persist_mode == "atomic":
                raise
            return TermState()

    # --- the log ------------------------------------------------------------------------------------------------

    def ledger_end_term(self, entry_term: int, current_term: int) -> int:
        """The term of the log's end after something was stored."""
        return current_term if self.knobs.ledger_end_term == "curr_term" else entry_term

    @mutant("46-acks-before-sync", answers=False)
    def syncs(self) -> bool:
        """Whether log entries and cuts are synced before anything counts on them."""
        return self.knobs.fsync == "each"

    # KAFKA-10527: a restarted leader leads its term again, here by design, so its tail must be on disk first
    @mutant(
        "10-pushes-unwritten-tail",
        instead=lambda _, in_memory, **__: in_memory,
        says="pushes entries that its own disk does not have yet, and may lead the same term again without them",
    )
    def push_end(self, *, stored: int, in_memory: int) -> int:
        """Up to where entries are pushed: what the own disk has. A leader may lead its term again after a crash."""
        return stored

    def may_append(self, *, pending: int) -> int:
        """The code for an append at the leader: 200, or 503 above the limit."""
        return m.LEADER_PENDING_FULL if pending > self.knobs.max_pending_requests_num else m.SUCCESS

    @mutant("45-acks-after-local-append", answers=True)
    def acks_client(self, *, committed: bool) -> bool:
        """Whether the client may get its answer: only for committed entries."""
        return committed

    def mark_index(self, old: int, new: int) -> int:
        """A water mark never falls inside a term."""
        return max(old, new)

    def quorum_index(self, marks: Sequence[int]) -> int:
        """The index that a majority stores; ``marks`` are sorted, the largest first."""
        return marks[self.quorum(len(marks)) - 1]

    @mutant("40-commits-old-terms", answers=True, advised=AT_ONCE)
    def may_commit(self, entry_term: int, current_term: int) -> bool:
        """Whether a majority's copies commit this entry: those of its own term only."""
        return entry_term == current_term or not self.knobs.commit_own_term_only

    def may_get(self, index: int, *, begin: int, end: int, committed: int) -> int:
        """The code for reading one index at a leader."""
        if index < 0 or index > end:
            return m.INDEX_OUT_OF_RANGE
        if index < begin:
            return m.INDEX_BEFORE_BEGIN
        if self.knobs.get_committed_only and index > committed:
            return m.LEADER_NOT_READY
        return m.SUCCESS

    def accepts_push(self, kind: str, *, follower: bool, term: int, own_term: int, from_leader: bool) -> int:
        """The code for a push before its content is examined: 200 continues."""
        if not follower:
            return m.NOT_FOLLOWER
        if self.knobs.push_checks_leader:
            if term != own_term:
                return m.INCONSISTENT_TERM
            return m.SUCCESS if from_leader else m.INCONSISTENT_LEADER
        if kind in ("APPEND", "TRUNCATE") and not (term == own_term and from_leader):
            return m.INCONSISTENT_STATE
        return m.SUCCESS

    # It reports that it stored them
    @mutant("plain-never-truncates", instead=lambda _, one, other: one.index == other.index)
    def entries_equal(self, one: Entry, other: Entry) -> bool:
        """Index, term and body."""
        return one == other

    @mutant("plain-never-truncates", instead=lambda _, _index, end: end)
    def truncates_to(self, index: int, end: int) -> int:
        """The last index that is kept by TRUNCATE at ``index``."""
        return min(index, end)

    @mutant("44-cuts-on-append", answers=True, says="cuts its log at every repeated push of an entry that it has")
    def cuts_on_append(self) -> bool:
        """Whether an APPEND at or before the own end cuts the log there: it is compared, never obeyed."""
        return False

    @mutant(
        "42-follower-commit-unchecked",
        instead=lambda _, leader_commit, committed, **__: leader_commit if leader_commit >= 0 else committed,
    )
    def follower_commit(self, *, own_end: int, leader_commit: int, committed: int) -> int:
        """The follower's new committed index: never behind its own end, never back."""
        return max(committed, min(own_end, leader_commit))

    # --- freedoms: any choice here is right ---------------------------------------------------------------------

    def commit_interval(self) -> Ns:
        """The period of COMMIT when there is nothing to send."""
        return self.knobs.commit_interval

    @mutant("harmless-eager-commit", answers=True)
    def notices_commit_eagerly(self) -> bool:
        """Whether followers learn of a commit at once or with the next push."""
        return False

    @mutant(
        "harmless-sooner-resend",
        instead=lambda rules: rules.knobs.max_push_time_out // 4,
        says="pushes unanswered entries again sooner",
    )
    def resend_after(self) -> Ns:
        """After this long an unanswered entry is pushed again."""
        return self.knobs.max_push_time_out

    @mutant("harmless-more-notes", answers=True, says="writes every heartbeat to the trace")
    def notes_every_beat(self) -> bool:
        """Whether every heartbeat is written to the trace, or only those that change something."""
        return False
