"""From what a user said to a complete plan: names resolved, knobs filled in, schedule drawn, everything validated.

Promises: nothing is started, no clock read; bad input is a ConfigError. The same options and seed give the same plan.
Leaves out the run directory and the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from harness.core import registry, store
from harness.core.clock import MS, SECOND, Ns
from harness.core.errors import ConfigError, HistoryError, MissingCapability
from harness.core.plan import Plan, WorkloadPlan
from harness.core.promise import Promise
from harness.core.protocols import Backend, Fault, No, RunDefaults, Strategy, System, Workload
from harness.core.rng import Rng
from harness.core.schedule import Schedule
from harness.engine.model import RunOptions

OBSERVE_INTERVAL_NS = 80 * MS
WARMUP_NS = 5 * SECOND
OP_TIMEOUT_NS = 5 * SECOND
MAX_NODES = 31


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A plan and the live objects that its names stand for."""

    plan: Plan
    system: System
    backend: Backend
    workload: Workload
    faults: Mapping[str, Fault]


def node_names(count: int) -> tuple[str, ...]:
    """``n1 … nN``."""
    return tuple(f"n{number}" for number in range(1, count + 1))


def draft(options: RunOptions, *, seed: int) -> Draft:
    """The whole plan. Raises ConfigError for anything unknown, contradictory or too short to be worth running."""
    system: System = registry.load(registry.SYSTEMS, options.system)
    backend: Backend = registry.load(registry.BACKENDS, options.backend)
    if not 1 <= options.nodes <= MAX_NODES:
        raise ConfigError(f"{options.nodes} nodes", next_step=f"choose 1 to {MAX_NODES} with --nodes")
    nodes = node_names(options.nodes)
    defaults = system.defaults()
    profile = _profile(system, options.profile)
    knobs = system.knobs({**defaults.settings, **options.settings}, profile=profile, variant=options.variant)
    promise = system.promise(knobs, profile=profile, voters=len(nodes))
    limit_ns = options.time_limit_ns if options.time_limit_ns is not None else defaults.time_limit_ns
    faults = _faults(system, options.faults if options.faults is not None else defaults.faults)
    schedule = _schedule(options, defaults, faults=faults, promise=promise, limit_ns=limit_ns, seed=seed)
    workload, workload_plan = _workload(options, defaults, system=system, promise=promise)
    stop_early = options.stop_at_first_failure
    plan = Plan(
        system=system.name,
        backend=backend.name,
        profile=profile,
        variant=options.variant,
        nodes=nodes,
        voters=nodes,
        knobs=knobs,
        seed=seed,
        time_limit_ns=limit_ns,
        workload=workload_plan,
        schedule=schedule,
        promise=promise,
        observable=system.observable(),
        observe_interval_ns=OBSERVE_INTERVAL_NS,
        final_read_ns=max(2 * promise.leader_bound_ns, 5 * SECOND),
        stop_at_first_failure=defaults.stop_at_first_failure if stop_early is None else stop_early,
        stop_at=defaults.stop_at,
    )
    kinds = {*schedule.kinds, *faults}
    return Draft(
        plan=plan,
        system=system,
        backend=backend,
        workload=workload,
        faults={kind: registry.load(registry.FAULTS, kind) for kind in sorted(kinds)},
    )


def _profile(system: System, wanted: str | None) -> str:
    known = system.profiles()
    if wanted is None:
        return next(iter(known))
    if wanted not in known:
        raise registry.unknown_name("profile", wanted, known)
    return wanted


def _faults(system: System, kinds: tuple[str, ...]) -> dict[str, Fault]:
    faults: dict[str, Fault] = {}
    for kind in kinds:
        fault: Fault = registry.load(registry.FAULTS, kind)
        support = system.fault_support(kind)
        if isinstance(support, No):
            raise MissingCapability(
                f"{system.name} cannot suffer the fault {kind!r}: {support.why}",
                next_step=support.what_to_do or "leave it out of --faults",
            )
        faults[kind] = fault
    return faults


def _schedule(
    options: RunOptions,
    defaults: RunDefaults,
    *,
    faults: Mapping[str, Fault],
    promise: Promise,
    limit_ns: Ns,
    seed: int,
) -> Schedule:
    if options.schedule is not None:
        return load_schedule(options.schedule, nodes=options.nodes)
    interval_ns = options.nemesis_interval_ns
    if interval_ns is None:
        interval_ns = defaults.nemesis_interval_ns
    if not faults:
        return Schedule(seed=seed, strategy="none", steps=())
    strategy: Strategy = registry.load(registry.STRATEGIES, options.strategy)
    schedule = strategy.draw(
        Rng(seed).stream("nemesis"),
        faults=faults,
        nodes=options.nodes,
        time_limit_ns=limit_ns,
        interval_ns=interval_ns,
        promise=promise,
    )
    _check_schedule(schedule, nodes=options.nodes)
    return msgspec.structs.replace(schedule, seed=seed)


def load_schedule(path: Path, *, nodes: int) -> Schedule:
    """A stored planned schedule, validated against the fault kinds that are installed."""
    try:
        schedule = store.read_json(path, Schedule)
    except HistoryError as error:
        raise ConfigError(
            f"not a schedule: {error.what}",
            where=str(path),
            next_step="name a schedule.planned.json of a run directory, or a file of the same form",
        ) from error
    _check_schedule(schedule, nodes=nodes)
    return schedule


def _check_schedule(schedule: Schedule, *, nodes: int) -> None:
    for step in schedule.steps:
        for fault in step.faults:
            kind: Fault = registry.load(registry.FAULTS, fault.kind)
            kind.check(fault, nodes=nodes)


def _workload(
    options: RunOptions, defaults: RunDefaults, *, system: System, promise: Promise
) -> tuple[Workload, WorkloadPlan]:
    name = options.workload or defaults.workload
    workload: Workload = registry.load(registry.WORKLOADS, name)
    missing = workload.needs() - system.operations()
    if missing:
        raise ConfigError(
            f"{system.name} cannot serve the workload {name!r}: no {', '.join(sorted(missing))}",
            next_step="choose another --workload (dethrone list workloads)",
        )
    processes = options.processes if options.processes is not None else workload.processes(options.nodes)
    rate = options.rate_per_s if options.rate_per_s is not None else workload.rate_per_s()
    if processes < 0 or rate < 0:
        raise ConfigError("processes and rate must not be negative")
    timeout_ns = min(OP_TIMEOUT_NS, max(1 * SECOND, promise.leader_bound_ns))
    return workload, WorkloadPlan(
        name=name, processes=processes if workload.needs() else 0, rate_per_s=rate, op_timeout_ns=timeout_ns
    )


def show_plan(plan: Plan) -> dict[str, Any]:
    """The plan as plain JSON values, for ``--dry-run``."""
    return msgspec.to_builtins(plan)  # type: ignore[no-any-return]
