"""A minimal world for DLedger cores: virtual time, a lossy network, disks that lose what was not synced, crashes.

It judges while it runs, from what was really sent and carried out: one vote and one leader a term, terms and commits
that never go back, leader completeness, log matching, majorities. It is a test's tool, not the project's simulator.
"""

from __future__ import annotations

import heapq
from collections import deque

from dethrone.clusters.targets.client_api import Append, Ok
from dethrone.clusters.targets.dledger.target import TARGET
from dethrone.clusters.targets.dledger.witness import DledgerWitness
from dethrone.harness.core.clock import MS, Clocks
from dethrone.harness.core.machine import (
    Await,
    Disk,
    DiskDone,
    Fired,
    Fsync,
    Halt,
    Message,
    Rename,
    Reply,
    Request,
    Send,
    SendFailed,
    SetTimer,
    Unlink,
    Write,
)
from dethrone.harness.core.rng import Rng
from tests.clusters.dledger.single import disk

WALL = 1_700_000_000_000 * MS


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
            self.durable[op.path] = self.shown[op.path]
        elif isinstance(op, Rename):
            self.shown[op.dst] = self.shown.pop(op.src)
        elif isinstance(op, Unlink):
            self.shown.pop(op.path, None)

    def lose_power(self):
        self.shown = dict(self.durable)


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
        self.wall = WALL
        self.core = None
        self.held = deque()
        self.batches = deque()
        self.timers = {}
        self.inbox = []
        self.notes = []
        self.witness = DledgerWitness(name)
        self.witnessed = []
        self.crash_in = -1
        self.disk_fails = False
        self.rng = Rng(0)

    @property
    def node(self):
        return self.core.node

    @property
    def leads(self):
        return self.alive and self.core.node.role == "LEADER"

    def clocks(self):
        return Clocks(self.world.now, self.world.now + self.wall)

    def status(self):
        return self.core.status(self.clocks())


