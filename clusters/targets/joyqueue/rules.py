"""Every rule of JoyQueue that a planted bug or a flip may override, one small method each, with the bugs planted on it.

Guarantees: the honest build is exactly this class, with the original's two oddities unless their knobs mend them; a
variant overrides the one rule that it is named for, and nothing else decides what the rule decides. Rules take values
and return values; only ``election_delay`` and ``task_delay`` draw, from the generator that they are given. Out of
scope: what no knob and no variant changes; the handlers hold that.

Source: docs/sources.md, joyqueue: ``RaftLeaderElection``.
"""

# ruff: noqa: ARG002 - an honest rule often ignores its arguments, which a broken one looks at

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from dethrone.clusters.targets.joyqueue.knobs import Knobs, SendKind
from dethrone.clusters.targets.joyqueue.storage import Stored, read_metadata
from dethrone.clusters.targets.kit.files import Replacement, Unreadable
from dethrone.clusters.targets.kit.mutants import mutant
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.rng import Rng

ClockName = Literal["mono", "wall"]
Round = Literal["prevote", "vote"]
WriteReason = Literal["first", "campaign", "grant", "other"]
"""The reason for writing the metadata: there was no file; the own vote; a vote for another; anything else."""
Position = tuple[int, int]
"""(term of the last entry, right end): compared in this order."""
MENDED = {"fix_missing_return": "true", "sync_flag_reset": "true"}
LATE = {**MENDED, "task_delay_max_ms": "4000"}
"""The mended build with late send tasks: safe, and campaigns of one term overlap often."""


