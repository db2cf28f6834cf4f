"""From a user's options to a complete plan: names resolved, knobs filled in, schedule drawn, everything validated.

Guarantees: starts nothing, reads no clock; bad input is a ConfigError. The same options and seed give the same plan.
The run directory and the cluster are out of scope.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dethrone.harness.core import registry
from dethrone.harness.core.clock import MS, SECOND, Ns
from dethrone.harness.core.errors import ConfigError, MissingCapability
from dethrone.harness.core.interfaces import (
    Backend,
    Brisk,
    Composed,
    Condition,
    Electorate,
    Enumerating,
    Fault,
    Informed,
    No,
    Paced,
    Profiled,
    RunDefaults,
    Scalable,
    Secretive,
    Strategy,
    System,
    Unpreloaded,
    Workload,
    Zoned,
    Zoning,
    declared,
    traits_of,
)
from dethrone.harness.core.plan import Plan, WorkloadPlan
from dethrone.harness.core.plausible import wrong_counts, wrong_times
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import Schedule
from dethrone.harness.core.timescale import SCALE_MAX, longer, longer_promise, schedule_at, show_scale
from dethrone.harness.core.watches import Watch
from dethrone.harness.core.world import VirtualBackend
from dethrone.harness.core.zones import check_zones, zones_in_order
from dethrone.harness.engine.run.asked_of_system import enabling_knobs, refuse_unremaking, refuse_unserved
from dethrone.harness.engine.run.code_names import settled
from dethrone.harness.engine.run.continuation import Continuation, Continue
from dethrone.harness.engine.run.disk_needs import disk_model
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.schedule_draw import Hat, draw_each_kind
from dethrone.harness.engine.run.version_check import (
    check_versions,
    first_version,
    possible_first,
    refuse_change,
    refuse_changes,
    stored_limits,
    versions_of,
)
from dethrone.harness.engine.run.watching import logged_channels, watches_for
from dethrone.harness.engine.run.written_schedules import check_schedule, written_schedule

OBSERVE_INTERVAL_NS = 80 * MS
OBSERVE_INTERVAL_VIRTUAL_NS = 100 * MS
WARMUP_NS = 5 * SECOND
OP_TIMEOUT_NS = 5 * SECOND
TAG = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,40}")
TAG_CHARS_MAX = 200
MAX_NODES = 31
"""What faults may need on the hosts of a backend that does not say what they can do."""

PACKAGES = {"faketime": "libfaketime", "iptables": "iptables"}
"""What brings a capability to a host that lacks it."""


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A plan and the live objects that its names stand for."""

    plan: Plan
    system: System
    backend: Backend
    workload: Workload
    faults: Mapping[str, Fault]
    conditions: Mapping[str, Condition] = {}
    """Of the schedule's triggers, by name."""
    watches: tuple[Watch, ...] = ()
    """What agents look for, for the schedule's triggers."""
    more: Continue | None = None
    """Draws further steps for a run that has not shown everything; None: it ends with its schedule."""


def node_names(count: int) -> tuple[str, ...]:
    """``n1 … nN``."""
    return tuple(f"n{number}" for number in range(1, count + 1))


