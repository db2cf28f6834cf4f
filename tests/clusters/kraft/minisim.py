"""A minimal world for KRaft cores: virtual time, a lossy network, disks that lose what was not synced, crashes.

It judges while it runs: one leader an epoch, one vote an epoch, epochs and commits that never go back, leader
completeness, committed records that agree, and majorities, read from what was really sent and carried out. It is a
test's tool, not the project's simulator.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Any

from dethrone.clusters.targets.client_api import Append, Ok
from dethrone.clusters.targets.kraft.rules import FOLLOWER, LEADER
from dethrone.clusters.targets.kraft.target import TARGET
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
            self.durable.pop(op.path, None)

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
        self.core = None
        self.held = deque()
        self.batches = deque()
        self.timers: dict[str, int] = {}
        self.inbox = []
        self.notes: list[Note] = []
        self.witness = TARGET.witness(node=name, members=world.names)
        self.witnessed = []
        self.crash_in = -1
        self.rng = Rng(0)

    @property
    def node(self):
        return self.core.node

    @property
    def leads(self):
        return self.alive and self.node.leading is not None

    def status(self):
        return self.core.status(self.world.clocks())


class World:
    """``names``: all members; the knob ``observers`` says who of them does not vote. ``asleep``: not started yet."""

    def __init__(
        self, names="ABC", *, seed=1, profile="kraft", variant=None, asleep="", delay=(1, 3), fsync=(0, 2), **settings
    ):
        self.rng = Rng(seed).stream("world")
        self.seed = seed
        self.names = tuple(names)
        self.knobs = TARGET.knobs({k: str(v) for k, v in settings.items()}, profile=profile)
        self.voters = self.knobs.voters(self.names)
        self.variant = variant if isinstance(variant, dict) else dict.fromkeys(self.names, variant)
        self.now = 0
        self.heap = []
        self.count = 0
        self.cut: set[tuple[str, str]] = set()
        self.loss = 0
        self.delay = delay
        self.fsync = fsync
        self.hold = None
        self.held_messages = []
        self.sent: list[tuple[int, str, str, Any]] = []
        self.replies: dict[int, Any] = {}
        self.requests = 0
        self.wall: dict[str, int] = dict.fromkeys(self.names, 0)
        self.problems: list[str] = []
        self.votes: dict[tuple[str, int], str] = {}
        self.leaders: dict[int, tuple[str, list[str]]] = {}
        self.committed: dict[int, tuple[int, str]] = {}
        self.committed_in: dict[int, int] = {}
        self.terms: dict[str, int] = {}
        self.seen: dict[str, int] = {}
        self.boxes = {name: Box(self, name) for name in self.names}
        for name in self.names:
            if name not in asleep:
                self.start(name)

    # --- faults -------------------------------------------------------------------------------------------------

    def clocks(self, name=None):
        return Clocks(self.now, self.now + (self.wall[name] if name else 0))

    def start(self, name):
        box = self.boxes[name]
        assert not box.alive
        box.life += 1
        box.alive, box.paused, box.halted = True, False, ""
        box.rng = Rng(self.seed).stream(f"{name}/{box.life}")
        box.core = TARGET.core(node=name, members=self.names, knobs=self.knobs, variant=self.variant[name])
        box.held.clear()
        box.batches.clear()
        box.timers.clear()
        box.inbox.clear()
        self.seen[name] = 0
        image = dict(box.disk.shown)
        self._witnessed(box, box.witness.booted(image))
        out = []
        box.core.boot(image, self.clocks(name), box.rng, out)
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
            box.disk.lose_power()

    def restart(self, name, **how):
        self.kill(name, **how)
        self.start(name)

    def sever(self, x, y):
        self.cut |= {(x, y), (y, x)}

    def isolate(self, name):
        for other in self.boxes:
            if other != name:
                self.sever(name, other)

    def partition(self, *groups):
        self.cut.clear()
        for i, a in enumerate(groups):
            for b in groups[i + 1 :]:
                for x in a:
                    for y in b:
                        self.sever(x, y)

    def heal(self):
        self.cut.clear()

    def pause(self, name):
        self.boxes[name].paused = True

    def resume(self, name):
        box = self.boxes[name]
        box.paused = False
        waiting, box.inbox = box.inbox, []
        for event in sorted(waiting, key=lambda event: not isinstance(event, Fired)):  # due timers first, as the shell
            if callable(event):
                event()
            else:
                self.handle(box, event)

    def ring(self, name, timer):
        """Let a timer of this node ring now."""
        self.handle(self.boxes[name], Fired(timer))

    def campaign(self, name):
        """Let the timer that leads to a campaign run out now."""
        node = self.boxes[name].node
        if node.state == FOLLOWER:
            node.fetch_at = 0
            self.ring(name, "fetch")
        else:
            node.election_at = node.backoff_at = 0
            self.ring(name, "backoff" if node.backing_off else "election")

    def step_wall(self, name, ns):
        """Move a node's wall clock; its wall timers are looked at again."""
        self.wall[name] += ns
        box = self.boxes[name]
        for timer, (at, clock) in list(box.timers.items()):
            if clock == "wall":
                self._set_timer(box, SetTimer(timer, at, "wall"))

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

    def ask(self, name, body, *, ms=2000):
        """A request and its answer, None if there is none in time."""
        number = self.request(name, body)
        self.run(ms, until=lambda: number in self.replies)
        return self.replies.get(number)

    def leader(self, *, among=None):
        """The node that leads the highest epoch, None if none does."""
        leaders = [box for box in self.boxes.values() if box.leads and (among is None or box.name in among)]
        return max(leaders, key=lambda box: box.node.epoch).name if leaders else None

    def elect(self, name=None, *, ms=20_000):
        """Run until a leader (``name``, if given) exists and its high watermark is known."""

        def settled():
            who = self.leader()
            return who is not None and (name in (None, who)) and self.boxes[who].node.leading.hw > 0

        if name is not None and self.leader() != name:
            self.campaign(name)
        assert self.run(ms, until=settled), "no leader"
        return self.leader()

    def write(self, name, value, *, ms=2000):
        return isinstance(self.ask(name, Append("k", value), ms=ms), Ok)

    def notes(self, name, *, of=None):
        """All notes of that name, of one node or of all."""
        boxes = self.boxes.values() if of is None else [self.boxes[of]]
        return [note for box in boxes for note in box.notes if note.name == name]

    def messages(self, kind, *, src=None, dst=None):
        """(time, src, dst, body) of what was sent."""
        return [
            one for one in self.sent if isinstance(one[3], kind) and src in (None, one[1]) and dst in (None, one[2])
        ]

    # --- inside -------------------------------------------------------------------------------------------------

    def _arrive(self, box, event, life=None):
        if not box.alive or (life is not None and life != box.life):
            return
        if box.paused:
            box.inbox.append(event)
        else:
            self.handle(box, event)

    def handle(self, box, event):
        if not box.alive:
            return
        if type(event) is Message:
            self._witnessed(box, box.witness.received(event.src, event.body))
        out = []
        box.core.handle(event, self.clocks(box.name), box.rng, out)
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

    def _set_timer(self, box, effect):
        if effect.at is None:
            box.timers.pop(effect.name, None)
            return
        at = effect.at if effect.clock == "mono" else effect.at - self.wall[box.name]
        box.timers[effect.name] = (effect.at, effect.clock)
        self.at(max(at, self.now), self._ring, box, box.life, effect)

    def _ring(self, box, life, effect):
        if not box.alive or box.life != life or box.timers.get(effect.name) != (effect.at, effect.clock):
            return
        if effect.clock == "wall" and self.now + self.wall[box.name] < effect.at:
            return
        if not box.paused:
            del box.timers[effect.name]
        self._arrive(box, Fired(effect.name), life)

    def _start_batch(self, box):
        if self.fsync is not None:
            self.at(self.now + self.rng.between(*self.fsync) * MS // 2, self.batch_done, box, box.life)

    def batch_done(self, box, life, error=None):
        if not box.alive or box.life != life or not box.batches:
            return
        if box.paused:  # the thread that would report it is stopped, too
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
            self.post(box.name, effect.to, effect.body)
        elif type(effect) is Reply:
            assert effect.id not in self.replies, "two answers"
            self.replies[effect.id] = effect.body
        else:
            box.notes.append(effect)
            if effect.name == "violation":
                self.problems.append(f"{box.name} notes {effect.data}")

    def post(self, src, dst, body):
        self.sent.append((self.now, src, dst, body))
        if (src, dst) in self.cut or (self.loss and self.rng.chance(self.loss, 100)) or dst not in self.boxes:
            return
        if self.hold is not None and self.hold(src, dst, body):
            self.held_messages.append((src, dst, body))
            return
        after = self.rng.between(self.delay[0] * MS, self.delay[1] * MS)
        self.at(self.now + after, self.deliver, src, dst, body)

    def deliver(self, src, dst, body):
        if (src, dst) not in self.cut:
            self._arrive(self.boxes[dst], Message(src, body))

    # --- judging ------------------------------------------------------------------------------------------------

    def _witnessed(self, box, events):
        for event in events:
            box.witnessed.append(event)
            if event.name == "vote":
                before = self.votes.setdefault((box.name, event.term), event.data["candidate"])
                if before != event.data["candidate"]:
                    self.problems.append(f"INV-2: {box.name} voted twice in epoch {event.term}")
            elif event.name == "elected":
                self._elected(box, event)
            if event.name in ("persisted", "vote", "answered", "acked", "elected"):
                if event.term < self.terms.get(box.name, 0):
                    self.problems.append(f"INV-3: {box.name} goes back to epoch {event.term} ({event.name})")
                self.terms[box.name] = max(event.term, self.terms.get(box.name, 0))

    def _elected(self, box, event):
        before = self.leaders.setdefault(event.term, (box.name, event.data["voters"]))
        if before[0] != box.name:
            self.problems.append(f"INV-1: {before[0]} and {box.name} lead epoch {event.term}")
        elif before[1] != event.data["voters"] and not event.data["voters"]:
            self.problems.append(f"{box.name} leads epoch {event.term} a second time")
        if len(set(event.data["voters"]) & set(self.voters)) * 2 <= len(self.voters):
            self.problems.append(f"INV-12: {box.name} leads epoch {event.term} with {event.data['voters']}")
        log = box.node.log
        for index, (epoch, digest) in self.committed.items():
            if self.committed_in[index] < event.term and (
                index > log.end or (log.entries[index - 1].epoch, log.digests[index - 1]) != (epoch, digest)
            ):
                self.problems.append(f"INV-4: {box.name} leads epoch {event.term} without record {index} of {epoch}")
                return

    def _look(self, box):
        node = box.node
        before = self.seen[box.name]
        if node.commit < before:
            self.problems.append(f"INV-5: commit of {box.name} goes back to {node.commit}")
        if node.commit > node.log.end:
            self.problems.append(f"INV-5: commit of {box.name} is {node.commit}, its log ends at {node.log.end}")
        for index in range(before + 1, min(node.commit, node.log.end) + 1):
            found = (node.log.entries[index - 1].epoch, node.log.digests[index - 1])
            if self.committed.setdefault(index, found) != found:
                self.problems.append(f"INV-5: record {index} is {found} at {box.name}, not {self.committed[index]}")
            self.committed_in.setdefault(index, node.epoch)
        self.seen[box.name] = node.commit
        shown = box.core.glance()[1]
        if 0 < shown < self.terms.get(box.name, 0):
            self.problems.append(f"INV-3: {box.name} shows epoch {shown}")

    def logs_match(self):
        """INV-5: equal (offset, epoch) means an equal prefix, over all live nodes."""
        logs = [box.node.log for box in self.boxes.values() if box.alive]
        for i, one in enumerate(logs):
            for other in logs[i + 1 :]:
                last = 0
                for index in range(1, min(one.end, other.end) + 1):
                    if one.entries[index - 1].epoch == other.entries[index - 1].epoch:
                        last = index
                if one.digests[:last] != other.digests[:last]:
                    return False
        return True


def leaders(world):
    """Names of all nodes that call themselves leader."""
    return [box.name for box in world.boxes.values() if box.alive and box.status().role == LEADER]
