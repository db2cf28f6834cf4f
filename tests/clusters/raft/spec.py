"""Raft in the tests' world: who leads, what its log holds, how its messages are made, and a node on the bench."""

from __future__ import annotations

import pytest

from dethrone.clusters.targets.client_api import Append
from dethrone.clusters.targets.raft.messages import AppendEntries, AppendReply, Entry, VoteReply
from dethrone.clusters.targets.raft.storage import LOG, VOTE, HardState, record, vote_bytes
from dethrone.clusters.targets.raft.target import TARGET
from dethrone.harness.core.machine import Fired
from tests.world import bench, chaos, world
from tests.world.effects import names, sent


def honest_and(name):
    """Run the test with the planted bug (broken) and without (not)."""
    return pytest.mark.parametrize(("variant", "broken"), [(name, True), (None, False)], ids=["variant", "honest"])


def entries(*terms, first=1):
    """Entries with these terms, from index ``first`` on."""
    return tuple(Entry(first + i, term, Append("k", first + i)) for i, term in enumerate(terms))


def disk(term=0, voted_for=None, log=()):
    """A disk image with that vote and a log of those terms."""
    image = {VOTE: vote_bytes(HardState(term, voted_for))}
    if log:
        image[LOG] = b"".join(record(entry)[0] for entry in entries(*log))
    return image


def heartbeat(leader, term, prev_index=0, prev_term=0, *, commit=0, seq=1, new=()):
    return AppendEntries(term, leader, prev_index, prev_term, tuple(new), commit, seq)


class World(world.World):
    """Raft nodes."""

    target = TARGET
    profile = "raft"
    VERBS = (*chaos.FAULTS, "calm", "pause", "write", "write", "write", "read", "campaign")

    def leads(self, node):
        return node.leading is not None

    def end(self, node):
        return node.log.end

    def entry(self, node, index):
        return node.log.term_at(index), node.log.digests[index - 1]

    def voters(self, node):
        return node.config.voters

    def shown(self, box):
        return super().shown(box) if self.knobs.persist else ()

    @property
    def reads_are_current(self):
        return self.knobs.reads != "local"

    def settled(self):
        leader = self.leader()
        return leader is not None and self.boxes[leader].status().commit > 0

    def recovers(self):
        if self.knobs.profile != "raft-paper":
            return super().recovers()
        self.mend()
        self.run(20_000, until=self.converged)
        return True  # it promises no bound

    def campaign(self, name):
        node = self.boxes[name].node
        node.reset_at, node.contact = self.now - 10**12, -(10**12)
        node.deadline = self.now
        self.handle(self.boxes[name], Fired("election"))


class One(bench.Bench):
    """A node that stored a vote and a log of those terms, or with the disk ``image``."""

    target = TARGET
    profile = "raft"

    def __init__(self, *, term=0, voted_for=None, log=(), image=None, **more):
        super().__init__(disk(term, voted_for, log) if image is None else image, **more)

    def time_out(self):
        """Let the election deadline pass."""
        for _ in range(4):
            out = self.fire("election", after_ms=400)
            if any(name.endswith("started") for name in names(out)) or sent(out):
                return out
        return out

    def follow(self, leader="B", *, term=None, **more):
        """Hear a heartbeat of that leader, matching the own log."""
        log, term = self.node.log, self.node.term if term is None else term
        return self.hear(leader, heartbeat(leader, term, log.end, log.last_term, **more))

    def ack(self, src, index=None, *, seq=None, ok=True, hint=0):
        """A peer answers the newest round, or round ``seq``, with all that it holds, or with entry ``index``."""
        log, lead = self.node.log, self.node.leading
        match, seq = log.end if index is None else index, lead.seq if seq is None else seq
        return self.hear(src, AppendReply(self.node.term, ok, match, hint, seq))

    def standing(self):
        """The same node after its deadline passed."""
        self.time_out()
        return self

    def following(self, leader="B", **more):
        """The same node after it heard that leader."""
        self.follow(leader, **more)
        return self

    def leading(self, **how):
        """The same node after it won."""
        self.lead(**how)
        return self

    def lead(self, *, votes="BC"):
        """Win an election with those votes and commit nothing yet."""
        rules = self.node.rules
        if self.node.knobs.pre_vote:
            rules.needs_pre_vote, honest = (lambda: False), rules.needs_pre_vote
            self.time_out()
            rules.needs_pre_vote = honest
        else:
            self.time_out()
        out = []
        for voter in votes:
            out += self.hear(voter, VoteReply(self.node.term, True))
        assert self.node.role == "LEADER"
        return out


def paper(**more):
    """A node without the extensions."""
    return One(profile="raft-paper", **more)
