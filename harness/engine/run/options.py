"""What a user may say about one run, as data: the contract with command line, pytest and campaigns.

Guarantees: unknown fields are refused. Out of scope: whether the options fit together (``planning``).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.plan import DataIn
from dethrone.harness.core.verdict import FailOn


class RunOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything a user may say about one run; None means the system's default.

    ``zones``: one label for each node, in their order.

    ``schedule``: a stored planned schedule to use instead of drawing one; ``scenario``: the schedule of the scenario of
    this name. ``fail_on``: what makes the exit code 1 or 2. ``stop_at_first_failure`` ends the run at the first certain
    safety finding. ``hosts``, ``host``: who lends hosts, a file and ``NAME=[USER@]ADDRESS[:PORT]`` words.

    Faults, workload, strategy and checkers may be ``path/to/file.py:Name`` (``code_names``).
    """

    system: str
    nodes: int = 5
    zones: tuple[str, ...] = ()
    backend: str = "docker"
    faults: tuple[str, ...] | None = None
    workload: str | None = None
    strategy: str = "random"
    time_limit_ns: Ns | None = None
    seed: int | None = None
    nemesis_interval_ns: Ns | None = None
    settings: Mapping[str, str] = {}
    profile: str | None = None
    variant: str | None = None
    rate_per_s: int | None = None
    processes: int | None = None
    out: Path | None = None
    base: str | None = None
    keep_cluster: bool = False
    unsafe_root: bool = False
    stop_at_first_failure: bool | None = None
    schedule: Path | None = None
    scenario: str | None = None
    hosts: Path | None = None
    host: tuple[str, ...] = ()
    fail_on: FailOn = "unknown"
    checkers: tuple[str, ...] = ()
    """Checkers of files in addition to all that are installed; if others are named, only the named ones judge."""
    known: Path | None = None
    """A file of known findings (``dethrone.harness.core.known_findings``): they are shown and do not fail."""
    conclusive: bool = True
    """Each requested fault kind happens, and a run continues until it has shown what it owes, or for twice its time
    limit. False: the schedule is what the seed draws, and the run ends with it."""
    tags: Mapping[str, str] = {}
    """What to find this run by (``commit=1f3a``), recorded in its plan and history."""
    data_in: DataIn | None = None
    """Where nodes keep their data; None: on disk, or in memory where the measured disk is slow or restless."""
    time_scale: float | None = None
    """By how much the whole run is slower; None: on real hosts measured before the first node starts, else 1."""
