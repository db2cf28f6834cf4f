"""A minimal world for JoyQueue cores: virtual time, a lossy network, disks that lose what was not synced, crashes
anywhere, send tasks that start late.

It judges while it runs, group by group: election safety, one vote a term, terms and commits that never go back, leader
completeness, log matching and majorities, read from what was really sent and carried out. A test's tool, not the
project's simulator.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Any

from dethrone.clusters.targets.client_api import Append, Ok
from dethrone.clusters.targets.joyqueue.storage import TOPIC, Metadata, metadata_ops
from dethrone.clusters.targets.joyqueue.target import TARGET
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


def metadata_of(node, members, term, voted_for):
    """The metadata of a node that stored this."""
    return Metadata(
        all_nodes=tuple(members), local_node_id=node, leader_id=None, voted_for=voted_for, current_term=term
    )


class SimDisk:
    """Files as the kernel shows them and as a power loss leaves them. ``full``: nothing can be written any more."""

    def __init__(self):
        self.shown: dict[str, bytes] = {}
        self.durable: dict[str, bytes] = {}
        self.full = False

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
        self.halted = ""
        self.life = 0
        self.core = None
        self.held = deque()
        self.batches = deque()
        self.timers: dict[str, int] = {}
        self.notes: list[Note] = []
        self.witness = TARGET.witness(node=name, members=world.names)
        self.witnessed = []
        self.crash_in = -1
        self.rng = Rng(0)

    @property
    def group(self):
        """The first group, the only one in most worlds."""
        return self.core.groups[0]

    def status(self, number=0):
        return self.core.statuses(self.world.clocks())[number]


class World:
    """``names``: all members; ``stored``: name → (term, vote) on its disk. T is 5 s unless a knob says otherwise."""

    def __init__(
        self,
        names="ABC",
        *,
        seed=1,
        profile="joyqueue",
        variant=None,
        delay=(1, 3),
        fsync=(0, 2),
        stored=None,
        **settings,
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
        self.votes: dict[tuple[str, str, int], str] = {}
        self.leaders: dict[tuple[str, int], str] = {}
        self.committed: dict[tuple[str, int], tuple[int, str]] = {}
        self.committed_in: dict[tuple[str, int], int] = {}
        self.terms: dict[tuple[str, str], int] = {}
        self.seen: dict[tuple[str, str], int] = {}
        self.boxes = {name: Box(self, name) for name in self.names}
        for name, (term, voted_for) in (stored or {}).items():
            box = self.boxes[name]
            for op in metadata_ops(TOPIC, metadata_of(name, self.names, term, voted_for)):
                box.disk.carry_out(op)
        for name in self.names:
            self.start(name)

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
        for group in box.core.groups:
            self.seen[name, group.name] = 0
        image = dict(box.disk.shown)
        self._witnessed(box, box.witness.booted(image))
        out = []
        box.core.boot(image, self.clocks(), box.rng, out)
        self._carry_out(box, out)

    def kill(self, name, *, power=False):
        box = self.boxes[name]
        if box.alive:
            box.alive = False
            if box.batches and not box.disk.full:
                ops = box.batches[0].ops
                for op in ops[: self.rng.below(len(ops) + 1)]:
                    box.disk.carry_out(op)
        if power:
            box.disk.lose_power()

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

    def defer(self, name, peer, kind, ms):
        """Send tasks of ``name`` to ``peer`` start ``ms`` late."""
        self.boxes[name].core.node.defer_task(peer, kind, ms * MS)

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
        box = self.boxes[name]
        if box.alive:
            self._handle(box, Request(self.requests, body))
        return self.requests

    def ask(self, name, body, *, ms=2000):
        """A request and its answer, None if there is none in time."""
        number = self.request(name, body)
        self.run(ms, until=lambda: number in self.replies)
        return self.replies.get(number)

    def write(self, name, value, *, key="k", ms=2000):
        return isinstance(self.ask(name, Append(key, value), ms=ms), Ok)

    def leaders_now(self, number=0):
        """Who calls itself leader."""
        return [b.name for b in self.boxes.values() if b.alive and b.core.groups[number].role == "LEADER"]

    def leader(self, number=0):
        """The one that leads the highest term, None if none does."""
        found = self.leaders_now(number)
        return max(found, key=lambda name: self.boxes[name].core.groups[number].term) if found else None

    def elect(self, *, ms=60_000):
        """Run until a leader of the first group exists that all live nodes follow."""
        assert self.run(ms, until=self.settled), "no leader"
        return self.leader()

    def settled(self, number=0):
        leader = self.leader(number)
        return leader is not None and all(
            b.core.groups[number].leader == leader for b in self.boxes.values() if b.alive
        )

    def expire(self, name, *, number=0):
        """Let the election timer of ``name`` expire now."""
        box = self.boxes[name]
        group = box.core.groups[number]
        if group.reset_at is not None:
            group.reset_at, group.deadline = self.now - 10**12, self.now
        self._handle(box, Fired(group.election_timer))

    # --- inside -------------------------------------------------------------------------------------------------

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
            elif kind is Await:
                if any(batch.token == effect.token for batch in box.batches):
                    box.held.append(effect)
            elif box.held:
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
        at = effect.at if effect.clock == "mono" else effect.at - self.wall
        box.timers[effect.name] = at
        self.at(max(at, self.now), self._ring, box, box.life, effect.name, at)

    def _ring(self, box, life, name, at):
        if box.alive and box.life == life and box.timers.get(name) == at:
            del box.timers[name]
            self._handle(box, Fired(name))

    def _start_batch(self, box):
        if self.fsync is not None:
            self.at(self.now + self.rng.between(*self.fsync) * MS // 2, self._batch_done, box, box.life)

    def _batch_done(self, box, life):
        if not box.alive or box.life != life or not box.batches:
            return
        batch = box.batches.popleft()
        error = "ENOSPC" if box.disk.full else None
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
            self._handle(self.boxes[dst], Message(src, body))

    # --- judging ------------------------------------------------------------------------------------------------

    def _witnessed(self, box, events):
        for event in events:
            box.witnessed.append(event)
            group = event.data.get("group", "topic")
            if event.name == "vote":
                before = self.votes.setdefault((group, box.name, event.term), event.data["candidate"])
                if before != event.data["candidate"]:
                    self.problems.append(f"INV-2: {box.name} voted twice in term {event.term}")
            elif event.name == "elected":
                self._elected(box, group, event)
            elif event.name == "persisted":
                self._term(box, group, event.term, "stores")

    def _term(self, box, group, term, how):
        if term < self.terms.get((group, box.name), 0):
            self.problems.append(f"INV-3: {box.name} {how} term {term} again")
        self.terms[group, box.name] = max(term, self.terms.get((group, box.name), 0))

    def _elected(self, box, name, event):
        before = self.leaders.setdefault((name, event.term), box.name)
        if before != box.name:
            self.problems.append(f"INV-1: {before} and {box.name} lead term {event.term}")
        group = next(one for one in box.core.groups if one.name == name)
        if len(set(event.data["voters"]) & set(group.voters)) * 2 <= len(group.voters):
            self.problems.append(f"INV-12: {box.name} leads term {event.term} with {event.data['voters']}")
        log = group.log
        for (where, index), (term, digest) in self.committed.items():
            if where != name or self.committed_in[where, index] >= event.term:
                continue
            if index > log.end or (log.term_at(index), log.digests[index - 1]) != (term, digest):
                self.problems.append(f"INV-4: {box.name} leads term {event.term} without entry {index} of {term}")
                return

    def _look(self, box):
        for group in box.core.groups:
            before = self.seen[box.name, group.name]
            if group.commit < before:
                self.problems.append(f"INV-5: commit of {box.name} goes back to {group.commit}")
            if group.commit > group.log.end:
                self.problems.append(f"INV-5: commit of {box.name} is beyond its log")
            for index in range(before + 1, min(group.commit, group.log.end) + 1):
                found = (group.log.term_at(index), group.log.digests[index - 1])
                if self.committed.setdefault((group.name, index), found) != found:
                    self.problems.append(f"INV-5: entry {index} at {box.name} is another one elsewhere")
                self.committed_in.setdefault((group.name, index), group.term)
            self.seen[box.name, group.name] = group.commit
        for status, group in zip(box.core.statuses(self.clocks()), box.core.groups, strict=True):
            self._term(box, group.name, status.term, "shows")

    def logs_match(self):
        """INV-5: equal (index, term) means an equal prefix, over all live nodes."""
        for number in range(self.knobs.groups):
            logs = [b.core.groups[number].log for b in self.boxes.values() if b.alive]
            for i, one in enumerate(logs):
                for other in logs[i + 1 :]:
                    last = 0
                    for at in range(min(one.end, other.end)):
                        if one.term_at(at + 1) == other.term_at(at + 1):
                            last = at + 1
                    if one.digests[:last] != other.digests[:last]:
                        return False
        return True

    def notes(self, name, box=None):
        """All notes of that name, over all nodes or at one."""
        boxes = self.boxes.values() if box is None else [self.boxes[box]]
        return [note for one in boxes for note in one.notes if note.name == name]
