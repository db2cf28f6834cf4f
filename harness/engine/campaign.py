"""Many runs: one seed each, resumable, one row each.

A campaign directory holds ``rows.jsonl`` and ``seed-<n>/`` per run that is kept. Promises: a seed whose row stands
there is not run again; a half-finished run (killed) is set aside and run anew; a run that host noise alone made
``unknown`` is repeated once with the same seed. On real hosts one run follows another and all are kept; in virtual time
they are spread over processes and only the first failing ones are (``campaign_virtual``).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from harness.core import registry
from harness.core.clock import SECOND
from harness.core.errors import ConfigError
from harness.core.world import VirtualBackend
from harness.engine.campaign_virtual import Meter, findings, rows_of
from harness.engine.kept import read_kept
from harness.engine.model import EXIT_INTERRUPTED, EXIT_TROUBLE, CampaignRow, Listener, Progress, RunOptions, RunResult
from harness.engine.runner import run

ROWS = "rows.jsonl"
KEEP_FAILING = 5


def run_campaign(
    options: RunOptions,
    seeds: Sequence[int],
    out: Path,
    listener: Listener,
    on_row: Callable[[CampaignRow], None],
    *,
    jobs: int = 1,
    keep_failing: int = KEEP_FAILING,
    on_progress: Callable[[Progress], None] | None = None,
) -> list[CampaignRow]:
    """Run every seed that has no row yet. Stops early, keeping all rows, when the user interrupts.

    ``jobs`` and ``keep_failing``: in virtual time only, where ``on_row`` is told of what did not pass and
    ``on_progress`` of the rest. ConfigError for more than one job on real hosts.
    """
    out.mkdir(parents=True, exist_ok=True)
    rows = read_rows(out)
    done = {row.seed for row in rows}
    todo = [seed for seed in seeds if seed not in done]
    if isinstance(registry.load(registry.BACKENDS, options.backend), VirtualBackend):
        meter = Meter(rows, len(rows) + len(todo), on_progress or _ignore)
        try:
            _run_virtual(options, todo, out, listener, on_row, rows=rows, jobs=jobs, keep=keep_failing, meter=meter)
        except KeyboardInterrupt:
            listener.progress("interrupted; call it again to go on")
        return rows
    if jobs != 1:
        raise ConfigError(f"{jobs} runs at once on {options.backend!r}", next_step="leave out --jobs, or use --on sim")
    for seed in todo:
        result, repeated = _run_seed(options, seed, out, listener)
        if result.exit_code == EXIT_INTERRUPTED or result.interrupted:
            break
        row = _row(result, repeated=repeated)
        _keep(row, rows, out)
        on_row(row)
    return rows


def _run_virtual(
    options: RunOptions,
    todo: Sequence[int],
    out: Path,
    listener: Listener,
    on_row: Callable[[CampaignRow], None],
    *,
    rows: list[CampaignRow],
    jobs: int,
    keep: int,
    meter: Meter,
) -> None:
    kept = sum(row.outcome == "fail" and bool(row.run_dir) for row in rows)
    if not todo:
        return
    for row in rows_of(options, todo, jobs=jobs):
        if row.outcome == "fail" and kept < keep:
            kept += 1
            directory = out / f"seed-{row.seed}"
            _set_aside(directory)
            result = run(msgspec.structs.replace(options, seed=row.seed, out=directory), listener)
            if result.interrupted:
                raise KeyboardInterrupt
            row = msgspec.structs.replace(row, run_dir=str(directory))  # noqa: PLW2901 - the same row, told where
        _keep(row, rows, out)
        meter.count(row)
        if row.outcome == "fail" or row.exit_code == EXIT_TROUBLE:
            on_row(row)


def _keep(row: CampaignRow, rows: list[CampaignRow], out: Path) -> None:
    rows.append(row)
    with (out / ROWS).open("ab") as file:
        file.write(msgspec.json.encode(row) + b"\n")


def _ignore(_progress: Progress) -> None:
    """Nobody watches."""


def read_rows(out: Path) -> list[CampaignRow]:
    """The rows so far; a torn last line is dropped. ConfigError if the file is none of ours."""
    return read_kept(out / ROWS, CampaignRow, what="the campaign's")


def _run_seed(options: RunOptions, seed: int, out: Path, listener: Listener) -> tuple[RunResult, bool]:
    directory = out / f"seed-{seed}"
    _set_aside(directory)
    result = run(msgspec.structs.replace(options, seed=seed, out=directory), listener)
    noisy = result.judgement is not None and result.judgement.host_noise and not result.interrupted
    if not noisy:
        return result, False
    listener.progress(f"seed {seed}: unknown because of a noisy host; once more with the same seed")
    again = out / f"seed-{seed}-again"
    _set_aside(again)
    return run(msgspec.structs.replace(options, seed=seed, out=again), listener), True


def _set_aside(directory: Path) -> None:
    """A run without a row was cut short: keep its files under another name, once."""
    if directory.exists():
        old = directory.with_name(f"{directory.name}.cut-short")
        shutil.rmtree(old, ignore_errors=True)
        directory.rename(old)


def _row(result: RunResult, *, repeated: bool) -> CampaignRow:
    judgement = result.judgement
    return CampaignRow(
        seed=result.seed,
        outcome=judgement.outcome if judgement else "unknown",
        exit_code=result.exit_code,
        run_dir=str(result.run_dir),
        elapsed_ns=int(result.figures.get("elapsed_s", 0) * SECOND),
        elections=int(result.figures.get("elections", 0)),
        faults=int(result.figures.get("faults", 0)),
        ops_ok=int(result.figures.get("ok", 0)),
        findings=findings(judgement)[:20],
        reason=judgement.reason if judgement else "; ".join(result.trouble)[:500],
        repeated=repeated,
    )
