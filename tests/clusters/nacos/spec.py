"""Nacos in the tests' world: requests that wait for their answers, random faults, and a node on the bench.

A message takes 1 ms unless it is held; who campaigns when is up to the test.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dethrone.clusters.targets import client_api
from dethrone.clusters.targets.nacos import election
from dethrone.clusters.targets.nacos.messages import BeatRequest, NacosMessage, RaftPeer, VoteAnswer, VoteRequest
from dethrone.clusters.targets.nacos.target import TARGET
from dethrone.harness.core.clock import MS
from dethrone.harness.core.machine import Disk, DiskDone, Message, Note, Reply, Request, Send, SendFailed
from tests.world import bench, effects, world

CALL_TIMEOUT = 2_000 * MS


class World(world.Roles):
    """Nodes named in ``names``, none of them started. ``disk_ms``: how long each batch takes."""

    target = TARGET

    def __init__(self, names="n1 n2 n3", *, disk_ms=0, **more):
        self.calls: dict[int, tuple[str, int, str, Any]] = {}
        self.noted: list[tuple[int, str, int, Note]] = []
        self.seen: list[tuple[int, str, int, Any]] = []
        """What cores said, and what witnesses saw: (when, node, life, what)."""
        super().__init__(names.split(), sync=(2 * disk_ms, 2 * disk_ms), **more)

    def starting_order(self):
        return ()

    def start(self, *names, **how):
        for name in names or self.names:
            super().start(name, **how)

    # --- looking and poking ---------------------------------------------------------------------------------------

    def state(self, name):
        return self.boxes[name].core.node

    def status(self, name):
        return self.boxes[name].status()

    def roles(self):
        """Node → (role, term), of those that run."""
        statuses = {name: box.status() for name, box in self.boxes.items() if box.alive}
        return {name: (status.role, status.term) for name, status in statuses.items()}

    def due(self, **ms):
        """Set who campaigns when: the leader due of nodes, in protocol ms."""
        for name, value in ms.items():
            self.state(name).local.leader_due_ms = value

    def fire(self, name):
        """Let the node's election task find its due reached, once, now, without moving its timer."""
        self.due(**{name: 500})
        box = self.boxes[name]
        out: list[Any] = []
        node, now = box.core.node, box.clocks()
        node.mono, node.wall, node.rng, node.out = now.mono, now.wall, box.rng, out
        election.on_election_tick(node)
        self.carry_out(box, out)

    def put(self, name, key, value):
        return self.request(name, client_api.Put(key, value))

    def notes(self, name, *, of=None):
        """In the order of time."""
        return [note for _, who, _, note in self.noted if note.name == name and of in (None, who)]

    def witnessed(self, name):
        """(node, event) of the witnessed events of that name."""
        return [(who, seen) for _, who, _, seen in self.seen if seen.name == name]

    def double_votes(self):
        """(node, term, candidates) where a node gave its vote of one term to several candidates."""
        given: dict[tuple[str, int], set[str]] = {}
        for node, seen in self.witnessed("vote"):
            given.setdefault((node, seen.term), set()).add(seen.data["candidate"])
        return [(node, term, who) for (node, term), who in given.items() if len(who) > 1]

    def twice_elected(self):
        """(term, nodes) where several nodes were elected in one term."""
        by_term: dict[int, set[str]] = {}
        for node, seen in self.witnessed("elected"):
            by_term.setdefault(seen.term, set()).add(node)
        return [(term, nodes) for term, nodes in by_term.items() if len(nodes) > 1]

    # --- requests and answers -------------------------------------------------------------------------------------

    def show(self, box, effect):
        super().show(box, effect)
        if type(effect) is Note:
            msgspec.json.encode(effect)
            self.noted.append((self.now, box.name, box.life, effect))

    def _witnessed(self, box, events):
        super()._witnessed(box, events)
        self.seen += [(self.now, box.name, box.life, event) for event in events]

    def post(self, src, dst, body, *, answers=None):
        assert msgspec.json.decode(msgspec.json.encode(body), type=NacosMessage) == body
        self.sent.append((self.now, src, dst, body))
        number = life = None
        if answers is None:
            self.count += 1
            number = self.count
            self.calls[number] = (src, self.boxes[src].life, dst, body)
            self.at(self.now + CALL_TIMEOUT, self._give_up, number)
        elif answers in self.calls:
            life = self.calls[answers][1]
        else:
            return
        if (src, dst) in self.cut:
            return
        self.calls.pop(answers, None)
        message = (dst, Message(src, body, number), life)
        if self.hold is not None and self.hold(src, dst, body):
            self.held_messages.append(message)
        else:
            self.at(self.now + MS, self._come, *message)

    def release(self):
        self.hold, held = None, self.held_messages
        self.held_messages = []
        for message in held:
            self._come(*message)

    def _come(self, dst, message, life):
        self.arrive(self.boxes[dst], message, life)

    def _give_up(self, number):
        if number in self.calls:
            src, life, dst, body = self.calls.pop(number)
            self.arrive(self.boxes[src], SendFailed(dst, body, "timed out"), life)

    # --- random faults --------------------------------------------------------------------------------------------

    def disturb(self, rng, *, steps, writes=False):
        """``steps`` random faults of 20 to 30 protocol seconds each, healed in between or not."""
        self.start()
        for _ in range(steps):
            name = rng.choice(self.names)
            match rng.below(6):
                case 0:
                    self.kill(name)
                case 1:
                    self.restart(name)
                case 2:
                    self.isolate(name)
                case 3:
                    self.isolate(*rng.sample(self.names, len(self.names) // 2))
                case 4 if self.boxes[name].alive:
                    self.pause(name)
                case 5:
                    late = rng.choice(self.names)
                    self.hold = lambda src, dst, body, late=late: late in {src, dst}
            if writes and self.boxes[name].alive:
                self.put(name, f"k{rng.below(3)}", rng.below(1000))
                self.request(name, client_api.Append("l", rng.below(1000)))
            self.run(2_000 + rng.below(1_000))
            if rng.chance(2, 3):
                self.mend()
            self.run(500)

    def mend(self):
        self.release()
        super().mend()


class One(bench.LastEvent):
    """Node ``me`` of ``members``; ``out`` holds the effects of the last event; no batch is done by itself."""

    target = TARGET
    began_ms = 0

    def __init__(self, members="n1 n2 n3", me="n1", *, disk=None, **more):
        self.me = me
        super().__init__(disk, node=me, members=members.split(), slow_start=True, **more)

    @property
    def state(self):
        return self.core.node

    @property
    def local(self):
        return self.core.node.local

    def put(self, **fields):
        """Set fields of the own record."""
        for name, value in fields.items():
            setattr(self.local, name, value)
        return self

    def know(self, ip, **fields):
        """Set fields of a peer's record."""
        for name, value in fields.items():
            setattr(self.state.peers.peers[ip], name, value)
        return self

    def follow(self, ip, term):
        """Hold ``ip`` for the leader, as after its beat."""
        if ip == self.me:
            self.state.peers.leader = self.local
        else:
            self.state.peers.make_leader(RaftPeer(ip, ip, term, state="LEADER"))
        self.out = []
        return self

    def ask(self, src, body):
        """A peer's request; its answer (exactly one) comes back."""
        self.give(Message(src, body, 42))
        (answer,) = [effect for effect in self.out if isinstance(effect, Send) and effect.answers is not None]
        assert (answer.to, answer.answers) == (src, 42)
        return answer.body

    tell = bench.Bench.hear
    """A peer's answer."""

    def fail(self, to, body):
        return self.give(SendFailed(to, body, "connection refused"))

    def vote(self, candidate, term):
        return self.ask(candidate, VoteRequest(RaftPeer(candidate, candidate, term, state="CANDIDATE")))

    def beat(self, leader, term, *datums, state="LEADER"):
        return self.ask(leader, BeatRequest(RaftPeer(leader, leader, term, state=state), tuple(datums)))

    def client(self, body, number=1):
        """A client's request; the answer, or None if it waits."""
        self.give(Request(number, body))
        return self.reply(number)

    def reply(self, number=1):
        replies = [effect.body for effect in self.out if isinstance(effect, Reply) and effect.id == number]
        assert len(replies) <= 1
        return replies[0] if replies else None

    def later(self, ms):
        self.now += ms * MS
        return self

    def disks_done(self):
        """Let every batch of the last event succeed."""
        for token in [effect.token for effect in self.out if isinstance(effect, Disk)]:
            self.core.handle(DiskDone(token), self.clocks(), self.rng, [])

    # --- what came out --------------------------------------------------------------------------------------------

    def sent(self, kind=object):
        return [
            (e.to, e.body) for e in self.out if isinstance(e, Send) and e.answers is None and isinstance(e.body, kind)
        ]

    def notes(self, name):
        return [effect for effect in self.out if isinstance(effect, Note) and effect.name == name]

    def note(self, name):
        (note,) = self.notes(name)
        return dict(note.data)

    def alarms(self):
        return effects.timers(self.out)

    def halted(self):
        reasons = effects.halted(self.out)
        return reasons[0] if reasons else None


def leading(**settings) -> One:
    """n1, elected in term 1 by itself and n2."""
    bench = One(**settings)
    bench.put(leader_due_ms=500)
    bench.fire("election")
    bench.disks_done()
    bench.tell("n2", VoteAnswer(RaftPeer("n2", "n1", 1)))
    assert bench.local.state == "LEADER"
    return bench
