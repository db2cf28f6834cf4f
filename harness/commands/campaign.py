"""A campaign with its reports: one page per run as it ends, one line per seed, then CI's files for all runs.

Guarantees: the page of a run is drawn as soon as its row exists; a page that cannot be drawn is reported and stops
nothing.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from rich.text import Text

from dethrone.harness.core import store
from dethrone.harness.core.duration import show_duration
from dethrone.harness.core.errors import ConfigError, HarnessError
from dethrone.harness.core.verdict import Outcome
from dethrone.harness.engine.campaign.row import CampaignRow, Progress
from dethrone.harness.engine.run.exit_status import EXIT_INTERRUPTED, EXIT_TROUBLE
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.report import json_objects, report_files
from dethrone.harness.report.junit import Suite
from dethrone.harness.report.plain import complain
from dethrone.harness.report.rundir import RunFiles, read_run
from dethrone.harness.report.terminal import Screen, Watcher
from dethrone.harness.report.words import verdict_word

if TYPE_CHECKING:
    from dethrone.harness.engine.campaign.campaign import Source
    from dethrone.harness.pipeline.campaign_corpus import Bringer


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a campaign, earlier calls included.

    ``rows``: all, or of very many the first that did not pass. ``counts``: of all runs. ``code``: the exit code of all.
    ``corpus``: what was stored where, None if not requested.
    """

    rows: Sequence[CampaignRow]
    counts: Mapping[Outcome, int]
    code: int
    corpus: Mapping[str, Any] | None = None


class By(msgspec.Struct, frozen=True, kw_only=True):
    """Who runs: ``jobs`` processes here (None: as many as there are cores in virtual time, else one), or Spark; and the
    corpus that rows and kept runs go to, or "".

    ``master``, ``conf``: of Spark; settings are words like ``spark.k=v``.
    """

    engine: Literal["local", "spark"] = "local"
    jobs: int | None = None
    master: str = ""
    conf: tuple[str, ...] = ()
    corpus: str = ""


def run_campaign(
    options: RunOptions, seeds: Sequence[int], out: Path, screen: Screen, *, by: By, keep_failing: int = 5
) -> Series:
    """Run what is not done yet. ``by``, ``keep_failing``: for runs in virtual time. ConfigError: they do not fit."""
    from dethrone.harness.engine.campaign import campaign

    virtual = campaign.is_virtual(options)
    _check(by, virtual=virtual, out=out)
    with Watcher(screen) as watcher:

        def on_row(row: CampaignRow) -> None:
            watcher.stop()
            _draw(row, out)
            screen.say(
                f"seed {row.seed}: {verdict_word(row.outcome)} in {show_duration(row.elapsed_ns)}  {row.reason}",
                level=-1,
            )
            screen.say("")

        if virtual:
            show = _Shown(screen=screen, watcher=watcher, on_row=on_row)
            return _simulate(options, seeds, out, show, by=by, keep_failing=keep_failing)
        rows = campaign.run_campaign(options, seeds, out, watcher, on_row, jobs=by.jobs or 1)
    wanted = set(seeds)
    rows = [row for row in rows if row.seed in wanted]
    code = _code((row.exit_code for row in rows), done=len(rows), wanted=len(wanted))
    return Series(rows=rows, counts=Counter(row.outcome for row in rows), code=code)


def _check(by: By, *, virtual: bool, out: Path) -> None:
    if by.engine == "spark" and not virtual:
        raise ConfigError("Spark workers can only simulate", next_step="add --on sim, or remove --engine spark")
    if by.engine == "spark" and by.jobs is not None:
        raise ConfigError(
            f"--jobs {by.jobs} requires --engine local",
            next_step="remove --jobs; --master sets the number of workers, like local[2]",
        )
    if by.corpus and not virtual:
        raise ConfigError(
            "--corpus accepts only simulated campaigns",
            next_step=f"run without --corpus, then: dethrone corpus add {out}",
        )
    if by.engine == "local" and not by.corpus and (by.master or by.conf):
        raise ConfigError("--master and --spark-conf require --engine spark", next_step="add --engine spark")


