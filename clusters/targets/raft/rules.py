"""Every rule of Raft that a planted bug may override, one small pure method each, with the bugs planted on it.

Guarantees: the honest build is exactly this class; a planted bug overrides the one rule that it is named for (37 and
``plain-votes-twice``: the two that make the mistake), and nothing else decides what the rule decides. Each names the
knobs without which it shows nothing, and inherits the promise of its profile. ``plain`` shows under nearly any
schedule, so that each checker can be accepted on live clusters; ``clients`` leaves the election intact and shows in
what clients of one workload see; ``harmless`` must raise no alarm. Rules take values and return values; only `deadline`
draws, from the generator that it is given. Out of scope: what no knob and no variant changes; the handlers hold that.

Source: docs/sources.md, raft: the paper, figure 2 and 5.4.2 (commit restriction); the thesis, 3.10, 4, 6.2, 6.4, 9.6.
"""

# ruff: noqa: ARG002 - an honest rule often ignores its arguments, which a broken one looks at

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from dethrone.clusters.targets.kit import by
from dethrone.clusters.targets.kit.files import Unreadable
from dethrone.clusters.targets.kit.mutants import mutant
from dethrone.clusters.targets.raft.knobs import RaftKnobs
from dethrone.clusters.targets.raft.messages import Config, VoteReply
from dethrone.clusters.targets.raft.storage import HardState, read_vote
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.rng import Rng

ClockName = Literal["mono", "wall"]
Position = tuple[int, int]
"""(term, index) of a log's last entry: compared in this order."""

SINGLE = {"membership": "single_server"}
LEASE = {"reads": "lease"}


