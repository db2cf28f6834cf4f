"""The state of one KRaft node and the steps that every handler shares: notes, timers, the disk.

Guarantees: a change of epoch, vote or leader is on disk before anything that shows it leaves. The first such change of
an event marks its place among the effects; one write of ``quorum-state`` with one barrier goes there once the event is
handled. A leader's own log batches carry no barrier: it counts itself when they are done. Timers are lazy: a deadline
that moves back costs nothing until the old one rings. Out of scope: every decision (`rules`) and the handlers.

Source: Apache Kafka 3.3.1, QuorumState, KafkaRaftClient, RequestManager.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dethrone.clusters.targets.kit.core import KitNode
from dethrone.clusters.targets.kit.machine import Machine
from dethrone.clusters.targets.kraft.knobs import KraftKnobs
from dethrone.clusters.targets.kraft.leading import FAR, Leading, Resigning
from dethrone.clusters.targets.kraft.messages import NOBODY
from dethrone.clusters.targets.kraft.rules import RESIGNED, UNATTACHED, VOTED, Position, Rules
from dethrone.clusters.targets.kraft.storage import Log, QuorumState, Voter, state_ops
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.machine import Await, Disk, DiskOp, Note, SetTimer

ELECTION, FETCH, BACKOFF, QUORUM = "election", "fetch", "backoff", "check_quorum"
REQUESTS, PARKED, LINGER = "requests", "parked", "linger"
"""Timers: the election timer of Unattached, Voted, Candidate and Resigned; a follower's fetch timer; a candidate's
back-off; a leader's check of its quorum; time-outs and retries of requests; the end of parked fetches; the batch."""

_MONO = frozenset((REQUESTS, PARKED, LINGER))


class IllegalTransition(Exception):  # noqa: N818 - reads as the state that it reports
    """A change of state that must never happen: the node stops."""


class Connection:
    """The way to one peer: at most one request under way. ``awaits`` 0: none; ``due``: its time-out, or its retry."""

    def __init__(self) -> None:
        self.awaits = 0
        self.due: Ns = 0


