"""Faults as data for the minimal world: a list of (verb, node, node, ms) that Hypothesis can shrink."""

from __future__ import annotations

from hypothesis import strategies as st

from dethrone.clusters.targets.client_api import Append
from tests.clusters.dledger.minisim import World

VERBS = (
    *("isolate", "sever", "one_way", "heal", "heal", "kill", "power", "crash_soon", "start_all", "start_all"),
    *("slow", "lossy", "twice", "calm", "pause", "write", "write", "write", "write"),
)
SLOWLY = 25
"""A drawn 0 to 160 is this often as long: the protocol's times are those of its defaults."""


def steps(names, *, most=60):
    """Schedules over these nodes."""
    node = st.sampled_from(names)
    return st.lists(
        st.tuples(st.sampled_from(VERBS), node, node, st.integers(0, 160)), min_size=most // 3, max_size=most
    )


def drawn(rng, names, *, count):
    """The same, drawn from a seed: for long searches."""
    return [(rng.choice(VERBS), rng.choice(names), rng.choice(names), rng.below(161)) for _ in range(count)]


def play(world: World, schedule) -> World:
    """Carry the schedule out, stopping at the first problem."""
    value = 0
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
                start_all(world)
            case "slow":
                world.delay = (1, 1500)
            case "lossy":
                world.loss = 20
            case "twice":
                world.twice = 20
            case "calm":
                world.loss, world.twice, world.delay = 0, 0, (1, 1)
            case "pause" if box.alive:
                if box.paused:
                    world.resume(x)
                else:
                    world.pause(x)
            case "write":
                for who in [one.name for one in world.boxes.values() if one.leads]:
                    value += 1
                    world.request(who, Append("k", value))
        world.run(ms * SLOWLY if ms % 3 else ms)
        if not world.logs_match():
            world.problems.append("INV-5: logs do not match")
        if world.problems:
            break
    return world


def start_all(world):
    for box in world.boxes.values():
        if not box.alive and not box.halted:
            world.start(box.name)


def mend(world):
    """Everything is healed and runs."""
    world.heal()
    world.loss, world.twice, world.delay = 0, 0, (1, 1)
    for box in world.boxes.values():
        box.crash_in = -1
        if box.paused:
            world.resume(box.name)
    start_all(world)


def led(world):
    """A leader that a majority follows."""
    leader = world.leader()
    if leader is None:
        return False
    followers = [box for box in world.boxes.values() if box.alive and box.node.leader == leader]
    return len(followers) * 2 > len(world.names)


def converged(world):
    """One leader, followed by all, everything committed everywhere."""
    leader = world.leader()
    if leader is None:
        return False
    last = world.boxes[leader].node.log.last
    return all(
        box.alive and box.node.leader == leader and box.node.committed == box.node.log.last == last
        for box in world.boxes.values()
    )
