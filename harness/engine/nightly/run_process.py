"""One run of a night in its own process: a broken harness, a hung run or exhausted memory ends one run only.

Guarantees: a run that is interrupted, or whose night is killed (``kill -9`` included: the kernel signals it), heals and
tears down by itself and keeps the night's lock until it has; a run that far exceeds its time limit is ended and counts
as trouble; knobs, and so secrets, are not part of the command line, which every user of the machine sees.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from dethrone.harness.core import store
from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.timescale import SCALE_MAX, show_scale
from dethrone.harness.core.verdict import Outcome
from dethrone.harness.engine.campaign.worker_processes import end_with_parent
from dethrone.harness.engine.nightly.night_rows import NightFinding, NightRow
from dethrone.harness.engine.nightly.run_order import Cell, Job
from dethrone.harness.engine.run.exit_status import EXIT_INTERRUPTED, EXIT_TROUBLE
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import draft

TEARDOWN_S = 150
"""How long an interrupted run may take to roll back."""

_LONGEST = 2 * int(SCALE_MAX) + 1
"""Time limits that a run may take: at the largest time scale, and continued for twice its limit."""

_SLACK_NS: Ns = 600 * SECOND
"""How long a run may take beyond those: images are built, clusters torn down."""


@dataclass(frozen=True, slots=True)
class Running:
    """A run under way. ``limit_s``: how long it may take; ``deadline_s``: of the monotonic clock."""

    job: Job
    out: Path
    process: subprocess.Popen[bytes]
    stdout: BinaryIO
    began_ns: Ns
    limit_s: float
    deadline_s: float

    def late(self) -> bool:
        """Whether it has exceeded its limit."""
        return time.monotonic() >= self.deadline_s


def start(
    job: Job,
    cell: Cell,
    directory: Path,
    *,
    base: Path,
    lock: int,
    wall_ns: Callable[[], Ns],
    command: Sequence[str],
    known: Path | None = None,
) -> Running:
    """Start ``job`` in ``directory``. ``lock``: a descriptor that the run inherits.

    ConfigError: a secret is missing.
    """
    out = directory / f"{job.number:04}-{re.sub(r'[^A-Za-z0-9.+-]+', '-', job.cell)[:80]}"
    store.set_aside(out)  # a run without a row was cut short
    began_ns = wall_ns()
    stdout = tempfile.TemporaryFile()  # noqa: SIM115 - `row_of` closes it
    process = subprocess.Popen(
        [*command, *words(job, cell, out, base=base, known=known)],
        cwd=directory,
        env=_environment(cell),
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        pass_fds=(lock,),
        start_new_session=True,
        preexec_fn=_end_with_parent,  # noqa: PLW1509 - a night has no threads, and nothing else asks the kernel for it
    )
    limit_s = (_LONGEST * cell.entry.time_limit_ns + _SLACK_NS) / SECOND
    return Running(
        job=job,
        out=out,
        process=process,
        stdout=stdout,
        began_ns=began_ns,
        limit_s=limit_s,
        deadline_s=time.monotonic() + limit_s,
    )


def wait_for(running: Sequence[Running], *, look_s: float | None = None) -> Running | None:
    """The first of them that ended, or exceeded its limit; None: none did for ``look_s``."""
    with selectors.DefaultSelector() as ends, contextlib.ExitStack() as stack:
        for one in running:
            fd = os.pidfd_open(one.process.pid)
            stack.callback(os.close, fd)
            ends.register(fd, selectors.EVENT_READ, one)
        while True:
            left_s = max(0.0, min(one.deadline_s for one in running) - time.monotonic())
            for key, _ in ends.select(left_s if look_s is None else min(left_s, look_s)):
                found: Running = key.data
                return found
            for one in running:
                if one.late():
                    return one
            if look_s is not None:
                return None


def row_of(one: Running, *, wall_ns: Callable[[], Ns]) -> NightRow:
    """How a run went that ended, or exceeded its limit and is stopped now."""
    late = ""
    if one.process.poll() is None:
        roll_back([one])
        late = f"it exceeded its limit of {one.limit_s:.0f} s and was stopped"
    with one.stdout:
        one.stdout.seek(0)
        told = _told(one.stdout.read())
    row = partial(_row, one.job, out=one.out, began_ns=one.began_ns, elapsed_ns=wall_ns() - one.began_ns)
    code = one.process.returncode
    if late or told is None or code < 0:
        reason = late or f"the run ended with code {code} and printed no result"
        if told is not None and told.get("error"):
            reason = str(told["error"].get("what", reason))
        return row("unknown", EXIT_TROUBLE, reason=reason)
    if told.get("interrupted"):
        return row("unknown", EXIT_INTERRUPTED, reason="interrupted")
    if told.get("error"):
        error = told["error"]
        reason = "; ".join(part for part in (error.get("what"), error.get("where"), error.get("cause")) if part)
        return row("unknown", EXIT_TROUBLE, reason=reason)
    return msgspec.structs.replace(
        row(told.get("verdict") or "unknown", int(told.get("exit_code") or code), reason=_reason(told)),
        report=_relative(told.get("report"), one.out.parent),
        findings=_findings(told),
        excused=int(told.get("excused") or 0),
        known=_findings(told, known=True),
        by_noise=bool(told.get("host_noise")),
        noise_percent=_noise_percent(told),
        figures={name: value for name, value in told.get("figures", {}).items() if isinstance(value, int | float)},
    )


def roll_back(running: Sequence[Running]) -> None:
    """Interrupt these runs and let them heal and tear down; one that cannot is killed, and ``heal`` does the rest."""
    for one in running:
        one.process.send_signal(signal.SIGINT)
    end_s = time.monotonic() + TEARDOWN_S
    for one in running:
        try:
            one.process.wait(timeout=max(0.0, end_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            one.process.kill()
            one.process.wait()


def refuse_impossible(cells: Mapping[str, Cell], *, base: Path) -> None:
    """Before a night begins: ConfigError, with the cell's name, for the first cell without a possible run."""
    for key, cell in cells.items():
        entry = cell.entry
        options = RunOptions(
            system=_system(entry.system, base),
            nodes=cell.nodes,
            backend=entry.on,
            faults=None if cell.faults is None else tuple(cell.faults.split(",")),
            workload=entry.workload,
            strategy=cell.strategy,
            time_limit_ns=entry.time_limit_ns,
            time_scale=entry.time_scale,
            settings=_knobs(cell),
            profile=cell.profile,
            variant=entry.variant,
            rate_per_s=entry.rate,
        )
        try:
            draft(options, seed=0)
        except ConfigError as error:
            raise ConfigError(
                error.what,
                where=f"{key}{f': {error.where}' if error.where else ''}",
                cause=error.cause,
                next_step=error.next_step,
            ) from error


