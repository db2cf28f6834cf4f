"""Faults as data for the minimal world: a list of (verb, node, node, ms) that Hypothesis can shrink."""

from __future__ import annotations

from hypothesis import strategies as st

from dethrone.clusters.targets.client_api import Append, Ok
from dethrone.clusters.targets.zk_ephemeral.target import TARGET
from tests.clusters.zk_ephemeral.minisim import World

NAMES = ("a", "b", "c", "zk")
VERBS = (
    *("isolate", "sever", "one_way", "heal", "heal", "kill", "crash_soon", "start_all", "start_all"),
    *("slow", "lossy", "calm", "pause", "resume_all", "write", "write", "write", "wait", "long"),
)
FAST = {
    "zookeeper_session_timeout_ms": 600,
    "replica_lag_time_max_ms": 900,
    "replica_fetch_wait_max_ms": 100,
    "hw_checkpoint_interval_ms": 300,
    "call_retry_ms": 100,
}


def steps(*, most=50):
    """Schedules over the four nodes."""
    node = st.sampled_from(NAMES)
    return st.lists(
        st.tuples(st.sampled_from(VERBS), node, node, st.integers(0, 160)), min_size=most // 3, max_size=most
    )


def drawn(rng, *, count):
    """The same, drawn from a seed: for long searches."""
    return [(rng.choice(VERBS), rng.choice(NAMES), rng.choice(NAMES), rng.below(161)) for _ in range(count)]


def world(seed=1, **settings):
    """A world with short timers."""
    return World(TARGET, NAMES, seed=seed, **{**FAST, **settings})


def play(w, schedule):
    """Carry the schedule out; the requests of writes by value."""
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
                for name in NAMES:
                    if not w.boxes[name].alive:
                        w.start(name)
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
            case "write":
                leaders = [name for name in w.with_role() if not w.boxes[name].paused]
                for name in leaders:
                    writes[f"{number}{name}"] = w.request(name, Append("k", f"{number}{name}"))
            case "long":
                w.run(ms * 8)
        w.run(ms)
        if w.problems:
            break
    return writes


def resume_all(w):
    for name in NAMES:
        if w.boxes[name].alive and w.boxes[name].paused:
            w.resume(name)


def settle(w, *, ms=8000):
    """Everything healed and long enough for a failover; whether all brokers follow one leader, as far as its log goes.

    Where followers cut by epochs, their logs end in the same epoch, too. Where they cut to their high watermark they
    may hold other records than their leader for ever, and follow it all the same (KIP-101).
    """
    w.heal()
    w.loss, w.delay = 0, (1, 3)
    for name in NAMES:
        w.boxes[name].crash_in = -1
    resume_all(w)
    for name in NAMES:
        if not w.boxes[name].alive and not w.boxes[name].halted:
            w.start(name)

    by_epochs = w.knobs.truncate == "epoch"

    def one():
        statuses = [w.boxes[name].status() for name in NAMES[:-1] if w.boxes[name].alive]
        leaders = {status.leader for status in statuses}
        return (
            len(statuses) == 3
            and len(leaders) == 1
            and None not in leaders
            and sum(status.role == "LEADER" for status in statuses) == 1
            and len({(status.term, status.commit, status.log_end.index) for status in statuses}) == 1
            and statuses[0].commit == statuses[0].log_end.index
            and (not by_epochs or len({status.log_end.term for status in statuses}) == 1)
        )

    return w.run(ms, until=one)


def acknowledged(w, writes):
    """The values whose client was told ok."""
    return {value for value, number in writes.items() if isinstance(w.replies.get(number), Ok)}


def logs(w):
    """The logs of the brokers."""
    return [w.boxes[name].core.log for name in NAMES[:-1]]


def values(log):
    """What a log holds."""
    return [one.command.value for one in log.entries]
