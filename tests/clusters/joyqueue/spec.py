"""JoyQueue in the tests' world: who leads each group, what its log holds, how its messages are made, and a bench."""

from __future__ import annotations

from dethrone.clusters.targets.client_api import Append
from dethrone.clusters.targets.joyqueue.messages import (
    AppendEntriesRequest,
    AppendEntriesResponse,
    Entry,
    VoteRequest,
    VoteResponse,
)
from dethrone.clusters.targets.joyqueue.storage import LOG, METADATA, TOPIC, Metadata, metadata_bytes, record
from dethrone.clusters.targets.joyqueue.target import TARGET
from dethrone.harness.core.clock import MS
from dethrone.harness.core.machine import Fired
from tests.world import bench, chaos, shells, world
from tests.world.effects import sent

QUICK = {"time_factor": "0.02"}
"""T is 100 ms, a heartbeat period 20 ms; else 5 s."""


def metadata_of(node, members, term, voted_for):
    """The metadata of a node that stored this."""
    return Metadata(
        all_nodes=tuple(members), local_node_id=node, leader_id=None, voted_for=voted_for, current_term=term
    )


def entries(*terms, first=1):
    """Entries with these terms, of values from ``first`` on."""
    return tuple(Entry(term, Append("k", first + i)) for i, term in enumerate(terms))


def disk(term=0, voted_for=None, log=(), *, node="A", members="ABC", group=TOPIC):
    """A disk image with that vote and a log of those terms."""
    image = {f"{group}/{METADATA}": metadata_bytes(metadata_of(node, members, term, voted_for))}
    if log:
        image[f"{group}/{LOG}"] = b"".join(record(at, entry)[0] for at, entry in enumerate(entries(*log)))
    return image


class Box(shells.Box):
    """One host with its groups."""

    @property
    def group(self):
        """The first group, the only one in most worlds."""
        return self.core.groups[0]

    @property
    def node(self):
        return self.group

    def status(self, number=0):
        return self.core.statuses(self.clocks())[number]


class World(world.World):
    """JoyQueue nodes. ``late_tasks``: the step ``defer`` of a schedule counts."""

    target = TARGET
    profile = "joyqueue"
    host = Box
    answer_ms = 2000
    group = TOPIC
    VERBS = (*chaos.FAULTS, "calm", "write", "write", "write", "read", "expire", "defer")

    def __init__(self, names="ABC", *, late_tasks=False, **more):
        self.late_tasks = late_tasks
        super().__init__(names, **more)

    def parts(self, box):
        return [(group.name, group) for group in box.core.groups]

    def leads(self, node):
        return node.role == "LEADER"

    def end(self, node):
        return node.log.end

    def entry(self, node, index):
        return node.log.term_at(index), node.log.digests[index - 1]

    def voters(self, node):
        return node.voters

    def shown(self, box):
        return [(group.name, box.status(number).term) for number, group in enumerate(box.core.groups)]

    def leaders_now(self, number=0):
        """Who calls itself leader of that group."""
        return [b.name for b in self.boxes.values() if b.alive and self.leads(b.core.groups[number])]

    def leader(self, number=0):
        """The one that leads the highest term, None if none does."""
        found = self.leaders_now(number)
        return max(found, key=lambda name: self.boxes[name].core.groups[number].term) if found else None

    def settled(self, number=0):
        """Whether the group has a leader that all live nodes follow."""
        leader = self.leader(number)
        return leader is not None and all(
            b.core.groups[number].leader == leader for b in self.boxes.values() if b.alive
        )

    def converged(self):
        """In every group one leader, followed by all, whose committed entries all hold and have committed."""
        for number in range(self.knobs.groups):
            if not self.settled(number) or len(self.leaders_now(number)) > 1:
                return False
            if len({box.core.groups[number].commit for box in self.boxes.values() if box.alive}) > 1:
                return False
        return all(box.alive for box in self.boxes.values())

    def recovers(self):
        """With the next write: entries of older terms are committed with one of the new."""
        self.mend()
        if not self.run(1500, until=lambda: self.leader() is not None):
            return False
        self.request(self.leader(), Append("k", -1))
        return self.run(1000, until=self.converged)

    def elect(self, *, ms=60_000):
        return super().elect(ms=ms)

    def expire(self, name, *, number=0):
        """Let the election timer of ``name`` expire now."""
        group = self.boxes[name].core.groups[number]
        if group.reset_at is not None:
            group.reset_at, group.deadline = self.now - 10**12, self.now
        self.ring(name, group.election_timer)

    def defer(self, name, peer, kind, ms):
        """Send tasks of ``name`` to ``peer`` start ``ms`` late."""
        self.boxes[name].core.node.defer_task(peer, kind, ms * MS)

    def mend(self):
        for box in self.boxes.values():
            if box.alive:
                box.core.node.deferrals.clear()
        super().mend()

    # --- schedules ------------------------------------------------------------------------------------------------

    def writers(self, box):
        return self._leading()

    def readers(self, box):
        return self._leading()

    def key_of(self, number):
        return "klm"[: self.knobs.groups][number % min(3, self.knobs.groups)]

    def _leading(self):
        return [name for number in range(self.knobs.groups) for name in self.leaders_now(number)]

    def on_expire(self, box, other, ms):
        if box.alive and box.core.groups[0].role != "LEADER":
            self.expire(box.name)

    def on_defer(self, box, other, ms):
        if self.late_tasks and box.alive:
            box.core.node.defer_task(other, "vote", ms * MS, self.now + 300 * MS)


