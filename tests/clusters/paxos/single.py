"""One real node: a handler vector gives it one event and looks at what it says."""

from __future__ import annotations

from dethrone.clusters.targets.client_api import Propose as Want
from dethrone.clusters.targets.paxos.messages import Accepted, Given, Nack, Pong, Prepare, Promise, Propose
from dethrone.clusters.targets.paxos.storage import FILE, Counted, Promised, Stored, framed
from dethrone.clusters.targets.paxos.target import TARGET
from dethrone.harness.core.clock import MS, Clocks
from dethrone.harness.core.machine import Disk, DiskDone, Fired, Halt, Message, Note, Reply, Request, Send, SetTimer
from dethrone.harness.core.rng import Rng


def val(value):
    return Given(value)


def disk(*records):
    """A disk image with these records."""
    return {FILE: b"".join(map(framed, records))}


def stored(max_id, accepted_id=0, value=None, *, instance=1):
    if value is None:
        return Promised(instance, max_id)
    return Stored(instance, max_id, accepted_id, val(value))


class One:
    """Node A of ``members``; disk batches are done at once unless ``slow``; peers are reachable unless ``alone``."""

    def __init__(
        self, *records, members="ABC", node="A", variant=None, profile="paxos", slow=False, alone=False, seed=7, **knobs
    ):
        self.members = tuple(members)
        self.knobs = TARGET.knobs({k: str(v) for k, v in knobs.items()}, profile=profile)
        self.core = TARGET.core(node=node, members=self.members, knobs=self.knobs, variant=variant)
        self.slow = False
        self.now = 10_000 * MS
        self.rng = Rng(seed)
        self.pending = []
        self.requests = 0
        out = []
        self.core.boot(disk(*records) if records else {}, self.clocks(), self.rng, out)
        self.booted = self._finish(out)
        if not alone:
            self.reach()
        self.slow = slow

    @property
    def node(self):
        return self.core.node

    def clocks(self):
        return Clocks(self.now, self.now)

    def reach(self, names=None):
        for name in names or self.members:
            if name != self.node.me:
                self.hear(name, Pong())

    def give(self, event, *, after_ms=0):
        self.now += after_ms * MS
        out = []
        self.core.handle(event, self.clocks(), self.rng, out)
        return self._finish(out)

    def hear(self, src, body, *, after_ms=0):
        return self.give(Message(src, body), after_ms=after_ms)

    def fire(self, timer, *, after_ms=0):
        return self.give(Fired(timer), after_ms=after_ms)

    def ask(self, body, *, after_ms=0):
        self.requests += 1
        return self.give(Request(self.requests, body), after_ms=after_ms)

    def want(self, value="own", *, instance=1):
        """A client wants this value."""
        return self.ask(Want(instance, value))

    def prepare(self, number, *, src="B", instance=1):
        return self.hear(src, Prepare(instance, number))

    def promise(self, number, accepted_id=0, value=None, *, src="B", instance=1):
        return self.hear(src, Promise(instance, number, accepted_id, None if value is None else val(value)))

    def nack(self, number, max_id, *, src="B", instance=1):
        return self.hear(src, Nack(instance, number, max_id))

    def proposal(self, number, value, *, src="B", instance=1):
        return self.hear(src, Propose(instance, number, val(value)))

    def accepted(self, number, value, *, src="B", instance=1):
        return self.hear(src, Accepted(instance, number, val(value)))

    def done(self, error=None):
        """The oldest batch is done."""
        return self.give(DiskDone(self.pending.pop(0), error))

    def id(self, *, instance=1):
        """The number under way."""
        attempt = self.node.instances[instance].attempt
        return None if attempt is None else attempt.id

    def state(self, *, instance=1):
        attempt = self.node.instances[instance].attempt
        return None if attempt is None else attempt.state

    def acceptor(self, *, instance=1):
        held = self.node.instance(instance).acceptor
        value = held.accepted_value
        return held.max_id, held.accepted_id, None if value is None else value.value

    def chosen(self, *, instance=1):
        value = self.node.instance(instance).chosen
        return None if value is None else value.value

    def _finish(self, out):
        everything = list(out)
        if self.slow:
            self.pending += [e.token for e in out if isinstance(e, Disk)]
            return everything
        queue = [e for e in out if isinstance(e, Disk)]
        while queue:
            batch = queue.pop(0)
            more = []
            self.core.handle(DiskDone(batch.token), self.clocks(), self.rng, more)
            queue += [e for e in more if isinstance(e, Disk)]
            everything += more
        return everything


def sent(out, kind=object):
    """(to, body) of the sends."""
    return [(e.to, e.body) for e in out if isinstance(e, Send) and isinstance(e.body, kind)]


def bodies(out, kind=object):
    """The different bodies sent."""
    return list(dict.fromkeys(body for _, body in sent(out, kind)))


def answer(out):
    """The one body sent."""
    found = sent(out)
    assert len(found) == 1, found
    return found[0][1]


def replies(out):
    return [e.body for e in out if isinstance(e, Reply)]


def names(out):
    return [e.name for e in out if isinstance(e, Note)]


def note(out, name):
    """The data of the one note of that name."""
    found = [e.data for e in out if isinstance(e, Note) and e.name == name]
    assert len(found) == 1, (name, names(out))
    return found[0]


def timers(out):
    return {e.name: e.at for e in out if isinstance(e, SetTimer)}


def halted(out):
    return [e.reason for e in out if isinstance(e, Halt)]


CNT = Counted
