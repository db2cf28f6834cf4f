"""``dethrone campaign SYSTEM --seeds 0..9``: many runs one after another, resumable, and their table."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import click

from harness.cli import flags, settings
from harness.report import machine, series


@click.command()
@click.argument("system", required=False)
@click.option("--seeds", required=True, metavar="<0..9>", help="which seeds: 0..9, or 1,5,8..12")
@click.option(
    "--out",
    "directory",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="one directory a run in here; seeds that are done in it are skipped",
)
@click.option("--jobs", type=click.IntRange(1, 64), default=1, metavar="N", help="runs at once, on `sim` [default: 1]")
@click.option(
    "--keep-failing",
    type=click.IntRange(0, 1000),
    default=5,
    metavar="N",
    help="how many failing runs keep all their files, on `sim` [default: 5]",
)
@flags.run_flags("out", "seed")
@flags.output_flags
@flags.level_flags
def campaign(
    *,
    system: str | None,
    seeds: str,
    directory: Path,
    jobs: int,
    keep_failing: int,
    given: Mapping[str, settings.Given],
    as_json: bool,
    junit_xml: Path | None,
    github: bool,
    quiet: bool,
    verbose: int,
) -> None:
    """Run SYSTEM once a seed; stop and call again to go on where it stopped.

    With `--on sim` the runs are simulated in memory by `--jobs` processes, and only the first failing ones are kept.
    """
    wanted = settings.seeds(seeds)
    screen = flags.screen(as_json=as_json, quiet=quiet, verbose=verbose)
    kept = {key: one for key, one in given.items() if key not in ("out", "seed")}
    options = settings.run_options(settings.system_of(system, kept), kept)
    done = series.run_campaign(options, wanted, directory, screen, jobs=jobs, keep_failing=keep_failing)
    if junit_xml is not None:
        series.write_junit(done.rows, directory, junit_xml)
    if github:
        flags.print_annotations(series.github_lines(done.rows, directory), as_json=as_json)
    screen.campaign(done.rows)
    screen.result(machine.campaign_object(done.rows, out=directory, exit_code=done.code))
    sys.exit(done.code)
