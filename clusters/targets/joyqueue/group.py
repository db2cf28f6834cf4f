"""The state of one partition group's election and log, and the steps that all handlers share.

Guarantees: term and vote are written before anything that shows them leaves, in one batch with its barrier where the
original writes its metadata; notes of a change follow its write. The group reports to ``status`` only what it could
still report after a crash. The election timer's delay is drawn once its shortest possible value has passed, which keeps
the distribution and saves a draw and a timer per heartbeat. Out of scope: every decision (`rules`).

Source: docs/sources.md, joyqueue: ``RaftLeaderElection``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dethrone.clusters.targets.client_api import ClientReply, Failed, Get, Unknown
from dethrone.clusters.targets.joyqueue.messages import JoyQueueMessage
from dethrone.clusters.targets.joyqueue.node import FAR, Node
from dethrone.clusters.targets.joyqueue.rules import WriteReason, members_of
from dethrone.clusters.targets.joyqueue.storage import LOG, Log, Metadata, Stored, metadata_ops
from dethrone.clusters.targets.kit.machine import Machine
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.machine import Await, Note, Reply, Send, SetTimer

FOLLOWER, CANDIDATE, LEADER, TRANSFERRING = "FOLLOWER", "CANDIDATE", "LEADER", "TRANSFERRING"
"""CANDIDATE is spelled CONDIDATE in the original."""


class Replica:
    """What a leader knows of one replica."""

    def __init__(self, start: int) -> None:
        self.next = start
        self.match = 0
        self.inflight = 0
        """The id of the one outstanding append; 0: none is."""
        self.sent_at: Ns = 0
        self.taken_at: Ns = 0
        """When it last took an append; 0: never."""


class Group:
    """One (topic, partition group) on one node."""

    def __init__(self, node: Node[Group], members: tuple[str, ...], *, name: str, label: str) -> None:
        self.node = node
        self.me = node.me
        self.knobs = node.knobs
        self.rules = node.rules
        self.name = name
        self.label = label
        prefix = f"{name}:" if label else ""
        self.election_timer = f"{prefix}election"
        self.vote_timer = f"{prefix}vote"
        self.heartbeat_timer = f"{prefix}heartbeat"
        self.transfer_timer = f"{prefix}transfer"
        self.started = False

        self.term = 0
        self.voted_for: str | None = None
        self.leader: str | None = None
        self.role = FOLLOWER
        self.online = False
        """Whether the local store serves."""
        self.voters = members_of(members, self.knobs.learners)
        self.learners = tuple(name for name in members if name in self.knobs.learners)
        self.electorate = self.rules.voters(self.voters, self.learners)
        self.others = tuple(name for name in self.electorate if name != self.me)
        self.flags = dict.fromkeys(self.electorate, False)
        """voteGranted of each member, itself included: one flag for pre-votes and votes."""
        self.answered: set[str] = set()
        self.round = 0
        """Pre-vote rounds since the start."""
        self.campaigned_term = -1

        self.log = Log(f"{name}/{LOG}", sync=self.rules.syncs_log())
        self.machine = Machine()
        self.commit = 0
        self.applied = 0
        self.replicas: dict[str, Replica] = {}
        """Empty unless this node leads."""
        self.pending: dict[int, int] = {}
        """Right end of a client's entry → its request."""
        self.handover: Any = None

        self.timeout_min = self.rules.election_delay_min()
        self.wall_clock = self.rules.election_clock() == "wall"
        self.reset_at: Ns | None = None
        """When the election timer was last reset; None: it is not pending."""
        self.deadline: Ns | None = None
        self.armed: Ns = FAR
        self.vote_at: Ns = FAR
        self.heartbeat_at: Ns = FAR

        self.durable = Stored()
        self.writing = 0
        """Metadata batches under way."""
        self.counters: dict[str, int] = {}

    # --- saying ---------------------------------------------------------------------------------------------------

    def note(self, name: str, data: Mapping[str, Any]) -> None:
        """Append a trace event with the present term and role, and the group where there are several."""
        if self.label:
            data = {**data, "group": self.label}
        self.node.out.append(Note(name, self.term, self.role, data))

    def send(self, to: str, body: JoyQueueMessage) -> None:
        """Append a message to a peer."""
        self.node.out.append(Send(to, body))

    def reply(self, request: int, body: ClientReply) -> None:
        """Append an answer to a client."""
        self.node.out.append(Reply(request, body))

    def count(self, name: str) -> None:
        """One more of these; shown in ``status``."""
        self.counters[name] = self.counters.get(name, 0) + 1

    # --- timers ---------------------------------------------------------------------------------------------------

    def election_now(self) -> Ns:
        """The present moment on the election timer's clock."""
        return self.node.wall if self.wall_clock else self.node.mono

    def reset_election_timer(self) -> None:
        """Cancel the pending timer and start it again. A learner has no election timer."""
        if self.me not in self.flags:
            return
        if self.reset_at is not None and not self.rules.cancels_pending_timer():
            return
        self.reset_at = now = self.election_now()
        self.deadline = None
        if self.armed > now + self.timeout_min:
            self.arm_election_timer(now + self.timeout_min)

    def arm_election_timer(self, at: Ns) -> None:
        """Set the timer itself."""
        self.armed = at
        self.node.out.append(SetTimer(self.election_timer, at, "wall" if self.wall_clock else "mono"))

    def cancel_election_timer(self) -> None:
        """Nothing is pending any more."""
        self.reset_at = self.deadline = None
        if self.armed != FAR:
            self.armed = FAR
            self.node.out.append(SetTimer(self.election_timer, None))

    def reset_vote_timer(self) -> None:
        """Start the vote timer; it is not random."""
        self.vote_at = self.node.mono + self.knobs.ns(self.knobs.vote_timeout_ms)
        self.node.out.append(SetTimer(self.vote_timer, self.vote_at))

    def cancel_vote_timer(self) -> None:
        """Stop the vote timer."""
        if self.vote_at != FAR:
            self.vote_at = FAR
            self.node.out.append(SetTimer(self.vote_timer, None))

    def reset_heartbeat_timer(self) -> None:
        """The next round of heartbeats."""
        self.heartbeat_at = self.node.mono + self.rules.heartbeat_interval()
        self.node.out.append(SetTimer(self.heartbeat_timer, self.heartbeat_at))

    def cancel_heartbeat_timer(self) -> None:
        """No more heartbeats."""
        if self.heartbeat_at != FAR:
            self.heartbeat_at = FAR
            self.node.out.append(SetTimer(self.heartbeat_timer, None))

    # --- roles and terms ------------------------------------------------------------------------------------------

    def become(self, role: str, why: str) -> None:
        """Change the role, if it is another one."""
        before = self.role
        if before != role:
            self.role = role
            self.note("role_change", {"from": before, "to": role, "term": self.term, "why": why})

    def go_offline(self, term: int) -> None:
        """The local store stops serving (``nodeOffline``)."""
        if self.online:
            self.online = False
            self.note("store_offline", {"term": term})

    def go_online(self, term: int) -> None:
        """The local store serves (``nodeOnline``)."""
        if not self.online:
            self.online = True
            self.note("store_online", {"term": term})

    def step_down(self, term: int, why: str) -> None:
        """``stepDown``: follower, without a leader, in ``term`` if it is higher; a fresh election timer."""
        before, role = self.term, self.role
        had_leader = self.leader is not None
        self.leader = None
        if term > before:
            self.voted_for = None
            self.term = term
            self.persist("other")
            self.note("term_change", {"from": before, "to": term, "why": why})
        if role != FOLLOWER or had_leader or term > before:
            self.note("step_down", {"from": role, "to": term, "term_before": before, "why": why})
        self.go_offline(term)
        if role == CANDIDATE:
            self.cancel_election_timer()
            self.cancel_vote_timer()
        elif role != FOLLOWER:
            self.cancel_heartbeat_timer()
            self._stop_leading()
        if self.handover is not None:
            self._end_handover(why)
        self.become(FOLLOWER, why)
        self.reset_election_timer()

    def _stop_leading(self) -> None:
        """Requests that wait: a write may still be committed by a successor, a read had no effect."""
        self.count("step_downs")
        self.replicas = {}
        pending, self.pending = self.pending, {}
        for right, request in pending.items():
            if type(self.log.entries[right - 1].command) is Get:
                self.reply(request, Failed("stepped down before the read was committed"))
            else:
                self.reply(request, Unknown("stepped down before the commit"))

    def _end_handover(self, why: str) -> None:
        """Answer the transfer's client that this node no longer leads; whether the target does is not yet known."""
        handover, self.handover = self.handover, None
        self.node.out.append(SetTimer(self.transfer_timer, None))
        self.note("transfer", {"phase": "stepped_down", "target": handover.target, "why": why})
        self.reply(handover.request, Unknown("stepped down while leadership was handed over"))

    # --- log and disk ---------------------------------------------------------------------------------------------

    def own_log(self) -> tuple[int, int]:
        """(last log term, last log position)."""
        return self.log.last_term, self.log.end

    def persist(self, why: WriteReason) -> None:
        """Write the metadata (``updateElectionMetadata``): everything that leaves from here on waits for it."""
        stored = Stored(self.term, self.voted_for)
        written = self.rules.persisted(stored)
        metadata = Metadata(
            all_nodes=self.voters,
            learners=self.learners,
            local_node_id=self.me,
            leader_id=self.leader,
            voted_for=written.voted_for,
            current_term=written.term,
        )
        ops = metadata_ops(self.name, metadata, self.rules.replaces(why))
        token = self.node.start_batch(self, ops, stored)
        self.writing += 1
        if self.rules.waits_for_disk(why):
            self.node.out.append(Await(token))
            self.note("persisted", {"term": stored.term, "voted_for": stored.voted_for})

    def write_log(self) -> None:
        """Hand the waiting records to the disk as one batch."""
        ops = self.log.take_ops()
        if ops:
            self.node.start_batch(self, ops, self.log.end)

    def log_batch(self) -> int:
        """The newest log batch of this group that is under way; 0: none is."""
        for token in reversed(self.node.batches):
            group, what = self.node.batches[token]
            if group is self and isinstance(what, int):
                return token
        return 0

    def await_log(self, right: int) -> None:
        """Hold back what follows until the log is durable up to ``right``."""
        if self.log.durable >= right and not self.log.ops:
            return
        self.write_log()
        token = self.log_batch()
        if self.log.durable < right and token:
            self.node.out.append(Await(token))

    def cut_log(self, position: int) -> list[int]:
        """Make ``position`` the right end; batches under way then make less durable. The removed entries' terms."""
        terms = [entry.term for entry in self.log.cut(position)]
        batches = self.node.batches
        for token, (group, what) in batches.items():
            if group is self and isinstance(what, int) and what > position:
                batches[token] = (self, position)
        return terms