def draft(options: RunOptions, *, seed: int) -> Draft:
    """The whole plan. Raises ConfigError for anything unknown, contradictory or too short to be worth running."""
    options = settled(options)
    system: System = registry.load(registry.SYSTEMS, options.system)
    backend = lent_backend(options.backend, options.hosts, options.host)
    if options.unsafe_root and backend.traits.unsafe is not None:
        backend = backend.traits.unsafe()
    if not 1 <= options.nodes <= MAX_NODES:
        raise ConfigError(f"{options.nodes} nodes", next_step=f"choose 1 to {MAX_NODES} with --nodes")
    _check_options(options)
    nodes = node_names(options.nodes)
    profile = _profile(system, options.profile)
    defaults = system.profile_defaults(profile) if isinstance(system, Profiled) else system.defaults()
    asked, backend_settings = _settings(options.settings, system, backend)
    written = written_schedule(options, seed=seed)
    refuse_changes(system, written)
    usual = defaults.faults if written is None else ()  # who wrote what happens needs nothing else to be possible
    wanted = _kinds_played(options) or (options.faults if options.faults is not None else usual)
    enabling = enabling_knobs(system, wanted if written is None else (*wanted, *written.kinds))
    knobs = system.knobs({**defaults.settings, **enabling, **asked}, profile=profile, variant=options.variant)
    voters = system.voters(nodes, knobs, profile=profile) if isinstance(system, Electorate) else nodes
    promise = system.promise(knobs, profile=profile, voters=len(voters))
    limit_ns = options.time_limit_ns if options.time_limit_ns is not None else defaults.time_limit_ns
    faults = {kind: _fault(system, backend, kind) for kind in wanted}
    promise = _bearing(promise, faults)
    zones = _zones(options, system, backend, nodes)
    schedule, more = (
        (written, None)
        if written is not None
        else _drawn(
            options,
            defaults,
            zones=zones,
            system=system,
            backend=backend,
            faults=faults,
            promise=promise,
            outsiders=len(nodes) - len(voters),
            limit_ns=limit_ns,
            seed=seed,
        )
    )
    check_zones(schedule, zones)
    kinds = {kind: _fault(system, backend, kind) for kind in sorted({*schedule.kinds, *faults})}
    schedule = schedule if written else possible_first(system, knobs, schedule, kinds)
    check_versions(system, knobs, schedule, kinds)
    promise = _bearing(promise, kinds)
    disk_model(schedule, kinds)
    workload, workload_plan = _workload(options, defaults, system=system, promise=promise)
    stop_early = options.stop_at_first_failure
    plan = Plan(
        system=system.name,
        backend=backend.name,
        profile=profile,
        variant=options.variant,
        nodes=nodes,
        voters=voters,
        zones=zones or msgspec.UNSET,
        versions=versions_of(system) or msgspec.UNSET,
        version_limits=stored_limits(system),
        system_version=first_version(system, knobs),
        knobs=knobs,
        seed=seed,
        time_limit_ns=limit_ns,
        workload=workload_plan,
        schedule=schedule,
        promise=promise,
        observable=backend.traits.shows(system.observable()),
        observe_interval_ns=_observe_interval_ns(system, backend),
        final_read_ns=max(2 * promise.leader_bound_ns, 5 * SECOND),
        stop_at_first_failure=defaults.stop_at_first_failure if stop_early is None else stop_early,
        stop_at=defaults.stop_at,
        tags=dict(options.tags),
        backend_settings=backend_settings,
        data_in=options.data_in or "disk",
        secrets=system.secret_knobs() if isinstance(system, Secretive) else (),
        settings=_unusual(system, knobs, profile=profile, asked=asked),
        evidence=evidence(schedule, promise, drawn=written is None and not _kinds_played(options)),
    )
    backend.traits.refuse(plan)
    if plan.data_in == "memory" and not backend.traits.memory_dir:
        raise ConfigError(
            f"hosts of the backend {backend.name} have no place in memory for nodes' data",
            next_step="remove --data-in, or run with --on docker or --on local",
        )
    drafted = Draft(
        plan=plan,
        system=system,
        backend=backend,
        workload=workload,
        faults=kinds,
        conditions=_conditions(schedule),
        watches=watches_for(schedule.triggers, system=system, backend=backend, more=more is not None),
        more=more,
    )
    return drafted if options.time_scale is None else at_scale(drafted, options.time_scale)


def _bearing(promise: Promise, faults: Mapping[str, Fault]) -> Promise:
    bearing = promise.bearing({kind: traits_of(fault).borne_as for kind, fault in faults.items()})
    return bearing.doing(kind for kind, fault in faults.items() if traits_of(fault).asks)


