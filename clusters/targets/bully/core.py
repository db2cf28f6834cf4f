"""One node of the bully target: heartbeats, roles, client requests, and which form of election decides.

Guarantees: everything about the election is volatile; the log is not. A node whose disk fails, or whose log cannot be
read, stops. Out of scope: the two elections (``classic``, ``mongo``), the log (``replication``).

Source: docs/sources.md, bully (rows 6 and 7 of MongoDB's election are ``_tick`` and ``rival`` here).
"""

from __future__ import annotations

from typing import Any

from dethrone.clusters.targets.bully import messages as m
from dethrone.clusters.targets.bully.classic import Classic
from dethrone.clusters.targets.bully.mongo import Mongo
from dethrone.clusters.targets.bully.replication import Replication
from dethrone.clusters.targets.bully.rules import Rules
from dethrone.clusters.targets.kit.files import Unreadable
from dethrone.harness.core.clock import MS, Clocks, Ns
from dethrone.harness.core.machine import (
    CoreEvent,
    CoreStatus,
    DiskDone,
    DiskImage,
    Effect,
    Fired,
    Halt,
    LogEnd,
    Message,
    Note,
    Request,
    Send,
    SetTimer,
)
from dethrone.harness.core.rng import Rng

TICK, WAIT = "tick", "wait"
LEADING = frozenset({"COORDINATOR", "PRIMARY"})


class BullyCore:
    """See the module. ``reign``: the wall time at which the present leader, this node or another, began to lead."""

    def __init__(self, node: str, members: tuple[str, ...], rules: Rules) -> None:
        self.me, self.members, self.rules, self.on = node, members, rules, rules.on
        self.place = members.index(node)
        self.peers = tuple(name for name in members if name != node)
        self.data = Replication(self)
        self.form: Classic | Mongo = Mongo(self) if self.on.election == "mongo" else Classic(self)
        self.role = self.form.idle
        self.coordinator: str | None = None
        self.round = self.reign = 0
        self.led_at: Ns = 0
        """When the coordinator was last heard, or the node last had a reason to wait for one."""
        self.heard: dict[str, tuple[Ns, m.Heartbeat]] = {}
        self.halted = False
        self.now, self.rng, self.out = Clocks(0, 0), Rng(0), []  # type: tuple[Clocks, Rng, list[Effect]]

    def boot(self, disk: DiskImage, now: Clocks, rng: Rng, out: list[Effect]) -> None:
        """Read the log, and begin."""
        self.now, self.rng, self.out = now, rng, out
        try:
            self.data.load(disk)
            self.form.load(disk)
        except Unreadable as error:
            self.halted = True
            out.append(Halt(str(error)))
            return
        self.note("start", round=self.round)
        self.led_at = now.mono
        self.form.start()
        self._tick()

    def handle(self, event: CoreEvent, now: Clocks, rng: Rng, out: list[Effect]) -> None:
        """Handle one event."""
        if self.halted:
            return
        self.now, self.rng, self.out = now, rng, out
        match event:
            case Message(src=src, body=m.Heartbeat() as body):
                self._heartbeat(src, body)
            case Message(src=src, body=m.Entries() as body):
                self.data.entries(src, body)
            case Message(src=src, body=m.Stored() as body):
                self.data.stored(src, body)
            case Message(src=src, body=body):
                self.form.message(src, body)
            case Fired(timer=timer) if timer == TICK:
                self._tick()
            case Fired(timer=timer) if timer == WAIT:
                self.form.waited()
            case Request(id=request, body=body):
                self.data.request(request, body)
            case DiskDone():
                self.data.disk_done(event)

    # --- who is there ---------------------------------------------------------------------------------------------

    @property
    def leads(self) -> bool:
        """Whether this node calls itself the leader."""
        return self.role in LEADING

    def up(self, node: str) -> bool:
        """Whether a peer was heard lately."""
        return node in self.heard and self._up(node, self.now.mono)

    def _up(self, node: str, mono: Ns) -> bool:
        return not self.rules.unheard(mono - self.heard[node][0])

    def visible(self) -> list[str]:
        """The peers that were heard lately."""
        return [node for node in self.peers if self.up(node)]

    def sees_majority(self) -> bool:
        """Whether they and this node are more than half."""
        return self.rules.is_majority(len(self.visible()) + 1, members=len(self.members))

    def primaries(self) -> list[str]:
        """The visible peers that say they lead."""
        return [node for node in self.visible() if self.heard[node][1].reign]

    def _tick(self) -> None:
        self.out.append(SetTimer(TICK, self.now.mono + self.on.heartbeat))
        if self.leads and self.on.step_down and not self.sees_majority():
            self.stop_leading("no majority")
        self.form.tick()
        self.beat()
        if self.leads:
            self.data.push(always=True)

    def beat(self) -> None:
        """A heartbeat to all."""
        told = self.leads and self.on.announce
        body = m.Heartbeat(
            self.role, self.coordinator, self.data.optime, self.reign if told else 0, self.term if told else 0
        )
        for peer in self.peers:
            self.send(peer, body)

    def _heartbeat(self, src: str, body: m.Heartbeat) -> None:
        self.heard[src] = (self.now.mono, body)
        if body.reign:
            self.form.rival(src, body.reign)
            if src == self.coordinator:
                self.led_at = self.now.mono

    # --- leading and following ------------------------------------------------------------------------------------

    def lead(self, role: str, voters: list[str]) -> None:
        """This node leads from now on."""
        self.out.append(SetTimer(WAIT, None))
        self.role, self.coordinator, self.reign = role, self.me, max(1, self.now.wall)
        self.data.begin()
        self.note("elected", voters=voters, round=self.round)

    def follow(self, leader: str, reign: int) -> None:
        """That node leads, since ``reign``."""
        self.led_at = self.now.mono
        if (self.coordinator, self.reign) == (leader, reign) and self.role == self.form.idle:
            return
        if self.leads:
            self.note("step_down", why="follows", leader=leader)
        self.out.append(SetTimer(WAIT, None))
        self.role, self.coordinator, self.reign = self.form.idle, leader, reign
        self.data.begin()
        self.note("leader_seen", leader=leader)

    def leaderless(self, role: str) -> None:
        """No node leads, as far as this one knows."""
        self.role, self.coordinator, self.reign = role, None, 0
        self.led_at = self.now.mono
        self.data.begin()

    def stop_leading(self, why: str) -> None:
        """This node leads no more."""
        self.leaderless(self.form.idle)
        self.note("step_down", why=why)

    # --- small parts ----------------------------------------------------------------------------------------------

    @property
    def term(self) -> int:
        """0: there are none. With ``local_term`` the round, which means nothing to other nodes."""
        return self.round if self.on.local_term else 0

    def send(self, to: str, body: m.BullyMessage) -> None:
        """One message."""
        self.out.append(Send(to, body))

    def note(self, name: str, **data: Any) -> None:
        """A trace event."""
        self.out.append(Note(name, self.term, self.role, data))

    def wait(self, span: Ns) -> None:
        """Let the election's timer ring after it."""
        self.out.append(SetTimer(WAIT, self.now.mono + span))

    def status(self, now: Clocks) -> CoreStatus:
        """The observer record."""
        up = [node for node in self.peers if node in self.heard and self._up(node, now.mono)]
        extra = {"round": self.round, "peers_up": up, "silence_ms": (now.mono - self.led_at) // MS}
        log, lease = self.data, self.form.lease
        return CoreStatus(
            self.role,
            self.term,
            self.coordinator,
            lease and lease[0],
            LogEnd(log.optime, log.log.end),
            log.commit,
            extra={**extra, **self.form.shown(now)},
        )
