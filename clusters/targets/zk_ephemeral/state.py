"""What a broker knows: its log, role and epoch, its session, the stored partition state, and its followers if it leads.

Guarantees: nothing of it but the log and its high watermark is on the broker's disk. Out of scope: what is done with it
(`replica`, `race`, `controller`), and when (`broker`).

Source: docs/sources.md, zk-ephemeral.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from dethrone.clusters.targets.zk_ephemeral import messages as m
from dethrone.clusters.targets.zk_ephemeral.knobs import ZkKnobs
from dethrone.clusters.targets.zk_ephemeral.log import Log, LogNode
from dethrone.clusters.targets.zk_ephemeral.rules import Rules
from dethrone.clusters.targets.zk_ephemeral.session import Session
from dethrone.harness.core.clock import Ns

CHECKPOINT = "checkpoint"


class Follower:
    """What a leader knows of one follower. ``caught_up``: when it last had everything."""

    def __init__(self, now: Ns) -> None:
        self.caught_up = now
        self.fetched: Ns = now
        self.end = -1
        self.end_before = 0
        """The leader's log end at the fetch before."""
        self.run = 0
        self.seq = 0


class Parked(NamedTuple):
    """A fetch that waits for new records or a new high watermark."""

    at: Ns
    body: m.Fetch


class Leadership:
    """What exists while a node leads. ``isr``: the published one; ``joining``, ``leaving``: the change under way.

    ``start``: its log end as it began to lead. Everything up to there may be committed, even above its high watermark,
    which is older: a follower that lacks some of it must not join the ISR (KAFKA-7128).
    """

    def __init__(self, isr: tuple[str, ...], version: int, controller_epoch: int, start: int) -> None:
        self.isr = isr
        self.start = start
        self.version = version
        self.controller_epoch = controller_epoch
        self.followers: dict[str, Follower] = {}
        self.joining: set[str] = set()
        self.leaving: set[str] = set()
        self.parked: dict[str, Parked] = {}
        self.writes: deque[tuple[int, int, Any]] = deque()
        """(index, request, value of the answer) of writes that wait for their confirmation."""


class StoredState(msgspec.Struct, frozen=True, rename={"epoch": "leader_epoch"}):
    """The partition state in the service."""

    leader: str | None = None
    epoch: int = 0
    isr: tuple[str, ...] = ()
    controller_epoch: int = 0

    def data(self) -> dict[str, Any]:
        """As it is stored, in plain JSON."""
        return {**msgspec.to_builtins(self), "isr": list(self.isr)}


def read_state(data: Any) -> StoredState | None:
    """The partition state in a node's data; None if there is none."""
    return msgspec.convert(data, StoredState) if isinstance(data, dict) else None


class Broker(LogNode):
    """See the module."""

    LEADER, FOLLOWER, CONTENDING = "LEADER", "FOLLOWER", "CONTENDING"
    NO_CONTACT, EXPIRED = "DISCONNECTED", "EXPIRED"

    session: Session
    look_again: Callable[[], None]
    """Finds out who leads, as its mode does it."""

    def __init__(self, node: str, members: tuple[str, ...], knobs: ZkKnobs, rules: Rules) -> None:
        super().__init__(Log(sync=rules.syncs("log")))
        self.me = node
        self.knobs = rules.knobs
        self.rules = rules
        self.service = knobs.coordinator_of(members)
        self.brokers = tuple(name for name in members if name != self.service)
        """Also the assignment order."""
        self.peers = tuple(name for name in self.brokers if name != node)
        self.race = knobs.mode == "race"
        self.role = self.NO_CONTACT
        self.term = 0
        self.leader: str | None = None
        self.leading: Leadership | None = None
        self.fetching = False
        self.fetch_seq = 0
        self.in_isr = False
        self.run = 0
        self.controller_epoch = 0
        self.live: tuple[str, ...] = ()
        self.looking = False
        self.look_twice = False
        self.claiming = False
        self.contenders: tuple[str, ...] = ()
        self.checkpoint_hw = 0
        self.checkpointing = False

    def become(self, role: str, why: str) -> None:
        """Change the role, if it is another one."""
        before = self.role
        if before != role:
            self.role = role
            self.note("role_change", {"from": before, "to": role, "why": why})

    def set_term(self, epoch: int) -> None:
        """Know this leader epoch."""
        before = self.term
        if before != epoch:
            self.term = epoch
            self.note("term_change", {"from": before, "to": epoch})

    def hw_moved(self) -> None:
        """The high watermark moved: it is written down once in a while."""
        if not self.checkpointing:
            self.checkpointing = True
            self.timer(CHECKPOINT, self.knobs.hw_checkpoint_interval)
