"""DLedger in the tests' world: who leads, what its log holds, how its messages are made, and a node on the bench."""

from __future__ import annotations

from dethrone.clusters.targets.client_api import Append
from dethrone.clusters.targets.dledger.messages import (
    Entry,
    HeartBeatRequest,
    HeartBeatResponse,
    PushEntryRequest,
    PushEntryResponse,
    VoteRequest,
    VoteResponse,
)
from dethrone.clusters.targets.dledger.storage import LOG, TERM, TermState, record, term_bytes
from dethrone.clusters.targets.dledger.target import TARGET
from dethrone.harness.core.clock import MS
from dethrone.harness.core.machine import Message, Request
from tests.world import bench, chaos, effects, world

WALL = 1_700_000_000_000 * MS


def entries(*terms, first=0):
    """Entries with these terms, from index ``first`` on."""
    return [Entry(first + i, term, Append("k", first + i)) for i, term in enumerate(terms)]


def disk(term=0, voted_for=None, log=()):
    """A disk image with that term file and a log of those terms."""
    image = {TERM: term_bytes(TermState(term, voted_for))}
    if log:
        image[LOG] = b"".join(record(entry)[0] for entry in entries(*log))
    return image


class World(world.World):
    """DLedger nodes; witnesses count terms and entries from 1 on, the protocol from 0."""

    target = TARGET
    profile = "dledger"
    epoch = WALL
    delay = (0.5, 0.5)
    slow = (0.5, 750)
    VERBS = (*chaos.FAULTS, "twice", "calm", "pause", "write", "write", "write", "write")

    def __init__(self, names="ABC", *, refuse=True, **more):
        """``refuse``: a dead process refuses connections, so that its callers know at once."""
        self.refuses = refuse
        super().__init__(names, **more)

    def leads(self, node):
        return node.role == "LEADER"

    def term(self, node):
        return node.term + 1

    def commit(self, node):
        return node.committed + 1

    def end(self, node):
        return node.log.last + 1

    def entry(self, node, index):
        return node.log.entries[index - 1].term + 1, node.log.digests[index - 1]

    def durable(self, node):
        return node.log.stored + 1

    def shown(self, box):
        return ()

    def follows(self, box):
        return box.node.leader

    def led(self):
        """Whether a majority follows a leader."""
        leader = self.leader()
        followers = [box for box in self.boxes.values() if box.alive and box.node.leader == leader]
        return leader is not None and len(followers) * 2 > len(self.names)

    def recovers(self):
        """A majority has a leader; and if the protocol is mended and begins terms with an entry, all converge."""
        self.mend()
        if not self.run(20_000, until=self.led):
            return False
        if self.knobs.profile == "dledger-mended" and self.knobs.noop_on_elect:
            return self.run(40_000, until=self.converged)
        self.run(20_000)
        return True

    def prepare(self, name, **stored):
        """What the disk of a node that does not run holds: ``term``, ``voted_for``, ``log`` (terms)."""
        self.boxes[name].disk.wipe()
        self.boxes[name].disk.store(disk(**stored))

    def writers(self, box):
        return self.leaders()

    def pace(self, ms):
        return ms * 25 if ms % 3 else ms


class One(bench.Bench):
    """A node that stored a term and a log of those terms, or with the disk ``image``."""

    target = TARGET
    profile = "dledger"
    epoch = WALL

    def __init__(self, *, term=0, voted_for=None, log=(), image=None, **more):
        super().__init__(disk(term, voted_for, log) if image is None else image, **more)

    # --- messages -------------------------------------------------------------------------------------------------

    def heard(self, src, body):
        """What is sent in answer to this message."""
        return effects.bodies(self.give(Message(src, body)))

    def request(self, body):
        """A client's request; its number."""
        self.requests += 1
        self.give(Request(self.requests, body))
        return self.requests

    def ask(self, body):
        """The answer to a client's request, if there is one at once."""
        number = self.request(body)
        return self.replies().get(number)

    def asks(self, src="B", *, term, end_term=-1, end_index=-1, leader=None):
        """What is sent at once in answer to a vote request."""
        ends = {"ledger_end_index": end_index, "ledger_end_term": end_term}
        return self.heard(src, VoteRequest(**_of(src, leader, term), opaque=1, **ends))

    def asked(self, src="B", **request):
        """The answer to a vote request."""
        (answer,) = self.asks(src, **request)
        return answer

    def beaten(self, src="B", *, term, leader=None):
        """The answer to a heartbeat."""
        (answer,) = self.heard(src, HeartBeatRequest(**_of(src, leader, term), opaque=1))
        return answer

    def pushed(self, kind, entry=None, *, src="B", term=None, opaque=None, commit=-1):
        """The answers to a push."""
        self.requests += 1
        common = _of(src, src, self.node.term if term is None else term)
        number = self.requests if opaque is None else opaque
        return self.heard(src, PushEntryRequest(**common, opaque=number, type=kind, entry=entry, commit_index=commit))

    def answer_vote(self, src, result, *, term=None):
        """An answer to the campaign under way."""
        common = _of(src, "A", self.node.term if term is None else term)
        self.give(Message(src, VoteResponse(**common, opaque=self.node.waits.opaque, vote_result=result)))

    def answer_beat(self, src, code, *, term=None):
        """An answer to the round under way."""
        common = _of(src, "A", self.node.term if term is None else term)
        self.give(Message(src, HeartBeatResponse(**common, opaque=self.node.waits.opaque, code=code)))

    def answer_push(self, src, push, code, *, begin=0, end=-1):
        """An answer to a push of this node."""
        index = -1 if push.entry is None else push.entry.index
        more = {"index": index, "count": 1, "begin_index": begin, "end_index": end}
        return self.heard(src, PushEntryResponse(**_of(src, "A", push.term), opaque=push.opaque, code=code, **more))

    # --- looking --------------------------------------------------------------------------------------------------

    def sent(self, kind):
        """Bodies of that type sent so far."""
        return effects.bodies(self.out, kind)

    def notes(self, name):
        """Data of the notes of that name so far."""
        return effects.notes(self.out, name)

    def replies(self):
        """Request → answer."""
        return effects.answers(self.out)

    def halted(self):
        """Why it stopped; empty if it did not."""
        return "".join(effects.halted(self.out))

    # --- prepared states ------------------------------------------------------------------------------------------

    def campaign(self):
        """Let the first campaign begin."""
        self.run(10)
        assert self.node.waits is not None
        return self

    def lead(self):
        """Become the leader of the present term, with the second half of the members silent."""
        self.campaign()
        for peer in self.node.peers:
            if self.node.role != "LEADER":
                self.answer_vote(peer, "ACCEPT")
        assert self.node.role == "LEADER"
        return self

    def follow(self, leader="B"):
        """Follow that node in the present term, after a first campaign that no node answered."""
        self.campaign()
        while self.node.waits is not None:
            self.run(10)
        self.beaten(leader, term=self.node.term)
        assert (self.node.role, self.node.leader) == ("FOLLOWER", leader)
        return self


def _of(src, leader, term):
    """What every message to A holds."""
    return {"group": "", "local_id": src, "remote_id": "A", "leader_id": leader or src, "term": term}
