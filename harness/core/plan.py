"""What a run was meant to do, fixed before it: cluster, knobs, promise, schedule, workload, bounds.

Stored as ``plan.json`` next to the history; a checker gets it and nothing else besides history and promise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.plausible import wrong_counts, wrong_members, wrong_times
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.schedule import SCALE_LEAST, SCALE_MOST, Schedule
from dethrone.harness.core.secrets import hidden
from dethrone.harness.core.version_limits import VersionLimits

SCHEMA = 1

DataIn = Literal["disk", "memory"]


class WorkloadPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which workload, how many client processes, how many ops a second (0: as fast as answered)."""

    name: str
    processes: int
    rate_per_s: int
    op_timeout_ns: Ns
    params: Mapping[str, Any] = {}


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The whole plan of one run.

    ``observable``: event channels this system offers (``traced``, ``witness``, ``observed``, ``ops``, ``log_end``,
    ``commit``, ``voted_for``, ``atomic``, ``found``, ``shell``: the nodes run in our own shell, whose records of slow
    syncs and stalls show noise of the host). ``observe_interval_ns``: between two status questions to one
    node.
    """

    system: str
    backend: str
    profile: str
    variant: str | None
    nodes: tuple[str, ...]
    voters: tuple[str, ...]
    knobs: Mapping[str, str]
    seed: int
    time_limit_ns: Ns
    workload: WorkloadPlan
    schedule: Schedule
    promise: Promise
    observable: tuple[str, ...]
    observe_interval_ns: Ns
    final_read_ns: Ns
    stop_at_first_failure: bool = False
    stop_at: tuple[str, ...] = ()
    """See ``dethrone.harness.core.interfaces.RunDefaults``."""
    system_version: str = ""
    """The build that is tested, where the system's name does not say it; "" : not known. Of several the one with which
    all nodes begin."""
    versions: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    """Those between which nodes can change, from the oldest to the newest; absent: there is one only."""
    version_limits: VersionLimits | msgspec.UnsetType = msgspec.UNSET
    """Which of them may run side by side; absent: all."""
    tags: Mapping[str, str] = {}
    """What the user wants to find this run by (``commit``), as words; of no meaning to the run."""
    backend_settings: Mapping[str, str] = {}
    """Settings of the backend itself, as words (a simulated network's latency)."""
    settings: Mapping[str, str] = {}
    """Those of ``knobs`` that differ from the defaults of the profile."""
    warmup: Mapping[str, Any] = {}
    """Maxima measured in the fault-free warm-up, already added to the promise's bounds (``rtt_ns``, ``fsync_ns``)."""
    time_scale: float = 1.0
    """Timers, bounds, faults and the time limit are this many times as long as usual, and are stored so."""
    data_in: DataIn = "disk"
    """Where nodes keep their data; ``memory``: where other processes' syncs do not hold up theirs."""
    zones: Mapping[str, str] | msgspec.UnsetType = msgspec.UNSET
    """Node → the label of its zone (``dethrone.harness.core.zones``); absent where no node has one."""
    calibration: Mapping[str, Any] = {}
    """What the agents measured of the machine before the first node started (``dethrone.harness.core.calibration``)."""
    secrets: tuple[str, ...] = ()
    """Knobs that the system marks as secret, besides those whose names say so; their values are in no stored plan."""
    evidence: tuple[str, ...] = ()
    """What the run must show, for any schedule; plans of older versions ask for nothing.

    ``answers:PHASE``: a quorum reported its status in that phase; ``writes:PHASE``: enough of the writes asked for in
    it were acknowledged; ``window:TIER``: a stretch of that tier in which a leader was owed, long enough to judge."""
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        """Raise ValueError for times and counts that cannot be meant."""
        counts: dict[str, int | None] = {"processes": self.workload.processes, "rate_per_s": self.workload.rate_per_s}
        promised = self.promise
        for name in ("rounds_max", "rounds_random", "splits_max", "split_vote_percent", "drift_ppm_max", "quorum"):
            counts[name] = getattr(promised, name, None)
        wrong = (
            wrong_times(self, self.workload, promised) or wrong_counts(counts) or wrong_members(self.nodes, self.voters)
        )
        if not wrong and not SCALE_LEAST <= self.time_scale <= SCALE_MOST:
            wrong = f"time_scale is {self.time_scale}"
        if wrong:
            raise ValueError(f"invalid plan: {wrong}")

    @property
    def usual_limit_ns(self) -> Ns:
        """The time limit at the scale of 1, as an option gives it."""
        return round(self.time_limit_ns / self.time_scale)


def presentable(plan: Plan) -> Plan:
    """The plan as it may be stored and shown: without the values of secret knobs."""
    knobs, settings = hidden(plan.knobs, plan.secrets), hidden(plan.settings, plan.secrets)
    if (knobs, settings) == (dict(plan.knobs), dict(plan.settings)):
        return plan
    return msgspec.structs.replace(plan, knobs=knobs, settings=settings)