def at_scale(drafted: Draft, scale: float) -> Draft:
    """The same run, slower: knobs, promise, schedule, time limit and the bounds of operations.

    ``drafted``: at the scale of 1, but for a schedule out of a file, which knows its own. Raises ConfigError for a
    scale below 1 or above ``SCALE_MAX``, and for a system whose timers are not configurable.
    """
    plan = drafted.plan
    if not 1 <= scale <= SCALE_MAX:
        raise ConfigError(
            f"a time scale of {show_scale(scale)}", next_step=f"give --time-scale auto, or 1 to {show_scale(SCALE_MAX)}"
        )
    schedule = schedule_at(plan.schedule, scale)
    if scale == 1:
        return drafted if schedule is plan.schedule else with_plan(drafted, schedule=schedule)
    if not isinstance(drafted.system, Scalable):
        raise ConfigError(
            f"the timers of {plan.system} are not configurable", next_step="remove --time-scale, or set it to 1"
        )
    return with_plan(
        msgspec.structs.replace(drafted, more=_more_at(drafted.more, scale)),
        schedule=schedule,
        knobs=drafted.system.at_scale(plan.knobs, scale),
        promise=longer_promise(plan.promise, scale),
        time_limit_ns=longer(plan.time_limit_ns, scale),
        workload=msgspec.structs.replace(plan.workload, op_timeout_ns=longer(plan.workload.op_timeout_ns, scale)),
        final_read_ns=longer(plan.final_read_ns, scale),
        time_scale=scale,
    )


def _more_at(more: Continue | None, scale: float) -> Continue | None:
    return None if more is None else lambda: more().at_scale(scale)


def with_plan(drafted: Draft, **changes: Any) -> Draft:
    """The draft with these fields of its plan changed."""
    return msgspec.structs.replace(drafted, plan=msgspec.structs.replace(drafted.plan, **changes))


def _unusual(system: System, knobs: Mapping[str, str], *, profile: str, asked: Mapping[str, str]) -> dict[str, str]:
    """The knobs that differ from the profile's defaults; those that were asked for where a knob has no default."""
    try:
        usual = system.knobs({}, profile=profile, variant=None)
    except ConfigError:
        return dict(asked)
    return {name: word for name, word in knobs.items() if usual.get(name) != word}


def _check_options(options: RunOptions) -> None:
    """What the command line checks by itself, of options that come from elsewhere: a run directory, a test."""
    counts = {"rate": options.rate_per_s, "seed": None, "concurrency": options.processes}
    wrong = wrong_times(options) or wrong_counts(counts)
    if wrong:
        raise ConfigError(f"invalid options: {wrong}", next_step="correct that option")
    for name, value in options.tags.items():
        if not TAG.fullmatch(name) or len(value) > TAG_CHARS_MAX or not value.isprintable():
            raise ConfigError(
                f"{name}={value!r:.80} is no tag",
                next_step=f"write a word, '=' and up to {TAG_CHARS_MAX} characters, like --tag commit=1f3a",
            )


def evidence(schedule: Schedule, promise: Promise, *, drawn: bool) -> tuple[str, ...]:
    """See ``Plan.evidence``. A schedule that was written, not ``drawn``, leaves the windows that its author wants."""
    phases = ("warmup", *(("faults",) if schedule.steps else ()), "quiet")
    asked = [f"{what}:{phase}" for what in ("answers", "writes") for phase in phases]
    if drawn and "T1" in promise.tiers:
        asked.append("window:T1")
    # In haste nothing lasts.
    lasting = schedule.health_bound_ns != 0 and any(declared(kind).leaves_majority for kind in schedule.kinds)
    if drawn and "T2" in promise.tiers and not promise.owed_in_calm and lasting:
        asked.append("window:T2")
    return tuple(asked)


def lent_backend(name: str, file: Path | None, words: Sequence[str]) -> Backend:
    """The backend of this name, with the hosts that were lent to it. ConfigError: it takes none."""
    backend: Backend = registry.load(registry.BACKENDS, name)
    if file is None and not words:
        return backend
    if backend.traits.lending is None:
        lending = [other for other, one in registry.load_all(registry.BACKENDS).items() if one.traits.lending]
        raise ConfigError(
            f"the backend {name!r} makes its own hosts",
            where="--host" if file is None else f"--hosts {file}",
            next_step=f"use --on {' or '.join(lending)}, or remove the hosts",
        )
    return backend.traits.lending.lent(file, words)


