"""Repeats a stored run: the options it was run with, and its schedule, as times or as triggers.

``as triggers`` is the planned schedule: selectors and events, so the leader that is n1 there may be n3 here. ``as
times`` is the realised one: the same nodes, the same cuts, at the same distances, regardless of what the nodes do then.

Guarantees: pure except for reading the run directory; what did not happen is not replayed. Running is out of scope.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import msgspec

from dethrone.harness.core import registry, store
from dethrone.harness.core.clock import Span
from dethrone.harness.core.errors import ConfigError, HistoryError
from dethrone.harness.core.interfaces import declared
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.schedule import PlannedFault, RealisedFault, RealisedSchedule, Schedule, Step
from dethrone.harness.core.secrets import HIDDEN
from dethrone.harness.engine.run.file_trust import refuse_foreign
from dethrone.harness.engine.run.options import RunOptions

How = Literal["times", "triggers"]

LAST_GAP_NS = 1_000_000_000


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """What a run directory says of its run."""

    options: RunOptions
    plan: Plan
    planned: Schedule
    realised: RealisedSchedule


def read_stored(run_dir: Path, *, trust: bool, backend: str | None = None, hosts_given: bool = False) -> Stored:
    """The run in this directory. HistoryError names the file that is missing or damaged.

    ConfigError if it names anything that would be executed, unless its maker is trusted; see ``trust``. ``backend``,
    ``hosts_given``: what the user names in place of the run's own.
    """
    if not run_dir.is_dir():
        raise HistoryError("no run found here", where=str(run_dir), next_step="name a run directory")
    plan = store.read_json(run_dir / store.PLAN, Plan)
    record = store.read_json(run_dir / store.RUN, dict[str, Any])
    try:
        options = msgspec.convert(record.get("options"), RunOptions, dec_hook=_path)
    except msgspec.ValidationError as error:
        raise HistoryError(f"{store.RUN} does not hold the options of the run: {error}", where=str(run_dir)) from error
    if not trust:
        elsewhere = hosts_given or backend not in {None, options.backend}
        refuse_foreign(options, where=str(run_dir), hosts_given=elsewhere)
        if plan.variant != options.variant and plan.variant is not None and registry.is_code(plan.variant):
            raise HistoryError(f"{store.PLAN} and {store.RUN} belong to different runs", where=str(run_dir))
    settings = _with_secrets(options.settings, run_dir)
    return Stored(
        options=msgspec.structs.replace(
            options,
            seed=plan.seed,
            out=None,
            schedule=None,
            time_scale=plan.time_scale,
            data_in=plan.data_in,
            settings=settings,
            tags={},  # they are of the build that was tested then
            unsafe_root=False,
        ),
        plan=plan,
        planned=plan.schedule,
        realised=store.read_json(run_dir / store.REALISED, RealisedSchedule),
    )


def _with_secrets(settings: Mapping[str, str], run_dir: Path) -> dict[str, str]:
    """The settings with the values that only the owner of the directory can read. ConfigError: they are not here."""
    absent = [name for name, value in settings.items() if value == HIDDEN]
    if not absent:
        return dict(settings)
    try:
        kept = store.read_json(run_dir / store.SECRETS, dict[str, dict[str, str]]).get("settings", {})
    except HistoryError:
        kept = {}
    missing = [name for name in absent if name not in kept]
    if missing:
        raise ConfigError(
            f"the values of {', '.join(missing)} are secret, and {store.SECRETS} does not hold them",
            where=str(run_dir),
            cause="the directory was copied without that file, or belongs to another user",
            next_step=f"dethrone run … --set {missing[0]}=… --schedule {run_dir / store.PLANNED}",
        )
    return {**settings, **{name: kept[name] for name in absent}}


def schedule_of(stored: Stored, how: How) -> Schedule:
    """The schedule to run. ConfigError where nothing happened that could be replayed."""
    if how == "triggers":
        return stored.planned
    faults = [fault for fault in stored.realised.faults if fault.begin is not None and fault.outcome == "installed"]
    if not faults:
        raise ConfigError(
            "no fault of this run was installed, so it has no times to replay",
            next_step="replay it --as triggers",
        )
    return Schedule(
        seed=stored.plan.seed,
        strategy="replay",
        steps=_steps(faults),
        health_bound_ns=0,
        time_scale=stored.plan.time_scale,
    )


def _begin(fault: RealisedFault) -> Span:
    return fault.begin if fault.begin is not None else Span(0, 0)


def _steps(faults: Sequence[RealisedFault]) -> tuple[Step, ...]:
    """The same faults at the same distances. Steps stay steps: one ends before the next begins."""
    groups = [list(group) for _, group in groupby(sorted(faults, key=_order), key=lambda fault: fault.step)]
    steps = []
    for number, group in enumerate(groups):
        began = min(_begin(fault).lo for fault in group)
        ended = max((fault.end or _begin(fault)).hi for fault in group)
        gap = LAST_GAP_NS
        if number + 1 < len(groups):
            following = min(_begin(fault).lo for fault in groups[number + 1])
            gap = max(0, following - ended)
        steps.append(Step(faults=tuple(_fault(fault, began) for fault in group), gap_ns=gap))
    return tuple(steps)


def _order(fault: RealisedFault) -> tuple[int, int, int]:
    return (fault.step, _begin(fault).lo, fault.fault)


def _fault(fault: RealisedFault, began: int) -> PlannedFault:
    begin = _begin(fault)
    held = 0 if fault.end is None or declared(fault.kind).lasts == "at-once" else max(0, fault.end.lo - begin.hi)
    return PlannedFault(
        kind=fault.kind,
        victims="node:" + ",".join(fault.victims) if fault.victims else "all",
        delay_ns=begin.lo - began,
        hold_ns=held,
        params=fault.params,
    )


def _path(kind: type, value: Any) -> Any:
    if kind is Path:
        return Path(value)
    raise NotImplementedError(kind)
