"""Faults as data for the minimal world: a list of (verb, node, node, ms) that Hypothesis can shrink."""

from __future__ import annotations

from hypothesis import strategies as st

from dethrone.clusters.targets.client_api import Append, Get, Ok
from dethrone.harness.core.clock import MS
from tests.clusters.joyqueue.minisim import World

QUICK = {"time_factor": "0.02"}
"""T is 100 ms, a heartbeat period 20 ms."""

VERBS = (
    *("isolate", "sever", "one_way", "heal", "heal", "kill", "power", "crash_soon", "start_all", "start_all"),
    *("slow", "lossy", "calm", "write", "write", "write", "read", "expire", "defer"),
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


def play(world: World, schedule, *, late_tasks=False) -> World:
    """Carry the schedule out, stopping at the first problem. ``late_tasks``: ``defer`` counts."""
    value = 0
    writes: dict[int, tuple[str, int]] = {}
    reads: dict[int, tuple[str, set[int]]] = {}
    keys = ["k", "l", "m"][: world.knobs.groups]
    for verb, x, y, ms in schedule:
        box = world.boxes[x]
        led = [name for number in range(world.knobs.groups) for name in world.leaders_now(number)]
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
            case "write" if led:
                for who in led:
                    value += 1
                    key = keys[value % len(keys)]
                    writes[world.request(who, Append(key, value))] = (key, value)
            case "read" if led:
                for who in led:
                    key = keys[ms % len(keys)]
                    acked = {v for n, (k, v) in writes.items() if k == key and isinstance(world.replies.get(n), Ok)}
                    reads[world.request(who, Get(key))] = (key, acked)
            case "expire" if box.alive and box.core.groups[0].role != "LEADER":
                world.expire(x)
            case "defer" if late_tasks and box.alive:
                box.core.node.defer_task(y, "vote", ms * MS, world.now + 300 * MS)
        world.run(ms)
        if not world.logs_match():
            world.problems.append("INV-5: logs do not match")
        if world.problems:
            break
    _judge_reads(world, reads)
    return world


def _judge_reads(world, reads):
    """A read holds every write acknowledged before it was asked, and all reads of a key are prefixes of one list."""
    longest: dict[str, list] = {}
    for number, (key, owed) in reads.items():
        answer = world.replies.get(number)
        if not isinstance(answer, Ok):
            continue
        seen = answer.value or []
        if not owed <= set(seen):
            world.problems.append(f"stale read: {sorted(owed - set(seen))} missing")
        shorter, longer = sorted((seen, longest.get(key, [])), key=len)
        if longer[: len(shorter)] != shorter:
            world.problems.append(f"reads disagree: {shorter} and {longer}")
        longest[key] = longer


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
        if box.alive:
            box.core.node.deferrals.clear()
    start_all(world)


def converged(world):
    """In every group one leader, followed by all, whose committed entries all hold and have committed."""
    for number in range(world.knobs.groups):
        leader = world.leader(number)
        if leader is None or not world.settled(number) or len(world.leaders_now(number)) > 1:
            return False
        groups = [box.core.groups[number] for box in world.boxes.values() if box.alive]
        best = max(group.commit for group in groups)
        if any(group.commit != best for group in groups):
            return False
    return all(box.alive for box in world.boxes.values())
