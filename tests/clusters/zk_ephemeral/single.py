"""One real core with a prepared state: a handler vector gives it one event and looks at what it says."""

from __future__ import annotations

from dethrone.clusters.targets.zk_ephemeral import messages as m
from dethrone.clusters.targets.zk_ephemeral.target import TARGET
from dethrone.harness.core.clock import MS, Clocks
from dethrone.harness.core.machine import Disk, DiskDone, Fired, Halt, Message, Note, Reply, Request, Send, SetTimer
from dethrone.harness.core.rng import Rng

MEMBERS = ("a", "b", "c", "zk")


class One:
    """A core of ``node``; disk batches are done at once unless ``slow``."""

    def __init__(self, node="zk", *, disk=None, variant=None, profile=None, slow=False, **knobs):
        self.knobs = TARGET.knobs({k: str(v) for k, v in knobs.items()}, profile=profile)
        self.core = TARGET.core(node=node, members=MEMBERS, knobs=self.knobs, variant=variant)
        self.slow = slow
        self.now = 10_000 * MS
        self.wall = 0
        self.rng = Rng(7)
        self.requests = 0
        self.batches = []
        out = []
        self.core.boot(disk or {}, self.clocks(), self.rng, out)
        self.started = self._finish(out)

    def clocks(self):
        return Clocks(self.now, self.now + self.wall)

    def status(self):
        return self.core.status(self.clocks())

    def give(self, event, *, after_ms=0):
        self.now += after_ms * MS
        out = []
        self.core.handle(event, self.clocks(), self.rng, out)
        return self._finish(out)

    def hear(self, src, body, *, after_ms=0):
        return self.give(Message(src, body), after_ms=after_ms)

    def fire(self, timer, *, after_ms=0):
        return self.give(Fired(timer), after_ms=after_ms)

    def ask(self, body):
        self.requests += 1
        return self.give(Request(self.requests, body))

    def done(self, error=None):
        return self.give(DiskDone(self.batches.pop(0).token, error))

    def _finish(self, out):
        everything = list(out)
        queue = [e for e in out if isinstance(e, Disk)]
        self.batches += queue
        while queue and not self.slow:
            batch = queue.pop(0)
            self.batches.remove(batch)
            more = []
            self.core.handle(DiskDone(batch.token), self.clocks(), self.rng, more)
            new = [e for e in more if isinstance(e, Disk)]
            self.batches += new
            queue += new
            everything += more
        return everything

    # --- the service --------------------------------------------------------------------------------------------

    def connect(self, who, *, nonce=1, timeout_ms=2000):
        """A session of ``who``."""
        (body,) = sent(self.hear(who, m.Connect(timeout_ms * MS, nonce)), m.Connected)
        return body.session

    def call(self, who, session, xid, op, **more):
        """The answer to one call."""
        found = sent(self.hear(who, m.Call(session, xid, op, **more)), m.Answer)
        return found[0] if found else None

    # --- a broker -----------------------------------------------------------------------------------------------

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
        core = self.core
        core_epoch = core.term if epoch is None else epoch
        last = (core.log.entries[end - 1].epoch if end else 0) if last_epoch is None else last_epoch
        self.seq = getattr(self, "seq", 0) + 1
        return self.hear(who, m.Fetch(core_epoch, end, last, hw, 1, seq or self.seq))


def sent(out, kind=object):
    return [e.body for e in out if isinstance(e, Send) and isinstance(e.body, kind)]


def replies(out):
    return [e.body for e in out if isinstance(e, Reply)]


def names(out):
    return [e.name for e in out if isinstance(e, Note)]


def note(out, name):
    found = [e.data for e in out if isinstance(e, Note) and e.name == name]
    assert len(found) == 1, (name, names(out))
    return found[0]


def timers(out):
    return {e.name: (e.at, e.clock) for e in out if isinstance(e, SetTimer)}


def halted(out):
    return [e.reason for e in out if isinstance(e, Halt)]
