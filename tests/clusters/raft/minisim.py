"""A minimal world for Raft cores: virtual time, a lossy network, disks that lose what was not synced, crashes anywhere.

It judges while it runs: election safety, one vote a term, terms and commits that never go back, leader completeness,
log matching and majorities, read from what was really sent and carried out. It is a test's tool, not the project's
simulator.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Any

from dethrone.clusters.targets.client_api import Append, Ok
from dethrone.clusters.targets.raft.core import RaftCore
from dethrone.clusters.targets.raft.target import TARGET
from dethrone.clusters.targets.raft.witness import RaftWitness
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
        self.timers: dict[str, int] = {}
        self.inbox = []
        self.notes: list[Note] = []
        self.witness = RaftWitness(name)
        self.witnessed = []
        self.crash_in = -1
        self.rng = Rng(0)

    @property
    def node(self):
        return self.core.node

    def status(self):
        return self.core.status(self.world.clocks())


class World:
    """``names``: the voters; ``spare``: boxes started with them as members but outside of them."""

    def __init__(
        self, names="ABC", *, seed=1, profile="raft", variant=None, spare="", delay=(1, 3), fsync=(0, 2), **settings
    ):
        self.rng = Rng(seed).stream("world")
        self.seed = seed
        self.names = tuple(names)
        self.knobs = TARGET.knobs({k: str(v) for k, v in settings.items()}, profile=profile)
        self.variant = variant
        self.now = 0
        self.heap = []
        self.count = 0
        self.cut: set[tuple[str, str]] = set()
        self.loss = 0
        self.delay = delay
        self.fsync = fsync
        self.hold = None
        self.held_messages = []
        self.replies: dict[int, Any] = {}
        self.requests = 0
        self.wall = 0
        self.problems: list[str] = []
        self.votes: dict[tuple[str, int], str] = {}
        self.leaders: dict[int, tuple[str, list[str]]] = {}
        self.committed: dict[int, tuple[int, str]] = {}
        self.committed_in: dict[int, int] = {}
        self.terms: dict[str, int] = {}
        self.seen: dict[str, int] = {}
        self.boxes = {name: Box(self, name) for name in (*self.names, *spare)}
        for name in self.names:
            self.start(name)

    # --- faults -------------------------------------------------------------------------------------------------

    def clocks(self):
        return Clocks(self.now, self.now + self.wall)

    def start(self, name):
        box = self.boxes[name]
        assert not box.alive
        box.life += 1
        box.alive, box.paused, box.halted = True, False, ""
        box.rng = Rng(self.seed).stream(f"{name}/{box.life}")
        box.core = TARGET.core(node=name, members=self.names, knobs=self.knobs, variant=self.variant)
        assert isinstance(box.core, RaftCore)
        box.held.clear()
        box.batches.clear()
        box.timers.clear()
        box.inbox.clear()
        self.seen[name] = 0
        image = dict(box.disk.shown)
        self._witnessed(box, box.witness.booted(image))
        out = []
        box.core.boot(image, self.clocks(), box.rng, out)
        self._carry_out(box, out)

    def kill(self, name, *, power=False, wipe=False):
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

    def partition(self, *groups):
        self.cut.clear()
        for i, a in enumerate(groups):
            for b in groups[i + 1 :]:
                for x in a:
                    for y in b:
                        self.sever(x, y)

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

    def resume(self, name):
        box = self.boxes[name]
        box.paused = False
        waiting, box.inbox = box.inbox, []
        for event in waiting:
            if callable(event):
                event()
            else:
                self._handle(box, event)

    # --- running ------------------------------------------------------------------------------------------------

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
        """A request and its answer, None if there is none in time."""
        number = self.request(name, body)
        self.run(ms, until=lambda: number in self.replies)
        return self.replies.get(number)

    def leader(self, *, among=None):
        """The one node that leads the highest term, None if none does."""
        leaders = [b for b in self.boxes.values() if b.alive and b.node.leading and (among is None or b.name in among)]
        return max(leaders, key=lambda b: b.node.term).name if leaders else None

    def elect(self, name=None, *, ms=20_000):
        """Run until a leader (``name``, by killing others' chances) exists and has an entry of its term committed."""

        def settled():
            who = self.leader()
            return who is not None and (name is None or who == name) and self.boxes[who].status().commit > 0

        if name is None or not any(b.alive and b.node.leading for b in self.boxes.values()):
            if name is not None:
                self.campaign(name)
            assert self.run(ms, until=settled), "no leader"
        return self.leader()

    def campaign(self, name):
        """Let the election deadline of ``name`` pass now, whatever it hears."""
        box = self.boxes[name]
        node = box.node
        node.reset_at, node.contact = self.now - 10**12, -(10**12)
        node.deadline = self.now
        self._handle(box, Fired("election"))

    def write(self, name, value, *, ms=500):
        answer = self.ask(name, Append("k", value), ms=ms)
        return isinstance(answer, Ok)

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
        box.core.handle(event, self.clocks(), box.rng, out)
        self._carry_out(box, out)
        if box.alive:
            self._look(box)

    def _carry_out(self, box, out):
        life = box.life
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
        assert life == box.life

    def _set_timer(self, box, effect):
        if effect.at is None:
            box.timers.pop(effect.name, None)
            return
        at = effect.at if effect.clock == "mono" else effect.at - self.wall
        box.timers[effect.name] = at
        self.at(max(at, self.now), self._ring, box, box.life, effect.name, at)

    def _ring(self, box, life, name, at):
        if box.alive and box.life == life and box.timers.get(name) == at:
            if not box.paused:
                del box.timers[name]
            self._arrive(box, Fired(name), life)

    def _start_batch(self, box):
        if self.fsync is not None:
            self.at(self.now + self.rng.between(*self.fsync) * MS // 2, self._batch_done, box, box.life)

    def _batch_done(self, box, life, error=None):
        if not box.alive or box.life != life or not box.batches:
            return
        if box.paused:  # the thread that would report it is stopped, too
            box.inbox.append(lambda: self._batch_done(box, life, error))
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
            self._send(box.name, effect.to, effect.body)
        elif type(effect) is Reply:
            assert effect.id not in self.replies, "two answers"
            self.replies[effect.id] = effect.body
        else:
            box.notes.append(effect)
            if effect.name == "violation":
                self.problems.append(f"{box.name} notes {effect.data}")

    def _send(self, src, dst, body):
        if (src, dst) in self.cut or (self.loss and self.rng.chance(self.loss, 100)) or dst not in self.boxes:
            return
        if self.hold is not None and self.hold(src, dst, body):
            self.held_messages.append((src, dst, body))
            return
        after = self.rng.between(self.delay[0] * MS, self.delay[1] * MS)
        self.at(self.now + after, self._deliver, src, dst, body)

    def _deliver(self, src, dst, body):
        if (src, dst) not in self.cut:
            self._arrive(self.boxes[dst], Message(src, body))

    # --- judging ------------------------------------------------------------------------------------------------

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
        voters = box.node.config.voters
        if len(set(event.data["voters"]) & set(voters)) * 2 <= len(voters):
            self.problems.append(f"INV-12: {box.name} leads term {event.term} with {event.data['voters']} of {voters}")
        log = box.node.log
        for index, (term, digest) in self.committed.items():
            if self.committed_in[index] < event.term and (
                index > log.end or (log.term_at(index), log.digests[index - 1]) != (term, digest)
            ):
                self.problems.append(f"INV-4: {box.name} leads term {event.term} without entry {index} of {term}")
                return

    def _look(self, box):
        node = box.node
        before = self.seen[box.name]
        if node.commit < before:
            self.problems.append(f"INV-5: commit of {box.name} goes back to {node.commit}")
        for index in range(before + 1, min(node.commit, node.log.end) + 1):
            found = (node.log.term_at(index), node.log.digests[index - 1])
            if self.committed.setdefault(index, found) != found:
                self.problems.append(
                    f"INV-5: entry {index} is {found} at {box.name}, {self.committed[index]} elsewhere"
                )
            self.committed_in.setdefault(index, node.term)
        self.seen[box.name] = node.commit
        shown = box.status().term
        if 0 < shown < self.terms.get(box.name, 0) and node.knobs.persist:
            self.problems.append(f"INV-3: {box.name} shows term {shown}")
        self.terms[box.name] = max(shown, self.terms.get(box.name, 0))

    def logs_match(self):
        """INV-5: equal (index, term) means an equal prefix, over all live nodes."""
        logs = [b.node.log for b in self.boxes.values() if b.alive]
        for i, one in enumerate(logs):
            for other in logs[i + 1 :]:
                last = 0
                for index in range(1, min(one.end, other.end) + 1):
                    if one.term_at(index) == other.term_at(index):
                        last = index
                if one.digests[:last] != other.digests[:last]:
                    return False
        return True

    def notes(self, name):
        """All notes of that name, over all nodes."""
        return [note for box in self.boxes.values() for note in box.notes if note.name == name]
