"""KRaft in the tests' world: who leads, what its log holds, how its messages are made, and a node on the bench."""

from __future__ import annotations

from dethrone.clusters.targets.client_api import Append, Get, Transfer
from dethrone.clusters.targets.kraft.messages import (
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
from dethrone.clusters.targets.kraft.rules import FOLLOWER
from dethrone.clusters.targets.kraft.storage import LOG, STATE, QuorumState, Voter, record_bytes, state_bytes
from dethrone.clusters.targets.kraft.target import TARGET
from tests.world import bench, chaos, invariants, world

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


def vote(candidate, epoch, last_epoch=0, last=0, *, cluster=CLUSTER):
    return VoteRequest(5, cluster, 0, epoch, candidate, last_epoch, last)


def granted(epoch, *, leader=NO):
    return VoteResponse(1, "NONE", VotePartition("NONE", leader, epoch, vote_granted=True))


def refused(epoch, *, leader=NO, code="NONE"):
    return VoteResponse(1, "NONE", VotePartition(code, leader, epoch, vote_granted=False))


def begin(leader, epoch):
    return BeginQuorumEpochRequest(6, leader, epoch)


def change(epoch, offset, leader=B):
    """The record that opens an epoch."""
    return Record(offset, epoch, LeaderChange(leader, (A, B, C), (A, B)))


class Voted(invariants.Replication):
    """Observers never lead, besides."""

    def elected(self, box, group, event):
        super().elected(box, group, event)
        if box.name not in self.world.voters(box.node):
            self.problem(f"{box.name} leads epoch {event.term} and is an observer")


class World(world.World):
    """KRaft nodes; the knob ``observers`` says who of the members does not vote."""

    target = TARGET
    profile = "kraft"
    slow = (1, 300)
    answer_ms = 2000
    recovery_ms = 10_000
    invariants = Voted
    proving = ("persisted", "vote", "answered", "acked", "elected")
    VERBS = (
        *(*chaos.FAULTS, "calm", "pause", "write", "write", "write", "read"),
        *("campaign", "campaign", "resign", "shutdown"),
    )
    STEP_MS = 900

    def leads(self, node):
        return node.leading is not None

    def term(self, node):
        return node.epoch

    def end(self, node):
        return node.log.end

    def entry(self, node, index):
        return node.log.entries[index - 1].epoch, node.log.digests[index - 1]

    def voters(self, node):
        return self.knobs.voters(self.names)

    def settled(self):
        leader = self.leader()
        return leader is not None and self.boxes[leader].node.leading.hw > 0

    def get(self, key):
        return Get(key, "log")

    def campaign(self, name):
        node = self.boxes[name].node
        if node.state == FOLLOWER:
            node.fetch_at = 0
            self.ring(name, "fetch")
        elif not node.observer:
            node.election_at = node.backoff_at = 0
            self.ring(name, "backoff" if node.backing_off else "election")

    def start_all(self):
        for box in self.boxes.values():
            if box.alive and box.node.shutting_down:
                self.kill(box.name)
            if not box.alive and not box.halted:
                self.start(box.name)

    def on_resign(self, box, other, ms):
        if box.leads and not box.paused and len(self.voters(box.node)) > 1:
            self.request(box.name, Transfer(""))

    def on_shutdown(self, box, other, ms):
        if box.alive and not box.paused and ms % 4 == 0:
            self.ring(box.name, "shutdown")


class One(bench.Bench):
    """A node with that disk."""

    target = TARGET
    profile = "kraft"

    def time_out(self):
        """Let the timer that leads to a campaign run out."""
        node = self.node
        timer = "fetch" if node.state == FOLLOWER else "backoff" if node.backing_off else "election"
        self.now = max(self.now, getattr(node, f"{timer}_at"))
        return self.fire(timer)

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
        replica = node.ids.get(src, 99)
        return self.hear(
            src, FetchRequest(correlation, replica, CLUSTER, wait, epoch or node.epoch, offset, last_epoch)
        )

    def answered(self, new=(), *, hw=-1, epoch=None, leader=None, code="NONE", diverging=None, src=None, after_ms=0):
        """The leader answers the fetch under way."""
        node = self.node
        current = CurrentLeader(node.leader if leader is None else leader, epoch or node.epoch)
        src = src or node.names[node.leader]
        awaits = node.connections[node.ids[src]].awaits
        body = FetchResponse(awaits, code, hw, 0, current, diverging, None, tuple(new))
        return self.hear(src, body, after_ms=after_ms)
