"""A campaign with its reports: a page a run as it ends, a line a seed, then CI's files for all of them.

Promises: a run's page is drawn as soon as its row is there; a page that cannot be drawn is said and stops nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from harness.core import store
from harness.core.duration import show_duration
from harness.core.errors import HarnessError
from harness.engine.model import EXIT_INTERRUPTED, EXIT_TROUBLE, CampaignRow, Progress, RunOptions
from harness.report import machine, write
from harness.report.junit import Suite
from harness.report.rundir import RunFiles, read_run
from harness.report.terminal import Screen, Watcher, complain
from harness.report.words import verdict_word


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """All rows, those of earlier calls included, and the exit code of all."""

    rows: Sequence[CampaignRow]
    code: int


def run_campaign(
    options: RunOptions, seeds: Sequence[int], out: Path, screen: Screen, *, jobs: int = 1, keep_failing: int = 5
) -> Series:
    """Run what is not done yet. ``jobs``, ``keep_failing``: for runs in virtual time."""
    from harness.engine import campaign

    with Watcher(screen) as watcher:

        def on_row(row: CampaignRow) -> None:
            watcher.stop()
            _draw(row, out)
            screen.say(
                f"seed {row.seed}: {verdict_word(row.outcome)} in {show_duration(row.elapsed_ns)}  {row.reason}",
                level=-1,
            )
            screen.say("")

        def on_progress(progress: Progress) -> None:
            watcher.stop()
            share = f"{progress.done} of {progress.total} seeds"
            found = f"{progress.failing} failing, {progress.unknown} unknown"
            screen.say(f"{share}, {progress.per_s:.1f} a second: {found}")

        rows = campaign.run_campaign(
            options, seeds, out, watcher, on_row, jobs=jobs, keep_failing=keep_failing, on_progress=on_progress
        )
    codes = [row.exit_code for row in rows]
    if {row.seed for row in rows} < set(seeds):  # the engine stops early for one reason only
        codes.append(EXIT_INTERRUPTED)
    return Series(rows=[row for row in rows if row.seed in set(seeds)], code=machine.worst_code(codes))


def write_junit(rows: Sequence[CampaignRow], out: Path, path: Path) -> None:
    """One file, a suite a seed."""
    suites = []
    for row in rows:
        if not row.run_dir and row.exit_code != EXIT_TROUBLE:
            continue  # a rehearsed run whose files were not kept: its row says all that is known
        files = files_of_row(row, out)
        judgement = files.judgement if files else None
        trouble = (row.reason or "trouble",) if row.exit_code == 3 or judgement is None else ()
        name = write.name_of(files, f"seed-{row.seed}")
        suites.append(Suite(name=name, judgement=judgement, files=files, trouble=trouble))
    write.write_junit(suites, path)


def github_lines(rows: Sequence[CampaignRow], out: Path) -> list[str]:
    """Annotations of every run that did not pass; the step summary is written for all."""
    lines: list[str] = []
    for row in rows:
        if not row.run_dir and row.exit_code != EXIT_TROUBLE:
            continue
        files = files_of_row(row, out)
        trouble = (row.reason,) if row.exit_code == 3 else ()
        lines += write.github_lines(files, trouble, report=None, fallback=f"seed-{row.seed}")
    return lines


def files_of_row(row: CampaignRow, out: Path) -> RunFiles | None:
    """The run's files, where there are any."""
    directory = run_dir(row, out)
    if directory is None:
        return None
    try:
        return read_run(directory)
    except HarnessError:
        return None


def run_dir(row: CampaignRow, out: Path) -> Path | None:
    """A row may name its directory from the campaign's own."""
    for candidate in (out / row.run_dir, Path(row.run_dir)):
        if row.run_dir and candidate.is_dir():
            return candidate
    return None


def _draw(row: CampaignRow, out: Path) -> None:
    files = files_of_row(row, out)
    if files is None or files.directory is None or (files.directory / store.REPORT).exists():
        return
    try:
        write.write_run(files, trouble=(row.reason,) if row.exit_code == 3 else ())
    except HarnessError as error:
        complain(error)