class Quick(World):
    """The same, 50 times as fast."""

    def __init__(self, names="ABC", **more):
        super().__init__(names, **{**QUICK, **more})


class One(bench.Bench):
    """A node that stored a vote and a log of those terms, or is ``fresh``, or with the disk ``image``."""

    target = TARGET
    profile = "joyqueue"

    def __init__(self, *, members="ABC", node="A", term=0, voted_for=None, log=(), fresh=False, image=None, **more):
        if image is None:
            image = {} if fresh else disk(term, voted_for, log, node=node, members=members)
        super().__init__(image, members=members, node=node, **more)

    @property
    def group(self):
        return self.core.groups[0]

    def expire(self):
        """Let the election timer expire now, whatever was drawn."""
        group = self.group
        if group.reset_at is not None:
            group.reset_at, group.deadline = self.now - 10**12, self.now
        return self.give(Fired(group.election_timer))

    # --- requests of others, and answers ----------------------------------------------------------------------------

    def hear_vote_request(self, candidate, term, log=(0, 0), *, pre=False, number=1):
        return self.hear(candidate, VoteRequest(TOPIC, term, candidate, *log, pre, number))

    def hear_append(self, leader, term, start=0, prev_term=0, *, new=(), commit=0, number=1):
        term_of = new[0].term if new else 0
        before = (start - 1, prev_term, start, commit, 0)
        return self.hear(leader, AppendEntriesRequest(TOPIC, term, leader, *before, term_of, tuple(new), number))

    def answer_vote(self, request, *, granted=True, term=None, voter=None):
        """Answer a sent vote or pre-vote request (to, body) as its addressee would."""
        to, body = request
        term = body.term if term is None else term
        return self.hear(to, VoteResponse(TOPIC, term, body.candidate_id, voter or to, granted, body.id))

    def answer_append(self, request, *, success=True, term=None, next_position=None):
        to, body = request
        goes_on = body.start_position + len(body.entries) if next_position is None else next_position
        term = body.term if term is None else term
        return self.hear(
            to, AppendEntriesResponse(TOPIC, term, success, goes_on, goes_on, to, body.entries_term, body.id)
        )

    # --- roads to a role --------------------------------------------------------------------------------------------

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

    def leading(self):
        """The same node after it won."""
        self.lead()
        return self

    def campaigning(self, **how):
        """The same node after it won the pre-vote."""
        self.campaign(**how)
        return self
