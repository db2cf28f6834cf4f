"""Whether the versions that a system has at hand are enough for the faults of a run that change them. Pure.

Out of scope: changing them (``dethrone.nemesis.faults.version``), and their files (the system's).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dethrone.harness.core import registry
from dethrone.harness.core.errors import MissingCapability
from dethrone.harness.core.interfaces import Available, Changing, Fault, Limited, No, System, Upgradable, Yes
from dethrone.harness.core.schedule import Schedule
from dethrone.harness.core.version_limits import VersionLimits


def versions_of(system: System) -> tuple[str, ...]:
    """From the oldest to the newest; none, where there is only one."""
    return system.versions() if isinstance(system, Upgradable) else ()


def first_version(system: System, knobs: Mapping[str, str]) -> str:
    """The one with which all nodes begin; "": there is only one."""
    return system.begins_with(knobs) if isinstance(system, Upgradable) else ""


def limits_of(system: System) -> VersionLimits:
    """Which of them may run side by side."""
    return system.limits() if isinstance(system, Limited) else VersionLimits()


def stored_limits(system: System) -> VersionLimits | msgspec.UnsetType:
    """The same, as a plan stores it."""
    limits = limits_of(system)
    return msgspec.UNSET if limits == VersionLimits() else limits


def refuse_change(system: System, fault: Fault, kind: str) -> None:
    """MissingCapability for a change of versions where there is only one."""
    if isinstance(fault, Changing) and not versions_of(system):
        raise MissingCapability(
            f"{system.name} cannot suffer the fault {kind!r}: there is only one version of it at hand",
            next_step="describe it in a file with [versions] (docs/own-system.md), or remove the fault",
        )


def refuse_changes(system: System, written: Schedule | None) -> None:
    """The same for the faults of a schedule that a user wrote."""
    for kind in written.kinds if written is not None else ():
        refuse_change(system, registry.load(registry.FAULTS, kind), kind)


def possible_first(
    system: System, knobs: Mapping[str, str], schedule: Schedule, faults: Mapping[str, Fault]
) -> Schedule:
    """A drawn schedule whose first change of versions is one that the first version allows: an upgrade, of the oldest.

    Where it is not, it and the first one that is exchange their kinds.
    """
    changing = {kind: fault for kind, fault in faults.items() if isinstance(fault, Changing)}
    able = {kind for kind, one in _possible(system, knobs, changing).items() if isinstance(one, Yes)}
    drawn = [(s, f, one.kind) for s, step in enumerate(schedule.steps) for f, one in enumerate(step.faults)]
    rows = [row for row in drawn if row[2] in changing]
    later = next((row for row in rows if row[2] in able), None)
    if later is None or rows[0] == later:
        return schedule
    steps = list(schedule.steps)
    for (s, f, _), kind in ((rows[0], later[2]), (later, rows[0][2])):
        one = list(steps[s].faults)
        one[f] = msgspec.structs.replace(one[f], kind=kind)
        steps[s] = msgspec.structs.replace(steps[s], faults=tuple(one))
    return msgspec.structs.replace(schedule, steps=tuple(steps))


def check_versions(system: System, knobs: Mapping[str, str], schedule: Schedule, faults: Mapping[str, Fault]) -> None:
    """Raise ConfigError for a version that is not at hand; MissingCapability if no fault can change the first one."""
    versions = versions_of(system)
    changing = {kind: fault for kind, fault in faults.items() if isinstance(fault, Changing)}
    for planned in (planned for step in schedule.steps for planned in step.faults if planned.kind in changing):
        changing[planned.kind].check_versions(planned, versions)
    possible = _possible(system, knobs, changing)
    for kind, able in possible.items():
        if isinstance(able, No) and len(possible) == sum(isinstance(one, No) for one in possible.values()):
            raise MissingCapability(
                f"{system.name} cannot suffer the fault {kind!r}: {able.why}", next_step=able.what_to_do
            )


def _possible(system: System, knobs: Mapping[str, str], changing: Mapping[str, Changing]) -> dict[str, Available]:
    """Of each kind: whether a run that begins like this can have it before any other change of a version."""
    versions, begins_with, limits = versions_of(system), first_version(system, knobs), limits_of(system)
    return {kind: fault.possible(versions, begins_with=begins_with, limits=limits) for kind, fault in changing.items()}