class Rules:
    """The honest rules under these knobs. One object per core."""

    def __init__(self, knobs: RaftKnobs) -> None:
        self.knobs = knobs

    # --- election -----------------------------------------------------------------------------------------------

    @mutant("plain-votes-twice", instead=lambda rules, _: rules.knobs.election_timeout_min)
    @mutant("33-no-jitter", instead=lambda rules, _: rules.knobs.election_timeout_min, caught_by=(by.LIVELOCK,))
    @mutant(
        "harmless-longer-jitter",
        instead=lambda rules, rng: rng.between(
            rules.knobs.election_timeout_min, rules.knobs.election_timeout_max * 5 // 4
        ),
    )
    def deadline(self, rng: Rng) -> Ns:
        """A fresh election timeout, at least electionTimeoutMin."""
        return rng.between(self.knobs.election_timeout_min, self.knobs.election_timeout_max)

    @mutant("31-any-request-resets-deadline", answers=True)
    def resets_deadline(self, event: str) -> bool:
        """A granted vote (``granted``) resets the election deadline; a request for a vote or pre-vote does not."""
        return event != "asked"

    # NATS, hashicorp
    @mutant(
        "54-removed-node-campaigns",
        answers=True,
        says="campaigns after it was removed",
        caught_by=(by.MEMBERS, by.STABLE),
        needs=SINGLE,
        nodes_min=4,
    )
    def may_campaign(self, node: str, voters: Sequence[str], *, leaving: bool) -> bool:
        """Only a voter campaigns, or one whose removal is not known to be committed (``leaving``).

        The latter may hold the longest log, without which its removal can be neither committed nor taken back.
        """
        return node in voters or leaving

    def retries_same_term(self) -> bool:
        """A lost campaign is over; the next one has a term of its own."""
        return self.knobs.retry_same_term

    # etcd 8499
    @mutant(
        "35-no-pre-vote",
        answers=False,
        says="raises its term without asking first",
        caught_by=(by.STABLE,),
        needs={"pre_vote": "on"},
    )
    def needs_pre_vote(self) -> bool:
        """Whether a passed deadline opens a pre-vote round instead of raising the term."""
        return self.knobs.pre_vote

    def grants_pre_vote(
        self,
        *,
        req_term: int,
        own_term: int,
        leads_or_hears: bool,
        voted_for: str | None,
        candidate: str,
        up_to_date: bool,
    ) -> int:
        """The row of the pre-vote table that decides; 5 grants."""
        if req_term < own_term:
            return 1
        if leads_or_hears and self.knobs.prevote_leader_check:
            return 2
        if req_term == own_term and voted_for not in (None, candidate):
            return 3
        return 5 if up_to_date else 4

    @mutant("37-pre-vote-terms-compared", answers=False, needs={"pre_vote": "on"})
    def answers_lower_term(self) -> bool:
        """A pre-vote request for a term below the own one is refused with an answer, or its sender never catches up."""
        return True

    @mutant(
        "37-pre-vote-terms-compared",
        instead=lambda _, granted, answer_term, own_term, from_voter: (
            granted and from_voter and answer_term >= own_term
        ),
    )
    def counts_pre_vote(self, *, granted: bool, answer_term: int, own_term: int, from_voter: bool) -> bool:
        """A grant that echoes the open round counts, regardless of its term."""
        return granted and from_voter

    @mutant("18-pre-votes-are-votes", instead=lambda _, at: at == "round", needs={"pre_vote": "on"})
    def clears_votes(self, at: Literal["round", "campaign"]) -> bool:
        """Pre-votes and votes are two sets, each emptied at the start of its round or campaign."""
        return True

    @mutant("plain-votes-twice", instead=lambda _, up_to_date, **__: 4 if up_to_date else 3)
    @mutant(
        "39-repeated-request-refused",
        instead=lambda _, voted_for, up_to_date, **__: 2 if voted_for is not None else 4 if up_to_date else 3,
    )
    def grants_vote(self, *, voted_for: str | None, candidate: str, up_to_date: bool) -> int:
        """The row of the vote table that decides, given terms are equal; 4 grants."""
        if voted_for is not None and voted_for != candidate:
            return 2
        return 4 if up_to_date else 3

    @mutant("12-grant-without-log-check", answers=True)
    def log_up_to_date(self, candidate: Position, own: Position) -> bool:
        """Whether the candidate's log is at least as new as the own one."""
        return candidate >= own or not self.knobs.log_check

    @mutant(
        "14-last-log-term-is-current",
        instead=lambda _, _last, index, current: (current, index),
        caught_by=(by.COMPLETE,),
    )
    def last_log(self, last_term: int, last_index: int, current_term: int) -> Position:
        """What a candidate reports of its log's end."""
        return last_term, last_index

    def is_sticky(self, *, leads_or_hears: bool, force: bool) -> bool:
        """Whether a vote request is ignored because a leader is there."""
        return self.knobs.stickiness and leads_or_hears and not force

    @mutant("harmless-silent-sticky", answers=False, says="drops vote requests that it ignores")
    def answers_sticky(self) -> bool:
        """Whether an ignored vote request is answered "no, sticky" or dropped; both are right."""
        return True

    # KIP-996, JoyQueue, jraft 15. Stickiness uses the same rule, so it goes as well: else it masks this.
    @mutant(
        "36-hears-no-leader",
        answers=False,
        says="grants pre-votes while it hears a leader",
        caught_by=(by.STABLE,),
        needs={"prevote_leader_check": "on"},
    )
    def hears_leader(self, *, leader: str | None, silence: Ns) -> bool:
        """Whether a leader is known and was heard within the sticky window."""
        return leader is not None and silence < self.knobs.sticky_window

    def electorate(self, config: Config, configs: Sequence[tuple[int, Config]]) -> tuple[str, ...]:
        """Who is asked for votes and whose votes count: the voters of the configuration in force."""
        return config.voters

    @mutant(
        "16-counts-older-term",
        instead=lambda _, answer, own_term, candidate, from_voter: (
            answer.vote_granted and candidate and answer.term <= own_term and from_voter
        ),
    )
    @mutant(
        "17-counts-higher-term",
        instead=lambda _, answer, own_term, candidate, from_voter: (
            candidate and from_voter and (answer.term > own_term or (answer.vote_granted and answer.term == own_term))
        ),
    )
    def counts_vote(self, answer: VoteReply, *, own_term: int, candidate: bool, from_voter: bool) -> bool:
        """A vote counts for a candidate of its very term, from a voter of the candidate's own configuration."""
        return answer.vote_granted and candidate and answer.term == own_term and from_voter

    @mutant("22-half-is-enough", instead=lambda _, voters: (voters + 1) // 2, caught_by=(by.LEADER,))
    def quorum_size(self, voters: int) -> int:
        """A majority of the voters."""
        return voters // 2 + 1

    # It is not elected by itself alone
    @mutant(
        "21-majority-of-responders",
        instead=lambda rules, votes, voters, answered: (
            len(votes) >= rules.quorum_size(len(answered) if len(answered) > 1 < len(voters) else len(voters))
        ),
        nodes_min=5,
    )
    @mutant("plain-wants-every-vote", instead=lambda _, votes, voters, _answered: len(votes) >= len(voters))
    def is_quorum(self, votes: Collection[str], voters: Collection[str], answered: Collection[str]) -> bool:
        """Whether these (counted) votes elect, among these voters; regardless of how many answered."""
        return len(votes) >= self.quorum_size(len(voters))

    def adopts_term(self, own_term: int, seen: int) -> bool:
        """A higher term is adopted."""
        return seen > own_term

    @mutant("25-term-may-fall", instead=lambda _, _own_term, seen: seen)
    def next_term(self, own_term: int, seen: int) -> int:
        """The own term after a message that carried ``seen``."""
        return max(own_term, seen)

    @mutant("27-refuses-campaigned-term", instead=lambda _, term, campaigned_term: term != campaigned_term)
    def accepts_leader(self, term: int, campaigned_term: int) -> bool:
        """An AppendEntries of the current term names its leader, also where this node campaigned itself."""
        return True

    @mutant("56-reads-before-own-term", answers=True)
    def announces_leader(self, *, own_term_committed: bool) -> bool:
        """Whether a leader may serve reads: only once an entry of its own term is committed (and thus applied)."""
        return own_term_committed

    @mutant(
        "10-resumes-leadership",
        instead=lambda _, node, state, last_log_term: 0 < state.term == last_log_term and state.voted_for == node,
        needs={"noop": "on"},
    )
    def resumes_leadership(self, *, node: str, state: HardState, last_log_term: int) -> bool:
        """Whether a restarted node resumes leading its stored term without an election: never."""
        return False

    # --- disk ---------------------------------------------------------------------------------------------------

    @mutant("01-vote-not-written", instead=lambda _, state: HardState(state.term, None))
    @mutant("plain-writes-term-before", instead=lambda _, state: HardState(max(0, state.term - 1), state.voted_for))
    def persist_vote(self, state: HardState) -> HardState:
        """What is written of the term and the vote."""
        return state

    @mutant("02-answer-before-persist", answers=False)
    def answers_after_persist(self) -> bool:
        """Whether everything that shows a new term or vote waits for its write."""
        return True

    @mutant("04-ignore-failed-vote-write", instead=lambda _, file: "ignore" if file == "vote" else "halt")
    def on_persist_error(self, file: str) -> Literal["halt", "ignore"]:
        """A node that could not write stops: it must not continue from state that it will forget."""
        return "halt"

    @mutant("05-vote-not-synced", instead=lambda _, file: file != "vote")
    @mutant("46-acks-before-sync", instead=lambda _, file: file != "log")
    def syncs(self, file: str) -> bool:
        """Whether writes of ``vote`` and of ``log`` are made durable."""
        return True

    @mutant("06-delete-then-rename", answers="delete_rename")
    def replace_file(self) -> Literal["rename", "delete_rename"]:
        """How the vote file is replaced: in one step."""
        return "rename"

    def load_state(self, content: bytes | Literal["unreadable"] | None, *, node: str, last_log_term: int) -> HardState:
        """The term and vote to start from; `Unreadable` stops the node. Absent: never voted, as the log shows."""
        if content is None:
            return HardState(last_log_term, None)
        if isinstance(content, str):
            raise Unreadable("vote file: cannot be read")
        state = read_vote(content)
        return state if state.term >= last_log_term else HardState(last_log_term, None)

    # --- log ----------------------------------------------------------------------------------------------------

    @mutant("40-commits-old-terms", answers=True, advised={"max_entries_per_append": "1"})
    def may_commit(self, entry_term: int, own_term: int) -> bool:
        """Counting replicas commits only an entry of the leader's own term."""
        return entry_term == own_term or not self.knobs.commit_current_term_only

    @mutant("42-follower-commit-unchecked", instead=lambda _, leader_commit, **__: leader_commit)
    def follower_commit(self, *, leader_commit: int, last_new: int, commit: int) -> int:
        """A follower's commit index after an accepted AppendEntries: never beyond what it checked, never back."""
        return max(commit, min(leader_commit, last_new))

    def matches_prev(self, own_term: int, prev_term: int) -> bool:
        """Whether the own entry at prevLogIndex is the leader's; ``own_term`` is -1 where there is none."""
        return own_term == prev_term or (own_term >= 0 and not self.knobs.prev_check)

    @mutant("plain-never-truncates", answers=False)
    @mutant("44-truncates-always", answers=True)
    def truncates(self, own_term: int, new_term: int) -> bool:
        """Whether an own entry at the index of a new one is removed, with all after it: only if they conflict."""
        return own_term != new_term

    def appends_before_sending(self) -> bool:
        """Whether a leader starts the write of an own entry before it sends it on."""
        return True

    def tries_again(self, silence: Ns) -> bool:
        """Whether a follower that answered nothing for so long is still sent what it lacks: without limit."""
        return True

    @mutant("45-acks-after-local-append", answers=True)
    def acks_client(self, at: Literal["appended", "committed"]) -> bool:
        """When a client's write is acknowledged."""
        return at == "committed"

    # --- clients ------------------------------------------------------------------------------------------------

    # The class of Consul's default reads
    @mutant(
        "clients-read-unconfirmed",
        answers=False,
        says="serves reads without asking a majority whether it still leads",
        seen_by=("linearizable", "set"),
        needs={"reads": "readindex"},
    )
    def confirms_reads(self) -> bool:
        """Whether a read waits for a round that shows that its leader still leads."""
        return True

    # Check, then act: another write may be ordered between the two
    @mutant(
        "clients-swap-compared-early",
        instead=lambda _, kind: kind == "cas",
        says="compares what a cas expects before its write is ordered",
        seen_by=("linearizable",),
    )
    # Write skew, lost updates
    @mutant(
        "clients-transaction-reads-early",
        instead=lambda _, kind: kind == "txn",
        says="reads for a transaction before its appends are ordered",
        seen_by=("list-append",),
    )
    def decides_early(self, kind: Literal["cas", "txn"]) -> bool:
        """Whether the leader answers a command from what it has applied when it is asked: no, when its entry is."""
        return False

    # A retry without sessions (thesis 6.3): the same command may be carried out twice
    @mutant(
        "clients-proposed-again",
        answers=True,
        says="as a new leader appends again what it does not know to be committed",
        seen_by=("linearizable", "set", "list-append"),
    )
    def proposes_again(self) -> bool:
        """Whether a new leader appends again what its log holds and it does not know to be committed: never."""
        return False

    # Nodes that apply one entry at different moments, or again after a restart, come to different holders
    @mutant("clients-clock-decides", answers=True, says="gives a lock away by its own clock", seen_by=("lock",))
    def clock_decides(self) -> bool:
        """Whether each node's own clock decides, as it applies an acquire, if a lock is over: no, an entry does."""
        return False

    # A lease without fencing: Kleppmann, 2016; HBase's leases
    @mutant("clients-any-token-passes", answers=True, says="accepts tokens of former holders", seen_by=("lock",))
    def accepts_token(self, token: int, highest: int) -> bool:
        """Whether a guard that has accepted ``highest`` accepts ``token``."""
        return token >= highest

    # --- leader -------------------------------------------------------------------------------------------------

    @mutant("28-never-steps-down", answers=False, needs={"check_quorum": "on"})
    def steps_down(self, age: Ns) -> bool:
        """Whether a leader whose newest majority-answered round is ``age`` old gives up."""
        return self.knobs.check_quorum and age > self.knobs.check_quorum_window

    @mutant("30-sending-is-contact", answers=True, needs={"check_quorum": "on"})
    def refreshes_contact(self, event: Literal["sent", "answered"]) -> bool:
        """What counts as contact with a voter: its answer."""
        return event == "answered"

    def appends_noop(self) -> bool:
        """Whether a term opens with a blank entry."""
        return self.knobs.noop

    def follower_serves(self) -> bool:
        """Whether a node that does not lead answers reads: never, it redirects."""
        return False

    def read_ready(self, *, confirmed: bool, applied: int, read_index: int) -> bool:
        """Whether a read-index read may be answered."""
        return confirmed and applied >= read_index

    def lease_length(self) -> Ns:
        """How long a majority-answered round vouches, counted from its sending on the leader's clock."""
        return int(self.knobs.election_timeout_min / self.knobs.clock_drift_bound)

    # jraft 34
    @mutant(
        "49-lease-on-timer",
        instead=lambda _, checked, **__: checked,
        says="looks at its lease once in a timeout only",
        caught_by=(by.LEASE,),
        needs=LEASE,
    )
    # etcd locks, ZooKeeper sessions: the time of the last tick stands for now, also after a stop
    @mutant(
        "51-lease-without-recheck",
        instead=lambda _, ticked, end, **__: ticked < end,
        says="serves what was queued during a stop by the time of before it",
        caught_by=(by.LEASE,),
        needs=LEASE,
    )
    def lease_valid(self, *, now: Ns, end: Ns, ticked: Ns, checked: bool) -> bool:
        """Whether a read that just arrived is covered at ``now``: neither at the last tick, nor when last looked at."""
        return now < end

    # Nebula 2723, NATS 2e2d40c
    @mutant(
        "47-lease-on-wall-clock",
        instead=lambda _, timer: "wall" if timer == "lease" else "mono",
        says="measures its lease on the wall clock",
        caught_by=(by.LEASE,),
        needs=LEASE,
    )
    @mutant("52-election-on-wall-clock", instead=lambda _, timer: "wall" if timer == "election" else "mono")
    def clock(self, timer: Literal["election", "lease"]) -> ClockName:
        """The clock behind a deadline: one that cannot be set."""
        return "mono"

    def holds_off_after_start(self) -> bool:
        """Whether a started node neither votes nor campaigns for electionTimeoutMin, having forgotten its leader."""
        return self.knobs.vote_holdoff_after_start

    # etcd 7625
    @mutant(
        "53-config-on-commit",
        instead=lambda _, configs, commit: next(known for known in reversed(configs) if known[0] <= commit),
        says="uses a new configuration only when it is committed",
        caught_by=(by.LEADER, by.MEMBERS),
        needs=SINGLE,
    )
    def config_in_force(self, configs: Sequence[tuple[int, Config]], commit: int) -> tuple[int, Config]:
        """The latest configuration in the log, committed or not."""
        return configs[-1]

    def may_change_config(self, *, last_committed: bool, own_term_committed: bool) -> bool:
        """One change at a time, and only after an entry of the own term was committed."""
        return last_committed and (own_term_committed or not self.knobs.config_needs_own_commit)

    def timeout_now_ok(self, *, follower: bool, term: int, own_term: int, from_leader: bool) -> bool:
        """Whether TimeoutNow starts a campaign: its term and its sender are the ones followed."""
        return follower and term == own_term and from_leader

    # etcd 13527, tikv 18886
    @mutant(
        "58-heartbeats-while-stuck",
        answers=True,
        says="keeps its followers quiet while its own disk hangs",
        caught_by=(by.OWED,),
    )
    def heartbeats_while_stuck(self) -> bool:
        """Whether a leader whose own disk hangs keeps its followers quiet: no, it falls silent and is replaced."""
        return False

    # --- freedoms: any choice here is right -----------------------------------------------------------------------

    @mutant("harmless-half-heartbeat", instead=lambda rules: max(1, rules.knobs.heartbeat_interval // 2))
    def heartbeat_interval(self) -> Ns:
        """The time between two rounds of heartbeats."""
        return self.knobs.heartbeat_interval

    @mutant(
        "harmless-more-pre-votes",
        instead=lambda rules: max(1, rules.knobs.heartbeat_interval // 3),
        says="repeats its pre-vote requests more often",
    )
    def pre_vote_repeat_interval(self) -> Ns:
        """The time between two requests to a voter that has not answered a pre-vote."""
        return self.knobs.heartbeat_interval

    @mutant("harmless-eager-commit", answers=True)
    def notices_commit_eagerly(self) -> bool:
        """Whether followers learn of a commit at once or with the next AppendEntries."""
        return self.knobs.eager_commit_notice
