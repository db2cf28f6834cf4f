"""One real node with a prepared state: a handler vector gives it one event and looks at what it says."""

from __future__ import annotations

from dethrone.clusters.targets.client_api import Append
from dethrone.clusters.targets.raft.messages import AppendEntries, Entry, Noop, VoteReply
from dethrone.clusters.targets.raft.storage import LOG, VOTE, HardState, record, vote_bytes
from dethrone.clusters.targets.raft.target import TARGET
from dethrone.harness.core.clock import MS, Clocks
from dethrone.harness.core.machine import Disk, DiskDone, Fired, Halt, Message, Note, Reply, Request, Send, SetTimer
from dethrone.harness.core.rng import Rng


def entries(*terms, first=1):
    """Entries with these terms, from index ``first`` on."""
    return tuple(Entry(first + i, term, Append("k", first + i)) for i, term in enumerate(terms))


def disk(term=0, voted_for=None, log=()):
    """A disk image with that vote and a log of those terms."""
    image = {VOTE: vote_bytes(HardState(term, voted_for))}
    if log:
        image[LOG] = b"".join(record(entry)[0] for entry in entries(*log))
    return image


class One:
    """Node A of ``members``; disk batches are done at once unless ``slow``."""

    def __init__(
        self,
        *,
        members="ABC",
        node="A",
        term=0,
        voted_for=None,
        log=(),
        variant=None,
        profile="raft",
        slow=False,
        **knobs,
    ):
        self.knobs = TARGET.knobs({k: str(v) for k, v in knobs.items()}, profile=profile)
        self.core = TARGET.core(node=node, members=tuple(members), knobs=self.knobs, variant=variant)
        self.slow = False
        self.now = 10_000 * MS
        self.wall = 0
        self.rng = Rng(7)
        self.out = []
        self.pending = []
        self.requests = 0
        out = []
        self.core.boot(disk(term, voted_for, log), self.clocks(), self.rng, out)
        self._finish(out)
        self.slow = slow

    @property
    def node(self):
        return self.core.node

    def clocks(self):
        return Clocks(self.now, self.now + self.wall)

    def status(self):
        return self.core.status(self.clocks())

    def give(self, event, *, after_ms=0):
        """Handle one event; the effects, with those of the disk's answers behind them."""
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

    def done(self, error=None):
        """The oldest batch is done."""
        return self.give(DiskDone(self.pending.pop(0), error))

    def time_out(self):
        """Let the election deadline pass."""
        for _ in range(4):
            out = self.fire("election", after_ms=400)
            if any(isinstance(e, Note) and e.name.endswith("started") for e in out) or sent(out):
                return out
        return out

    def follow(self, leader="B", *, term=None, **more):
        """Hear a heartbeat of that leader, matching the own log."""
        node = self.node
        term = node.term if term is None else term
        return self.hear(leader, heartbeat(leader, term, node.log.end, node.log.last_term, **more))

    def lead(self, *, votes="BC"):
        """Win an election with those votes and commit nothing yet."""
        node = self.node
        if node.knobs.pre_vote:
            node.rules.needs_pre_vote, honest = (lambda: False), node.rules.needs_pre_vote
            self.time_out()
            node.rules.needs_pre_vote = honest
        else:
            self.time_out()
        out = []
        for voter in votes:
            out += self.hear(voter, VoteReply(node.term, True))
        assert node.role == "LEADER"
        return out

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


def heartbeat(leader, term, prev_index=0, prev_term=0, *, commit=0, seq=1, new=()):
    return AppendEntries(term, leader, prev_index, prev_term, tuple(new), commit, seq)


def sent(out, kind=object):
    """(to, body) of the sends."""
    return [(e.to, e.body) for e in out if isinstance(e, Send) and isinstance(e.body, kind)]


def answer(out):
    """The one body sent."""
    bodies = sent(out)
    assert len(bodies) == 1, bodies
    return bodies[0][1]


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


NOOP = Noop()
