"""A small discrete-event network for naming-Raft nodes: requests and answers, cuts, holds, kills, restarts, freezes.

Everything is decided by the test: latency is 1 ms unless a message is held. Disk batches are carried out at once, or
take ``disk_ms`` each; then ``Await`` holds back, and a killed node leaves a random prefix of its batches on the disk.
The witness of each node sees what a shell would show it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

import msgspec

from dethrone.clusters.targets import client_api
from dethrone.clusters.targets.nacos.core import NacosCore
from dethrone.clusters.targets.nacos.knobs import KNOBS
from dethrone.clusters.targets.nacos.messages import NacosMessage
from dethrone.clusters.targets.nacos.target import TARGET
from dethrone.harness.core.clock import MS, Clocks
from dethrone.harness.core.machine import (
    Await,
    Disk,
    DiskDone,
    Fired,
    Halt,
    Message,
    Note,
    Rename,
    Reply,
    Request,
    Send,
    SendFailed,
    SetTimer,
    Unlink,
    Witnessed,
    Write,
)
from dethrone.harness.core.rng import Rng

LATENCY = MS
CALL_TIMEOUT = 2_000 * MS


def clocks(ns: int) -> Clocks:
    return Clocks(mono=ns, wall=ns)


def apply_ops(disk: dict[str, bytes], ops) -> None:
    """Carry out disk operations on a dictionary; whole-file writes and appends only."""
    for op in ops:
        match op:
            case Write(path=path, data=data, offset=0, truncate=True):
                disk[path] = data
            case Rename(src=src, dst=dst):
                disk[dst] = disk.pop(src)
            case Unlink(path=path):
                disk.pop(path, None)


class Node:
    def __init__(self, name: str) -> None:
        self.name = name
        self.disk: dict[str, bytes] = {}
        self.core: NacosCore | None = None
        self.incarnation = 0
        self.timers: dict[str, int] = {}
        self.frozen = False
        self.backlog: list[Any] = []
        self.witness = None
        self.batches: list[Disk] = []
        self.waiting: list[Any] = []


class Sim:
    """``names`` nodes of one cluster in virtual time (ns in ``now``)."""

    def __init__(
        self,
        names: str,
        *,
        seed: int = 1,
        profile: str | None = None,
        variant: str | None = None,
        disk_ms: int = 0,
        **settings: str,
    ) -> None:
        self.variant = variant
        self.disk_ms = disk_ms
        self.now = 0
        self.members = tuple(names.split())
        self.knobs = KNOBS.parse(settings, profile=profile)
        self.rng = Rng(seed)
        self.rngs = {name: self.rng.stream(name) for name in self.members}
        self.nodes = {name: Node(name) for name in self.members}
        self.cuts: set[tuple[str, str]] = set()
        self.hold: Callable[[str, str, Any], bool] = lambda *_: False
        self.held: list[tuple[Any, ...]] = []
        self.notes: list[tuple[int, str, int, Note]] = []
        self.seen: list[tuple[int, str, int, Witnessed]] = []
        self.sent: list[tuple[int, str, str, Any]] = []
        self.replies: dict[int, Any] = {}
        self.halted: dict[str, str] = {}
        self._heap: list[tuple[int, int, Any]] = []
        self._seq = 0
        self._calls: dict[int, tuple[str, int, str, Any]] = {}
        self._requests = 0

    # --- the world ----------------------------------------------------------------------------------------------

    def start(self, *names: str) -> None:
        for name in names or self.members:
            node = self.nodes[name]
            node.incarnation += 1
            node.timers.clear()
            node.core = TARGET.core(node=name, members=self.members, knobs=self.knobs, variant=self.variant)
            node.witness = node.witness or TARGET.witness(node=name, members=self.members)
            out: list[Any] = []
            self._witnessed(node, node.witness.booted(node.disk))
            node.core.boot(dict(node.disk), clocks(self.now), self.rngs[name], out)
            self._carry_out(node, out)

    def kill(self, *names: str) -> None:
        for name in names:
            node = self.nodes[name]
            node.core = None
            node.frozen = False
            node.backlog.clear()
            node.waiting.clear()
            ops = [op for batch in node.batches for op in batch.ops]
            node.batches.clear()
            if ops:
                apply_ops(node.disk, ops[: self.rng.below(len(ops) + 1)])

    def restart(self, *names: str) -> None:
        self.kill(*names)
        self.start(*names)

    def freeze(self, name: str) -> None:
        self.nodes[name].frozen = True

    def thaw(self, name: str) -> None:
        node = self.nodes[name]
        node.frozen = False
        backlog, node.backlog = node.backlog, []
        for item in backlog:
            self._at(self.now, item)

    def cut(self, one: str, *others: str, both: bool = True) -> None:
        for other in others:
            self.cuts.add((one, other))
            if both:
                self.cuts.add((other, one))

    def heal(self) -> None:
        self.cuts.clear()

    def release(self) -> None:
        held, self.held = self.held, []
        for item in held:
            self._at(self.now, item)

    # --- looking and poking -------------------------------------------------------------------------------------

    def state(self, name: str):
        core = self.nodes[name].core
        assert core is not None
        return core.state

    def status(self, name: str):
        core = self.nodes[name].core
        assert core is not None
        return core.status(clocks(self.now))

    def roles(self) -> dict[str, tuple[str, int]]:
        up = [name for name in self.members if self.nodes[name].core is not None]
        return {name: (self.status(name).role, self.status(name).term) for name in up}

    def due(self, **ms: int) -> None:
        """Set who campaigns when: the leader due of nodes, in protocol ms."""
        for name, value in ms.items():
            self.state(name).local.leader_due_ms = value

    def fire(self, name: str) -> None:
        """Let the node's election task find its due reached, once, now."""
        self.due(**{name: 500})
        core = self.nodes[name].core
        assert core is not None
        from dethrone.clusters.targets.nacos import election  # the task itself, without moving its timer

        out: list[Any] = []
        core._at(clocks(self.now), self.rngs[name], out)
        election.on_election_tick(core.state)
        self._carry_out(self.nodes[name], out)

    def ask(self, name: str, body: Any) -> int:
        self._requests += 1
        self._at(self.now, ("event", name, self.nodes[name].incarnation, Request(self._requests, body)))
        return self._requests

    def put(self, name: str, key: str, value: Any) -> int:
        return self.ask(name, client_api.Put(key, value))

    def named(self, name: str, node: str | None = None) -> list[Note]:
        return [note for _, who, _, note in self.notes if note.name == name and node in {None, who}]

    def witnessed(self, name: str) -> list[tuple[str, Witnessed]]:
        return [(who, seen) for _, who, _, seen in self.seen if seen.name == name]

    # --- time ---------------------------------------------------------------------------------------------------

    def run(self, ms: int) -> None:
        end = self.now + ms * MS
        while self._heap and self._heap[0][0] <= end:
            self.now, _, item = heapq.heappop(self._heap)
            self._step(item)
        self.now = end

    def _at(self, when: int, item: Any) -> None:
        self._seq += 1
        heapq.heappush(self._heap, (when, self._seq, item))

    def _step(self, item: Any) -> None:
        kind, name, incarnation, event = item
        node = self.nodes[name]
        if kind == "disk":
            if incarnation == node.incarnation and node.core is not None:
                self._disk_done(node, node.batches.pop(0))
            return
        if kind == "timer":
            if incarnation != node.incarnation or node.timers.get(event) is None or node.timers[event] > self.now:
                return
        elif kind == "timeout":
            call = self._calls.pop(event, None)
            if call is None:
                return
            asker, incarnation, to, body = call
            name, node, event = asker, self.nodes[asker], SendFailed(to, body, "timed out")
        if node.core is None or (incarnation is not None and incarnation != node.incarnation):
            return
        if node.frozen:
            node.backlog.append(
                (kind, name, incarnation, event) if kind != "timeout" else ("event", name, incarnation, event)
            )
            return
        if kind == "timer":
            del node.timers[event]
            event = Fired(event)
        elif isinstance(event, Message):
            self._witnessed(node, node.witness.received(event.src, event.body))
        out: list[Any] = []
        node.core.handle(event, clocks(self.now), self.rngs[name], out)
        self._carry_out(node, out)

    def _witnessed(self, node: Node, seen: list[Witnessed]) -> None:
        self.seen += [(self.now, node.name, node.incarnation, item) for item in seen]

    def _carry_out(self, node: Node, out: list[Any]) -> None:
        for effect in out:
            if node.waiting and isinstance(effect, Note | Send | Reply | Await):
                node.waiting.append(effect)
                continue
            match effect:
                case Await(token=token):
                    if any(batch.token == token for batch in node.batches):
                        node.waiting.append(effect)
                case Note():
                    msgspec.json.encode(effect)
                    self.notes.append((self.now, node.name, node.incarnation, effect))
                case SetTimer(name=name, at=None):
                    node.timers.pop(name, None)
                case SetTimer(name=name, at=at):
                    node.timers[name] = at
                    self._at(max(at, self.now), ("timer", node.name, node.incarnation, name))
                case Disk():
                    node.batches.append(effect)
                    if self.disk_ms:
                        when = self.now + self.disk_ms * MS * len(node.batches)
                        self._at(when, ("disk", node.name, node.incarnation, None))
                    else:
                        self._disk_done(node, node.batches.pop())
                case Reply(id=request, body=body):
                    assert request not in self.replies
                    self.replies[request] = body
                case Halt(reason=reason):
                    self.halted[node.name] = reason
                    node.core = None
                case Send():
                    self._send(node, effect)

    def _disk_done(self, node: Node, batch: Disk) -> None:
        apply_ops(node.disk, batch.ops)
        self._witnessed(node, node.witness.synced(batch.ops))
        self._at(self.now, ("event", node.name, node.incarnation, DiskDone(batch.token)))
        if node.waiting and node.waiting[0].token == batch.token:
            waiting, node.waiting = node.waiting[1:], []
            self._carry_out(node, waiting)

    def _send(self, node: Node, effect: Send) -> None:
        assert msgspec.json.decode(msgspec.json.encode(effect.body), type=NacosMessage) == effect.body
        self._witnessed(node, node.witness.sent(effect.to, effect.body))
        self.sent.append((self.now, node.name, effect.to, effect.body))
        if effect.answers is None:
            self._seq += 1
            call = self._seq
            self._calls[call] = (node.name, node.incarnation, effect.to, effect.body)
            self._at(self.now + CALL_TIMEOUT, ("timeout", node.name, None, call))
            item = ("event", effect.to, None, Message(node.name, effect.body, call))
        else:
            call_of = self._calls.get(effect.answers)
            if call_of is None:
                return
            asker, incarnation, _, _ = call_of
            item = ("event", asker, incarnation, Message(node.name, effect.body))
        if (node.name, effect.to) in self.cuts:
            return
        if effect.answers is not None:
            del self._calls[effect.answers]
        if self.hold(node.name, effect.to, effect.body):
            self.held.append(item)
            return
        self._at(self.now + LATENCY, item)
