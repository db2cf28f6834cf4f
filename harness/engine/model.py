"""What goes into a run and what comes out of it, as data: the engine's contract with command line, pytest and report.

Promises: options are complete and validated before anything starts. Leaves out carrying a run out (``runner``) and
judging it (``judge``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from harness.core.clock import Ns
from harness.core.events import AnyEvent
from harness.core.plan import Plan
from harness.core.verdict import FailOn, Outcome, Verdict, excused_findings

JSON_SCHEMA = 1
"""Version of the ``--json`` objects."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything a user may say about one run; None means the system's default.

    ``schedule``: a stored planned schedule to use instead of drawing one; ``scenario``: the schedule of the scenario of
    this name. ``fail_on``: what makes the exit code 1 or 2. ``stop_at_first_failure`` ends the run at the first certain
    safety finding. ``hosts``, ``host``: who lends hosts, a file and ``NAME=[USER@]ADDRESS[:PORT]`` words.
    """

    system: str
    nodes: int = 5
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
    known: Path | None = None
    """A file of known findings (``harness.core.known``): they are shown and do not fail."""
    conclusive: bool = True
    """Each fault kind that is asked for happens, and a run goes on until it has shown what it owes, or for twice its
    time limit. False: the schedule is what the seed draws, and the run ends with it."""
    time_scale: float | None = None
    """By how much the whole run is slower; None: on real hosts measured before the first node starts, else 1."""


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What the checkers say of one history. ``excused``/``n/a`` verdicts are in ``verdicts`` like all others.

    ``trouble``: harness trouble found in the history or while judging. ``host_noise``: whether noise alone made the
    outcome unknown (a repeat with the same seed is worth while).
    """

    outcome: Outcome
    reason: str
    verdicts: tuple[Verdict, ...]
    trouble: tuple[str, ...] = ()
    host_noise: bool = False
    damage: str | None = None

    @property
    def excused(self) -> int:
        """Findings under faults that the system does not promise to tolerate."""
        return excused_findings(self.verdicts)


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a run came to. ``judgement`` is None when there was nothing to judge. ``exit_code``: see below."""

    run_dir: Path | None
    seed: int
    plan: Plan | None
    judgement: Judgement | None
    trouble: tuple[str, ...]
    interrupted: bool
    exit_code: int
    figures: Mapping[str, Any] = {}


class Drawn(msgspec.Struct, frozen=True, kw_only=True):
    """The first lines of a run: everything that was decided before it began."""

    plan: Plan
    run_dir: Path
    versions: Mapping[str, str]


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the live view."""

    name: str
    role: str
    term: int
    leads: bool
    faults: tuple[str, ...]
    answers: bool
    commit: int | None


class LiveView(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown while a run lasts, about twice a second."""

    elapsed_ns: Ns
    limit_ns: Ns
    phase: str
    step: int
    steps: int
    nodes: tuple[NodeView, ...]
    ops_ok: int
    ops_fail: int
    ops_info: int
    ops_per_s: float
    elections: int
    active_faults: tuple[str, ...]


class Listener(Protocol):
    """Who watches a run. Called from the main thread; must return quickly and must not raise."""

    def drawn(self, drawn: Drawn) -> None:
        """Everything is decided; the cluster comes next."""

    def progress(self, message: str) -> None:
        """One line about slow set-up or tear-down work."""

    def live(self, view: LiveView) -> None:
        """A fresh picture."""

    def event(self, event: AnyEvent) -> None:
        """A fault or mark worth a line (not every event)."""


class Silence:
    """A listener that shows nothing."""

    def drawn(self, drawn: Drawn) -> None:
        """Nothing."""

    def progress(self, message: str) -> None:
        """Nothing."""

    def live(self, view: LiveView) -> None:
        """Nothing."""

    def event(self, event: AnyEvent) -> None:
        """Nothing."""


class CampaignRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a campaign. ``repeated``: it was run a second time because of host noise; ``excused``: how many
    findings the faults took out of the promise."""

    seed: int
    outcome: Outcome
    exit_code: int
    run_dir: str
    elapsed_ns: Ns
    elections: int
    faults: int
    ops_ok: int
    findings: Sequence[str] = ()
    reason: str = ""
    repeated: bool = False
    repeats: int = 0
    """How many runs of this seed noise had spoiled before this one."""
    by_noise: bool = False
    """``unknown`` because of noise of the hosts alone: not for want of evidence."""
    excused: int = 0


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a campaign is. ``per_s``: runs a second since it was begun or gone on with.

    ``on_the_way``: runs that are done elsewhere, of which nothing more is known here yet.
    """

    done: int
    total: int
    failing: int
    unknown: int
    per_s: float
    on_the_way: int = 0


EXIT_PASS = 0
EXIT_VIOLATION = 1
EXIT_UNKNOWN = 2
EXIT_TROUBLE = 3
EXIT_USAGE = 64
EXIT_INTERRUPTED = 130


def exit_code(
    *, outcome: Outcome | None, trouble: bool, interrupted: bool, fail_on: FailOn = "unknown", excused: int = 0
) -> int:
    """The exit code of several things at once: 3 > 1 > 130 > 2 > 0. ``excused``: findings that the faults excuse.

    What was not judged at all (``outcome`` None) is never 0.
    """
    if trouble:
        return EXIT_TROUBLE
    if outcome == "fail" or (excused and fail_on == "excused"):
        return EXIT_VIOLATION
    if interrupted:
        return EXIT_INTERRUPTED
    if outcome == "pass" or (outcome is not None and fail_on == "violation"):
        return EXIT_PASS
    return EXIT_UNKNOWN
