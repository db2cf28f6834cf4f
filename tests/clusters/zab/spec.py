"""ZAB in the tests' world: who leads, what its log holds, and what its packets carry."""

from __future__ import annotations

from dethrone.clusters.targets.zab.log import CURRENT, LOG, Log, read_epoch, read_log
from dethrone.clusters.targets.zab.messages import Packet
from dethrone.clusters.targets.zab.target import TARGET
from dethrone.harness.core.machine import Write
from tests.world import shells, world

QUICK = {
    "tick_time_ms": "200",
    "finalize_wait_ms": "100",
    "min_notification_interval_ms": "100",
    "max_notification_interval_ms": "1000",
}


def log_bytes(txns):
    """A log file with these transactions."""
    return b"".join(op.data for op in Log().extend(txns) if isinstance(op, Write))


class Box(shells.Box):
    """One host."""

    @property
    def zxids(self):
        return self.node.log.terms

    def stored(self):
        """(currentEpoch, zxids) as a process would find them now."""
        shown = self.disk.shown
        return read_epoch(shown, CURRENT), [txn.zxid for txn in read_log(shown.get(LOG, b"")).entries]


class World(world.World):
    """All members vote; the last one has the highest id."""

    target = TARGET
    host = Box
    answer_ms = 2000
    proving = ("persisted", "vote", "answered", "acked", "elected")
    VERBS = ("write", "write", "kill", "power", "start_all", "isolate", "heal", "pause", "pause", "wait")
    STEP_MS = 1500

    def __init__(self, names="ABC", **more):
        super().__init__(names, **{**QUICK, **more})

    def leads(self, node):
        return node.lead is not None and node.phase == "BROADCAST"

    def term(self, node):
        return node.accepted

    def end(self, node):
        return node.log.end

    def entry(self, node, index):
        return node.log.terms[index - 1], None

    def shown(self, box):
        return ()

    def writers(self, box):
        return [box.name] if box.alive else []

    def elect(self, *, ms=20_000, among=None):
        """Run until a leader is established and every live node serves under it."""

        def settled():
            live = [box for box in self.boxes.values() if box.alive and (among is None or box.name in among)]
            return any(box.leads for box in live) and all(box.node.phase == "BROADCAST" for box in live)

        assert self.run(ms, until=settled), "no leader"
        return self.leader(among=among)

    def bodies(self, kind, *, src=None, dst=None):
        """The bodies of that kind that were sent."""
        found = [
            body.body if isinstance(body, Packet) else body for *_, body in self.messages(object, src=src, dst=dst)
        ]
        return [body for body in found if isinstance(body, kind)]

    def hold_kind(self, kind, *, src=None, dst=None):
        """Keep packets of that kind back."""
        self.hold = lambda one, other, body: (
            isinstance(body, Packet) and isinstance(body.body, kind) and src in (None, one) and dst in (None, other)
        )
