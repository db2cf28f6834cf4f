"""One run of a night in its own process: a broken harness, a hung run or exhausted memory ends one run only.

Guarantees: a run that is interrupted, or whose night is killed (``kill -9`` included: the kernel signals it), heals and
tears down by itself and keeps the night's lock until it has; a run that far exceeds its time limit is ended and counts
as trouble; knobs, and so secrets, are not part of the command line, which every user of the machine sees.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

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


def carry_out(
    job: Job,
    cell: Cell,
    directory: Path,
    *,
    base: Path,
    lock: int,
    wall_ns: Callable[[], Ns],
    command: Sequence[str],
    known: Path | None = None,
) -> NightRow:
    """Run ``job`` in ``directory`` and report how it went. ``lock``: a descriptor that the run inherits.

    KeyboardInterrupt: after the run was rolled back. ConfigError: a secret is missing.
    """
    out = directory / f"{job.number:04}-{re.sub(r'[^A-Za-z0-9.+-]+', '-', job.cell)[:80]}"
    store.set_aside(out)  # a run without a row was cut short
    began_ns = wall_ns()
    process = subprocess.Popen(
        [*command, *words(job, cell, out, base=base, known=known)],
        cwd=directory,
        env=_environment(cell),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pass_fds=(lock,),
        start_new_session=True,
        preexec_fn=_end_with_parent,  # noqa: PLW1509 - a night has no threads, and nothing else asks the kernel for it
    )
    limit_s = (_LONGEST * cell.entry.time_limit_ns + _SLACK_NS) / SECOND
    late = ""
    try:
        stdout, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        stdout, late = _rolled_back(process), f"it exceeded its limit of {limit_s:.0f} s and was stopped"
    except KeyboardInterrupt:
        _rolled_back(process)
        raise
    told = _told(stdout)
    elapsed_ns = wall_ns() - began_ns
    if late or told is None or process.returncode < 0:
        reason = late or f"the run ended with code {process.returncode} and printed no result"
        if told is not None and told.get("error"):
            reason = str(told["error"].get("what", reason))
        return _row(job, "unknown", EXIT_TROUBLE, out=out, began_ns=began_ns, elapsed_ns=elapsed_ns, reason=reason)
    code = int(told.get("exit_code") or process.returncode)
    if told.get("interrupted") and not late:
        return _row(
            job, "unknown", EXIT_INTERRUPTED, out=out, began_ns=began_ns, elapsed_ns=elapsed_ns, reason="interrupted"
        )
    if told.get("error"):
        error = told["error"]
        reason = "; ".join(part for part in (error.get("what"), error.get("where"), error.get("cause")) if part)
        return _row(job, "unknown", EXIT_TROUBLE, out=out, began_ns=began_ns, elapsed_ns=elapsed_ns, reason=reason)
    return msgspec.structs.replace(
        _row(
            job,
            told.get("verdict") or "unknown",
            code,
            out=out,
            began_ns=began_ns,
            elapsed_ns=elapsed_ns,
            reason=_reason(told),
        ),
        report=_relative(told.get("report"), directory),
        findings=_findings(told),
        excused=int(told.get("excused") or 0),
        known=_findings(told, known=True),
        by_noise=bool(told.get("host_noise")),
        figures={name: value for name, value in told.get("figures", {}).items() if isinstance(value, int | float)},
    )


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


def _rolled_back(process: subprocess.Popen[bytes]) -> bytes:
    """Interrupt a run and let it heal and tear down; a run that cannot is killed, and ``heal`` does the rest."""
    process.send_signal(signal.SIGINT)
    try:
        return process.communicate(timeout=TEARDOWN_S)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0]


def _end_with_parent() -> None:
    """Between fork and exec: get a signal when the night dies, and accept Ctrl-C even if its starter ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    end_with_parent(signal.SIGINT)