@dataclass(frozen=True, slots=True)
class _Shown:
    """Where the progress of a campaign is shown."""

    screen: Screen
    watcher: Watcher
    on_row: Callable[[CampaignRow], None]

    def progress(self, progress: Progress) -> None:
        """One line."""
        self.watcher.stop()
        share = f"{progress.done} of {progress.total} seeds"
        coming = f", {progress.on_the_way} in progress" if progress.on_the_way else ""
        found = f"{progress.failing} failing, {progress.unknown} unknown"
        self.screen.say(f"{share}{coming}, {progress.per_s:.1f} a second: {found}")


def _simulate(
    options: RunOptions, seeds: Sequence[int], out: Path, show: _Shown, *, by: By, keep_failing: int
) -> Series:
    from dethrone.harness.engine.campaign import campaign

    screen = show.screen
    with contextlib.ExitStack() as stack:
        jobs = by.jobs or len(os.sched_getaffinity(0))
        source = _spark_source(stack, by, screen) if by.engine == "spark" else campaign.local_source(jobs)
        bringer = _bringer(stack, by, options) if by.corpus else None
        tally = campaign.run_virtual(
            options,
            seeds,
            out,
            show.watcher,
            show.on_row,
            source=source,
            keep_failing=keep_failing,
            on_progress=show.progress,
            on_kept=bringer.take if bringer is not None else None,
        )
    brought: Mapping[str, Any] | None = None
    codes = set(tally.codes)
    if bringer is not None:
        brought = {"url": by.corpus, "campaign": bringer.campaign, "rows": bringer.brought, "trouble": bringer.trouble}
        screen.say(f"{bringer.brought} rows added to {by.corpus}, as campaign {bringer.campaign}")
        for line in bringer.trouble:
            screen.say(f"not in the corpus: {line}", level=-1)
            codes.add(EXIT_TROUBLE)
    wanted = len(seeds) if isinstance(seeds, range) else len(set(seeds))
    return Series(
        rows=tally.rows, counts=tally.counts, code=_code(codes, done=tally.total, wanted=wanted), corpus=brought
    )


def _spark_source(stack: contextlib.ExitStack, by: By, screen: Screen) -> Source:
    from dethrone.harness.pipeline import session

    conf = session.parse_conf(by.conf)
    session.check_installed()
    from dethrone.harness.pipeline import campaign

    screen.say(Text("starting Spark", style="dim"))
    options = session.SparkOptions(master=by.master, conf={**campaign.SETTINGS, **conf})
    spark = stack.enter_context(session.session(options))
    return campaign.spark_source(spark, lambda line: screen.say(Text(line, style="dim")))


def _bringer(stack: contextlib.ExitStack, by: By, options: RunOptions) -> Bringer:
    from dethrone.harness.pipeline.campaign_corpus import bringing
    from dethrone.harness.pipeline.corpus import open_corpus

    corpus = open_corpus(by.corpus, make=True)
    return stack.enter_context(bringing(corpus, options, version=version("dethrone")))


def _code(codes: Iterable[int], *, done: int, wanted: int) -> int:
    """The engine stops early for one reason only."""
    return json_objects.worst_code([*codes, *((EXIT_INTERRUPTED,) if done < wanted else ())])


def write_junit(rows: Sequence[CampaignRow], out: Path, path: Path) -> None:
    """One file, a suite per seed."""
    suites = []
    for row in rows:
        if not row.run_dir and row.exit_code != EXIT_TROUBLE:
            continue  # a rehearsed run whose files were not kept: its row says all that is known
        files = files_of_row(row, out)
        judgement = files.judgement if files else None
        trouble = (row.reason or "trouble",) if row.exit_code == 3 or judgement is None else ()
        name = report_files.name_of(files, f"seed-{row.seed}")
        suites.append(Suite(name=name, judgement=judgement, files=files, trouble=trouble))
    report_files.write_junit(suites, path)


def github_lines(rows: Sequence[CampaignRow], out: Path) -> list[str]:
    """Annotations of every run that did not pass; the step summary is written for all."""
    lines: list[str] = []
    for row in rows:
        if not row.run_dir and row.exit_code != EXIT_TROUBLE:
            continue
        files = files_of_row(row, out)
        trouble = (row.reason,) if row.exit_code == 3 else ()
        lines += report_files.github_lines(files, trouble, report=None, fallback=f"seed-{row.seed}")
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
        report_files.write_run(files, trouble=(row.reason,) if row.exit_code == 3 else ())
    except HarnessError as error:
        complain(error)