class World:
    """``refuse``: a dead process refuses connections, so that its callers know at once. ``dead``: not started."""

    def __init__(
        self,
        names="ABC",
        *,
        seed=1,
        profile="dledger",
        variant=None,
        delay=(1, 1),
        sync_ms=(0, 2),
        refuse=True,
        dead="",
        **settings,
    ):
        self.rng = Rng(seed).stream("world")
        self.seed = seed
        self.names = tuple(names)
        self.knobs = TARGET.knobs(
            {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in settings.items()}, profile=profile
        )
        self.variant = variant
        self.now = 0
        self.heap = []
        self.count = 0
        self.cut = set()
        self.loss = 0
        self.twice = 0
        self.delay = delay
        self.sync_ms = sync_ms
        self.refuse = refuse
        self.hold = None
        self.held_messages = []
        self.replies = {}
        self.requests = 0
        self.messages = 0
        self.problems = []
        self.votes = {}
        self.leaders = {}
        self.committed = {}
        self.terms = {}
        self.seen = {}
        self.boxes = {name: Box(self, name) for name in self.names}
        for name in self.names:
            if name not in dead:
                self.start(name)

    def prepare(self, name, **stored):
        """What the disk of a node that does not run holds: ``term``, ``voted_for``, ``log`` (terms)."""
        files = self.boxes[name].disk
        files.shown, files.durable = disk(**stored), disk(**stored)

    # --- faults ---------------------------------------------------------------------------------------------------

    def start(self, name):
        box = self.boxes[name]
        assert not box.alive
        box.life += 1
        box.alive, box.paused, box.halted = True, False, ""
        box.rng = Rng(self.seed).stream(f"{name}/{box.life}")
        box.core = TARGET.core(node=name, members=self.names, knobs=self.knobs, variant=self.variant)
        box.held.clear()
        box.batches.clear()
        box.timers.clear()
        box.inbox.clear()
        self.seen[name] = None
        image = dict(box.disk.shown)
        self._witnessed(box, box.witness.booted(image))
        out = []
        box.core.boot(image, box.clocks(), box.rng, out)
        self._carry_out(box, out)

    def kill(self, name, *, power=False):
        box = self.boxes[name]
        if box.alive:
            box.alive = False
            if box.batches and not box.disk_fails:
                ops = box.batches[0].ops
                for op in ops[: self.rng.below(len(ops) + 1)]:
                    box.disk.carry_out(op)
        if power:
            box.disk.lose_power()

    def restart(self, name, **how):
        self.kill(name, **how)
        self.start(name)

    def sever(self, x, y):
        self.cut |= {(x, y), (y, x)}

    def isolate(self, name):
        for other in self.names:
            if other != name:
                self.sever(name, other)

    def heal(self):
        self.cut.clear()

    def pause(self, name):
        self.boxes[name].paused = True

    def resume(self, name):
        box = self.boxes[name]
        box.paused = False
        waiting, box.inbox = box.inbox, []
        # timers that fell due come before queued messages, as in the node's loop
        for event in sorted(waiting, key=lambda item: type(item) is not Fired):
            if callable(event):
                event()
            else:
                self._handle(box, event)

    def step_clock(self, name, ms):
        box = self.boxes[name]
        box.wall += ms * MS
        for timer, (at, clock) in list(box.timers.items()):
            if clock == "wall":
                self._ring_at(box, timer, at, clock)

    # --- running --------------------------------------------------------------------------------------------------

    def at(self, when, what, *args):
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

    def request(self, name, body):
        self.requests += 1
        self._arrive(self.boxes[name], Request(self.requests, body))
        return self.requests

    def ask(self, name, body, *, ms=500):
        number = self.request(name, body)
        self.run(ms, until=lambda: number in self.replies)
        return self.replies.get(number)

    def leader(self):
        """The one node that leads the highest term, None if none does."""
        leaders = [b for b in self.boxes.values() if b.leads]
        return max(leaders, key=lambda b: b.node.term).name if leaders else None

    def elect(self, *, ms=20_000):
        """Run until somebody leads and everybody alive follows."""

        def settled():
            who = self.leader()
            return who is not None and all(b.node.leader == who for b in self.boxes.values() if b.alive)

        assert self.run(ms, until=settled), "no leader"
        return self.leader()

    def write(self, name, value, *, ms=500):
        return isinstance(self.ask(name, Append("k", value), ms=ms), Ok)

    # --- inside ---------------------------------------------------------------------------------------------------

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
        box.core.handle(event, box.clocks(), box.rng, out)
        self._carry_out(box, out)
        if box.alive:
            self._look(box)

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
                if effect.at is None:
                    box.timers.pop(effect.name, None)
                else:
                    self._ring_at(box, effect.name, effect.at, effect.clock)
            elif kind is Halt:
                box.alive, box.halted = False, effect.reason
            elif box.held:
                box.held.append(effect)
            elif kind is Await:
                if any(batch.token == effect.token for batch in box.batches):
                    box.held.append(effect)
            else:
                self._show(box, effect)

    def _ring_at(self, box, name, at, clock):
        box.timers[name] = (at, clock)
        mono = at - box.wall if clock == "wall" else at
        self.at(max(mono, self.now), self._ring, box, box.life, name, at, clock)

    def _ring(self, box, life, name, at, clock):
        if not box.alive or box.life != life or box.timers.get(name) != (at, clock):
            return
        if clock == "wall" and self.now + box.wall < at:
            self._ring_at(box, name, at, clock)
            return
        del box.timers[name]
        self._arrive(box, Fired(name), life)

    def _start_batch(self, box):
        if self.sync_ms is not None:
            self.at(self.now + self.rng.between(*self.sync_ms) * MS // 2, self._batch_done, box, box.life)

    def _batch_done(self, box, life):
        if not box.alive or box.life != life or not box.batches:
            return
        if box.paused:
            box.inbox.append(lambda: self._batch_done(box, life))
            return
        batch = box.batches.popleft()
        error = "ENOSPC" if box.disk_fails else None
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
            effect = box.held[0]
            if type(effect) is Await:
                if any(batch.token == effect.token for batch in box.batches):
                    return
                box.held.popleft()
                continue
            box.held.popleft()
            if box.crash_in == 0:
                box.crash_in = -1
                self.kill(box.name)
                return
            box.crash_in -= box.crash_in > 0
            self._show(box, effect)

    def _show(self, box, effect):
        if type(effect) is Send:
            self._witnessed(box, box.witness.sent(effect.to, effect.body))
            self._send(box, effect.to, effect.body)
        elif type(effect) is Reply:
            assert effect.id not in self.replies, "two answers"
            self.replies[effect.id] = effect.body
        else:
            box.notes.append(effect)
            if effect.name == "violation":
                self.problems.append(f"{box.name} notes {effect.data}")

    def _send(self, box, dst, body):
        src = box.name
        self.messages += 1
        if (src, dst) in self.cut or (self.loss and self.rng.chance(self.loss, 100)):
            return
        if self.hold is not None and self.hold(src, dst, body):
            self.held_messages.append((src, dst, body))
            return
        for _ in range(1 + (self.twice > 0 and self.rng.chance(self.twice, 100))):
            after = self.rng.between(self.delay[0] * MS // 2, self.delay[1] * MS // 2)
            self.at(self.now + after, self._deliver, src, box.life, dst, body)

    def _deliver(self, src, life, dst, body):
        if (src, dst) in self.cut:
            return
        if not self.boxes[dst].alive:
            if self.refuse and (dst, src) not in self.cut:
                self._arrive(self.boxes[src], SendFailed(dst, body, "refused"), life)
            return
        self._arrive(self.boxes[dst], Message(src, body))

    # --- judging --------------------------------------------------------------------------------------------------

    def _witnessed(self, box, events):
        for event in events:
            box.witnessed.append(event)
            if event.name == "vote":
                before = self.votes.setdefault((box.name, event.term), event.data["candidate"])
                if before != event.data["candidate"]:
                    self.problems.append(f"INV-2: {box.name} voted twice in term {event.term}")
            elif event.name == "elected":
                self._elected(box, event)
            elif event.name == "persisted":
                if event.term < self.terms.get(box.name, 0):
                    self.problems.append(f"INV-3: {box.name} stores term {event.term} again")
                self.terms[box.name] = event.term

    def _elected(self, box, event):
        before = self.leaders.setdefault(event.term, (box.name, event.data["voters"]))
        if before[0] != box.name:
            self.problems.append(f"INV-1: {before[0]} and {box.name} lead term {event.term}")
        if len(set(event.data["voters"]) & set(self.names)) * 2 <= len(self.names):
            self.problems.append(f"INV-12: {box.name} leads term {event.term} with {event.data['voters']}")
        log = box.node.log
        for index, (term, digest, in_term) in self.committed.items():
            if in_term + 1 < event.term and (
                index > log.last or (log.entries[index].term, log.digests[index]) != (term, digest)
            ):
                self.problems.append(f"INV-4: {box.name} leads term {event.term} without entry {index} of {term}")
                return

    def _look(self, box):
        node = box.node
        before = self.seen[box.name]
        committed = node.committed
        if before is None:
            before = -1
        elif committed == before:
            return
        if committed < before:
            self.problems.append(f"INV-5: commit of {box.name} goes back to {committed}")
        if committed > node.log.last:
            self.problems.append(f"INV-5: {box.name} committed {committed} beyond its log")
        for index in range(before + 1, min(committed, node.log.last) + 1):
            found = (node.log.entries[index].term, node.log.digests[index])
            known = self.committed.setdefault(index, (*found, node.term))
            if known[:2] != found:
                self.problems.append(f"INV-5: entry {index} is {found} at {box.name}, {known} elsewhere")
        self.seen[box.name] = committed

    def logs_match(self):
        """INV-5: equal (index, term) means an equal prefix, over all live nodes."""
        logs = [b.node.log for b in self.boxes.values() if b.alive]
        for i, one in enumerate(logs):
            for other in logs[i + 1 :]:
                last = -1
                for index in range(min(one.last, other.last) + 1):
                    if one.entries[index].term == other.entries[index].term:
                        last = index
                if one.digests[: last + 1] != other.digests[: last + 1]:
                    return False
        return True

    def notes(self, name):
        """All notes of that name, over all nodes."""
        return [note for box in self.boxes.values() for note in box.notes if note.name == name]
