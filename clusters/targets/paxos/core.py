"""The Paxos core: boots from a disk, passes each event to its handler, then the answers of its own acceptor.

Guarantees: deterministic; dispatch by type; after ``Halt`` the core does nothing. Out of scope: every rule (`rules`)
and the handlers (one module per role).

Source: Lamport, "Paxos Made Simple", 2001.
"""

from __future__ import annotations

from typing import Any, ClassVar

from dethrone.clusters.targets.kit.core import KitCore, status_of
from dethrone.clusters.targets.kit.files import Unreadable, cut_ops
from dethrone.clusters.targets.paxos import acceptor, election, learner, log, proposer, requests, storage
from dethrone.clusters.targets.paxos import messages as m
from dethrone.clusters.targets.paxos.knobs import PaxosKnobs
from dethrone.clusters.targets.paxos.node import (
    ASKING,
    ATTEMPT,
    BEAT,
    CATCH_UP,
    CONTEND,
    NEVER,
    PATIENCE,
    Node,
    proposer_state,
)
from dethrone.clusters.targets.paxos.rules import Rules
from dethrone.clusters.targets.paxos.storage import FILE, Counted, Loaded, Stored
from dethrone.harness.core.clock import MS, Clocks
from dethrone.harness.core.machine import CoreStatus, DiskDone, DiskImage, Fsync, Glance


