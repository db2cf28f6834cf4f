"""A minimal world for Paxos cores: virtual time, a lossy network, disks that lose what was not synced, crashes.

It judges while it runs: agreement (over what was really accepted by majorities, learned and answered), validity, one
leader an epoch, promises that never fall. It is a test's tool, not the project's simulator.
"""

from __future__ import annotations

import heapq
import json
from collections import deque

from dethrone.clusters.targets.client_api import Append, Get, Learn, Ok, Propose
from dethrone.clusters.targets.paxos.target import TARGET
from dethrone.harness.core.clock import MS, Clocks
from dethrone.harness.core.machine import (
    Await,
    Disk,
    DiskDone,
    Fired,
    Fsync,
    Halt,
    Message,
    Note,
    Reply,
    Request,
    Send,
    SetTimer,
    Write,
)
from dethrone.harness.core.rng import Rng


class SimDisk:
    """One file tree as the kernel shows it and as a power loss leaves it."""

    def __init__(self):
        self.shown: dict[str, bytes] = {}
        self.durable: dict[str, bytes] = {}

    def carry_out(self, op):
        if isinstance(op, Write):
            old = self.shown.get(op.path, b"")
            at = len(old) if op.offset is None else op.offset
            tail = b"" if op.truncate else old[at + len(op.data) :]
            self.shown[op.path] = old[:at] + op.data + tail
        else:
            assert isinstance(op, Fsync)
            self.durable[op.path] = self.shown[op.path]


class Box:
    """One host with its node."""

    def __init__(self, name, members):
        self.name = name
        self.disk = SimDisk()
        self.alive = False
        self.halted = ""
        self.life = 0
        self.core = None
        self.held = deque()
        self.batches = deque()
        self.timers: dict[str, int] = {}
        self.notes: list[Note] = []
        self.witness = TARGET.witness(node=name, members=members)
        self.witnessed = []
        self.crash_in = -1
        self.fails = False
        self.rng = Rng(0)

    @property
    def node(self):
        return self.core.node


