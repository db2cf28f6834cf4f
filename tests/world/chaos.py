"""Faults as data for a world: a list of (verb, node, node, ms) that Hypothesis can shrink, and clients to judge.

A protocol's world gives ``VERBS``, each as often as it should be drawn, and a method ``on_VERB(box, other, ms)`` for
each that is its own.
"""

from __future__ import annotations

from hypothesis import strategies as st

from dethrone.clusters.targets.client_api import Append, Ok

FAULTS = (
    *("isolate", "sever", "one_way", "heal", "heal", "kill", "power", "crash_soon", "start_all", "start_all"),
    *("slow", "lossy"),
)
LOSS_PERCENT = 20


class Clients:
    """Values appended to lists, and reads of them."""

    def __init__(self, world):
        self.world = world
        self.writes: dict[int, tuple[str, int]] = {}
        self.reads: dict[int, tuple[str, set[int]]] = {}
        """Request → its key, and what was acknowledged before it was asked."""

    def append(self, name):
        """Append the next value there."""
        value = len(self.writes) + 1
        key = self.world.key_of(value)
        number = self.world.request(name, Append(key, value))
        self.writes[number] = (key, value)

    def get(self, name, key):
        """Read there."""
        owed = self.acknowledged(key)
        self.reads[self.world.request(name, self.world.get(key))] = (key, owed)

    def acknowledged(self, key="k"):
        """The values whose clients got ok."""
        replies = self.world.replies
        return {value for n, (k, value) in self.writes.items() if k == key and isinstance(replies.get(n), Ok)}

    def judge(self):
        """A read holds all that was acknowledged before it, and nothing twice; reads are prefixes of one list."""
        longest: dict[str, list[int]] = {}
        for number, (key, owed) in self.reads.items():
            answer = self.world.replies.get(number)
            if not isinstance(answer, Ok):
                continue
            seen = answer.value or []
            if not owed <= set(seen):
                self.world.problems.append(f"stale read: {sorted(owed - set(seen))} missing")
            if len(set(seen)) != len(seen):
                self.world.problems.append(f"read twice: {seen}")
            shorter, longer = sorted((seen, longest.get(key, [])), key=len)
            if longer[: len(shorter)] != shorter:
                self.world.problems.append(f"reads disagree: {shorter} and {longer}")
            longest[key] = longer


def steps(world_type, names, *, most=60):
    """Schedules over these nodes."""
    node, verb = st.sampled_from(names), st.sampled_from(world_type.VERBS)
    return st.lists(st.tuples(verb, node, node, st.integers(0, world_type.STEP_MS)), min_size=most // 3, max_size=most)


def drawn(world_type, rng, names, *, count):
    """The same, drawn from a seed: for long searches."""
    verbs, most = world_type.VERBS, world_type.STEP_MS
    return [(rng.choice(verbs), rng.choice(names), rng.choice(names), rng.below(most + 1)) for _ in range(count)]


def play(world, schedule):
    """Carry the schedule out, stopping at the first problem; then judge what clients saw."""
    for verb, name, other, ms in schedule:
        step(world, verb, world.boxes[name], other, ms)
        world.run(world.pace(ms))
        world.judge.checked()
        if world.problems:
            break
    if world.reads_are_current:
        world.clients.judge()
    return world


def step(world, verb, box, other, ms):
    """One fault, or one request of a client."""
    name = box.name
    match verb:
        case "isolate":
            world.isolate(name)
        case "sever" if name != other:
            world.sever(name, other)
        case "one_way" if name != other:
            world.cut.add((name, other))
        case "heal":
            world.heal()
        case "kill" | "power" if box.alive:
            world.kill(name, power=verb == "power")
        case "crash_soon" if box.alive:
            box.crash_in = ms % 12
        case "start_all":
            world.start_all()
        case "slow":
            world.delay = world.slow
        case "lossy":
            world.loss = LOSS_PERCENT
        case "twice":
            world.twice = world.TWICE_PERCENT
        case "calm":
            world.calm()
        case "pause" if box.alive and not box.paused:
            world.pause(name)
        case "pause" if box.alive:
            world.resume(name)
        case "write":
            for writer in world.writers(box):
                world.clients.append(writer)
        case "read":
            for reader in world.readers(box):
                world.clients.get(reader, world.key_of(ms))
        case "campaign" if box.alive and not box.paused and not box.leads:
            world.campaign(name)
        case _:
            own = getattr(world, f"on_{verb}", None)
            if own is not None:
                own(box, other, ms)
