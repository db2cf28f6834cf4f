"""Faults as data for the minimal world: a list of (verb, node, node, ms) that Hypothesis can shrink."""

from __future__ import annotations

from hypothesis import strategies as st

from dethrone.clusters.targets.client_api import Append, Get, Learn, Ok, Propose
from tests.clusters.paxos.minisim import World

VERBS = (
    *("isolate", "sever", "one_way", "heal", "heal", "heal", "kill", "power", "crash_soon", "crash_soon"),
    *("start_all", "start_all", "start_all", "slow", "lossy", "twice", "calm", "calm"),
    *("propose",) * 8,
    *("learn", "append", "append", "read"),
)
INSTANCES = 3


def steps(names, *, most=60):
    """Schedules over these nodes."""
    node = st.sampled_from(names)
    return st.lists(
        st.tuples(st.sampled_from(VERBS), node, node, st.integers(0, 160)), min_size=most // 3, max_size=most
    )


def drawn(rng, names, *, count):
    """The same, drawn from a seed: for long searches."""
    return [(rng.choice(VERBS), rng.choice(names), rng.choice(names), rng.below(161)) for _ in range(count)]


def play(world: World, schedule, *, log=True) -> World:
    """Carry the schedule out, stopping at the first problem; then mend everything and let every node learn."""
    value = 0
    appended: dict[int, int] = {}
    reads: dict[int, set[int]] = {}
    for verb, x, y, ms in schedule:
        box = world.boxes[x]
        match verb:
            case "isolate":
                world.isolate(x)
            case "sever" if x != y:
                world.sever(x, y)
            case "one_way" if x != y:
                world.cut.add((x, y))
            case "heal":
                world.heal()
            case "kill" | "power" if box.alive:
                world.kill(x, power=verb == "power")
            case "crash_soon" if box.alive:
                box.crash_in = ms % 12
            case "start_all":
                for other in world.boxes.values():
                    if not other.alive and not other.halted:
                        world.start(other.name)
            case "slow":
                world.delay = (1, 80)
            case "lossy":
                world.loss = 20
            case "twice":
                world.twice = 30
            case "calm":
                world.loss, world.twice, world.delay = 0, 0, (1, 3)
            case "propose":
                value += 1
                world.request(x, Propose(1 + ms % INSTANCES if not log else 100 + ms % INSTANCES, value))
            case "learn":
                world.request(x, Learn(1 + ms % INSTANCES if not log else 100 + ms % INSTANCES))
            case "append" if log and box.alive:
                value += 1
                appended[world.request(x, Append("k", value))] = value
            case "read" if log and box.alive:
                acked = {v for n, v in appended.items() if isinstance(world.replies.get(n), Ok)}
                reads[world.request(x, Get("k"))] = acked
        world.run(ms)
        if world.problems:
            return world
    world.mend()
    world.run(300)
    for name in world.names:
        for instance in range(1, INSTANCES + 1):
            world.request(name, Learn(instance if not log else 100 + instance - 1))
        if log:
            acked = {v for n, v in appended.items() if isinstance(world.replies.get(n), Ok)}
            reads[world.request(name, Get("k"))] = acked
    world.run(4000)
    _judge_reads(world, reads)
    return world


def _judge_reads(world, reads):
    """A read holds every append acknowledged before it was asked, nothing twice, and reads are prefixes of one list."""
    longest: list = []
    for number, owed in reads.items():
        answer = world.replies.get(number)
        if not isinstance(answer, Ok):
            continue
        seen = answer.value or []
        if not owed <= set(seen) or len(set(seen)) != len(seen):
            world.problems.append(f"read {seen} lacks {sorted(owed - set(seen))} or holds something twice")
        shorter, longer = sorted((seen, longest), key=len)
        if longer[: len(shorter)] != shorter:
            world.problems.append(f"reads disagree: {shorter} and {longer}")
        longest = longer
