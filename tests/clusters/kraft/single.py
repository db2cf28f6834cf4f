"""One real node with a prepared state: a handler vector gives it one event and looks at what it says."""

from __future__ import annotations

from dethrone.clusters.targets.client_api import Append
from dethrone.clusters.targets.kraft.messages import (
    NONE,
    BeginQuorumEpochRequest,
    CurrentLeader,
    FetchRequest,
    FetchResponse,
    LeaderChange,
    Record,
    VotePartition,
    VoteRequest,
    VoteResponse,
)
from dethrone.clusters.targets.kraft.storage import LOG, STATE, QuorumState, Voter, record_bytes, state_bytes
from dethrone.clusters.targets.kraft.target import TARGET
from dethrone.harness.core.clock import MS, Clocks
from dethrone.harness.core.machine import Disk, DiskDone, Fired, Halt, Message, Note, Reply, Request, Send, SetTimer
from dethrone.harness.core.rng import Rng

NO, A, B, C, D, E = -1, 1, 2, 3, 4, 5
"""Members are A, B, C … in this order: so are their ids."""
CLUSTER = "dethrone"


def records(*epochs, first=0):
    """Records of these epochs, from offset ``first`` on."""
    return tuple(Record(first + i, epoch, Append("k", first + i)) for i, epoch in enumerate(epochs))


def stored(epoch=0, *, leader=NO, voted=NO, voters=(A, B, C)):
    """The content of quorum-state."""
    return QuorumState(CLUSTER, leader, epoch, voted, 0, tuple(Voter(v) for v in voters))


def disk(epoch=0, *, leader=NO, voted=NO, log=(), voters=(A, B, C)):
    """A disk image with that state and a log of those epochs."""
    image = {STATE: state_bytes(stored(epoch, leader=leader, voted=voted, voters=voters))}
    if log:
        image[LOG] = b"".join(record_bytes(record)[0] for record in records(*log))
    return image


class One:
    """Node A of ``members``; disk batches are done at once unless ``slow``."""

    def __init__(
        self, image=None, *, members="ABC", node="A", variant=None, profile="kraft", slow=False, seed=7, **knobs
    ):
        self.knobs = TARGET.knobs({k: str(v) for k, v in knobs.items()}, profile=profile)
        self.core = TARGET.core(node=node, members=tuple(members), knobs=self.knobs, variant=variant)
        self.slow = slow
        self.now = 10_000 * MS
        self.wall = 0
        self.rng = Rng(seed)
        self.pending = []
        self.requests = 0
        self.files = dict(image or {})
        out = []
        self.core.boot(dict(self.files), self.clocks(), self.rng, out)
        self.booted = self._finish(out)

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
        """Let the timer that leads to a campaign run out."""
        if self.node.state == "Follower":
            self.now = max(self.now, self.node.fetch_at)
            return self.fire("fetch")
        if self.node.backing_off:
            self.now = max(self.now, self.node.backoff_at)
            return self.fire("backoff")
        self.now = max(self.now, self.node.election_at)
        return self.fire("election")

    def stand(self):
        """Campaign from whatever state."""
        epoch = self.node.epoch
        out = self.time_out()
        while self.node.state == "Candidate" and self.node.epoch == epoch:
            out = self.time_out()
        return out

    def lead(self, *, votes="BC"):
        """Win an election with those votes; nothing is committed yet."""
        self.stand()
        out = []
        for voter in votes:
            if self.node.state == "Candidate":
                out += self.hear(voter, granted(self.node.epoch))
        assert self.node.state == "Leader"
        return out

    def follow(self, leader=B, *, epoch=None):
        """Become a follower of that node."""
        return self.hear(self.node.names[leader], begin(leader, epoch or max(1, self.node.epoch)))

    def fetched(self, src, offset, *, last_epoch=None, epoch=None, wait=0, correlation=9):
        """A replica fetches from there."""
        node = self.node
        if last_epoch is None:
            last_epoch = node.log.entries[offset - 1].epoch if offset else 0
        request = FetchRequest(
            correlation, node.ids.get(src, 99), CLUSTER, wait, epoch or node.epoch, offset, last_epoch
        )
        return self.hear(src, request)

    def answered(self, new=(), *, hw=-1, epoch=None, leader=None, code=NONE, diverging=None, src=None, after_ms=0):
        """The leader answers the fetch under way."""
        node = self.node
        leader = node.leader if leader is None else leader
        src = src or node.names[node.leader]
        awaits = node.connections[node.ids[src]].awaits
        body = FetchResponse(
            awaits, code, hw, 0, CurrentLeader(leader, epoch or node.epoch), diverging, None, tuple(new)
        )
        return self.hear(src, body, after_ms=after_ms)

    def _finish(self, out):
        everything = list(out)
        if self.slow:
            self.pending += [e.token for e in out if isinstance(e, Disk)]
            return everything
        queue = [e for e in out if isinstance(e, Disk)]
        while queue:
            batch = queue.pop(0)
            carry_out(self.files, batch.ops)
            more = []
            self.core.handle(DiskDone(batch.token), self.clocks(), self.rng, more)
            queue += [e for e in more if isinstance(e, Disk)]
            everything += more
        return everything

    def again(self, **how):
        """The same node after SIGKILL: a new process on the same disk."""
        return One(self.files, members=tuple(self.node.ids), node=self.node.name, **how)


def carry_out(files, ops):
    """Disk operations on a plain dictionary."""
    for op in ops:
        match type(op).__name__:
            case "Write":
                old = files.get(op.path, b"")
                at = len(old) if op.offset is None else op.offset
                files[op.path] = old[:at] + op.data + (b"" if op.truncate else old[at + len(op.data) :])
            case "Rename":
                files[op.dst] = files.pop(op.src)
            case "Unlink":
                files.pop(op.path, None)


def vote(candidate, epoch, last_epoch=0, last=0, *, cluster=CLUSTER):
    return VoteRequest(5, cluster, 0, epoch, candidate, last_epoch, last)


def granted(epoch, *, leader=NO):
    return VoteResponse(1, NONE, VotePartition(NONE, leader, epoch, vote_granted=True))


def refused(epoch, *, leader=NO, code=NONE):
    return VoteResponse(1, NONE, VotePartition(code, leader, epoch, vote_granted=False))


def begin(leader, epoch):
    return BeginQuorumEpochRequest(6, leader, epoch)


def change(epoch, offset, leader=B):
    """The record that opens an epoch."""
    return Record(offset, epoch, LeaderChange(leader, (A, B, C), (A, B)))


def sent(out, kind=object):
    """(to, body) of the sends."""
    return [(e.to, e.body) for e in out if isinstance(e, Send) and isinstance(e.body, kind)]


def answer(out, kind=object):
    """The one body sent."""
    bodies = sent(out, kind)
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