def _observe_interval_ns(system: System, backend: Backend) -> Ns:
    if isinstance(backend, VirtualBackend):
        return OBSERVE_INTERVAL_VIRTUAL_NS
    return system.observe_interval_ns() if isinstance(system, Paced) else OBSERVE_INTERVAL_NS


def _profile(system: System, wanted: str | None) -> str:
    known = system.profiles()
    if wanted is None:
        return next(iter(known))
    if wanted not in known:
        raise registry.unknown_name("profile", wanted, known)
    return wanted


def _settings(words: Mapping[str, str], system: System, backend: Backend) -> tuple[dict[str, str], Mapping[str, str]]:
    """The knobs for the system, and those for a backend in virtual time (``sim.latency_us``)."""
    prefix = f"{backend.name}."
    own = {name.removeprefix(prefix): word for name, word in words.items() if name.startswith(prefix)}
    rest = {name: word for name, word in words.items() if not name.startswith(prefix)}
    if not isinstance(backend, VirtualBackend):
        if own:
            raise ConfigError(f"the backend {backend.name!r} has no settings", next_step=f"remove {prefix}…")
        return rest, {}
    able = backend.simulates(system)
    if isinstance(able, No):
        raise MissingCapability(f"{system.name} cannot be simulated: {able.why}", next_step=able.what_to_do)
    return rest, backend.settings(own)


def _fault(system: System, backend: Backend, kind: str) -> Fault:
    """The fault of this kind. MissingCapability if this system or these hosts cannot suffer it."""
    fault: Fault = registry.load(registry.FAULTS, kind)
    if ":" in kind and kind not in registry.plugged(registry.FAULTS) and not isinstance(system, Composed):
        raise ConfigError(
            f"{system.name} has one process a node, which {kind!r} cannot choose from",
            next_step=f"write {kind.partition(':')[0]}",
        )
    refuse_unserved(system, kind, traits_of(fault).asks)
    refuse_unremaking(system, kind)
    for suffered in (kind, *traits_of(fault).borne_as):
        support = system.fault_support(suffered)
        if isinstance(support, No):
            raise MissingCapability(
                f"{system.name} cannot suffer the fault {kind!r}: {support.why}",
                next_step=support.what_to_do or "remove it from --faults",
            )
    refuse_change(system, fault, kind)
    missing = needs_of([fault], system, backend) - backend.traits.capabilities
    if missing:
        raise MissingCapability(
            f"the fault {kind!r} cannot happen on {backend.name!r}: its hosts lack {', '.join(sorted(missing))}",
            cause="a tool is missing on the hosts, or this kind of host never supports the fault",
            next_step=_remedy(kind, missing, elsewhere="docker" if isinstance(backend, VirtualBackend) else "sim"),
        )
    return fault


def needs_of(faults: Iterable[Fault], system: System, backend: Backend) -> frozenset[str]:
    """What these faults need of hosts with processes of this system: for clocks a library that is preloaded, or, where
    this system or these hosts have none, the vDSO of processes."""
    needs = frozenset[str]().union(*(fault.needs() for fault in faults))
    if isinstance(system, Unpreloaded):
        otherwise = needs & {"faketime", "monotonic"}
    else:
        able = backend.traits.capabilities
        otherwise = needs & {"faketime"} - able if "vdso" in able else frozenset()
    return needs - otherwise | {"vdso"} if otherwise else needs


def _remedy(kind: str, missing: Collection[str], *, elsewhere: str) -> str:
    packages = [PACKAGES[one] for one in sorted(missing) if one in PACKAGES]
    leave_out = f"use --on {elsewhere}, or list in --faults the wanted kinds without {kind}"
    return f"install {' and '.join(packages)} (Debian's name), or {leave_out}" if packages else leave_out


