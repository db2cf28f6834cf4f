"""The hosts of a world: what becomes of the effects of a bare core, and of the messages between cores.

Guarantees: effects wait behind barriers, and files survive, by the code of the project's own shells
(`dethrone.clusters.node.effects`, `dethrone.clusters.sim.disk`); a node may die behind any prefix of its effects, and
of the batch under way; what comes to a paused node waits. Out of scope: faults, requests, and what a protocol is
(`tests.world.world`).
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Any

from dethrone.clusters.node.effects import Barrier
from dethrone.harness.core.clock import MS, Clocks
from dethrone.harness.core.machine import Disk, DiskDone, Fired, Halt, Message, Note, Reply, Send, SendFailed, SetTimer
from dethrone.harness.core.rng import Rng
from tests.world.disk import Disk as Files


class Box:
    """One host with its node."""

    def __init__(self, world, name):
        self.world = world
        self.name = name
        self.disk = Files()
        self.alive = False
        self.paused = False
        self.halted = ""
        self.life = 0
        self.wall = world.epoch
        """The wall clock's lead over the world's time, in ns."""
        self.core: Any = None
        self.barrier = Barrier()
        self.batches: deque[Disk] = deque()
        self.timers: dict[str, tuple[int, str]] = {}
        self.inbox: list[Any] = []
        self.notes: list[Note] = []
        self.witness = world.target.witness(node=name, members=world.names)
        self.witnessed: list[Any] = []
        self.crash_in = -1
        """The process dies behind so many further effects; -1: it does not."""
        self.full = False
        """Nothing can be written any more."""
        self.rng = Rng(0)

    @property
    def node(self):
        return self.core.node

    @property
    def leads(self):
        return self.alive and any(self.world.leads(part) for _, part in self.world.parts(self))

    def clocks(self):
        return Clocks(self.world.now, self.world.now + self.wall)

    def status(self):
        return self.core.status(self.clocks())

    def glance(self):
        """(role, term, leader, …) as an observer would see them."""
        glance = getattr(self.core, "glance", None)  # to ask the protocol class would be slow
        if glance is not None:
            return glance()
        status = self.status()
        return status.role, status.term, status.leader

    def said(self, name, **data):
        """The data of the notes of that name with these data."""
        return [
            note.data
            for note in self.notes
            if note.name == name and all(note.data.get(key) == value for key, value in data.items())
        ]


class Shells:
    """What hosts do by themselves; `tests.world.world.World` is the whole."""

    # --- time -----------------------------------------------------------------------------------------------------

    def at(self, when, what, *args):
        """Call this at that moment."""
        self.count += 1
        heapq.heappush(self.heap, (when, self.count, what, args))

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

    # --- one node -------------------------------------------------------------------------------------------------

    def arrive(self, box, event, life=None):
        """Something comes to a node, if it (and this life of it) runs."""
        if not box.alive or (life is not None and life != box.life):
            return
        if box.paused:
            box.inbox.append(event)
        else:
            self.handle(box, event)

    def handle(self, box, event):
        """Hand it an event now."""
        if not box.alive:
            return
        if type(event) is Message:
            self._witnessed(box, box.witness.received(event.src, event.body))
        out: list[Any] = []
        box.core.handle(event, box.clocks(), box.rng, out)
        self.carry_out(box, out)
        if box.alive:
            self.judge.handled(box)

    def ring(self, name, timer):
        """Let a timer of this node ring now."""
        self.handle(self.boxes[name], Fired(timer))

    def carry_out(self, box, out):
        """Carry out what a core said, behind the barriers."""
        dies = 0 <= box.crash_in < len(out)
        if dies:
            out = out[: box.crash_in]
        elif box.crash_in > 0:
            box.crash_in -= len(out)
        self._carry_out_now(box, box.barrier.admit(out))
        if dies and box.alive:
            box.crash_in = -1
            self.kill(box.name)

    def _carry_out_now(self, box, ready):
        for effect in ready:
            kind = type(effect)
            if kind is Disk:
                box.batches.append(effect)
                if len(box.batches) == 1:
                    self.start_batch(box)
            elif kind is SetTimer:
                self._set_timer(box, effect.name, effect.at, effect.clock)
            elif kind is Halt:
                box.alive, box.halted = False, effect.reason
                return
            elif kind is Send:
                self._witnessed(box, box.witness.sent(effect.to, effect.body))
                self.post(box.name, effect.to, effect.body, answers=effect.answers)
            else:
                self.show(box, effect)

    def show(self, box, effect):
        """A reply or a note."""
        if type(effect) is Reply:
            assert effect.id not in self.replies, "two answers"
            self.replies[effect.id] = effect.body
        else:
            box.notes.append(effect)
            if effect.name == "violation":
                self.problems.append(f"{box.name} notes {effect.data}")

    def _set_timer(self, box, name, at, clock):
        if at is None:
            box.timers.pop(name, None)
            return
        box.timers[name] = (at, clock)
        mono = at if clock == "mono" else at - box.wall
        self.at(max(mono, self.now), self._ring, box, box.life, name, at, clock)

    def _ring(self, box, life, name, at, clock):
        if not box.alive or box.life != life or box.timers.get(name) != (at, clock):
            return
        if clock == "wall" and self.now + box.wall < at:  # the clock was set back
            self._set_timer(box, name, at, clock)
            return
        del box.timers[name]
        self.arrive(box, Fired(name), life)

    def start_batch(self, box):
        """The disk begins with the oldest batch."""
        if self.sync is not None:
            self.at(self.now + self.rng.between(*self.sync) * MS // 2, self.batch_done, box, box.life)

    def batch_done(self, box, life=None, error=None):
        """The oldest batch is done, or failed."""
        if not box.alive or life not in (None, box.life) or not box.batches:
            return
        if box.paused:  # the thread that would report it is stopped, too
            box.inbox.append(lambda: self.batch_done(box, life, error))
            return
        batch = box.batches.popleft()
        error = error or ("ENOSPC" if box.full else None)
        if error is None:
            for op in batch.ops:
                box.disk.carry_out(op)
            self._witnessed(box, box.witness.synced(batch.ops))
        if box.batches:
            self.start_batch(box)
        ready = box.barrier.done(batch.token, error)
        if 0 <= box.crash_in < len(ready):
            ready, box.crash_in = ready[: box.crash_in], -1
            self._carry_out_now(box, ready)
            self.kill(box.name)
        else:
            box.crash_in -= len(ready) if box.crash_in > 0 else 0
            self._carry_out_now(box, ready)
        self.arrive(box, DiskDone(batch.token, error), life)

    def _witnessed(self, box, events):
        for event in events:
            box.witnessed.append(event)
            self.judge.witnessed(box, event)

    # --- the network ----------------------------------------------------------------------------------------------

    def post(self, src, dst, body, *, answers=None):
        """A message leaves a node."""
        self.sent.append((self.now, src, dst, body))
        if (src, dst) in self.cut or (self.loss and self.rng.chance(self.loss, 100)) or dst not in self.boxes:
            return
        if self.hold is not None and self.hold(src, dst, body):
            self.held_messages.append((src, dst, body))
            return
        for _ in range(1 + (self.twice > 0 and self.rng.chance(self.twice, 100))):
            after = self.rng.between(int(self.delay[0] * MS), int(self.delay[1] * MS))
            after += self.lag.get((src, dst), 0) * MS
            self.at(self.now + after, self.deliver, src, dst, body, self.boxes[src].life)

    def deliver(self, src, dst, body, life=None):
        """A message arrives, if nothing cuts its way."""
        if (src, dst) in self.cut:
            return
        if not self.boxes[dst].alive:
            if self.refuses and (dst, src) not in self.cut:
                self.arrive(self.boxes[src], SendFailed(dst, body, "refused"), life)
            return
        self.arrive(self.boxes[dst], Message(src, body))

    def release(self):
        """Deliver what was held back; hold nothing any more."""
        self.hold, held = None, self.held_messages
        self.held_messages = []
        for src, dst, body in held:
            self.deliver(src, dst, body)
