"""Paxos in the tests' world: agreement as its invariant, its messages, its schedules, and a node on the bench."""

from __future__ import annotations

import json

from dethrone.clusters.targets.client_api import Learn, Ok
from dethrone.clusters.targets.client_api import Propose as Want
from dethrone.clusters.targets.paxos.messages import Accepted, Given, Nack, Pong, Prepare, Promise, Propose
from dethrone.clusters.targets.paxos.storage import FILE, Counted, Promised, Stored, framed
from dethrone.clusters.targets.paxos.target import TARGET
from dethrone.harness.core.machine import Note
from tests.world import bench, chaos, effects, invariants, world

CNT = Counted
INSTANCES = 3


def val(value):
    return Given(value)


def disk(*records):
    """A disk image with these records."""
    return {FILE: b"".join(map(framed, records))}


def stored(max_id, accepted_id=0, value=None, *, instance=1):
    if value is None:
        return Promised(instance, max_id)
    return Stored(instance, max_id, accepted_id, val(value))


def bodies(out, kind=object):
    """The different bodies sent."""
    return list(dict.fromkeys(effects.bodies(out, kind)))


class Agreement(invariants.Leaders):
    """One value an instance, proposed by a client; one leader an epoch, by a majority; promises never fall."""

    def __init__(self, world):
        super().__init__(world)
        self.tally: dict[tuple, set[str]] = {}
        """(instance, number, value) → who accepted it."""
        self.decided: dict[int, tuple[str, str]] = {}
        """Instance → the value and how that is known."""
        self.promised: dict[tuple[str, int], int] = {}

    def witnessed(self, box, event):
        super().witnessed(box, event)
        self.world.told.append(("shell", box.name, box.life, event))
        data = event.data
        if event.name == "accepted":
            key = (data["instance"], data["id"], json.dumps(data["value"]))
            who = self.tally.setdefault(key, set())
            who.add(box.name)
            if len(who) >= self.world.majority:
                self.decides(data["instance"], key[2], f"a majority under {data['id']}")
        elif event.name == "persisted":
            key = (box.name, data["instance"])
            if data["max_id"] < self.promised.get(key, 0):
                self.problem(f"the promise of {key} fell to {data['max_id']}")
            self.promised[key] = data["max_id"]

    def elected(self, box, group, event):
        super().elected(box, group, event)
        if len(event.data["voters"]) < self.world.majority:
            self.problem(f"{box.name} leads epoch {event.term} with {event.data['voters']}")

    def decides(self, instance, value, how):
        """This value was chosen."""
        before = self.decided.setdefault(instance, (value, how))
        if before[0] != value:
            self.problem(f"agreement, instance {instance}: {before} and {(value, how)}")
        wanted = self.world.wanted.get(instance)
        if wanted and '"origin"' not in value and value not in wanted:
            self.problem(f"validity, instance {instance}: no client proposed {value}")


class World(world.World):
    """Paxos nodes. ``log``: schedules append to lists, too, and decide instances apart from them."""

    target = TARGET
    profile = "paxos"
    answer_ms = 10_000
    invariants = Agreement
    TWICE_PERCENT = 30
    VERBS = (
        *("isolate", "sever", "one_way", "heal", "heal", "heal", "kill", "power", "crash_soon", "crash_soon"),
        *("start_all", "start_all", "start_all", "slow", "lossy", "twice", "calm", "calm"),
        *("propose",) * 8,
        *("learn", "write", "write", "read"),
    )

    def __init__(self, names="ABC", *, log=True, **more):
        self.log = log
        self.told: list[tuple] = []
        """What a history would hold: traces, invokes and returns, in order."""
        self.wanted: dict[int, set[str]] = {}
        super().__init__(names, **more)

    @property
    def majority(self):
        return (self.knobs.acceptors or len(self.names)) // 2 + 1

    def parts(self, box):
        return ((self.group, box.node),)

    def leads(self, node):
        return node.leads

    def term(self, node):
        return node.epoch

    def shown(self, box):
        return ()

    def request(self, name, body):
        self.told.append(("invoke", self.requests + 1, name, body))
        if isinstance(body, Want):
            self.wanted.setdefault(body.instance, set()).add(json.dumps(body.value))
        return super().request(name, body)

    def show(self, box, effect):
        super().show(box, effect)
        if type(effect) is Note:
            self.told.append(("core", box.name, box.life, effect))
            if effect.name == "learned":
                self.judge.decides(effect.data["instance"], json.dumps(effect.data["value"]), f"{box.name} learned")
            return
        self.told.append(("return", effect.id, box.name, effect.body))
        asked, body = self.asked[effect.id], effect.body
        if isinstance(body, Ok) and isinstance(asked, Want | Learn) and body.value is not None:
            self.judge.decides(asked.instance, json.dumps(body.value), f"answer {effect.id}")

    def propose(self, name, instance, value, **how):
        """The value that was decided."""
        answer = self.ask(name, Want(instance, value), **how)
        return answer.value if isinstance(answer, Ok) else answer

    def learn(self, name, instance, **how):
        """The value that is known there."""
        answer = self.ask(name, Learn(instance), **how)
        return answer.value if isinstance(answer, Ok) else answer

    def mend(self):
        self.hold = None
        super().mend()

    # --- schedules ------------------------------------------------------------------------------------------------

    @property
    def instances(self):
        return range(100, 100 + INSTANCES) if self.log else range(1, 1 + INSTANCES)

    def writers(self, box):
        return [box.name] if self.log and box.alive else []

    readers = writers

    def on_propose(self, box, other, ms):
        self.proposals = getattr(self, "proposals", 0) + 1
        self.request(box.name, Want(self.instances[ms % INSTANCES], self.proposals))

    def on_learn(self, box, other, ms):
        self.request(box.name, Learn(self.instances[ms % INSTANCES]))


def play(world, schedule):
    """Carry the schedule out; then mend everything and let every node learn."""
    chaos.play(world, schedule)
    if world.problems:
        return world
    world.mend()
    world.run(300)
    for name in world.names:
        for instance in world.instances:
            world.request(name, Learn(instance))
        if world.log:
            world.clients.get(name, "k")
    world.run(4000)
    world.clients.judge()
    return world


class One(bench.Bench):
    """A node with these records; its peers are reachable unless it is ``alone``."""

    target = TARGET
    profile = "paxos"

    def __init__(self, *records, image=None, alone=False, slow=False, **more):
        super().__init__(disk(*records) if records else image, **more)
        if not alone:
            self.reach()
        self.slow = slow

    def reach(self, names=None):
        for name in names or self.members:
            if name != self.node.me:
                self.hear(name, Pong())

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
