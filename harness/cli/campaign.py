"""``dethrone campaign SYSTEM --seeds 0..9``, or a night out of a file: many runs, resumable, and their table."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import click

from dethrone.harness.cli import flags, run_options, settings, value_readers
from dethrone.harness.cli.nightly import run_night_file
from dethrone.harness.commands import campaign as campaign_command
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.engine.host.namespace_entry import enter
from dethrone.harness.engine.nightly.night_file import is_night
from dethrone.harness.report import json_objects
from dethrone.harness.report.terminal import Screen


@click.command()
@click.argument("system", required=False)
@click.option("--seeds", metavar="<0..9>", help="seeds to run, like 0..9 or 1,5,8..12")
@click.option(
    "--out",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="directory that gets one directory per run; seeds already done there are skipped",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    metavar="N",
    help="runs at once: on `sim` [default: the cores], on hosts of its own at most [default: 1]",
)
@click.option(
    "--engine",
    type=click.Choice(["local", "spark"]),
    default="local",
    help="where `sim` runs are computed: in --jobs local processes or on Spark (docs/campaigns.md) [default: local]",
)
@click.option("--master", default="", metavar="URL", help="Spark master [default: the cores of this machine]")
@click.option("--spark-conf", "conf", multiple=True, metavar="K=V", help="Spark setting (repeatable)")
@click.option(
    "--corpus",
    default="",
    metavar="PATH",
    help="also store rows and kept runs here, on `sim`: a directory, or s3a://…, hdfs://…",
)
@click.option(
    "--keep-failing",
    type=click.IntRange(0, 1000),
    default=5,
    metavar="N",
    help="maximum failing runs that keep all their files, on `sim` [default: 5]",
)
@click.option(
    "--budget", metavar="<6h>", help="start no run of a night after this time [default: the budget in its file]"
)
@flags.run_flags("out", "seed")
@flags.screen_flags
@flags.ci_flags
def campaign(
    *,
    system: str | None,
    seeds: str | None,
    directory: Path | None,
    budget: str | None,
    jobs: int | None,
    engine: Literal["local", "spark"],
    master: str,
    conf: tuple[str, ...],
    corpus: str,
    keep_failing: int,
    given: Mapping[str, settings.Given],
    junit_xml: Path | None,
    github: bool,
    screen: Screen,
) -> None:
    """Run SYSTEM once per seed; a repeated call resumes where the last one stopped.

    SYSTEM may be the file of a night (with tables [[systems]]): systems x versions x faults x strategies x seeds within

    With `--on sim` the runs are simulated in memory by `--jobs` processes or on Spark (`--engine spark`), and only the
    first failing ones are kept. On real hosts `--jobs` runs go side by side, fewer as soon as the hosts get noisy.
    """
    if system is not None and system.endswith(".toml") and is_night(Path(system)):
        if seeds is not None or directory is not None:
            raise ConfigError("the file of a night sets its seeds and its directory", where=system)
        code = run_night_file(Path(system), budget=budget, jobs=jobs, screen=screen, junit_xml=junit_xml, github=github)
        sys.exit(code)
    if seeds is None or directory is None:
        raise ConfigError("a campaign needs --seeds and --out", next_step="add --seeds 0..9 --out runs/mine")
    if budget is not None:
        raise ConfigError("--budget is for nights", next_step="remove --budget, or name the file of a night")
    wanted = value_readers.seeds(seeds)
    kept = {key: one for key, one in given.items() if key not in ("out", "seed")}
    options = run_options.run_options(run_options.system_of(system, kept), kept)
    enter(options.backend)
    by = campaign_command.By(engine=engine, jobs=jobs, master=master, conf=conf, corpus=corpus)
    done = campaign_command.run_campaign(options, wanted, directory, screen, by=by, keep_failing=keep_failing)
    if junit_xml is not None:
        campaign_command.write_junit(done.rows, directory, junit_xml)
    if github:
        flags.print_annotations(campaign_command.github_lines(done.rows, directory), as_json=screen.json)
    screen.campaign(done.rows, done.counts)
    screen.result(
        json_objects.campaign_object(
            done.rows, out=directory, exit_code=done.code, counts=done.counts, corpus=done.corpus
        )
    )
    sys.exit(done.code)