def words(job: Job, cell: Cell, out: Path, *, base: Path, known: Path | None = None) -> list[str]:
    """The command of one run; its knobs are passed in the environment, where other users do not see them."""
    entry = cell.entry
    parts = ["run", _system(entry.system, base), "--seed", str(job.seed), "--nodes", str(cell.nodes), "--on", entry.on]
    parts += ["--strategy", cell.strategy, "--time-limit", f"{entry.time_limit_ns}ns", "--out", str(out), "--json"]
    for flag, value in (
        ("--faults", cell.faults),
        ("--profile", cell.profile),
        ("--workload", entry.workload),
        ("--rate", entry.rate),
        ("--variant", entry.variant),
        ("--time-scale", None if entry.time_scale is None else show_scale(entry.time_scale)),
        ("--known", known),
    ):
        parts += [] if value is None else [flag, str(value)]
    return parts


def _system(named: str, base: Path) -> str:
    return str(base / named) if named.endswith(".toml") else named


def _knobs(cell: Cell) -> dict[str, str]:
    """ConfigError: a secret is missing."""
    knobs = dict(cell.entry.settings) | ({} if cell.version is None else {"version": cell.version})
    for knob, variable in cell.entry.secrets.items():
        if variable not in os.environ:
            raise ConfigError(
                f"the secret {knob!r} of {cell.entry.system} is missing",
                where=f"the environment variable {variable}",
                next_step=f"export {variable}, or change `secrets`",
            )
        knobs[knob] = os.environ[variable]
    if any("," in value for value in knobs.values()):
        raise ConfigError("a knob's value holds a comma", where=cell.key, next_step="write each knob separately")
    return knobs


def _environment(cell: Cell) -> dict[str, str]:
    """The machine's own, without what a user set for runs by hand, with the cell's knobs. ConfigError: no secret."""
    kept = ("DETHRONE_STATE_DIR",)
    env = {name: value for name, value in os.environ.items() if not name.startswith("DETHRONE_") or name in kept}
    knobs = _knobs(cell)
    if knobs:
        env["DETHRONE_SET"] = ",".join(f"{name}={value}" for name, value in knobs.items())
    return env


def _row(job: Job, outcome: Outcome, code: int, *, out: Path, began_ns: Ns, elapsed_ns: Ns, reason: str) -> NightRow:
    return NightRow(
        job=job,
        outcome=outcome,
        exit_code=code,
        run_dir=out.name,
        report="",
        began_ns=began_ns,
        elapsed_ns=elapsed_ns,
        reason=reason[:500],
    )


def _reason(told: Mapping[str, Any]) -> str:
    return "; ".join([str(told.get("reason") or ""), *map(str, told.get("trouble", ()))]).strip("; ")


def _findings(told: Mapping[str, Any], *, known: bool = False) -> tuple[NightFinding, ...]:
    """The findings of a run that fail it, or those that are known."""
    return tuple(
        NightFinding(checker=name, sentence=finding["sentence"], signature=finding.get("signature") or "")
        for name, checker in told.get("checkers", {}).items()
        if known or checker["verdict"] == "fail"
        for finding in checker["findings"]
        if finding.get("excused") is None and bool(finding.get("known")) is known
    )[:50]


def _relative(report: str | None, directory: Path) -> str:
    if not report:
        return ""
    path = Path(report)
    return str(path.relative_to(directory)) if path.is_relative_to(directory) else report


def _told(stdout: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(stdout)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _noise_percent(told: Mapping[str, Any]) -> float:
    """The share of the run that was charged to noise, as the checker ``coverage`` says."""
    noise = told.get("checkers", {}).get("coverage", {}).get("evidence", {}).get("noise", {})
    return float(noise.get("excused_percent", 0.0)) if isinstance(noise, dict) else 0.0


def _end_with_parent() -> None:
    """Between fork and exec: get a signal when the night dies, and accept Ctrl-C even if its starter ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    end_with_parent(signal.SIGINT)
