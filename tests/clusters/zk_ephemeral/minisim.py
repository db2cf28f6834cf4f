"""A minimal world for cores of any target: virtual time, a lossy network, disks that may lose power, crashes.

It judges what it sees: one elected node a term, terms that never fall. A tool of tests, not the project's simulator.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Any

from dethrone.clusters.targets.client_api import Append, Get, Ok
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
    Rename,
    Reply,
    Request,
    Send,
    SetTimer,
    Unlink,
    Write,
)
from dethrone.harness.core.rng import Rng


class SimDisk:
    """Files as the kernel shows them and as a power loss leaves them."""

    def __init__(self):
        self.shown: dict[str, bytes] = {}
        self.durable: dict[str, bytes] = {}

    def carry_out(self, op):
        if isinstance(op, Write):
            old = self.shown.get(op.path, b"")
            at = len(old) if op.offset is None else op.offset
            assert at <= len(old), "a hole in a file"
            tail = b"" if op.truncate else old[at + len(op.data) :]
            self.shown[op.path] = old[:at] + op.data + tail
        elif isinstance(op, Fsync):
            if op.path in self.shown:
                self.durable[op.path] = self.shown[op.path]
        elif isinstance(op, Rename):
            self.shown[op.dst] = self.shown.pop(op.src)
        elif isinstance(op, Unlink):
            self.shown.pop(op.path, None)

    def lose_power(self):
        self.shown = dict(self.durable)

    def wipe(self):
        self.shown, self.durable = {}, {}


class Box:
    """One host with its node."""

    def __init__(self, world, name):
        self.world = world
        self.name = name
        self.disk = SimDisk()
        self.alive = False
        self.paused = False
        self.halted = ""
        self.life = 0
        self.core = None
        self.held = deque()
        self.batches = deque()
        self.timers: dict[str, tuple[int, str]] = {}
        self.inbox = []
        self.notes: list[Note] = []
        self.witness = world.target.witness(node=name, members=world.names)
        self.witnessed = []
        self.rng = Rng(0)
        self.crash_in = -1

    def status(self):
        return self.core.status(self.world.clocks(self.name))

    def said(self, name, **data):
        """The notes of that name with those data."""
        return [
            note.data
            for note in self.notes
            if note.name == name and all(note.data.get(key) == value for key, value in data.items())
        ]


class World:
    """``names``: all members."""

    def __init__(self, target, names, *, seed=1, profile=None, variant=None, delay=(1, 3), start=True, **settings):
        self.target = target
        self.seed = seed
        self.rng = Rng(seed).stream("world")
        self.names = tuple(names)
        self.knobs = target.knobs({k: str(v) for k, v in settings.items()}, profile=profile)
        self.variant = variant
        self.now = 0
        self.walls = dict.fromkeys(self.names, 0)
        self.heap = []
        self.number = 0
        self.cut: set[tuple[str, str]] = set()
        self.loss = 0
        self.delay = delay
        self.slow: dict[tuple[str, str], int] = {}
        """(src, dst) → extra ms."""
        self.fsync = (0, 2)
        self.hold = None
        self.held_messages = []
        self.replies: dict[int, Any] = {}
        self.requests = 0
        self.problems: list[str] = []
        self.leaders: dict[int, str] = {}
        self.terms: dict[str, int] = {}
        self.boxes = {name: Box(self, name) for name in self.names}
        if start:
            for name in reversed(self.names):
                self.start(name)

    # --- faults -------------------------------------------------------------------------------------------------

    def clocks(self, name):
        return Clocks(self.now, self.now + self.walls[name])

    def start(self, name, *, knobs=None):
        box = self.boxes[name]
        assert not box.alive
        box.life += 1
        box.alive, box.paused, box.halted = True, False, ""
        box.rng = Rng(self.seed).stream(f"{name}/{box.life}")
        box.core = self.target.core(node=name, members=self.names, knobs=knobs or self.knobs, variant=self.variant)
        for queue in (box.held, box.batches, box.timers, box.inbox):
            queue.clear()
        image = dict(box.disk.shown)
        self._witnessed(box, box.witness.booted(image))
        out = []
        box.core.boot(image, self.clocks(name), box.rng, out)
        self._carry_out(box, out)

    def kill(self, *names, power=False, wipe=False):
        for name in names:
            box = self.boxes[name]
            if box.alive:
                box.alive = False
                if box.batches:
                    ops = box.batches[0].ops
                    for op in ops[: self.rng.below(len(ops) + 1)]:
                        box.disk.carry_out(op)
            if power:
                box.disk.lose_power()
            if wipe:
                box.disk.wipe()

    def restart(self, name, **how):
        self.kill(name, **how)
        self.start(name)

    def sever(self, x, y):
        self.cut |= {(x, y), (y, x)}

    def isolate(self, name):
        for other in self.boxes:
            if other != name:
                self.sever(name, other)

    def heal(self):
        self.cut.clear()

    def pause(self, name):
        self.boxes[name].paused = True

    def resume(self, name, *, timers_first=True):
        box = self.boxes[name]
        box.paused = False
        waiting, box.inbox = box.inbox, []
        waiting.sort(key=lambda event: timers_first and not isinstance(event, Fired))
        for event in waiting:
            if callable(event):
                event()
            else:
                self._handle(box, event)

    def step_wall(self, name, ms):
        self.walls[name] += ms * MS
        box = self.boxes[name]
        for timer, (at, clock) in list(box.timers.items()):
            if clock == "wall":
                self._schedule(box, timer, at, clock)

    # --- running ------------------------------------------------------------------------------------------------

    def at(self, when, what, *args):
        self.number += 1
        heapq.heappush(self.heap, (when, self.number, what, args))

    def run(self, ms=0, *, until=None):
        """Run for ``ms``, or until the condition holds; whether it does."""
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
        self.requests += 1
        self._arrive(self.boxes[name], Request(self.requests, body))
        return self.requests

    def ask(self, name, body, *, ms=500):
        """A request and its answer, None if there is none in time."""
        number = self.request(name, body)
        self.run(ms, until=lambda: number in self.replies)
        return self.replies.get(number)

    def write(self, name, value, *, key="k", ms=500):
        """Whether the write was acknowledged."""
        return isinstance(self.ask(name, Append(key, value), ms=ms), Ok)

    def read(self, name, key="k", *, ms=500):
        """The list; None if it was not served."""
        answer = self.ask(name, Get(key), ms=ms)
        return (answer.value or []) if isinstance(answer, Ok) else None

    def with_role(self, role="LEADER", *, alive=True):
        """The names of the nodes in that role."""
        return [b.name for b in self.boxes.values() if b.core and (b.alive or not alive) and b.status().role == role]

    def notes(self, name):
        """All notes of that name, over all nodes."""
        return [note for box in self.boxes.values() for note in box.notes if note.name == name]

    # --- inside -------------------------------------------------------------------------------------------------

    def _arrive(self, box, event, life=None):
        if not box.alive or (life is not None and life != box.life):
            return
        if box.paused:
            box.inbox.append(event)
        else:
            self._handle(box, event)

    def _handle(self, box, event):
        if not box.alive:
            return
        if type(event) is Message:
            self._witnessed(box, box.witness.received(event.src, event.body))
        out = []
        box.core.handle(event, self.clocks(box.name), box.rng, out)
        self._carry_out(box, out)
        if box.alive:
            term = box.status().term
            if 0 < term < self.terms.get(box.name, 0):
                self.problems.append(f"INV-3: {box.name} shows {term} after {self.terms[box.name]}")
            self.terms[box.name] = max(term, self.terms.get(box.name, 0))

    def _carry_out(self, box, out):
        for effect in out:
            if not box.alive:
                return
            if box.crash_in == 0:
                box.crash_in = -1
                self.kill(box.name)
                return
            box.crash_in -= box.crash_in > 0
            kind = type(effect)
            if kind is Disk:
                box.batches.append(effect)
                if len(box.batches) == 1:
                    self._start_batch(box)
            elif kind is SetTimer:
                box.timers.pop(effect.name, None)
                if effect.at is not None:
                    self._schedule(box, effect.name, effect.at, effect.clock)
            elif kind is Halt:
                box.alive, box.halted = False, effect.reason
            elif box.held:
                box.held.append(effect)
            elif kind is Await:
                if any(batch.token == effect.token for batch in box.batches):
                    box.held.append(effect)
            else:
                self._show(box, effect)

    def _schedule(self, box, name, at, clock):
        box.timers[name] = (at, clock)
        mono = at if clock == "mono" else at - self.walls[box.name]
        self.at(max(mono, self.now), self._ring, box, box.life, name, at)

    def _ring(self, box, life, name, at):
        known = box.timers.get(name)
        if not box.alive or box.life != life or known is None or known[0] != at:
            return
        if known[1] == "wall" and at > self.now + self.walls[box.name]:
            self._schedule(box, name, at, "wall")  # the clock was set back
            return
        del box.timers[name]
        self._arrive(box, Fired(name), life)

    def _start_batch(self, box):
        if self.fsync is not None:
            self.at(self.now + self.rng.between(*self.fsync) * MS // 2, self.batch_done, box, box.life)

    def batch_done(self, box, life=None, error=None):
        if not box.alive or (life is not None and box.life != life) or not box.batches:
            return
        if box.paused:
            box.inbox.append(lambda: self.batch_done(box, life, error))
            return
        batch = box.batches.popleft()
        if error is None:
            for op in batch.ops:
                box.disk.carry_out(op)
            self._witnessed(box, box.witness.synced(batch.ops))
        if box.batches:
            self._start_batch(box)
        if box.held and type(box.held[0]) is Await and box.held[0].token == batch.token:
            if error is not None:
                box.held.clear()
            else:
                self._release(box)
        self._arrive(box, DiskDone(batch.token, error), life)

    def _release(self, box):
        box.held.popleft()
        while box.held and box.alive:
            effect = box.held.popleft()
            if type(effect) is Await:
                if any(batch.token == effect.token for batch in box.batches):
                    box.held.appendleft(effect)
                    return
                continue
            self._show(box, effect)

    def _show(self, box, effect):
        if type(effect) is Send:
            self._witnessed(box, box.witness.sent(effect.to, effect.body))
            self._send(box.name, effect.to, effect.body)
        elif type(effect) is Reply:
            assert effect.id not in self.replies, "two answers"
            self.replies[effect.id] = effect.body
        else:
            box.notes.append(effect)
            if effect.name == "violation":
                self.problems.append(f"{box.name} notes {effect.data}")

    def _send(self, src, dst, body):
        if (src, dst) in self.cut or (self.loss and self.rng.chance(self.loss, 100)):
            return
        if self.hold is not None and self.hold(src, dst, body):
            self.held_messages.append((src, dst, body))
            return
        after = self.rng.between(self.delay[0] * MS, self.delay[1] * MS) + self.slow.get((src, dst), 0) * MS
        self.at(self.now + after, self.deliver, src, dst, body)

    def deliver(self, src, dst, body):
        if (src, dst) not in self.cut:
            self._arrive(self.boxes[dst], Message(src, body))

    def _witnessed(self, box, events):
        for event in events:
            box.witnessed.append(event)
            if event.name == "elected" and event.term > 0:
                before = self.leaders.setdefault(event.term, box.name)
                if before != box.name:
                    self.problems.append(f"INV-1: {before} and {box.name} lead term {event.term}")