class Rules:
    """The honest rules under these knobs. One object per core."""

    def __init__(self, knobs: Knobs) -> None:
        self.knobs = knobs

    # --- timers ---------------------------------------------------------------------------------------------------

    def arms_timer_at_start(self) -> bool:
        """The election timer starts with the service."""
        return True

    @mutant("33-no-jitter", instead=lambda rules, _: rules.election_delay_min())
    @mutant(
        "harmless-longer-jitter",
        instead=lambda rules, rng: rules.knobs.ns(
            rules.knobs.election_timeout_ms + rng.below(rules.knobs.election_timeout_ms * 5 // 4)
        ),
    )
    def election_delay(self, rng: Rng) -> Ns:
        """T + random[0, T), drawn in whole protocol ms."""
        knobs = self.knobs
        return knobs.ns(knobs.election_timeout_ms + rng.below(knobs.election_timeout_ms))

    def election_delay_min(self) -> Ns:
        """No delay is shorter than this: T."""
        return self.knobs.ns(self.knobs.election_timeout_ms)

    @mutant("52-election-on-wall-clock", answers="wall")
    def election_clock(self) -> ClockName:
        """The clock behind the election timer: one that cannot be set."""
        return "mono"

    def cancels_pending_timer(self) -> bool:
        """A reset cancels what is pending before it schedules: there are never two."""
        return True

    @mutant("31-any-request-resets-timer", answers=True)
    def resets_timer(self, event: Literal["asked"]) -> bool:
        """Whether being asked for a vote or pre-vote, granted or not, resets the election timer: no."""
        return False

    def expiry_needs_service(self) -> bool:
        """An expiry while the service is stopped is an error and nothing else."""
        return True

    def leads_alone(self, nodes: int) -> bool:
        """A group of exactly one node leads without an election."""
        return nodes == 1

    def ignores_expiry(self, *, leads: bool) -> bool:
        """A leader's expiry changes nothing; a candidate's takes effect."""
        return leads

    def rearms_after_failed_pre_vote(self) -> bool:
        """The timer is armed again even after a failed pre-vote."""
        return True

    def steps_down_on_vote_timeout(self) -> bool:
        """A campaign whose vote timer expires ends."""
        return True

    @mutant(
        "harmless-half-heartbeat", instead=lambda rules: max(1, rules.knobs.ns(rules.knobs.heartbeat_timeout_ms) // 2)
    )
    def heartbeat_interval(self) -> Ns:
        """The time between two rounds of heartbeats."""
        return self.knobs.ns(self.knobs.heartbeat_timeout_ms)

    def task_delay(self, rng: Rng, *, peer: str, kind: SendKind) -> Ns:
        """How late a send task starts: never, unless a knob starves its threads."""
        knobs = self.knobs
        late = sum(d.ms for d in knobs.defer_task if d.peer in {"*", peer} and d.kind in {"*", kind})
        if knobs.task_delay_max_ms:
            late += rng.below(knobs.task_delay_max_ms + 1)
        return knobs.ns(late)

    # --- asking ---------------------------------------------------------------------------------------------------

    def pre_vote_term(self, term: int) -> int:
        """A pre-vote carries the current term, unincremented."""
        return term

    def counts_itself(self, kind: Round) -> bool:
        """The own flag is set at the start of a round."""
        return True

    # JoyQueue itself (JQ-B2), as far as its send tasks are late
    @mutant(
        "18-pre-votes-are-votes",
        instead=lambda rules, where, kind: kind == "prevote" and (where == "task" or rules.knobs.sync_flag_reset),
        needs=MENDED,
    )
    def resets_flag(self, where: Literal["round", "task"], kind: Round) -> bool:
        """Where the others' flags are reset: in the send task's first statement; knob: also when the round begins."""
        return where == "task" or self.knobs.sync_flag_reset

    def next_term(self, term: int) -> int:
        """A campaign raises the term by one."""
        return term + 1

    def offline_during_campaign(self) -> bool:
        """The local store stops serving while the node campaigns."""
        return True

    @mutant("14-last-log-term-is-current", instead=lambda _, _kind, right, term, **__: (term, right))
    def last_log(self, kind: Round, *, last_term: int, right: int, term: int) -> Position:
        """What a request reports of the own log's end."""
        return last_term, right

    # --- answers --------------------------------------------------------------------------------------------------

    @mutant(
        "16-counts-older-term",
        answers=True,
        says="counts answers to requests of an earlier term",
        advised={"send_command_timeout_ms": "30000", "time_factor": "0.01"},
    )
    def keeps_answer(self, *, asked_in: int, term: int) -> bool:
        """An answer counts only while the term is the one of its request."""
        return asked_in == term or not self.knobs.callback_term_check

    def answers_count_in(self, kind: Round, *, follower: bool, candidate: bool) -> bool:
        """Pre-vote answers count for a follower only, votes for a candidate only."""
        return follower if kind == "prevote" else candidate

    def steps_down_for(self, answer_term: int, term: int) -> bool:
        """An answer with a higher term deposes."""
        return answer_term > term

    def tallies_after_step_down(self, kind: Round) -> bool:
        """After a step-down by a pre-vote answer nothing follows; by a vote answer the tally does (JQ-B1)."""
        return kind == "vote" and not self.knobs.fix_missing_return

    @mutant("37-pre-vote-terms-compared", instead=lambda _, answer_term, term: answer_term >= term)
    def accepts_answer_of(self, answer_term: int, term: int) -> bool:
        """A grant counts in any (lower) term of its sender."""
        return True

    # It is not elected by itself alone
    @mutant(
        "21-majority-of-responders",
        instead=lambda _, _kind, granted, nodes, answered: granted > (answered if answered > 1 < nodes else nodes) // 2,
        nodes_min=5,
    )
    @mutant("22-half-is-enough", instead=lambda _, _kind, granted, nodes, **__: granted >= (nodes + 1) // 2)
    def majority(self, kind: Round, *, granted: int, nodes: int, answered: int) -> bool:
        """More than half of all nodes, by integer division; regardless of how many answered."""
        return granted > nodes // 2

    # --- granting -------------------------------------------------------------------------------------------------

    @mutant("12-grant-without-log-check", answers=True)
    def log_up_to_date(self, candidate: Position, own: Position) -> bool:
        """Whether the candidate's log is at least as new as the own one."""
        return candidate >= own

    def may_vote_for(self, candidate: str, voted_for: str | None) -> bool:
        """One vote per term: none given yet, or to the same candidate."""
        return voted_for is None or voted_for == candidate

    @mutant("37-pre-vote-terms-compared", answers=False)
    def answers_lower_term(self) -> bool:
        """A pre-vote of a lower term is refused with an answer, or its sender never catches up."""
        return True

    @mutant(
        "23-non-members-vote",
        instead=lambda _, voters, learners: voters + learners,
        needs={"learners": "*"},
        advised={"learners": "n3"},
        nodes_min=4,
    )
    def voters(self, voters: tuple[str, ...], learners: tuple[str, ...]) -> tuple[str, ...]:
        """Who is asked and counted: learners are not."""
        return voters

    # --- following ------------------------------------------------------------------------------------------------

    @mutant("25-term-may-fall", answers=False)
    def refuses_append(self, req_term: int, term: int) -> bool:
        """An append of a lower term is refused with the own one."""
        return req_term < term

    @mutant(
        "27-refuses-campaigned-term", instead=lambda _, term, campaigned_term: term != campaigned_term, advised=LATE
    )
    def accepts_leader(self, term: int, campaigned_term: int) -> bool:
        """An append of the current term names its leader, also where this node campaigned itself."""
        return True

    def matches_prev(self, own_term: int, prev_term: int) -> bool:
        """Whether the own entry at prevPosition is the leader's; ``own_term`` is −1 where there is none."""
        return own_term == prev_term

    @mutant("44-truncates-always", answers=True)
    def truncates(self, own_term: int, new_term: int) -> bool:
        """Whether an own entry in the place of a new one is removed, with all after it: only if they conflict."""
        return own_term != new_term

    @mutant("42-follower-commit-unchecked", instead=lambda _, leader_commit, **__: leader_commit)
    def follower_commit(self, *, leader_commit: int, matched: int, commit: int) -> int:
        """A follower's commit position after an append: never beyond what was matched, never back."""
        return max(commit, min(leader_commit, matched))

    # --- leading --------------------------------------------------------------------------------------------------

    @mutant(
        "40-commits-old-terms",
        answers=True,
        needs={"commit_current_term_only": "true"},
        advised={"max_entries_per_append": "1"},
    )
    def may_commit(self, entry_term: int, term: int) -> bool:
        """Counting replicas commits entries of the own term only (knob)."""
        return entry_term == term or not self.knobs.commit_current_term_only

    @mutant("45-acks-after-local-append", answers=True)
    def acks_client(self, at: Literal["appended", "committed"]) -> bool:
        """When a client's write is acknowledged."""
        return at == "committed"

    @mutant(
        "56-reads-before-own-term",
        answers=False,
        says="serves reads from what it applied, before an entry of its term is committed",
        needs={"reads": "log"},
    )
    def reads_through_log(self) -> bool:
        """Whether a read is an entry of the log (knob)."""
        return self.knobs.reads == "log"

    @mutant(
        "10-resumes-leadership",
        instead=lambda _, node, stored, last_log_term: 0 < stored.term == last_log_term and stored.voted_for == node,
    )
    def resumes_leadership(self, *, node: str, stored: Stored, last_log_term: int) -> bool:
        """Whether a restarted node resumes leading its stored term without an election: never."""
        return False

    # --- disk -----------------------------------------------------------------------------------------------------

    @mutant("01-vote-not-written", instead=lambda _, stored: Stored(stored.term, None))
    def persisted(self, stored: Stored) -> Stored:
        """What is written of the term and the vote."""
        return stored

    @mutant("02-answer-before-persist", answers=False, advised=LATE)
    def waits_for_disk(self, why: WriteReason) -> bool:
        """Whether everything after a write of metadata waits for it."""
        return True

    @mutant("04-ignore-failed-vote-write", answers="swallow")
    def on_persist_error(self) -> Literal["refuse", "swallow"]:
        """The fate of a node that could not write its metadata (knob)."""
        return self.knobs.persist_errors

    @mutant("46-acks-before-sync", answers=False)
    def syncs_log(self) -> bool:
        """Whether what is written of the log is made durable."""
        return True

    # In place: behind a rename, the checksum would reveal the unsynced file
    @mutant("05-vote-not-synced", instead=lambda _, why: "rename" if why == "first" else "in_place")
    @mutant("06-delete-then-rename", answers="delete_rename")
    def replaces(self, why: WriteReason) -> Replacement:
        """How the metadata file is replaced: in one step, by a file that is synced before."""
        return "rename"

    def load(self, content: bytes | Literal["unreadable"] | None, *, node: str) -> Stored:
        """The term and vote to start from; `Unreadable` stops the node. Absent: never voted."""
        if content is None:
            return Stored()
        if isinstance(content, str):
            raise Unreadable("metadata file: cannot be read")
        metadata = read_metadata(content)
        return Stored(metadata.current_term, metadata.voted_for)

    # --- freedoms: any choice here is right -----------------------------------------------------------------------

    @mutant("harmless-eager-commit", answers=True)
    def notices_commit_eagerly(self) -> bool:
        """Whether followers learn of a commit at once or with the next heartbeat or append."""
        return False

    @mutant("harmless-more-notes", answers=True, says="notes every heartbeat that it hears")
    def notes_heartbeats(self) -> bool:
        """Whether a follower notes every heartbeat that it hears."""
        return False

    @mutant("harmless-small-batches", answers=1, says="sends one entry a request")
    def entries_per_append(self) -> int:
        """How many entries one request carries at most."""
        return self.knobs.max_entries_per_append


def members_of(names: Collection[str], learners: Collection[str]) -> tuple[str, ...]:
    """``names`` without the learners, in their order."""
    return tuple(name for name in names if name not in learners)
