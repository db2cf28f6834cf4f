"""One real node with a prepared state: a handler vector gives it one event and looks at what it says."""

from __future__ import annotations

from dethrone.clusters.targets.client_api import Append
from dethrone.clusters.targets.joyqueue.messages import (
    AppendEntriesRequest,
    AppendEntriesResponse,
    Entry,
    VoteRequest,
    VoteResponse,
)
from dethrone.clusters.targets.joyqueue.storage import LOG, METADATA, TOPIC, metadata_bytes, record
from dethrone.clusters.targets.joyqueue.target import TARGET
from dethrone.harness.core.clock import MS, Clocks
from dethrone.harness.core.machine import Disk, DiskDone, Fired, Halt, Message, Note, Reply, Request, Send, SetTimer
from dethrone.harness.core.rng import Rng
from tests.clusters.joyqueue.minisim import metadata_of


def entries(*terms, first=1):
    """Entries with these terms, of values from ``first`` on."""
    return tuple(Entry(term, Append("k", first + i)) for i, term in enumerate(terms))


def disk(term=0, voted_for=None, log=(), *, node="A", members="ABC", group=TOPIC):
    """A disk image with that vote and a log of those terms."""
    image = {f"{group}/{METADATA}": metadata_bytes(metadata_of(node, members, term, voted_for))}
    if log:
        image[f"{group}/{LOG}"] = b"".join(record(at, entry)[0] for at, entry in enumerate(entries(*log)))
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
        profile="joyqueue",
        slow=False,
        fresh=False,
        image=None,
        seed=7,
        **knobs,
    ):
        self.knobs = TARGET.knobs({k: str(v) for k, v in knobs.items()}, profile=profile)
        self.core = TARGET.core(node=node, members=tuple(members), knobs=self.knobs, variant=variant)
        self.slow = False
        self.now = 10_000 * MS
        self.wall = 0
        self.rng = Rng(seed)
        self.pending = []
        self.requests = 0
        self.started = []
        if image is None:
            image = {} if fresh else disk(term, voted_for, log, node=node, members=members)
        self.core.boot(image, self.clocks(), self.rng, self.started)
        self.started = self._finish(self.started)
        self.slow = slow

    @property
    def group(self):
        return self.core.groups[0]

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

    def ask(self, body, *, after_ms=0):
        self.requests += 1
        return self.give(Request(self.requests, body), after_ms=after_ms)

    def done(self, error=None):
        """The oldest batch is done."""
        return self.give(DiskDone(self.pending.pop(0), error))

    def expire(self):
        """Let the election timer expire now, whatever was drawn."""
        group = self.group
        if group.reset_at is not None:
            group.reset_at, group.deadline = self.now - 10**12, self.now
        return self.give(Fired(group.election_timer))

    def fire(self, timer, *, after_ms=0):
        return self.give(Fired(timer), after_ms=after_ms)

    # --- requests of others, and answers ------------------------------------------------------------------------

    def hear_vote_request(self, candidate, term, log=(0, 0), *, pre=False, number=1):
        return self.hear(candidate, VoteRequest(TOPIC, term, candidate, *log, pre, number))

    def hear_append(self, leader, term, start=0, prev_term=0, *, new=(), commit=0, number=1):
        term_of = new[0].term if new else 0
        return self.hear(
            leader,
            AppendEntriesRequest(
                TOPIC, term, leader, start - 1, prev_term, start, commit, 0, term_of, tuple(new), number
            ),
        )

    def answer_vote(self, request, *, granted=True, term=None, voter=None):
        """Answer a sent vote or pre-vote request (to, body) as its addressee would."""
        to, body = request
        answer = VoteResponse(
            TOPIC, body.term if term is None else term, body.candidate_id, voter or to, granted, body.id
        )
        return self.hear(to, answer)

    def answer_append(self, request, *, success=True, term=None, next_position=None):
        to, body = request
        goes_on = body.start_position + len(body.entries) if next_position is None else next_position
        answer = AppendEntriesResponse(
            TOPIC, body.term if term is None else term, success, goes_on, goes_on, to, body.entries_term, body.id
        )
        return self.hear(to, answer)

    # --- roads to a role ----------------------------------------------------------------------------------------

    def campaign(self, *, voters="B"):
        """Expire and win the pre-vote; the vote requests by addressee."""
        asked = dict(sent(self.expire(), VoteRequest))
        out = []
        for voter in voters:
            out += self.answer_vote((voter, asked[voter]))
        assert self.group.role == "CANDIDATE", self.group.role
        return {to: body for to, body in sent(out, VoteRequest) if not body.pre_vote}

    def lead(self, *, voters="B"):
        """Win pre-vote and vote with those; what the last answer brought."""
        asked = self.campaign(voters=voters)
        out = []
        for voter in voters:
            out += self.answer_vote((voter, asked[voter]))
        assert self.group.role == "LEADER", self.group.role
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
