"""Many runs, one after another: one seed each, resumable, one row each.

A campaign directory holds ``rows.jsonl`` and ``seed-<n>/`` per run. Promises: a seed whose row stands there is not run
again; a half-finished run (killed) is set aside and run anew; a run that host noise alone made ``unknown`` is repeated
once with the same seed. Leaves out parallel runs.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from harness.core.clock import SECOND
from harness.core.errors import ConfigError
from harness.engine.model import EXIT_INTERRUPTED, CampaignRow, Listener, RunOptions, RunResult
from harness.engine.runner import run

ROWS = "rows.jsonl"


def run_campaign(
    options: RunOptions,
    seeds: Sequence[int],
    out: Path,
    listener: Listener,
    on_row: Callable[[CampaignRow], None],
) -> list[CampaignRow]:
    """Run every seed that has no row yet. Stops early, keeping all rows, when the user interrupts."""
    out.mkdir(parents=True, exist_ok=True)
    rows = read_rows(out)
    done = {row.seed for row in rows}
    for seed in seeds:
        if seed in done:
            continue
        result, repeated = _run_seed(options, seed, out, listener)
        if result.exit_code == EXIT_INTERRUPTED or result.interrupted:
            break
        row = _row(result, repeated=repeated)
        rows.append(row)
        with (out / ROWS).open("ab") as file:
            file.write(msgspec.json.encode(row) + b"\n")
        on_row(row)
    return rows


def read_rows(out: Path) -> list[CampaignRow]:
    """The rows so far; a torn last line is dropped. ConfigError if the file is none of ours."""
    path = out / ROWS
    if not path.exists():
        return []
    lines = path.read_bytes().splitlines(keepends=True)
    if lines and not lines[-1].endswith(b"\n"):
        path.write_bytes(b"".join(lines[:-1]))
        lines = lines[:-1]
    try:
        return [msgspec.json.decode(line, type=CampaignRow) for line in lines]
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise ConfigError(
            f"the campaign's rows are damaged: {error}", where=str(path), next_step="choose another --out"
        ) from error


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
    findings = tuple(
        f"{verdict.checker}: {finding.sentence}"
        for verdict in (judgement.verdicts if judgement else ())
        if verdict.outcome == "fail"
        for finding in verdict.findings
        if finding.excused is None
    )
    return CampaignRow(
        seed=result.seed,
        outcome=judgement.outcome if judgement else "unknown",
        exit_code=result.exit_code,
        run_dir=str(result.run_dir),
        elapsed_ns=int(result.figures.get("elapsed_s", 0) * SECOND),
        elections=int(result.figures.get("elections", 0)),
        faults=int(result.figures.get("faults", 0)),
        ops_ok=int(result.figures.get("ok", 0)),
        findings=findings[:20],
        reason=judgement.reason if judgement else "; ".join(result.trouble)[:500],
        repeated=repeated,
    )