class Node(KitNode):
    """One node."""

    def __init__(self, name: str, members: tuple[str, ...], knobs: KraftKnobs, rules: Rules) -> None:
        super().__init__()
        self.name = name
        self.knobs = knobs
        self.rules = rules
        self.ids = {member: place for place, member in enumerate(members, 1)}
        self.names = {place: member for member, place in self.ids.items()}
        self.names[NOBODY] = ""
        self.me = self.ids[name]
        self.voters = tuple(self.ids[voter] for voter in knobs.voters(members))
        self.everybody = tuple(self.ids.values())
        self.others = tuple(voter for voter in self.voters if voter != self.me)
        self.electorate = rules.electorate(self.voters, self.everybody)
        self.observer = not rules.takes_part(voter=self.me in self.voters)
        self.log = Log(sync=rules.syncs("log"))
        self.machine = Machine()
        self.clock = rules.clock()
        self.fetch_ns = knobs.ns(knobs.fetch_timeout_ms)
        self.request_ns = knobs.ns(knobs.request_timeout_ms)

        self.shutting_down = False

        self.state = UNATTACHED
        self.epoch = 0
        self.leader = NOBODY
        self.voted = NOBODY
        self.commit = 0
        """The highest high watermark that this life learned; 0: none. A new leader's own one is in ``leading``."""
        self.applied = 0
        self.leading: Leading | None = None
        self.resigning: Resigning | None = None

        self.votes: dict[int, bool] = {}
        self.retries = 0
        self.backing_off = False

        self.election_at: Ns = FAR
        self.fetch_at: Ns = FAR
        self.backoff_at: Ns = FAR
        self.armed: dict[str, Ns] = {}
        self.connections: dict[int, Connection] = {}
        self.correlation = 0

        self.mark = -1
        self.durable = QuorumState()
        """The content of ``quorum-state`` that is known to be on disk."""
        self.states_in_flight = 0
        self.log_batches = 0
        self.disk_pending: dict[int, QuorumState | int] = {}
        """Batch → what it makes durable: a state, or the log's end; oldest first."""

    # --- saying -----------------------------------------------------------------------------------------------------

    def note(self, name: str, data: Mapping[str, Any]) -> None:
        """Append a trace event with the present epoch and state."""
        self.out.append(Note(name, self.epoch, self.state, data))

    def who(self, node: int) -> str | None:
        """A node's name; None for -1."""
        return self.names.get(node) or None

    def position(self) -> Position:
        """The end of the own log as it is."""
        return self.log.last_term, self.log.end

    # --- time -------------------------------------------------------------------------------------------------------

    def now(self) -> Ns:
        """The present moment on the clock of the election timers."""
        return self.mono if self.clock == "mono" else self.wall

    def arm(self, name: str, at: Ns) -> None:
        """Have the timer ring at ``at`` at the latest; it may ring sooner, for a deadline that has moved."""
        if self.armed.get(name, FAR) > at:
            self.armed[name] = at
            self.out.append(SetTimer(name, at, "mono" if name in _MONO else self.clock))

    def start_election_timer(self, left: Ns | None = None) -> None:
        """Start it with a fresh draw, or with the time that is ``left``."""
        if left is None:
            left = self.knobs.ns(self.rules.election_timeout_ms(self.rng))
        self.election_at = self.now() + left
        self.arm(ELECTION, self.election_at)

    def start_fetch_timer(self, left: Ns | None = None) -> None:
        """Start it with its whole time, or with the time that is ``left``."""
        self.fetch_at = self.now() + (self.fetch_ns if left is None else left)
        self.arm(FETCH, self.fetch_at)

    def stop_timers(self) -> None:
        """Forget the deadlines of the state that ends; what still rings finds nothing due."""
        self.election_at = self.fetch_at = self.backoff_at = FAR

    # --- disk -------------------------------------------------------------------------------------------------------

    def touch(self) -> None:
        """Epoch, vote or leader changed: everything that leaves from here on in this event waits for the disk."""
        if self.mark < 0 and self.rules.persists(self.state):
            self.mark = len(self.out)

    def quorum_state(self) -> QuorumState:
        """What ``quorum-state`` holds when it is up to date."""
        return QuorumState(
            cluster_id=self.knobs.cluster_id,
            leader_id=self.leader,
            leader_epoch=self.epoch,
            voted_id=self.voted,
            current_voters=tuple(Voter(voter) for voter in self.voters),
        )

    def write_state(self) -> None:
        """Put the one write of ``quorum-state``, and its barrier, where the state first changed in this event."""
        mark, self.mark = self.mark, -1
        if mark < 0:
            return
        state = self.quorum_state()
        self.token += 1
        token = self.token
        self.disk_pending[token] = state
        self.states_in_flight += 1
        ops = state_ops(
            self.rules.state_content(self.rules.stored(state)),
            sync=self.rules.syncs("state"),
            delete_first=self.rules.deletes_first(),
        )
        if self.rules.answers_after_persist():
            note = Note("persisted", self.epoch, self.state, self.file_words(state))
            self.out[mark:mark] = (Disk(token, ops), Await(token), note)
        else:
            self.out.append(Disk(token, ops))

    def file_words(self, state: QuorumState) -> dict[str, Any]:
        """The whole file as JSON values, with the two common fields of every protocol's ``persisted``."""
        return {
            "term": state.leader_epoch,
            "voted_for": self.who(state.voted_id),
            "clusterId": state.cluster_id,
            "leaderId": state.leader_id,
            "leaderEpoch": state.leader_epoch,
            "votedId": state.voted_id,
            "appliedOffset": state.applied_offset,
            "currentVoters": list(state.voters),
            "data_version": state.data_version,
        }

    def start_batch(self, ops: tuple[DiskOp, ...], makes_durable: QuorumState | int) -> int:
        """Append a disk batch without a barrier; its token."""
        token = self.batch(ops)
        self.disk_pending[token] = makes_durable
        if isinstance(makes_durable, int):
            self.log_batches += 1
        else:
            self.states_in_flight += 1
        return token

    def write_log(self) -> None:
        """Hand the waiting records to the disk as one batch."""
        ops = self.log.take_ops()
        if ops:
            self.start_batch(ops, self.log.end)

    def cut_log(self, to: int) -> None:
        """Remove the log from ``to`` on; batches under way then make less durable."""
        self.log.cut(to)
        for token, what in self.disk_pending.items():
            if isinstance(what, int) and what > to:
                self.disk_pending[token] = to

    def await_log(self) -> None:
        """Hold back what follows until the whole log is durable."""
        log = self.log
        if log.durable >= log.end and not log.ops:
            return
        self.write_log()
        if self.log_batches:
            self.out.append(Await(next(token for token in reversed(self.disk_pending) if self._is_log(token))))

    def _is_log(self, token: int) -> bool:
        return isinstance(self.disk_pending[token], int)


def waits_to_campaign(state: str) -> bool:
    """Whether the election timer of this state leads to a campaign."""
    return state in (UNATTACHED, VOTED, RESIGNED)
