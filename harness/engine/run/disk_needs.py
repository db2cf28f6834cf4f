"""What a plan's faults need of disks before any of them happens: copies of files, and one model of what syncs do.

Guarantees: pure. Out of scope: what hosts can do at all (``Fault.needs``).
"""

from __future__ import annotations

from collections.abc import Mapping

from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.hoststate import DISK_MODELS, DiskModel, HostState, healthy_cluster
from dethrone.harness.core.interfaces import Fault, traits_of
from dethrone.harness.core.interfaces.faults import Part
from dethrone.harness.core.schedule import Schedule


def puts_back_older(schedule: Schedule, faults: Mapping[str, Fault]) -> bool:
    """Whether an older copy of a file is put in its place, so that copies must be kept."""
    return any(state.disk is not None and state.disk.kind == "stale" for state in _hurt(schedule, faults, "disk"))


def disk_model(schedule: Schedule, faults: Mapping[str, Fault]) -> DiskModel:
    """The model by which all losses of power take back what was not synced. Raises ConfigError if there are two."""
    states = [state for state in _hurt(schedule, faults, "power") if state.down == "POWER"]
    found = {(state.disk.model if state.disk is not None else None) or DISK_MODELS[0] for state in states}
    if len(found) > 1:
        raise ConfigError(
            f"losses of power with different models: {', '.join(sorted(found))}",
            cause="disks are mounted by one model for the whole run, so each loss would be one by the other model, too",
            next_step="give every powerloss of the schedule the same `model`",
        )
    return found.pop() if found else DISK_MODELS[0]


def _hurt(schedule: Schedule, faults: Mapping[str, Fault], part: Part) -> list[HostState]:
    """A healthy host, hurt by each planned fault that touches this part of it."""
    host = ("n1",)
    planned = [fault for step in schedule.steps for fault in step.faults]
    touching = {kind: fault for kind, fault in faults.items() if part in traits_of(fault).touches}
    return [
        touching[fault.kind].apply(healthy_cluster(host), host, fault.params)["n1"]
        for fault in planned
        if fault.kind in touching
    ]
