"""The state of one DLedger node and the steps that all handlers share: notes, term and vote on disk, roles, the loop.

The original has one thread that runs a pass every 10 ms and blocks in it while it waits for answers; message handlers
run next to it under one lock. Here a pass happens only when it would do something: `schedule` arms the loop's timer for
the first multiple of the loop period at which the present role's condition can hold; while a campaign or a round of
heartbeats is open (``waits``) there is no pass.

Numbers: inside, on the wire and on disk, indexes and terms are DLedger's own, which start at 0. Observers (status,
notes, witness, clients) get both one higher (`shown`), because there 0 means none.

Guarantees: a change of term or vote is on disk before anything that shows it leaves. Out of scope: every decision
(`rules`) and the handlers.

Source: DLedger 0.2.7, ``MemberState``, ``DLedgerLeaderElector.StateMaintainer``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dethrone.clusters.targets.dledger.knobs import DledgerKnobs
from dethrone.clusters.targets.dledger.leading import Leading, Pending
from dethrone.clusters.targets.dledger.messages import PushEntryRequest, PushEntryResponse
from dethrone.clusters.targets.dledger.rules import CANDIDATE, FOLLOWER, LEADER, NEVER, Rules
from dethrone.clusters.targets.dledger.storage import Log, TermState, term_bytes, term_ops
from dethrone.clusters.targets.dledger.tally import WAIT_TO_REVOTE, Campaign, Round
from dethrone.clusters.targets.kit.core import KitNode
from dethrone.clusters.targets.kit.machine import Machine
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.machine import Await, DiskOp, Note, SetTimer

LOOP, WAIT, ACKS, CHECK, FLUSH, CHECKPOINT = "loop", "wait", "acks", "check", "flush", "checkpoint"
"""The timers: the next pass; the end of a wait for answers; overdue appends; buffered pushes; syncs; the checkpoint."""


def shown(number: int) -> int:
    """An index or term as observers count it."""
    return number + 1


class Node(KitNode):
    """One node."""

    def __init__(self, me: str, members: tuple[str, ...], knobs: DledgerKnobs, rules: Rules) -> None:
        super().__init__()
        self.me = me
        self.members = members
        self.peers = tuple(name for name in members if name != me)
        self.knobs = knobs
        self.rules = rules
        self.on_role: Callable[[Node, str, str], None] = _nothing
        """Called with (old role, why) after each change of role or of leader."""

        self.term = 0
        self.voted_for: str | None = None
        self.role = rules.initial_role()
        self.leader: str | None = None
        self.known_max_term = -1
        self.flag = False
        """``needIncreaseTermImmediately``."""
        self.next_vote: Ns = NEVER
        self.last_result = WAIT_TO_REVOTE
        self.last_beat: Ns = NEVER
        self.last_sent: Ns = NEVER
        self.last_success: Ns = NEVER
        self.last_row = -1
        """The decision of this leadership's last round."""
        self.campaigned_term = -1
        self.taking_leadership = False
        """Only a leadership transfer would set it."""
        self.waits: Campaign | Round | None = None

        self.wall_clock = knobs.clock == "wall"
        self.loop_base: Ns = 0
        self.armed: tuple[Ns, bool] | None = None
        """The loop's timer: (when, whether on the wall clock)."""
        self.opaque = 0

        self.log = Log(sync=rules.syncs())
        self.end_term = -1
        """ledgerEndTerm."""
        self.committed = -1
        self.machine = Machine()
        self.applied = -1
        self.leading: Leading | None = None
        self.pending: dict[int, Pending] = {}
        """Log index → the client's append that waits for its commit."""
        self.follow: tuple[int, str | None] = (-1, None)
        self.leader_commit = -1
        """The largest commitIndex that the followed leader sent."""
        self.push_floor = -1
        """The last COMPARE or TRUNCATE that was handled: older pushes of the same leader's life came late."""
        self.buffer: dict[int, tuple[PushEntryRequest, Ns]] = {}
        self.answers: list[tuple[int, PushEntryRequest, PushEntryResponse]] = []
        """Answers to pushes that wait for a log batch."""
        self.checked_at: Ns = NEVER
        self.checkpointed = -1
        self.checkpoint_armed = False

        self.durable = TermState()
        self.term_file: bytes | None = None
        self.votes_in_flight = 0
        self.disk_pending: dict[int, TermState | str] = {}
        """Batch → the state that it stores, or which file it is of."""
        self.soft_mark: tuple[int, list[int]] | None = None
        """persist_mode=upstream: from where on effects wait for which batches, whether these succeed or not."""

    # --- saying ---------------------------------------------------------------------------------------------------

    def note(self, name: str, data: Mapping[str, Any]) -> None:
        """Append a trace event with the present term and role."""
        self.out.append(Note(name, self.term + 1, self.role, data))

    def call(self) -> int:
        """The number of a new remote call."""
        self.opaque += 1
        return self.opaque

    # --- time -----------------------------------------------------------------------------------------------------

    def now(self) -> Ns:
        """The present moment on the clock of all timestamps of the election."""
        return self.wall if self.wall_clock else self.mono

    def draw(self) -> Ns:
        """A fresh nextTimeToRequestVote."""
        return self.now() + self.rules.vote_delay(self.rules.seed(self.rng))

    def schedule(self) -> None:
        """Arm the loop for the first pass that can do something; an earlier one that is armed finds that out itself."""
        if self.waits is not None:
            return
        role = self.role
        if role == FOLLOWER:
            rules = self.rules
            due = self.last_beat + max(rules.follower_looks_after(), rules.follower_gives_up_after()) + 1
        elif role == LEADER:
            due = self.last_sent + self.rules.heartbeat_interval() + 1
        else:
            due = self.rules.campaign_at(self.next_vote, flag=self.flag)
        now = self.now()
        wait = max(0, due - now)
        period = self.knobs.loop_period
        passes = max(1, -(-(self.mono + wait - self.loop_base) // period))
        at = self.loop_base + passes * period
        wall = self.wall_clock and wait > 0
        if wall:
            at += self.wall - self.mono
        if self.armed is None or self.armed[1] != wall or at < self.armed[0]:
            self.armed = (at, wall)
            self.out.append(SetTimer(LOOP, at, "wall" if wall else "mono"))

    def begin_wait(self, what: Campaign | Round) -> None:
        """The loop blocks until the wait is over or its deadline has come."""
        self.waits = what
        self.out.append(SetTimer(WAIT, what.deadline))

    def end_wait(self) -> None:
        """The loop resumes: it sleeps first."""
        self.waits = None
        self.armed = None
        self.loop_base = self.mono
        self.out.append(SetTimer(WAIT, None))

    # --- roles ----------------------------------------------------------------------------------------------------

    def to_candidate(self, term: int, why: str) -> None:
        """Become a candidate because of ``term``; the current term stays. Ignored if ``term`` is lower."""
        if term < self.term:
            return
        self.known_max_term = max(self.known_max_term, term)
        self._become(CANDIDATE, None, why)

    def to_leader(self, term: int, why: str) -> None:
        """Become the leader, if the term is still that of the campaign."""
        if term != self.term:
            return
        self.last_sent = NEVER
        self.last_row = -1
        self._become(LEADER, self.me, why)

    def to_follower(self, term: int, leader: str, why: str) -> None:
        """Follow ``leader``, if the term is the current one."""
        if term != self.term:
            return
        self.last_beat = self.now()
        self.last_result = WAIT_TO_REVOTE
        self._become(FOLLOWER, leader, why)

    def _become(self, role: str, leader: str | None, why: str) -> None:
        before, self.role = self.role, role
        changed = before != role or self.leader != leader
        self.leader = leader
        if before != role:
            self.note("role_change", {"from": before, "to": role, "term": self.term + 1, "why": why})
        if changed:
            self.on_role(self, before, why)
        self.schedule()

    # --- term and vote --------------------------------------------------------------------------------------------

    def next_term(self, why: str) -> None:
        """Raise the term: no vote given in it yet. On disk before anything else leaves."""
        before, self.term = self.term, self.rules.next_term(self.term, self.known_max_term)
        self.voted_for = None
        self.persist()
        self.count("terms_raised")
        self.note("term_change", {"old": before + 1, "new": self.term + 1, "why": why})

    def persist(self) -> None:
        """Write term and vote, and hold back what follows until that is done."""
        state = TermState(self.term, self.voted_for)
        if self.knobs.persist_mode == "none":
            self.durable = state
            return
        stored = self.rules.stored_state(state)
        ops = term_ops(stored, self.rules.replaces_term_file(), old=self.term_file)
        self.term_file = term_bytes(stored)
        mark = len(self.out)
        token = self.start_batch(ops, state)
        self.votes_in_flight += 1
        if self.rules.answers_after_persist():
            if self.knobs.persist_mode == "upstream":
                if self.soft_mark is None:
                    self.soft_mark = (mark, [token])
                else:
                    self.soft_mark[1].append(token)
            else:
                self.out.append(Await(token))
        self.note(
            "persisted" if state.voted_for is None else "vote_persisted",
            {"term": state.term + 1, "voted_for": state.voted_for},
        )

    # --- disk -----------------------------------------------------------------------------------------------------

    def start_batch(self, ops: tuple[DiskOp, ...], what: TermState | str) -> int:
        """Append a disk batch without a barrier; its token."""
        token = self.batch(ops)
        self.disk_pending[token] = what
        return token

    def write_log(self) -> None:
        """Hand what waits of the log to the disk, unless a batch is under way: then it shares the next one."""
        if self.log.target is None and self.log.waits():
            self.start_batch(self.log.take_ops(), "log")


def _nothing(node: Node, before: str, why: str) -> None:
    del node, before, why