class World:
    """Nodes named by ``names``, all started."""

    def __init__(
        self, names="ABC", *, seed=1, profile="paxos", variant=None, delay=(1, 3), fsync=(0, 2), start=True, **settings
    ):
        self.names = tuple(names)
        self.rng = Rng(seed).stream("world")
        self.seed = seed
        self.knobs = TARGET.knobs({k: str(v) for k, v in settings.items()}, profile=profile)
        self.variant = variant
        self.now = self.wall = 0
        self.heap = []
        self.count = 0
        self.cut: set[tuple[str, str]] = set()
        self.loss = self.twice = 0
        self.delay, self.fsync = delay, fsync
        self.hold = None
        self.kept = []
        self.sent = []
        self.replies = {}
        self.asked = {}
        self.problems: list[str] = []
        self.told: list[tuple] = []
        """What a history would hold: traces, invokes and returns, in order."""
        self.tally: dict[tuple, set[str]] = {}
        self.decided: dict[int, tuple[str, str]] = {}
        self.proposed: dict[int, set[str]] = {}
        self.leaders: dict[int, str] = {}
        self.max_id: dict[tuple[str, int], int] = {}
        self.boxes = {name: Box(name, self.names) for name in self.names}
        if start:
            for name in self.names:
                self.start(name)

    @property
    def majority(self):
        acceptors = self.knobs.acceptors or len(self.names)
        return acceptors // 2 + 1

    # --- faults -------------------------------------------------------------------------------------------------

    def clocks(self):
        return Clocks(self.now, self.now + self.wall)

    def start(self, name):
        box = self.boxes[name]
        assert not box.alive
        box.life += 1
        box.alive, box.halted = True, ""
        box.rng = Rng(self.seed).stream(f"{name}/{box.life}")
        box.core = TARGET.core(node=name, members=self.names, knobs=self.knobs, variant=self.variant)
        box.held.clear()
        box.batches.clear()
        box.timers.clear()
        image = dict(box.disk.shown)
        self._witnessed(box, box.witness.booted(image))
        out = []
        box.core.boot(image, self.clocks(), box.rng, out)
        self._carry_out(box, out)

    def kill(self, name, *, power=False):
        box = self.boxes[name]
        if box.alive:
            box.alive = False
            if box.batches:
                ops = box.batches[0].ops
                for op in ops[: self.rng.below(len(ops) + 1)]:
                    box.disk.carry_out(op)
        if power:
            box.disk.shown = dict(box.disk.durable)

    def restart(self, name, **how):
        self.kill(name, **how)
        self.start(name)

    def sever(self, x, y):
        self.cut |= {(x, y), (y, x)}

    def isolate(self, *names):
        for name in names:
            for other in self.names:
                if other not in names:
                    self.sever(name, other)

    def heal(self):
        self.cut.clear()

    def mend(self):
        """Everything is healed and runs."""
        self.heal()
        self.loss, self.delay, self.hold, self.twice = 0, (1, 3), None, 0
        for box in self.boxes.values():
            box.crash_in, box.fails = -1, False
            if not box.alive and not box.halted:
                self.start(box.name)

    # --- running ------------------------------------------------------------------------------------------------

    def at(self, when, what, *args):
        self.count += 1
        heapq.heappush(self.heap, (when, self.count, what, args))

    def run(self, ms=0, *, until=None):
        end = self.now + ms * MS
        while True:
            if until is not None and until():
                return True
            if not self.heap or self.heap[0][0] > end:
                break
            self.now, _, what, args = heapq.heappop(self.heap)
            what(*args)
        self.now = end
        return until is not None and until()

    def request(self, name, body):
        number = len(self.asked) + 1
        self.asked[number] = body
        if isinstance(body, Propose):
            self.proposed.setdefault(body.instance, set()).add(json.dumps(body.value))
        self.told.append(("invoke", number, name, body))
        if self.boxes[name].alive:
            self._handle(self.boxes[name], Request(number, body))
        return number

    def ask(self, name, body, *, ms=10_000):
        number = self.request(name, body)
        self.run(ms, until=lambda: number in self.replies)
        return self.replies.get(number)

    def propose(self, name, instance, value, **how):
        answer = self.ask(name, Propose(instance, value), **how)
        return answer.value if isinstance(answer, Ok) else answer

    def learn(self, name, instance, **how):
        answer = self.ask(name, Learn(instance), **how)
        return answer.value if isinstance(answer, Ok) else answer

    def append(self, name, value, **how):
        return self.ask(name, Append("k", value), **how)

    def read(self, name, **how):
        return self.ask(name, Get("k"), **how)

    def notes(self, name, *, of=None):
        return [n for box in self.boxes.values() if of in (None, box.name) for n in box.notes if n.name == name]

    def leader(self):
        led = [box for box in self.boxes.values() if box.alive and box.node.leads]
        return max(led, key=lambda box: box.node.epoch).name if led else None

    def deliver(self, index):
        """Deliver a copy of a message that was kept."""
        src, dst, body = self.kept[index]
        self._handle(self.boxes[dst], Message(src, body))

    # --- inside -------------------------------------------------------------------------------------------------

    def _handle(self, box, event):
        if not box.alive:
            return
        if type(event) is Message:
            self._witnessed(box, box.witness.received(event.src, event.body))
        out = []
        box.core.handle(event, self.clocks(), box.rng, out)
        self._carry_out(box, out)

    def _carry_out(self, box, out):
        for effect in out:
            if not box.alive:
                return
            if self._crashes(box):
                return
            kind = type(effect)
            if kind is Disk:
                box.batches.append(effect)
                if len(box.batches) == 1:
                    self._start_batch(box)
            elif kind is SetTimer:
                self._set_timer(box, effect)
            elif kind is Halt:
                box.alive, box.halted = False, effect.reason
            elif box.held:
                box.held.append(effect)
            elif kind is Await:
                if any(batch.token == effect.token for batch in box.batches):
                    box.held.append(effect)
            else:
                self._show(box, effect)

    def _crashes(self, box):
        if box.crash_in == 0:
            box.crash_in = -1
            self.kill(box.name)
            return True
        box.crash_in -= box.crash_in > 0
        return False

    def _set_timer(self, box, effect):
        if effect.at is None:
            box.timers.pop(effect.name, None)
            return
        box.timers[effect.name] = (effect.at, effect.clock)
        self._push_timer(box, effect.name, effect.at, effect.clock)

    def _push_timer(self, box, name, at, clock):
        when = at if clock == "mono" else at - self.wall
        self.at(max(when, self.now), self._ring, box, box.life, name, at, clock)

    def _ring(self, box, life, name, at, clock):
        if box.alive and box.life == life and box.timers.get(name) == (at, clock):
            if clock == "wall" and at > self.now + self.wall:  # the clock was stepped back meanwhile
                self._push_timer(box, name, at, clock)
                return
            del box.timers[name]
            self._handle(box, Fired(name))

    def _start_batch(self, box):
        if self.fsync is not None:
            self.at(self.now + self.rng.between(*self.fsync) * MS // 2, self._batch_done, box, box.life)

    def _batch_done(self, box, life):
        if not box.alive or box.life != life or not box.batches:
            return
        batch = box.batches.popleft()
        error = "no space" if box.fails else None
        if error is None:
            for op in batch.ops:
                box.disk.carry_out(op)
            self._witnessed(box, box.witness.synced(batch.ops))
        if box.batches:
            self._start_batch(box)
        if box.held and type(box.held[0]) is Await and box.held[0].token == batch.token:
            if error is None:
                self._release(box)
            else:
                box.held.clear()
        if box.alive:
            self._handle(box, DiskDone(batch.token, error))

    def _release(self, box):
        box.held.popleft()
        while box.held and box.alive:
            effect = box.held[0]
            if type(effect) is Await:
                if any(batch.token == effect.token for batch in box.batches):
                    return
                box.held.popleft()
                continue
            box.held.popleft()
            if self._crashes(box):
                return
            self._show(box, effect)

    def _show(self, box, effect):
        if type(effect) is Send:
            self._witnessed(box, box.witness.sent(effect.to, effect.body))
            self._send(box.name, effect.to, effect.body)
        elif type(effect) is Reply:
            assert effect.id not in self.replies, "two answers"
            self.replies[effect.id] = effect.body
            self.told.append(("return", effect.id, box.name, effect.body))
            self._answered(effect.id, effect.body)
        else:
            box.notes.append(effect)
            self.told.append(("core", box.name, box.life, effect))
            if effect.name == "learned":
                self._learned(box, effect)

    def _send(self, src, dst, body):
        self.sent.append((src, dst, body))
        if (src, dst) in self.cut or (self.loss and self.rng.chance(self.loss, 100)):
            return
        if self.hold is not None and self.hold(src, dst, body):
            self.kept.append((src, dst, body))
            return
        for _ in range(1 + (self.twice > 0 and self.rng.chance(self.twice, 100))):
            after = self.rng.between(self.delay[0] * MS, self.delay[1] * MS)
            self.at(self.now + after, self._deliver, src, dst, body)

    def _deliver(self, src, dst, body):
        if (src, dst) not in self.cut:
            self._handle(self.boxes[dst], Message(src, body))

    # --- judging ------------------------------------------------------------------------------------------------

    def _witnessed(self, box, events):
        for event in events:
            box.witnessed.append(event)
            self.told.append(("shell", box.name, box.life, event))
            data = event.data
            if event.name == "accepted":
                key = (data["instance"], data["id"], json.dumps(data["value"]))
                who = self.tally.setdefault(key, set())
                who.add(box.name)
                if len(who) >= self.majority:
                    self._decided(data["instance"], key[2], f"a majority under {data['id']}")
            elif event.name == "elected":
                before = self.leaders.setdefault(event.term, box.name)
                if before != box.name:
                    self.problems.append(f"{before} and {box.name} lead epoch {event.term}")
                if len(data["voters"]) < self.majority:
                    self.problems.append(f"{box.name} leads epoch {event.term} with {data['voters']}")
            elif event.name == "persisted":
                key = (box.name, data["instance"])
                if data["max_id"] < self.max_id.get(key, 0):
                    self.problems.append(f"the promise of {key} fell to {data['max_id']}")
                self.max_id[key] = data["max_id"]

    def _learned(self, box, note):
        self._decided(note.data["instance"], json.dumps(note.data["value"]), f"{box.name} learned")

    def _answered(self, number, body):
        asked = self.asked[number]
        if isinstance(body, Ok) and isinstance(asked, Propose | Learn) and body.value is not None:
            self._decided(asked.instance, json.dumps(body.value), f"answer {number}")

    def _decided(self, instance, value, how):
        before = self.decided.setdefault(instance, (value, how))
        if before[0] != value:
            self.problems.append(f"agreement, instance {instance}: {before} and {(value, how)}")
        if instance in self.proposed and '"origin"' not in value and value not in self.proposed[instance]:
            self.problems.append(f"validity, instance {instance}: nobody proposed {value}")