def _drawn(
    options: RunOptions,
    defaults: RunDefaults,
    *,
    system: System,
    backend: Backend,
    faults: Mapping[str, Fault],
    promise: Promise,
    zones: Mapping[str, str],
    outsiders: int,
    limit_ns: Ns,
    seed: int,
) -> tuple[Schedule, Continue | None]:
    """A schedule, and what draws more of it; None where a run ends with its schedule."""
    interval_ns = options.nemesis_interval_ns
    if interval_ns is None:
        interval_ns = defaults.nemesis_interval_ns
    if not faults:
        return Schedule(seed=seed, strategy="none", steps=()), None
    strategy: Strategy = registry.load(registry.STRATEGIES, options.strategy)
    if isinstance(strategy, Informed):
        workload: Workload = registry.load(registry.WORKLOADS, options.workload or defaults.workload)
        strategy = strategy.informed(
            observable=frozenset(backend.traits.shows(system.observable())) | logged_channels(system, backend),
            operations=workload.needs(),
            outsiders=outsiders,
        )
    gap_ns_max = defaults.gap_ns_max if options.nemesis_interval_ns is None else None
    if gap_ns_max is not None and isinstance(strategy, Brisk):
        strategy = strategy.brisk(gap_ns_max)
    if isinstance(strategy, Zoning) and zones:
        strategy = strategy.zoned(zones)
    if isinstance(strategy, Enumerating):
        strategy = strategy.part(seed)
    hat = Hat(
        strategy=strategy,
        rng=Rng(seed).stream("nemesis"),
        faults=faults,
        nodes=options.nodes,
        time_limit_ns=limit_ns,
        interval_ns=interval_ns,
        promise=promise,
    )
    played = bool(_kinds_played(options))
    schedule = draw_each_kind(hat, demanded=bool(options.faults)) if options.conclusive and not played else hat.draw()
    check_schedule(schedule, nodes=options.nodes)
    final = [kind for kind, fault in faults.items() if traits_of(fault).lasts == "for-good"]
    if not options.conclusive or played or final or not all(promise.bears(kind, {}) for kind in faults):
        return msgspec.structs.replace(schedule, seed=seed), None

    def more() -> Continuation:
        steps = hat.draw("more").steps
        triggers = {trigger.event for step in steps for trigger in step.triggers}
        return Continuation(steps=steps, conditions=_load_conditions(triggers))

    return msgspec.structs.replace(schedule, seed=seed), more


def _kinds_played(options: RunOptions) -> tuple[str, ...]:
    """The kinds of faults of a strategy that plays a list; none: the strategy draws. ConfigError: others are wanted."""
    if options.schedule is not None or options.scenario is not None or options.faults == ():
        return ()
    strategy: Strategy = registry.load(registry.STRATEGIES, options.strategy)
    if not isinstance(strategy, Enumerating):
        return ()
    others = sorted(set(options.faults or ()) - strategy.kinds)
    if others:
        raise ConfigError(
            f"the strategy {options.strategy!r} plays {', '.join(sorted(strategy.kinds))} and no {', '.join(others)}",
            next_step="remove --faults, or choose another --strategy",
        )
    return tuple(sorted(strategy.kinds))


def _zones(options: RunOptions, system: System, backend: Backend, nodes: tuple[str, ...]) -> dict[str, str]:
    """Node → zone: as the user says, else as the file with the hosts does, else as the system's description does."""
    if options.zones:
        return zones_in_order(options.zones, nodes)
    lending = backend.traits.lending
    lent = {} if lending is None else {node: zone for node, zone in lending.zones.items() if node in nodes}
    return lent or dict(system.zones(nodes) if isinstance(system, Zoned) else {})


def _conditions(schedule: Schedule) -> dict[str, Condition]:
    return _load_conditions({trigger.event for trigger in schedule.triggers})


def _load_conditions(events: Collection[str]) -> dict[str, Condition]:
    return {name: registry.load(registry.TRIGGERS, name) for name in events}


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