class PaxosCore(KitCore[Node]):
    """One node. ``members``: all proposers and learners; the first ``acceptors`` of them, or all, are the acceptors."""

    MESSAGES: ClassVar = {
        m.Prepare: acceptor.on_prepare,
        m.Promise: proposer.on_promise,
        m.Nack: proposer.on_nack,
        m.Propose: acceptor.on_propose,
        m.Accepted: learner.on_accepted,
        m.Ask: acceptor.on_ask,
        m.Told: learner.on_told,
        m.Ping: lambda n, src, _: n.send(src, m.Pong()),
        m.Pong: lambda *_: None,  # it only shows that its sender lives
        m.Heartbeat: election.on_heartbeat,
    }
    TIMERS: ClassVar = {
        PATIENCE: requests.on_patience_timer,
        CATCH_UP: log.on_timer,
        CONTEND: election.on_contend_timer,
        BEAT: election.on_beat_timer,
    }

    def __init__(self, node: str, members: tuple[str, ...], knobs: PaxosKnobs, rules: Rules) -> None:
        self.node = Node(node, members, knobs, rules)

    def load(self, disk: DiskImage) -> None:
        """Start from what the disk holds."""
        n = self.node
        n.origin = f"{n.me}-{n.rng.next64():016x}"
        loaded = Loaded()
        if n.knobs.persist:
            try:
                loaded = n.rules.load(disk, node=n.place, nodes=len(n.members))
            except Unreadable as error:
                raise Unreadable(f"{FILE} file: {error}") from error
            _make_durable(n, disk, loaded)
        n.cnt = loaded.cnt
        n.trace(
            "start",
            0,
            {
                "profile": n.knobs.profile,
                "cnt": n.cnt,
                "instances": len(loaded.acceptors),
                "max_id": max((one.max_id for one in loaded.acceptors.values()), default=0),
                "acceptors": list(n.acceptors),
            },
        )
        for number, state in sorted(loaded.acceptors.items()):
            inst = n.instance(number)
            inst.acceptor, inst.seen = state, state.max_id
        for number, (ident, value) in sorted(loaded.chosen.items()):
            inst = n.instance(number)
            inst.chosen_id, inst.chosen = ident, value
            told = {"id": ident, "value": m.shown(value), "kind": m.kind_of(value), "acceptors": [], "source": "disk"}
            n.trace("learned", number, told)
            learner.settle(n, inst, [])
        for number, state in sorted(loaded.acceptors.items()):
            if n.accepting and state.accepted_value is not None:
                n.local.append(m.Accepted(number, state.accepted_id, state.accepted_value))
        election.begin(n)

    def hears(self, src: str, body: Any) -> None:
        """Hand a message to its handler; its sender can be reached."""
        n = self.node
        n.heard[src] = n.mono
        super().hears(src, body)
        if n.unreached:
            proposer.heard_somebody(n)

    def rings(self, timer: str) -> None:
        """Hand a timer to its handler."""
        if timer.startswith(ATTEMPT):
            proposer.on_timer(self.node, int(timer[len(ATTEMPT) :]))
        elif timer.startswith(ASKING):
            learner.on_timer(self.node, int(timer[len(ASKING) :]))
        else:
            super().rings(timer)

    def on_request(self, request: int, body: Any) -> None:
        """Handle a client's request."""
        requests.on_request(self.node, request, body)

    def disk_done(self, done: DiskDone) -> None:
        """A batch succeeded, or failed: then the node stops, as it would forget what it is about to send."""
        n = self.node
        batch = n.batches.pop(done.token, None)
        if batch is None:
            return
        records, local = batch
        if done.error is not None:
            n.trace("persist_failed", 0, {"file": FILE, "error": done.error})
            if n.rules.on_persist_error() == "halt":
                n.halt(f"{FILE} file: {done.error}")
                return
        else:
            for record in records:
                if isinstance(record, Counted):
                    n.trace("persisted", 0, {"cnt": record.cnt})
                elif isinstance(record, Stored):
                    n.trace("persisted", record.instance, {"max_id": record.max_id, "accepted_id": record.id})
                elif isinstance(record, storage.Promised):
                    n.trace("persisted", record.instance, {"max_id": record.max_id})
        n.local.extend(local)

    def violation(self, data: dict[str, Any]) -> None:
        """Trace what no node of this protocol does."""
        self.node.trace("violation", 0, data)

    def settle(self) -> None:
        """What the own acceptor answered to the own proposer and learner."""
        n = self.node
        while n.local and not n.halted:
            body = n.local.popleft()
            self.MESSAGES[type(body)](n, n.me, body)

    def glance(self) -> Glance:
        """The main fields: term is the epoch (without election: the highest instance), leader what it decided."""
        n = self.node
        number = -n.epoch if n.knobs.election else n.latest
        inst = n.instances.get(number)
        if inst is None:
            return n.shown_role(), abs(number), None, None, (0, abs(number)), n.frontier - 1
        held = inst.acceptor
        chosen = m.shown(inst.chosen)
        voted: str | None = None
        if held.max_id:
            voted = f"{held.max_id}"
            if held.accepted_value is not None:
                voted += f" accepted {held.accepted_id}: {m.shown(held.accepted_value)!r:.80}"
        leader = None if chosen is None else str(chosen)
        return n.shown_role(), abs(number), leader, voted, (held.accepted_id, abs(number)), n.frontier - 1

    def status(self, now: Clocks) -> CoreStatus:
        """The observer record."""
        n = self.node
        n.mono, n.wall = now.mono, now.wall
        inst = n.instances.get(-n.epoch if n.knobs.election else n.latest)
        held = storage.Acceptor() if inst is None else inst.acceptor
        chosen = None if inst is None else m.shown(inst.chosen)
        return status_of(
            self.glance(),
            timers={CONTEND: (n.contend_at - n.clock()) // MS} if n.knobs.election and not n.leads else {},
            counters=dict(n.counters),
            extra={
                "profile": n.knobs.profile,
                "acceptor": {
                    "max_id": held.max_id,
                    "accepted_id": held.accepted_id,
                    "accepted_value": m.shown(held.accepted_value),
                },
                "proposer": {
                    "state": "IDLE" if inst is None else proposer_state(inst),
                    "id": 0 if inst is None or inst.attempt is None else inst.attempt.id,
                    "promises": [] if inst is None or inst.attempt is None else sorted(inst.attempt.promises),
                    "accepts": [] if inst is None or inst.attempt is None else sorted(inst.attempt.accepts),
                },
                "learner": {"chosen": chosen, "id": 0 if inst is None else inst.chosen_id},
                "cnt": n.cnt,
                "instances": len(n.instances),
                "attempts_open": n.attempts_open,
                "requests_open": len(n.open),
                "frontier": n.frontier,
                "epoch": n.epoch,
                "leader": n.leader,
                "heartbeat_age_ms": None if n.beat_at == NEVER else (now.mono - n.beat_at) // MS,
            },
        )


def _make_durable(n: Node, disk: DiskImage, loaded: Loaded) -> None:
    """Nothing leaves before what was read is certainly durable: the last life may have died before its fsync."""
    if FILE not in disk:
        return
    if loaded.torn:
        n.store_ops(cut_ops(FILE, loaded.end, sync=n.rules.syncs))
    elif n.rules.syncs:
        n.store_ops((Fsync(FILE),))
