"""A world for the bare cores of any protocol: virtual time, a lossy network, disks that may lose power, crashes.

A protocol's ``spec.py`` subclasses `World` and says who leads, what a log holds and which invariants are judged; they
are, after every event, from what was really sent and carried out.

Guarantees: the same arguments and calls give the same course. What the simulator (`dethrone.clusters.sim`) does not
have and tests need: a test may hold each message and each batch and let it go by hand, end a node behind any prefix of
its effects, and reach into its core. Out of scope: plans, workloads, histories.
"""

from __future__ import annotations

from typing import Any

from dethrone.clusters.node.effects import Barrier
from dethrone.clusters.targets.client_api import Append, Get, Ok
from dethrone.harness.core.clock import MS
from dethrone.harness.core.machine import Fired, Request
from dethrone.harness.core.rng import Rng
from tests.world.bench import words
from tests.world.chaos import Clients
from tests.world.invariants import Leaders, Replication
from tests.world.shells import Box, Shells


class World(Shells):
    """``names``: the members. ``spare``: boxes that are started as members but outside of them. ``asleep``: not started
    yet. ``disks``: what disks hold at the first start. ``variant``: of all, or one for each name."""

    target: Any = None
    host: type[Box] = Box
    profile: str | None = None
    delay: tuple[float, float] = (1, 3)
    """How long a message takes, in ms; ``slow``: while the network is slow."""
    slow: tuple[float, float] = (1, 80)
    answer_ms = 500
    recovery_ms = 3000
    epoch = 0
    group = ""
    """The replicated log of events that name none."""
    refuses = False
    """A dead process refuses connections, so that its callers know at once."""
    invariants: Any = Replication
    proving: tuple[str, ...] = ("persisted",)
    """Witnessed events whose term a node had reached."""
    VERBS: tuple[str, ...] = ()
    """What `tests.world.chaos` draws from."""
    STEP_MS = 160
    TWICE_PERCENT = 20
    reads_are_current = True

    def __init__(
        self,
        names="ABC",
        *,
        seed=1,
        profile=None,
        variant=None,
        spare="",
        asleep="",
        disks=None,
        delay=None,
        sync=(0, 2),
        **settings,
    ):
        self.seed = seed
        self.rng = Rng(seed).stream("world")
        self.names = tuple(names)
        self.knobs = self.target.knobs(words(settings), profile=profile or self.profile)
        everyone = (*self.names, *spare)
        self.variant = variant
        self.variants = variant if isinstance(variant, dict) else dict.fromkeys(everyone, variant)
        self.now = self.count = 0
        self.heap: list[Any] = []
        self.cut: set[tuple[str, str]] = set()
        self.loss = self.twice = 0
        self.lag: dict[tuple[str, str], int] = {}
        """(src, dst) → extra ms."""
        self.calm_delay = self.delay
        self.delay = delay or self.delay
        self.sync = sync
        """How long a batch takes, in half ms; None: until the test ends it."""
        self.hold: Any = None
        self.held_messages: list[tuple[str, str, Any]] = []
        self.sent: list[tuple[int, str, str, Any]] = []
        self.asked: dict[int, Any] = {}
        self.replies: dict[int, Any] = {}
        self.requests = 0
        self.problems: list[str] = []
        self.clients = Clients(self)
        self.boxes = {name: self.host(self, name) for name in everyone}
        self.judge = self.invariants(self)
        for name, files in (disks or {}).items():
            self.boxes[name].disk.store(files)
        for name in self.starting_order():
            if name not in asleep:
                self.start(name)

    @classmethod
    def with_leader(cls, names="ABC", **more):
        """A world in which a leader is elected, and that one."""
        world = cls(names, **more)
        return world, world.elect()

    # --- what a protocol says -------------------------------------------------------------------------------------

    def starting_order(self):
        return self.names

    def parts(self, box):
        """(group, node) of every replicated log of that core; none: the protocol has none."""
        return ((self.group, box.core.node),)

    def leads(self, node):
        """Whether it calls itself leader."""
        raise NotImplementedError

    def term(self, node):
        """As witnesses count terms."""
        return node.term

    def commit(self, node):
        """How many entries are committed."""
        return node.commit

    def end(self, node):
        """How many entries its log holds."""
        raise NotImplementedError

    def entry(self, node, index):
        """(term, digest) of the entry ``index``, from 1 on."""
        raise NotImplementedError

    def durable(self, node):
        """How many entries its disk holds for certain."""
        return node.log.durable

    def follows(self, box):
        """The name of the leader that it knows, None if it knows none."""
        return box.glance()[2]

    def shown(self, box):
        """(group, term) as the node shows them; 0 where it shows none."""
        return ((self.group, box.glance()[1]),)

    def voters(self, node):
        """Those of whom a majority elects."""
        return self.names

    def campaign(self, name):
        """Let the time after which ``name`` campaigns be over now, whatever it hears."""
        raise NotImplementedError

    # --- faults ---------------------------------------------------------------------------------------------------

    def start(self, name, *, knobs=None):
        box = self.boxes[name]
        assert not box.alive
        box.life += 1
        box.alive, box.paused, box.halted = True, False, ""
        box.rng = Rng(self.seed).stream(f"{name}/{box.life}")
        box.core = self.target.core(
            node=name, members=self.names, knobs=knobs or self.knobs, variant=self.variants[name]
        )
        box.barrier = Barrier()
        for queue in (box.batches, box.timers, box.inbox):
            queue.clear()
        self.judge.started(box)
        image = box.disk.image()
        self._witnessed(box, box.witness.booted(image))
        out: list[Any] = []
        box.core.boot(image, box.clocks(), box.rng, out)
        self.carry_out(box, out)

    def kill(self, *names, power=False, wipe=False):
        """End the processes, behind any prefix of the batch under way."""
        for name in names:
            box = self.boxes[name]
            if box.alive:
                box.alive = False
                if box.batches and not box.full:
                    ops = box.batches[0].ops
                    for op in ops[: self.rng.below(len(ops) + 1)]:
                        box.disk.carry_out(op)
            if power:
                box.disk.lose_power()
            if wipe:
                box.disk.wipe()

    def restart(self, name, **how):
        self.kill(name, **how)
        self.start(name)

    def start_all(self):
        """Start every node that is down and did not stop by itself."""
        for box in self.boxes.values():
            if not box.alive and not box.halted:
                self.start(box.name)

    def sever(self, x, *others):
        """Cut the links between ``x`` and these, both ways; ``mute``: only what ``x`` sends."""
        for y in others:
            self.cut |= {(x, y), (y, x)}

    def mute(self, x, *others):
        self.cut |= {(x, y) for y in others}

    def isolate(self, *names):
        """Cut these off from all others."""
        for name in names:
            for other in self.boxes:
                if other not in names:
                    self.sever(name, other)

    def partition(self, *groups):
        """Cut what connects these groups; everything else is healed."""
        self.cut.clear()
        for i, group in enumerate(groups):
            for other in groups[i + 1 :]:
                for x in group:
                    for y in other:
                        self.sever(x, y)

    def heal(self):
        self.cut.clear()

    def calm(self):
        """No message is lost, doubled or slow any more."""
        self.loss = self.twice = 0
        self.delay = self.calm_delay

    def pause(self, name):
        self.boxes[name].paused = True

    def resume(self, name, *, timers_first=True):
        """Go on: as in the shells, timers that fell due come before disk results and messages."""
        box = self.boxes[name]
        box.paused = False
        waiting, box.inbox = box.inbox, []
        waiting.sort(key=lambda event: timers_first and not isinstance(event, Fired))
        for event in waiting:
            if callable(event):
                event()
            else:
                self.handle(box, event)

    def step_wall(self, ms, *names):
        """Move the wall clocks of these nodes, or of all."""
        for name in names or self.boxes:
            box = self.boxes[name]
            box.wall += ms * MS
            for timer, (at, clock) in list(box.timers.items()):
                if clock == "wall":
                    self._set_timer(box, timer, at, clock)

    def mend(self):
        """Everything is healed and runs."""
        self.heal()
        self.calm()
        for box in self.boxes.values():
            box.crash_in, box.full = -1, False
            if box.paused:
                self.resume(box.name)
        self.start_all()

    # --- requests --------------------------------------------------------------------------------------------------

    def request(self, name, body):
        """Ask a node; the number of the request."""
        self.requests += 1
        number = self.requests
        self.asked[number] = body
        self.arrive(self.boxes[name], Request(number, body))
        return number

    def ask(self, name, body, *, ms=None):
        """A request and its answer, None if there is none in time."""
        number = self.request(name, body)
        self.run(self.answer_ms if ms is None else ms, until=lambda: number in self.replies)
        return self.replies.get(number)

    def write(self, name, value, *, key="k", ms=None):
        """Whether an appended value was acknowledged."""
        return isinstance(self.ask(name, Append(key, value), ms=ms), Ok)

    def read(self, name, key="k", *, ms=None):
        """The list; None if it was not served."""
        answer = self.ask(name, Get(key), ms=ms)
        return (answer.value or []) if isinstance(answer, Ok) else None

    def writers(self, box):
        """Who is asked for a write at that node, in a schedule; ``key_of``: for which key, ``get``: how it is read."""
        leader = self.leader()
        return [leader] if leader else []

    def readers(self, box):
        """Who is asked for a read."""
        return self.leaders()

    def key_of(self, number):
        return "k"

    def get(self, key):
        return Get(key)

    def pace(self, ms):
        """How long such a step of a schedule takes, in ms."""
        return ms

    def elect(self, name=None, *, ms=20_000):
        """Run until a leader (``name``, if given) is settled."""
        if name is not None and self.leader() != name:
            self.campaign(name)
        assert self.run(ms, until=lambda: self.settled() and name in (None, self.leader())), "no leader"
        return self.leader()

    def settled(self):
        """Whether there is a leader that every live node knows."""
        leader = self.leader()
        return leader is not None and all(self.follows(box) == leader for box in self.boxes.values() if box.alive)

    def recovers(self):
        """Mend everything; whether the nodes then converge within their protocol's bound."""
        self.mend()
        return self.run(self.recovery_ms, until=self.converged)

    def converged(self):
        """One leader, followed by all, everything committed everywhere."""
        leader = self.leader()
        if leader is None or not all(box.alive and self.follows(box) == leader for box in self.boxes.values()):
            return False
        for (_, led), *others in zip(*(self.parts(box) for box in self.boxes.values()), strict=True):
            nodes = [led, *(node for _, node in others)]
            if len({self.term(node) for node in nodes}) > 1:
                return False
            if len({length for node in nodes for length in (self.end(node), self.commit(node))}) > 1:
                return False
        return True

    # --- looking --------------------------------------------------------------------------------------------------

    def leaders(self):
        """Who calls itself leader."""
        return [box.name for box in self.boxes.values() if box.leads]

    def leader(self, *, among=None):
        """The one that leads the highest term, None if none does."""
        found = [box for box in self.boxes.values() if box.leads and (among is None or box.name in among)]
        return max(found, key=lambda box: self.term(box.node)).name if found else None

    def with_role(self, role="LEADER", *, alive=True):
        """The names of the nodes in that role."""
        return [b.name for b in self.boxes.values() if b.core and (b.alive or not alive) and b.status().role == role]

    def notes(self, name, *, of=None):
        """All notes of that name, of one node or of all."""
        boxes = self.boxes.values() if of is None else [self.boxes[of]]
        return [note for box in boxes for note in box.notes if note.name == name]

    def messages(self, kind, *, src=None, dst=None):
        """(time, src, dst, body) of what was sent."""
        return [
            one for one in self.sent if isinstance(one[3], kind) and src in (None, one[1]) and dst in (None, one[2])
        ]


class Roles(World):
    """A world of which only leaders and terms are judged, by what nodes show; its nodes start from the last one on."""

    invariants = Leaders

    def starting_order(self):
        return tuple(reversed(self.names))

    def parts(self, box):
        return ()

    # --- schedules ------------------------------------------------------------------------------------------------

    def on_freeze(self, box, other, ms):
        if box.alive:
            self.pause(box.name)

    def on_resume_all(self, box, other, ms):
        for one in self.boxes.values():
            if one.alive and one.paused:
                self.resume(one.name)

    def on_long(self, box, other, ms):
        self.run(ms * 8)
