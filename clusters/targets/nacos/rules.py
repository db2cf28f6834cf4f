"""Every rule of the naming Raft that a planted bug or a flip may override, one small pure method each.

Guarantees: the honest build is exactly this class, with the faults of the original; a planted bug overrides
the rule that it is named for, and nothing else decides what the rule decides. Rules take values and return values; only
the dues draw, from the generator that they are given. Out of scope: what no knob and no flip changes; the handlers hold
that.

Source: docs/sources.md, nacos: ``RaftCore`` and ``RaftPeerSet``.
"""

# ruff: noqa: ARG002 - a broken rule may look at what the honest one ignores

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from dethrone.clusters.targets.kit import by
from dethrone.clusters.targets.kit.mutants import Switched, mutant
from dethrone.clusters.targets.nacos.knobs import (
    HEARTBEAT_INTERVAL_MS,
    LEADER_TIMEOUT_MS,
    RANDOM_MS,
    TICK_PERIOD_MS,
    Knobs,
)
from dethrone.clusters.targets.nacos.messages import DatumStamp, State
from dethrone.clusters.targets.nacos.storage import Meta
from dethrone.harness.core.rng import Rng

STORED = {"persist_vote": "true"}
ANSWERED = {"leader_needs_majority_acks": "true"}


class Rules:
    """The honest rules under these knobs. One object per core."""

    def __init__(self, knobs: Knobs) -> None:
        self.knobs = knobs

    # --- start and tasks ----------------------------------------------------------------------------------------

    def start_term(self, stored: int) -> int:
        """The term that a start knows, 0 where none is stored."""
        return stored

    def tick_ms(self) -> int:
        """How often both tasks run."""
        return TICK_PERIOD_MS

    def first_leader_due_ms(self, rng: Rng) -> int:
        """Until the first campaign after a start."""
        return rng.below(LEADER_TIMEOUT_MS)

    def leader_due_ms(self, rng: Rng) -> int:
        """Until the next campaign, after a reset."""
        return LEADER_TIMEOUT_MS + rng.below(RANDOM_MS)

    def heartbeat_due_ms(self, rng: Rng) -> int:
        """Until the next beat, after a reset: not random."""
        return HEARTBEAT_INTERVAL_MS

    def works(self, *, stop_work: bool, ready: bool) -> bool:
        """Whether the tasks do anything."""
        return ready and not stop_work

    stops_at_switch = True
    """Whether the protocol ends when the cluster runs the new version."""

    def start_state(self, meta: Meta, *, me: str) -> State:
        """The state after a start: a follower, regardless of its earlier role."""
        return "FOLLOWER"

    @mutant("52-timers-on-wall-clock", answers="wall", says="ticks by the wall clock", caught_by=(by.OWED,))
    def clock(self) -> Literal["mono", "wall"]:
        """The clock of all timers."""
        return "mono"

    # --- disk ---------------------------------------------------------------------------------------------------

    def loads_meta(self, load: Callable[[], Meta]) -> Meta:
        """Term and vote as stored; an unreadable file stops the node."""
        return load()

    waits_for_disk = Switched(
        "02-answer-before-persist",
        says="answers a vote request before the vote is on disk",
        caught_by=(by.VOTE, by.DURABLE),
        needs=STORED,
    )
    """Whether what rests on a write waits for it."""

    syncs = Switched(
        "05-vote-not-synced",
        says="replaces the file without fsync",
        caught_by=(by.VOTE, by.DURABLE),
        needs=STORED,
    )
    """Whether a new file is synced before it takes its place."""

    @mutant(
        "06-delete-then-rename",
        answers=True,
        says="deletes the file before the new one takes its place",
        caught_by=(by.VOTE, by.TERM, by.DURABLE),
        needs=STORED,
    )
    def deletes_first(self) -> bool:
        """Whether the old file goes before the new one takes its place."""
        return False

    # What rested on the write is lost with it, what comes later is not
    @mutant(
        "04-ignore-failed-vote-write",
        answers="ignore",
        says="ignores that the vote could not be written",
        caught_by=(by.VOTE, by.DURABLE),
        needs=STORED,
    )
    def on_persist_error(self) -> Literal["halt", "ignore"]:
        """A node that could not write stops."""
        return "halt"

    # --- campaigns ----------------------------------------------------------------------------------------------

    def is_due(self, due_ms: int) -> bool:
        """Whether the counter ran out: at 0 already."""
        return due_ms <= 0

    def may_campaign(self, *, leader: str | None) -> bool:
        """A due that ran out opens a campaign in every state, regardless of a known leader."""
        return True

    def campaigns_as(self, state: State) -> bool:
        """A leader campaigns, too, once nothing has put its due off."""
        return True

    resets_before_campaign = True
    """Both counters are reset before votes are asked for, and travel so in the request."""

    clears_votes = True
    """A campaign forgets whom the known records supported."""

    votes_for_itself = True
    """A campaign's own vote is for itself, before any node is asked."""

    counts_failed_call = False
    """A vote call that failed is logged and nothing else."""

    # --- votes --------------------------------------------------------------------------------------------------

    def knows_candidate(self, *, known: bool) -> bool:
        """Only candidates among the known peers are answered; others are an error."""
        return known

    def grants(self, *, candidate_term: int, own_term: int, own_items: int) -> bool:
        """The larger term wins; data is not compared."""
        return candidate_term > own_term

    adopts_term = True
    """A grant adopts the candidate's term with the vote."""

    @mutant(
        "31-any-request-resets-due",
        answers=True,
        says="restarts its due after every vote request",
        caught_by=(by.OWED,),
    )
    def refusal_resets_due(self) -> bool:
        """A refusal puts nothing off."""
        return False

    grant_resets_due = True
    """A grant puts off the own campaign."""

    def majority(self, peers: int) -> int:
        """How many records must name a peer, and how many nodes must have a write."""
        return peers // 2 + 1

    def counts(self, record_term: int, *, own_term: int) -> bool:
        """Which records the tally counts: all, or those of the own term (``count_current_term_only``)."""
        return record_term == own_term or not self.knobs.count_current_term_only

    def wins(self, best: int, *, peers: int, counted: int) -> bool:
        """Whether the best-named peer leads. ``counted``: records that name a candidate."""
        return best >= self.majority(peers)

    def publish_majority(self, peers: int) -> int:
        """How many nodes must have a write before it is fine."""
        return self.majority(peers)

    @mutant("harmless-more-notes", answers=True, says="says who leads with every answer")
    def announces(self, *, changed: bool) -> bool:
        """A leader that was found by counting is noted once per change."""
        return changed

    # --- beats --------------------------------------------------------------------------------------------------

    def beats(self, *, state: State, standalone: bool) -> bool:
        """Only a leader of a cluster beats."""
        return state == "LEADER" and not standalone

    # What the original does (NA-B4)
    @mutant(
        "30-sending-is-contact",
        answers=True,
        says="counts its own beats as answers",
        caught_by=(by.STEP_DOWN,),
        needs=ANSWERED,
    )
    def sending_is_contact(self) -> bool:
        """Whether a leader's beat keeps it from electing before any node answered."""
        return not self.knobs.leader_needs_majority_acks

    def term_after_beat(self, own_term: int, sender_term: int) -> int:
        """The own term after an accepted beat: unchanged, or (``beat_raises_term``) the sender's if that is higher."""
        return max(own_term, sender_term) if self.knobs.beat_raises_term else own_term

    def stamps(self, held: tuple[DatumStamp, ...]) -> tuple[DatumStamp, ...]:
        """What a beat reports of the items held: everything, unless beats carry nothing."""
        return () if self.knobs.send_beat_only else held

    def accepts_sender(self, state: State) -> bool:
        """A beat of a node that does not lead is refused."""
        return state == "LEADER"

    def accepts_term(self, *, own_term: int, sender_term: int) -> bool:
        """A beat of a lower term is refused; equal terms are accepted."""
        return sender_term >= own_term

    def beat_makes_follower(self, state: State) -> bool:
        """An accepted beat turns every other node into a follower labelled with the sender."""
        return state != "FOLLOWER"

    beat_resets_dues = True
    """An accepted beat puts off the own campaign and the own beat."""

    refreshes_former = Switched("harmless-keeps-former", says="never asks for the record of a former leader")
    """Records that still say LEADER are fetched again when another node leads."""

    # --- writes -------------------------------------------------------------------------------------------------

    forwards = True
    """A node that does not lead hands a client's write on."""

    stores_item = True
    """A published item is on the disk of every node that acknowledged it."""
