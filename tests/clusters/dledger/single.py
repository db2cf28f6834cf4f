"""One real node with a prepared state: a test gives it one event and looks at what it says, in DLedger's numbers."""

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
from dethrone.harness.core.clock import MS, Clocks
from dethrone.harness.core.machine import Disk, DiskDone, Fired, Halt, Message, Note, Reply, Request, Send, SetTimer
from dethrone.harness.core.rng import Rng

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


class One:
    """Node A of ``members``. Disk batches are done at once unless ``slow``, that of the start even so unless
    ``slow_start``; ``image`` replaces the prepared disk."""

    def __init__(
        self,
        *,
        members="ABC",
        term=0,
        voted_for=None,
        log=(),
        image=None,
        variant=None,
        profile="dledger",
        slow=False,
        slow_start=False,
        seed=7,
        **knobs,
    ):
        self.knobs = TARGET.knobs(
            {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in knobs.items()}, profile=profile
        )
        self.core = TARGET.core(node="A", members=tuple(members), knobs=self.knobs, variant=variant)
        self.slow = slow_start
        self.now = 10_000 * MS
        self.wall = WALL
        self.rng = Rng(seed)
        self.out = []
        self.batches = []
        self.timers = {}
        self.number = 0
        self.error = None
        out = []
        self.core.boot(disk(term, voted_for, log) if image is None else image, self.clocks(), self.rng, out)
        self._finish(out)
        self.slow = slow or slow_start

    @property
    def node(self):
        return self.core.node

    def clocks(self):
        return Clocks(self.now, self.now + self.wall)

    def status(self):
        return self.core.status(self.clocks())

    # --- events ---------------------------------------------------------------------------------------------------

    def give(self, event):
        """Handle one event; everything it led to is kept in ``out`` as well."""
        before = len(self.out)
        out = []
        self.core.handle(event, self.clocks(), self.rng, out)
        self._finish(out)
        return self.out[before:]

    def _finish(self, out):
        self.out += out
        for effect in out:
            if isinstance(effect, SetTimer):
                self.timers.pop(effect.name, None)
                if effect.at is not None:
                    self.timers[effect.name] = (effect.at - (self.wall if effect.clock == "wall" else 0), effect)
            elif isinstance(effect, Disk):
                self.batches.append(effect)
        if not self.slow:
            self.sync()

    def sync(self):
        """All batches are carried out, or fail with ``error``."""
        while self.batches:
            batch = self.batches.pop(0)
            self.give(DiskDone(batch.token, self.error))

    def run(self, ms):
        """Let time pass; timers ring."""
        end = self.now + ms * MS
        while self.timers:
            name, (at, _) = min(self.timers.items(), key=lambda item: item[1][0])
            if at > end:
                break
            self.now = max(self.now, at)
            del self.timers[name]
            self.give(Fired(name))
        self.now = end

    def heard(self, src, body):
        """What is sent in answer to this message."""
        return [effect.body for effect in self.give(Message(src, body)) if isinstance(effect, Send)]

    def request(self, body):
        """A client's request; its number."""
        self.number += 1
        self.give(Request(self.number, body))
        return self.number

    def ask(self, body):
        """The answer to a client's request, if there is one at once."""
        number = self.request(body)
        return self.replies().get(number)

    # --- messages -------------------------------------------------------------------------------------------------

    def asked(self, src="B", *, term, end_term=-1, end_index=-1, leader=None):
        """The answer to a vote request."""
        request = VoteRequest(
            group="",
            local_id=src,
            remote_id="A",
            leader_id=leader or src,
            term=term,
            opaque=1,
            ledger_end_index=end_index,
            ledger_end_term=end_term,
        )
        (answer,) = self.heard(src, request)
        return answer

    def beaten(self, src="B", *, term, leader=None):
        """The answer to a heartbeat."""
        request = HeartBeatRequest(group="", local_id=src, remote_id="A", leader_id=leader or src, term=term, opaque=1)
        (answer,) = self.heard(src, request)
        return answer

    def pushed(self, kind, entry=None, *, src="B", term=None, opaque=None, commit=-1):
        """The answers to a push."""
        self.number += 1
        push = PushEntryRequest(
            group="",
            local_id=src,
            remote_id="A",
            leader_id=src,
            term=self.node.term if term is None else term,
            opaque=self.number if opaque is None else opaque,
            type=kind,
            entry=entry,
            commit_index=commit,
        )
        return self.heard(src, push)

    def answer_vote(self, src, result, *, term=None):
        """An answer to the campaign under way."""
        tally = self.node.waits
        answer = VoteResponse(
            group="",
            local_id=src,
            remote_id="A",
            leader_id="A",
            term=self.node.term if term is None else term,
            opaque=tally.opaque,
            vote_result=result,
        )
        self.give(Message(src, answer))

    def answer_beat(self, src, code, *, term=None):
        """An answer to the round under way."""
        answer = HeartBeatResponse(
            group="",
            local_id=src,
            remote_id="A",
            leader_id="A",
            term=self.node.term if term is None else term,
            opaque=self.node.waits.opaque,
            code=code,
        )
        self.give(Message(src, answer))

    def answer_push(self, src, push, code, *, begin=0, end=-1):
        """An answer to a push of this node."""
        answer = PushEntryResponse(
            group="",
            local_id=src,
            remote_id="A",
            leader_id="A",
            term=push.term,
            opaque=push.opaque,
            code=code,
            index=-1 if push.entry is None else push.entry.index,
            count=1,
            begin_index=begin,
            end_index=end,
        )
        return [effect.body for effect in self.give(Message(src, answer)) if isinstance(effect, Send)]

    # --- looking --------------------------------------------------------------------------------------------------

    def sent(self, kind):
        """Bodies of that type sent so far."""
        return [effect.body for effect in self.out if isinstance(effect, Send) and isinstance(effect.body, kind)]

    def notes(self, name):
        """Data of the notes of that name so far."""
        return [effect.data for effect in self.out if isinstance(effect, Note) and effect.name == name]

    def replies(self):
        """Request → answer."""
        return {effect.id: effect.body for effect in self.out if isinstance(effect, Reply)}

    def halted(self):
        """Why it stopped; empty if it did not."""
        return "".join(effect.reason for effect in self.out if isinstance(effect, Halt))

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
        """Follow somebody in the present term, after a first campaign that nobody answered."""
        self.campaign()
        while self.node.waits is not None:
            self.run(10)
        self.beaten(leader, term=self.node.term)
        assert (self.node.role, self.node.leader) == ("FOLLOWER", leader)
        return self
