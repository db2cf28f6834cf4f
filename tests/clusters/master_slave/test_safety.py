from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dethrone.clusters.targets.client_api import Append, Ok
from dethrone.harness.core.rng import Rng
from tests.clusters.master_slave.spec import cluster, scaled, values

NAMES = ("m", "s1", "s2", "ns")
VERBS = (
    *("isolate", "sever", "one_way", "heal", "heal", "kill", "crash_soon", "start_all", "start_all"),
    *("slow", "lossy", "calm", "pause", "resume_all", "write", "write", "write", "ask slave", "long"),
)
NODE = st.sampled_from(NAMES)
STEPS = st.lists(st.tuples(st.sampled_from(VERBS), NODE, NODE, st.integers(0, 160)), min_size=15, max_size=50)


def play(w, schedule):
    """Carry the schedule out, looking at the invariants after every step; the requests of writes by value."""
    writes = {}
    for number, (verb, x, y, ms) in enumerate(schedule):
        box = w.boxes[x]
        match verb:
            case "isolate":
                w.isolate(x)
            case "sever" if x != y:
                w.sever(x, y)
            case "one_way" if x != y:
                w.cut.add((x, y))
            case "heal":
                w.heal()
            case "kill" if box.alive:
                w.kill(x)
            case "crash_soon" if box.alive:
                box.crash_in = ms % 12
            case "start_all":
                start_all(w)
            case "slow":
                w.delay = (1, 80)
            case "lossy":
                w.loss = 20
            case "calm":
                w.loss, w.delay = 0, (1, 3)
            case "pause" if box.alive:
                box.paused = True
            case "resume_all":
                resume_all(w)
            case "write" | "ask slave":
                name = "m" if verb == "write" else "s1"
                if w.boxes[name].alive:
                    writes[number] = w.request(name, Append("k", number))
            case "long":
                w.run(ms * 8)
        w.run(ms)
        look(w, writes)
    return writes


def start_all(w):
    for name in NAMES:
        if not w.boxes[name].alive:
            w.start(name)


def resume_all(w):
    for name in NAMES:
        if w.boxes[name].alive and w.boxes[name].paused:
            w.resume(name)


def look(w, writes):
    """A slave's log is a prefix of its master's; SEND_OK of a synchronous master is on a slave; roles stay."""
    assert not w.problems
    logs = {name: values(w, name) for name in NAMES[:-1]}
    for name in ("s1", "s2"):
        assert logs["m"][: len(logs[name])] == logs[name]
    if w.knobs.broker_role == "SYNC_MASTER":
        for value, number in writes.items():
            if isinstance(w.replies.get(number), Ok):
                assert value in logs["s1"] or value in logs["s2"]
    for name, role in zip(NAMES, ("MASTER", "SLAVE", "SLAVE", "NAMESERVER"), strict=True):
        assert w.boxes[name].status().role == role
    assert not w.notes("role_change")


def settle(w):
    w.heal()
    w.loss, w.delay = 0, (1, 3)
    for name in NAMES:
        w.boxes[name].crash_in = -1
    resume_all(w)
    start_all(w)
    w.run(scaled(120_000))
    w.run(3000)


@pytest.mark.parametrize("profile", ["master-slave", "sync"])
@given(schedule=STEPS, seed=st.integers(0, 1 << 16))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_without_wipes_and_operators_slaves_hold_prefixes_and_roles_never_change(profile, schedule, seed):
    w = cluster(profile=profile, seed=seed)
    writes = play(w, schedule)
    settle(w)
    look(w, writes)
    everything = [values(w, name) for name in NAMES[:-1]]
    assert everything[0] == everything[1] == everything[2]
    acknowledged = {value for value, number in writes.items() if isinstance(w.replies.get(number), Ok)}
    assert acknowledged <= set(everything[0])


@pytest.mark.parametrize(
    "variant", ["half-heartbeat", "registers-more", "small-batches", "flushes-more", "never-suggests"]
)
def test_the_harmless_builds_raise_no_alarm(variant):
    for seed in range(10):
        rng = Rng(seed)
        schedule = [(rng.choice(VERBS), rng.choice(NAMES), rng.choice(NAMES), rng.below(161)) for _ in range(40)]
        w = cluster(profile="sync", seed=seed, variant=f"harmless-{variant}")
        writes = play(w, schedule)
        settle(w)
        look(w, writes)
