"""Election by ephemeral nodes in the tests' world: its schedules, what it settles to, and a node on the bench."""

from __future__ import annotations

from dethrone.clusters.targets.zk_ephemeral import messages as m
from dethrone.clusters.targets.zk_ephemeral.target import TARGET
from dethrone.harness.core.clock import MS
from dethrone.harness.core.machine import SetTimer
from tests.world import bench, world
from tests.world.effects import bodies

NAMES = ("a", "b", "c", "zk")
TIMES = {"zookeeper_session_timeout_ms": 2000, "replica_lag_time_max_ms": 3000, "call_retry_ms": 200}
FAST = {
    "zookeeper_session_timeout_ms": 600,
    "replica_lag_time_max_ms": 900,
    "replica_fetch_wait_max_ms": 100,
    "hw_checkpoint_interval_ms": 300,
    "call_retry_ms": 100,
}


def timers(out):
    """Timer → (the moment, of which clock)."""
    return {e.name: (e.at, e.clock) for e in out if isinstance(e, SetTimer)}


class World(world.Roles):
    """Three brokers and the service, which starts first."""

    target = TARGET
    VERBS = (
        *("isolate", "sever", "one_way", "heal", "heal", "kill", "crash_soon", "start_all", "start_all"),
        *("slow", "lossy", "calm", "freeze", "resume_all", "write", "write", "write", "wait", "long"),
    )

    def __init__(self, names=NAMES, **more):
        super().__init__(names, **more)

    def writers(self, box):
        return [name for name in self.with_role() if not self.boxes[name].paused]

    def settle(self, *, ms=8000):
        """Mend everything, long enough for a failover; whether all brokers follow one leader, as far as its log goes.

        Where followers cut by epochs, their logs end in the same epoch, too. Where they cut to their high watermark
        they may hold other records than their leader for ever, and follow it all the same (KIP-101).
        """
        self.mend()
        by_epochs = self.knobs.truncate == "epoch"

        def one():
            statuses = [box.status() for box in self.brokers() if box.alive]
            leaders = {status.leader for status in statuses}
            return (
                len(statuses) == 3
                and len(leaders) == 1
                and None not in leaders
                and sum(status.role == "LEADER" for status in statuses) == 1
                and len({(status.term, status.commit, status.log_end.index) for status in statuses}) == 1
                and statuses[0].commit == statuses[0].log_end.index
                and (not by_epochs or len({status.log_end.term for status in statuses}) == 1)
            )

        return self.run(ms, until=one)

    def brokers(self):
        return [self.boxes[name] for name in NAMES[:-1]]

    def values(self):
        """What the brokers' logs hold."""
        return [[one.command.value for one in box.core.log.entries] for box in self.brokers()]


def fast(seed=1, **settings):
    """A world with short timers."""
    return World(seed=seed, **{**FAST, **settings})


def cluster(names=NAMES, **settings):
    """A settled cluster: one leader, everybody in its ISR."""
    world = World(names, **{**TIMES, **settings})
    assert world.run(20_000, until=lambda: settled(world))
    return world


def settled(world):
    """Whether all live brokers follow one leader and are in its ISR."""
    leaders = world.with_role()
    live = [box for box in brokers(world) if box.alive]
    if len(leaders) != 1:
        return False
    isr = world.boxes[leaders[0]].status().extra["isr"]
    return len(isr) == len(live) and {box.status().leader for box in live} == set(leaders)


def brokers(world):
    return [box for box in world.boxes.values() if box.name != "zk"]


def leader(world):
    (name,) = world.with_role()
    return name


def others(world, name):
    return [box.name for box in brokers(world) if box.name != name]


def values(world, name):
    """What a broker's log holds."""
    return [one.command.value for one in world.boxes[name].core.log.entries]


class One(bench.Bench):
    """A broker or the service."""

    target = TARGET
    members = NAMES

    def __init__(self, node="zk", *, disk=None, slow=False, **more):
        self.seq = 0
        super().__init__(disk, node=node, slow_start=slow, **more)

    # --- the service ----------------------------------------------------------------------------------------------

    def connect(self, who, *, nonce=1, timeout_ms=2000):
        """A session of ``who``."""
        (body,) = bodies(self.hear(who, m.Connect(timeout_ms * MS, nonce)), m.Connected)
        return body.session

    def call(self, who, session, xid, op, **more):
        """The answer to one call."""
        found = bodies(self.hear(who, m.Call(session, xid, op, **more)), m.Answer)
        return found[0] if found else None

    # --- a broker -------------------------------------------------------------------------------------------------

    def open(self, session=5):
        """Open the session and swallow its first call (the registration)."""
        return self.hear("zk", m.Connected(session, self.core.session.nonce, 1))

    def answer(self, code, data=None, *, version=0, owner=0):
        """Answer the call under way."""
        call = self.core.session.current
        assert call is not None, "no call under way"
        return self.hear("zk", m.Answer(call.session, call.xid, code, 1, data, version, owner))

    def calling(self):
        """The operation under way."""
        call = self.core.session.current
        return None if call is None else call.op

    def follow(self, leader="b", epoch=1):
        """In mode race: register, find the leader, follow it."""
        self.open()
        self.answer(m.OK, owner=5)
        return self.answer(m.OK, {"id": leader, "epoch": epoch}, owner=9)

    def lead(self, *, stored=None, version=0):
        """In mode race: register, find the node free, win it, publish."""
        self.open()
        self.answer(m.OK, owner=5)
        self.answer(m.NO_NODE, version=-1)
        self.answer(m.OK if stored else m.NO_NODE, stored, version=version if stored else -1)
        self.answer(m.OK, owner=5)
        out = self.answer(m.OK, {"leader": "a"}, version=version + 1 if stored else 0)
        self.answer(m.OK)
        self.answer(m.OK, {"id": "a", "epoch": self.core.term}, owner=5)
        return out

    def fetch_from(self, who, end, *, last_epoch=None, epoch=None, hw=0, seq=None):
        """A follower's fetch."""
        core_epoch = self.core.term if epoch is None else epoch
        last = (self.core.log.entries[end - 1].epoch if end else 0) if last_epoch is None else last_epoch
        self.seq += 1
        return self.hear(who, m.Fetch(core_epoch, end, last, hw, 1, seq or self.seq))
