"""Which simulated runs the net consists of, and with which options each is started.

Four groups a protocol: the honest build on seeds 0 to 19, the honest build under knobs that no other case turns, each
planted bug on a seed on which the exam finds it (``seeds.json``; 0 where none is known), and the builds that the exam
does not look for (bugs for clients, flips of claims). Guarantees: a pure function of the tree; a case's name says all
that its options depend on. Out of scope: running them (``played``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from dethrone.harness.core import registry
from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.planted import ExamPlan, Planted
from dethrone.harness.engine.exam.exam import Task, options_of
from dethrone.harness.engine.exam.exam_tasks import examinable
from dethrone.harness.engine.run.options import RunOptions
from tests.claims.builds import build_of, flips_of

SEEDS = Path(__file__).with_name("seeds.json")
HONEST_SEEDS = 20
HONEST_NS: Ns = 30 * SECOND
OTHER_NS: Ns = 20 * SECOND
"""Time limits of the honest build, and of those that are not on trial here."""

STORAGE, WIRE = ("powerloss", "disk", "damage", "restart"), ("link", "hold", "drift")
MORE_FAULTS: tuple[tuple[str, ...], ...] = ((), STORAGE, WIRE, (*STORAGE, "wipe", *WIRE))
"""What happens besides the faults of the system's default run, in turn."""

STRATEGIES = ("mixed", "random", "triggered")
INTERVALS_NS: tuple[Ns, ...] = (2 * SECOND, 1 * SECOND)

WORKLOADS = ("log", "register", "set", "list-append", "lock", "lease", "membership", "agreement", "election")

KNOBS: Mapping[str, tuple[Mapping[str, str], ...]] = {
    "bully": (
        {"local_term": "on"},
        {"step_down": "on", "majority_to_stand": "on"},
        {"write_concern": "majority"},
        {"election": "mongo", "lease_persisted": "on", "priorities": "n4:3,n5:2"},
    ),
    "dledger": (
        {"persist_mode": "upstream"},
        {"fsync": "async"},
        {"clock": "monotonic", "flag_handling": "immediate"},
        {"max_pending_requests_num": "3", "max_in_flight": "2"},
    ),
    "joyqueue": (
        {"groups": "3"},
        {"learners": "n5"},
        {"transfer": "true"},
        {"task_delay_max_ms": "4000"},
        {"persist_errors": "swallow"},
        {"max_entries_per_append": "2"},
        {"commit_current_term_only": "false"},
    ),
    "kraft": (
        {"observers": "n5"},
        {"check_quorum": "off"},
        {"clock": "wall"},
        {"max_records_per_fetch": "1"},
        {"append_linger_ms": "0"},
    ),
    "master-slave": (
        {"name_servers": "2"},
        {"broker_role": "SYNC_MASTER"},
        {"flush_disk_type": "SYNC_FLUSH"},
        {"deployment": "DP2"},
    ),
    "nacos": (
        {"persist_vote": "true"},
        {"restart_term": "zero"},
        {"term_jump": "100"},
        {"beat_data": "false"},
        {"send_beat_only": "true"},
        {"late_ticks": "burst"},
    ),
    "paxos": (
        {"accept_rule": "ge"},
        {"persist": "false"},
        {"nack": "false"},
        {"learner": "disk"},
        {"backoff": "none"},
        {"election": "false"},
    ),
    "raft": (
        {"reads": "lease"},
        {"reads": "log"},
        {"membership": "single_server"},
        {"transfer": "on"},
        {"persist": "off"},
        {"log_check": "off", "prev_check": "off"},
        {"retry_same_term": "on", "eager_commit_notice": "on"},
        {"max_entries_per_append": "1"},
        {"vote_holdoff_after_start": "on"},
    ),
    "zab": (
        {"init_limit": "3"},
        {"sync_limit": "2"},
        {"epoch_mismatch": "refuse"},
        {"connect_tries": "1"},
    ),
    "zk-ephemeral": (
        {"fencing": "epochs"},
        {"truncate": "epoch"},
        {"acks": "all", "min_insync_replicas": "2"},
        {"unclean_leader_election_enable": "true"},
        {"rewatch": "off"},
        {"service_clock": "wall"},
        {"isr_in_force": "local"},
        {"coordinator": "n1"},
    ),
}
"""Words of knobs whose other values only these cases reach; refusals are recorded like everything else."""


