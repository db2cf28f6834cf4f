"""The minimal world of KRaft's tests around ZAB cores: the same network, disks and crashes, ZAB's own invariants."""

from __future__ import annotations

from dethrone.clusters.targets.client_api import Append, Ok
from dethrone.clusters.targets.zab.log import CURRENT, LOG, read_epoch, read_log
from dethrone.clusters.targets.zab.messages import Packet
from dethrone.clusters.targets.zab.target import TARGET
from dethrone.harness.core.clock import Clocks
from dethrone.harness.core.rng import Rng
from tests.clusters.kraft import minisim

QUICK = {
    "tick_time_ms": "200",
    "finalize_wait_ms": "100",
    "min_notification_interval_ms": "100",
    "max_notification_interval_ms": "1000",
}


class Box(minisim.Box):
    """One host."""

    def __init__(self, world, name):
        self.target = TARGET
        super().__init__(world, name)
        self.witness = TARGET.witness(node=name, members=world.names)

    @property
    def leads(self):
        return self.alive and self.node.lead is not None and self.node.lead.established

    @property
    def zxids(self):
        return self.node.log.terms

    def stored(self):
        """(currentEpoch, zxids) as a process would find them now."""
        return read_epoch(self.disk.shown, CURRENT), [
            txn.zxid for txn in read_log(self.disk.shown.get(LOG, b"")).entries
        ]


class World(minisim.World):
    """All members vote; the last one has the highest id."""

    def __init__(self, names="ABC", *, seed=1, variant=None, asleep="", delay=(1, 3), fsync=(0, 2), disks=None):
        self.names = tuple(names)
        self.voters = self.names
        self.knobs = TARGET.knobs(QUICK)
        self.seed, self.rng = seed, Rng(seed).stream("world")
        self.variant = dict.fromkeys(self.names, variant)
        self.now = self.count = self.loss = self.requests = 0
        self.heap, self.held_messages, self.sent, self.problems = [], [], [], []
        self.cut, self.replies, self.votes, self.leaders = set(), {}, {}, {}
        self.committed, self.committed_in, self.terms, self.seen = {}, {}, {}, {}
        self.delay, self.fsync, self.hold = delay, fsync, None
        self.wall = dict.fromkeys(self.names, 0)
        self.boxes = {name: Box(self, name) for name in self.names}
        for name, files in (disks or {}).items():
            self.boxes[name].disk.shown = dict(files)
            self.boxes[name].disk.durable = dict(files)
        for name in self.names:
            if name not in asleep:
                self.start(name)

    def start(self, name):
        box = self.boxes[name]
        assert not box.alive
        box.life += 1
        box.alive, box.paused, box.halted = True, False, ""
        box.rng = Rng(self.seed).stream(f"{name}/{box.life}")
        box.core = TARGET.core(node=name, members=self.names, knobs=self.knobs, variant=self.variant[name])
        for queue in (box.held, box.batches, box.timers, box.inbox):
            queue.clear()
        self.seen[name] = 0
        self._witnessed(box, box.witness.booted(dict(box.disk.shown)))
        out = []
        box.core.boot(dict(box.disk.shown), self.clocks(name), box.rng, out)
        self._carry_out(box, out)

    def clocks(self, name=None):
        return Clocks(self.now, self.now)

    def elect(self, *, ms=20_000, among=None):
        """Run until a leader is established and every live node serves under it."""

        def settled():
            live = [box for box in self.boxes.values() if box.alive and (among is None or box.name in among)]
            return any(box.leads for box in live) and all(box.node.phase == "BROADCAST" for box in live)

        assert self.run(ms, until=settled), "no leader"
        return self.leader(among=among)

    def leader(self, *, among=None):
        leaders = [box for box in self.boxes.values() if box.leads and (among is None or box.name in among)]
        return max(leaders, key=lambda box: box.node.accepted).name if leaders else None

    def write(self, name, value, *, ms=2000):
        return isinstance(self.ask(name, Append("k", value), ms=ms), Ok)

    def bodies(self, kind, *, src=None, dst=None):
        """The bodies of that kind that were sent."""
        return [
            body.body if isinstance(body, Packet) else body
            for _, one, other, body in self.sent
            if isinstance(body.body if isinstance(body, Packet) else body, kind)
            and src in (None, one)
            and dst in (None, other)
        ]

    def hold_kind(self, kind, *, src=None, dst=None):
        """Keep packets of that kind back."""
        self.hold = lambda one, other, body: (
            isinstance(body, Packet) and isinstance(body.body, kind) and src in (None, one) and dst in (None, other)
        )

    def release(self):
        """Deliver what was kept back."""
        self.hold, held = None, self.held_messages
        self.held_messages = []
        for src, dst, body in held:
            self.deliver(src, dst, body)

    # --- judging ------------------------------------------------------------------------------------------------

    def _elected(self, box, event):
        before = self.leaders.setdefault(event.term, (box.name, event.data["voters"]))
        if before[0] != box.name:
            self.problems.append(f"INV-1: {before[0]} and {box.name} lead epoch {event.term}")
        if len(event.data["voters"]) * 2 <= len(self.voters):
            self.problems.append(f"INV-12: {box.name} leads epoch {event.term} with {event.data['voters']}")
        for index, zxid in self.committed.items():
            if self.committed_in[index] < event.term and box.zxids[index - 1 : index] != [zxid]:
                self.problems.append(f"INV-4: {box.name} leads epoch {event.term} without {index}")
                return

    def _look(self, box):
        node = box.node
        if not self.seen[box.name] <= node.commit <= node.log.end:
            self.problems.append(f"INV-5: commit of {box.name} is {node.commit} after {self.seen[box.name]}")
        for index in range(self.seen[box.name] + 1, min(node.commit, node.log.end) + 1):
            zxid = box.zxids[index - 1]
            if self.committed.setdefault(index, zxid) != zxid:
                self.problems.append(f"INV-5: {index} is {zxid} at {box.name}, not {self.committed[index]}")
            self.committed_in.setdefault(index, node.accepted)
        self.seen[box.name] = node.commit
