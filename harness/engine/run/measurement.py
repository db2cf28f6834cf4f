"""Before the first node starts: let the agents measure the machine, and run at the time scale that it needs.

Where the disk is slow or restless, they measure once more in memory, and the nodes keep their data where it is calmer:
what other processes sync then holds up no node. It changes nothing that a fault can show, since a killed process loses
nothing on either.

Guarantees: the tested system is not touched. A quiet machine costs one window; a machine that seems slow is measured a
second time, and in memory for as long as on disk. A system whose timers are not configurable, and hosts that another
user configured, run at the scale of 1, and the plan records why. Out of scope: the rule itself
(``dethrone.harness.core.calibration``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from dethrone.harness.core.calibration import (
    Measured,
    choose,
    joined,
    needed,
    pooled,
    restless,
    slowness,
    too_slow,
    words,
)
from dethrone.harness.core.clock import MS, SECOND, Ns
from dethrone.harness.core.interfaces import Host, Scalable
from dethrone.harness.core.timescale import show_scale
from dethrone.harness.engine.run.planning import Draft, at_scale, with_plan

WINDOWS_NS: tuple[Ns, ...] = (1500 * MS, 7500 * MS)
"""The second one only where the first one shows a restless machine: one outlier decides nothing, and rare stalls are to
be seen."""

IN_MEMORY_MAX_NS: Ns = 600 * SECOND
"""Data in memory fills it: nothing longer is put there unless it is asked for."""

WRITES_PER_S = 100
"""Of each agent, where the workload writes as fast as it is answered."""

LEAST_PER_S = 20
"""With fewer syncs a window says nothing about its disk."""


class Calibrated(msgspec.Struct, frozen=True, kw_only=True):
    """The draft at its scale, or why the machine is too slow for it ("" : it is not)."""

    draft: Draft
    too_slow: str = ""


def calibrate(
    drafted: Draft, hosts: Mapping[str, Host], progress: Callable[[str], None], *, data_fixed: bool = False
) -> Calibrated:
    """Measure on these hosts and choose. ``drafted``: at the scale of 1. Raises ClusterError when an agent is lost.

    ``data_fixed``: the nodes' data stays where the plan has it.
    """
    reason, measuring = _refused(drafted, hosts)
    if reason:
        progress(f"time scale 1: {reason}")
        return Calibrated(draft=_noted(drafted, {"why": reason}))
    promise, memory_dir = drafted.plan.promise, drafted.backend.traits.memory_dir
    figures: dict[str, Any] = {}
    measured = _measured(drafted, measuring, memory_dir if drafted.plan.data_in == "memory" else "")
    fits = fits_in_memory(memory_dir, drafted.plan.time_limit_ns)
    if not data_fixed and fits and restless(measured, promise):
        in_memory = _measured(drafted, measuring, memory_dir, known_restless=True)
        if slowness(in_memory, promise) < slowness(measured, promise):
            progress(f"the nodes' data is kept in memory; on disk: {words(measured.figures())}")
            figures["on_disk"] = measured.figures()
            drafted, measured = with_plan(drafted, data_in="memory"), in_memory
    factor = needed(measured, promise)
    figures |= {**measured.figures(), "needed": round(factor, 2)}
    for why in measured.unreadable:
        progress(f"not measured: {why}")
    scale = choose(factor)
    noted = _noted(drafted, figures)
    if scale is None:
        return Calibrated(draft=noted, too_slow=too_slow(factor, figures))
    progress(f"time scale {show_scale(scale)}: {words(figures)}")
    return Calibrated(draft=at_scale(noted, scale))


def fits_in_memory(memory_dir: str, time_limit_ns: Ns) -> bool:
    """Whether a host has memory for data ("" : none), and a run of that length does not fill it."""
    return bool(memory_dir) and time_limit_ns <= IN_MEMORY_MAX_NS


def _refused(drafted: Draft, hosts: Mapping[str, Host]) -> tuple[str, Sequence[Host]]:
    """Why nothing is measured, or the hosts that measure."""
    if not isinstance(drafted.system, Scalable):
        return f"the timers of {drafted.plan.system} are not configurable", ()
    if not all(host.sets_timers for host in hosts.values()):
        return "some nodes were already running with their own timers", ()
    return "", tuple(hosts.values())


def _measured(drafted: Draft, hosts: Sequence[Host], directory: str, *, known_restless: bool = False) -> Measured:
    """As many windows as it takes. ``directory``: where to sync; "": where the host keeps data.

    ``known_restless``: an earlier measurement showed it, so a calm first window proves nothing.
    """
    windows = list[Measured]()
    for window_ns in WINDOWS_NS:
        each = _window(hosts, directory, window_ns=window_ns, writes_per_s=_writes_per_s(drafted))
        windows.append(pooled(each))
        if not known_restless and not restless(windows[-1], drafted.plan.promise):
            break
    return joined(windows)


def _window(hosts: Sequence[Host], directory: str, *, window_ns: Ns, writes_per_s: int) -> list[Measured]:
    """One window on all hosts at once, as the run will load them."""
    addresses = {host.name: host.address for host in hosts}

    def measure(host: Host) -> Measured:
        peers = {name: address for name, address in addresses.items() if name != host.name}
        said = host.measure(directory or host.places.data_dir, peers, window_ns=window_ns, writes_per_s=writes_per_s)
        return _read(host.name, said, window_ns)

    with ThreadPoolExecutor(max_workers=len(hosts)) as pool:
        return list(pool.map(measure, hosts))


def _read(name: str, said: Mapping[str, Any], window_ns: Ns) -> Measured:
    return Measured(
        wakeups_ns=tuple(said["wakeups_ns"]),
        syncs_ns=tuple(said["syncs_ns"]),
        trips_ns=tuple(said["trips_ns"]),
        stalls_ns=tuple((int(at), int(length)) for at, length in said["stalls_ns"]),
        watched_ns=window_ns,
        lost=int(said["lost"]),
        unreadable=tuple(f"{name}: {why}" for why in said["unreadable"]),
    )


def _writes_per_s(drafted: Draft) -> int:
    workload = drafted.plan.workload
    return max(LEAST_PER_S, workload.rate_per_s or WRITES_PER_S) if workload.processes else LEAST_PER_S


def _noted(drafted: Draft, figures: Mapping[str, Any]) -> Draft:
    return with_plan(drafted, calibration=dict(figures))