class Case(NamedTuple):
    """One run. ``build``: ``honest``, ``knobs.WORDS``, a variant's name or a flip's."""

    system: str
    build: str
    seed: int
    options: RunOptions

    @property
    def name(self) -> str:
        """``system/build/seed``."""
        return f"{self.system}/{self.build}/{self.seed:02}"


def cases(only: str | None = None) -> list[Case]:
    """All of them, sorted by name; ``only`` those whose name begins with this."""
    systems = [name for name in examinable() if only is None or f"{name}/".startswith(only) or only.startswith(name)]
    found = [case for name in systems for case in _of(name)]
    return sorted((case for case in found if only is None or case.name.startswith(only)), key=lambda case: case.name)


def more_faults(seed: int) -> tuple[str, ...]:
    """Besides those of the default run, with this seed."""
    return MORE_FAULTS[seed % len(MORE_FAULTS)]


def _of(name: str) -> Iterator[Case]:
    system: Any = registry.load(registry.SYSTEMS, name)
    plan, planted = system.exam(), system.planted()
    seeds: Mapping[str, int] = json.loads(SEEDS.read_text()) if SEEDS.exists() else {}
    for seed in range(HONEST_SEEDS):
        yield Case(name, "honest", seed, _honest(name, seed))
    for words in KNOBS[name]:
        build = "knobs." + ",".join(f"{knob}={word}" for knob, word in words.items())
        yield Case(name, build, 7, _with(_honest(name, 7), settings=words))
    for bug in planted.values():
        seed = seeds.get(f"{name}/{bug.name}", 0)
        yield Case(name, bug.name, seed, _examined(name, plan, bug, seed))
    for variant in system.variants():
        if variant not in planted:
            yield Case(name, variant, 0, _with(_honest(name, 0), variant=variant))
    for flip in flips_of(name):
        yield Case(name, flip, 0, _with(_honest(name, 0), variant=build_of(name, flip)))


def _honest(name: str, seed: int) -> RunOptions:
    """The default run with more faults; every other seed with another profile, workload and, if they fit, settings."""
    system: Any = registry.load(registry.SYSTEMS, name)
    defaults, plan = system.defaults(), system.exam()
    served = [one for one in WORKLOADS if registry.load(registry.WORKLOADS, one).needs() <= system.operations()]
    turn, other = divmod(seed, 2)
    profiles = tuple(system.profiles())
    profile = profiles[turn % len(profiles)] if other else None
    examined = profile in (plan.profile, profiles[0])
    return RunOptions(
        system=name,
        backend="sim",
        nodes=plan.nodes[seed % len(plan.nodes)],
        seed=seed,
        workload=served[turn % len(served)] if other else defaults.workload,
        faults=tuple(dict.fromkeys((*defaults.faults, *more_faults(seed)))),
        strategy=STRATEGIES[seed % len(STRATEGIES)],
        profile=profile,
        time_limit_ns=HONEST_NS,
        nemesis_interval_ns=INTERVALS_NS[turn % len(INTERVALS_NS)],
        settings=plan.settings if examined else defaults.settings,
        stop_at_first_failure=False,
        time_scale=1,
        conclusive=False,
    )


def _with(options: RunOptions, *, settings: Mapping[str, str] | None = None, variant: str | None = None) -> RunOptions:
    system: Any = registry.load(registry.SYSTEMS, options.system)
    plan: ExamPlan = system.exam()
    return msgspec.structs.replace(
        options,
        nodes=max(plan.nodes),
        profile=None,
        workload=plan.workloads[-1] if settings and "membership" in settings else system.defaults().workload,
        settings={**system.defaults().settings, **(settings or {})},
        variant=variant,
        time_limit_ns=OTHER_NS,
    )


def _examined(name: str, plan: ExamPlan, bug: Planted, seed: int) -> RunOptions:
    """The run that the exam makes of this bug and seed."""
    task = Task(system=name, plan=plan, strategy="triggered", planted=bug)
    return options_of(task, seed, variant=bug.name)
