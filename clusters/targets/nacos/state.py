"""The state of one node, and the few verbs by which every rule changes it, notes the change and sends.

Guarantees: a change of role or term is always noted; every disk batch is awaited before anything later leaves, as the
original's handlers block on their files. ``now``, ``rng`` and ``out`` are those of the event being handled.

Out of scope: the rules themselves (``election``, ``beat``, ``data``).

Source: docs/sources.md, nacos: ``RaftPeer``.
"""

from __future__ import annotations

from typing import Any

from dethrone.clusters.targets.kit.core import KitNode
from dethrone.clusters.targets.nacos import storage
from dethrone.clusters.targets.nacos.items import Items
from dethrone.clusters.targets.nacos.knobs import Knobs
from dethrone.clusters.targets.nacos.messages import NacosAnswer, NacosRequest, RaftPeer, State
from dethrone.clusters.targets.nacos.peers import PeerRecord, RaftPeerSet
from dethrone.clusters.targets.nacos.rules import Rules
from dethrone.clusters.targets.nacos.writes import TIMER, Waiting, Writes
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.machine import Await, DiskOp, Note, Send, SetTimer

STOPPED = "old raft protocol already stop work"


class NodeState(KitNode):
    """Everything that one node knows. Fields may be looked at; the verbs below change them."""

    def __init__(self, *, node: str, members: tuple[str, ...], knobs: Knobs, rules: Rules) -> None:
        super().__init__()
        self.knobs = knobs
        self.rules = rules
        self.peers = RaftPeerSet(node, members, majority=rules.majority)
        self.items = Items()
        self.stop_work = False
        self.beat_acks: set[str] = set()
        """Who answered the leader's last beat; used by ``leader_needs_majority_acks`` only."""
        self.meta = storage.Meta()
        """What was last handed to the disk, done or not."""
        self.stored = storage.Meta()
        """What is certainly on the disk."""
        self.counters = {"campaigns": 0, "beats_sent": 0, "beat_failures": 0, "publishes": 0, "publishes_failed": 0}
        self.next_number = 0
        self.writes = Writes()
        self.message: int | None = None
        """Of the message being handled, if it is a peer's request: what its answer names."""
        self._meta_tokens: dict[int, storage.Meta] = {}

    # --- looking ------------------------------------------------------------------------------------------------

    @property
    def me(self) -> str:
        """The own name, which is the own ``ip``."""
        return self.peers.me

    @property
    def local(self) -> PeerRecord:
        """The own record."""
        return self.peers.local

    def record(self) -> RaftPeer:
        """The own record as it travels."""
        return self.peers.local.record()

    @property
    def time(self) -> Ns:
        """The present moment on the timers' clock."""
        return self.wall if self.rules.clock() == "wall" else self.mono

    def leads(self) -> bool:
        """Whether the write path takes this node for the leader: by the ``leader`` field, not by the role."""
        return self.knobs.standalone or self.peers.is_leader(self.me)

    # --- saying -------------------------------------------------------------------------------------------------

    def trace(self, name: str, /, **data: Any) -> None:
        """A trace event with the node's term and role of this moment."""
        local = self.peers.local
        self.out.append(Note(name, local.term, local.state, data))

    def send_others(self, body: NacosRequest) -> None:
        """Ask every other member."""
        for ip in self.peers.peers:
            if ip != self.me:
                self.send(ip, body)

    def answer_peer(self, to: str, body: NacosAnswer) -> None:
        """Answer the peer's request that is being handled."""
        self.out.append(Send(to, body, self.message))

    def set_timer(self, name: str, at: int | None) -> None:
        """(Re)arm or cancel a timer on the rules' clock, the monotonic one."""
        self.out.append(SetTimer(name, at, self.rules.clock()))

    def await_end(self, write: Waiting) -> int:
        """Keep a write that is under way, and have the timer cover it; its number."""
        self.next_number += 1
        if self.writes.add(self.next_number, write):
            self.set_timer(TIMER, write.deadline)
        return self.next_number

    # --- changing -----------------------------------------------------------------------------------------------

    def set_state(self, state: State, cause: str) -> None:
        """Change the own role and note it."""
        was = self.local.state
        if was != state:
            self.local.state = state
            self.announce_state(was, cause)

    def announce_state(self, was: State, cause: str) -> None:
        """Note that the own role is no longer ``was``."""
        state = self.local.state
        self.trace("state_change", was=was, to=state, cause=cause)
        self.trace("role_change", was=was, to=state, cause=cause)
        if was == "LEADER":
            self.trace("step_down", cause=cause)

    def set_term(self, term: int, cause: str) -> None:
        """Change the own term and note it."""
        was = self.local.term
        if was != term:
            self.local.term = term
            self.trace("term_change", was=was, to=term, cause=cause)

    def relabel(self, vote_for: str, cause: str) -> None:
        """Set the own ``voteFor`` by a rule that is no vote."""
        was = self.local.vote_for
        self.local.vote_for = vote_for
        self.trace("relabel", was=was, vote_for=vote_for, cause=cause)

    def reset_leader_due(self) -> None:
        """15 to 20 s until the next campaign."""
        self.local.leader_due_ms = self.rules.leader_due_ms(self.rng)

    def reset_heartbeat_due(self) -> None:
        """5 s until the next beat."""
        self.local.heartbeat_due_ms = self.rules.heartbeat_due_ms(self.rng)

    # --- storing ------------------------------------------------------------------------------------------------

    def store(self, ops: tuple[DiskOp, ...], *, with_term: bool) -> None:
        """Carry out ``ops`` and, with them, write the term; later effects wait for it."""
        if with_term:
            rules = self.rules
            ops += storage.write_meta(
                self._current_meta(), sync=rules.syncs, delete_first=rules.deletes_first() and bool(self.meta.term)
            )
        if not ops:
            return
        token = self.batch(ops)
        if self.rules.waits_for_disk:
            self.out.append(Await(token))
        if with_term:
            self.meta = self._meta_tokens[token] = self._current_meta()
            self.trace("term_persisted", stored_term=self.meta.term)
            self.trace("persisted", stored_term=self.meta.term, voted_for=self.meta.vote_for)

    def persist_vote(self) -> None:
        """With the knob of that name: have term and ``voteFor`` on disk before anything later leaves."""
        if self.knobs.persist_vote and self._current_meta() != self.meta:
            self.store((), with_term=True)

    def disk_done(self, token: int) -> None:
        """A batch is done."""
        done = self._meta_tokens.pop(token, None)
        if done is not None:
            self.stored = done

    def _current_meta(self) -> storage.Meta:
        local = self.local
        return storage.Meta(local.term, local.vote_for if self.knobs.persist_vote else None)
