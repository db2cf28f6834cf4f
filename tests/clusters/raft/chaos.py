"""Faults as data for the minimal world: a list of (verb, node, node, ms) that Hypothesis can shrink."""

from __future__ import annotations

from hypothesis import strategies as st

from dethrone.clusters.targets.client_api import Append, Get, Ok
from tests.clusters.raft.minisim import World

VERBS = (
    *("isolate", "sever", "one_way", "heal", "heal", "kill", "power", "crash_soon", "start_all", "start_all"),
    *("slow", "lossy", "calm", "pause", "write", "write", "write", "read", "campaign"),
)


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
    writes: dict[int, int] = {}
    reads: dict[int, set[int]] = {}
    for verb, x, y, ms in schedule:
        box = world.boxes[x]
        leader = world.leader()
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
                world.delay = (1, 80)
            case "lossy":
                world.loss = 20
            case "calm":
                world.loss, world.delay = 0, (1, 3)
            case "pause" if box.alive:
                if box.paused:
                    world.resume(x)
                else:
                    world.pause(x)
            case "write" if leader:
                value += 1
                writes[world.request(leader, Append("k", value))] = value
            case "read" if any(b.alive and b.node.leading for b in world.boxes.values()):
                for who in [b.name for b in world.boxes.values() if b.alive and b.node.leading]:
                    acked = [n for n, v in writes.items() if isinstance(world.replies.get(n), Ok)]
                    reads[world.request(who, Get("k"))] = {writes[n] for n in acked}
            case "campaign" if box.alive and not box.paused and not box.node.leading:
                world.campaign(x)
        world.run(ms)
        if not world.logs_match():
            world.problems.append("INV-5: logs do not match")
        if world.problems:
            break
    if world.knobs.reads != "local":
        _judge_reads(world, reads)
    return world


def _judge_reads(world, reads):
    """A read holds every write acknowledged before it was asked, and all reads are prefixes of one list."""
    longest: list = []
    for number, owed in reads.items():
        answer = world.replies.get(number)
        if not isinstance(answer, Ok):
            continue
        seen = answer.value or []
        if not owed <= set(seen):
            world.problems.append(f"stale read: {sorted(owed - set(seen))} missing")
        shorter, longer = sorted((seen, longest), key=len)
        if longer[: len(shorter)] != shorter:
            world.problems.append(f"reads disagree: {shorter} and {longer}")
        longest = longer


def start_all(world):
    for box in world.boxes.values():
        if not box.alive and not box.halted:
            world.start(box.name)


def mend(world):
    """Everything is healed and runs."""
    world.heal()
    world.loss, world.delay = 0, (1, 3)
    for box in world.boxes.values():
        box.crash_in = -1
        if box.paused:
            world.resume(box.name)
    start_all(world)


def converged(world):
    """One leader, followed by all, everything committed everywhere."""
    leader = world.leader()
    if leader is None:
        return False
    last = world.boxes[leader].node.log.end
    return all(
        box.alive and box.node.leader == leader and box.node.commit == box.node.log.end == last
        for box in world.boxes.values()
    )
