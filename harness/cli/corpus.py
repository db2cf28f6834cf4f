"""``dethrone corpus add | check | compact | verify | prune``: many runs, kept and judged together."""

from __future__ import annotations

import datetime as dt
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from harness.cli import flags
from harness.core.errors import ConfigError
from harness.report import corpus as told

F = TypeVar("F", bound=Callable[..., Any])


def common(verb: F) -> F:
    """Flags of all of them."""
    for option in (
        flags.level_flags,
        flags.json_flag,
        click.option(
            "--corpus",
            "url",
            default="corpus",
            envvar="DETHRONE_CORPUS",
            show_default=True,
            metavar="PATH",
            help="a directory, or s3a://…, hdfs://… (also: DETHRONE_CORPUS)",
        ),
    ):
        verb = option(verb)
    return verb


def spark_flags(verb: F) -> F:
    """``--master`` and ``--spark-conf``."""
    for option in (
        click.option("--spark-conf", "conf", multiple=True, metavar="K=V", help="a setting of Spark; may be repeated"),
        click.option("--master", default="", metavar="URL", help="Spark's master; default: the cores of this machine"),
    ):
        verb = option(verb)
    return verb


@click.group()
def corpus() -> None:
    """Keep the runs of many nights in one place, and ask it (docs/corpus.md)."""


@corpus.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@common
def add(*, paths: tuple[Path, ...], url: str, as_json: bool, quiet: bool, verbose: int) -> None:
    """Add the runs that PATHS are, or hold. A run that is there already is not added twice.

    Exits 3 if any run was refused, or is there with other bytes; all others are stored.
    """
    sys.exit(told.add(url, paths, flags.screen(as_json=as_json, quiet=quiet, verbose=verbose)))


@corpus.command()
@click.option("--since", metavar="DATE", default="", help="runs that began on that day (UTC) or later, like 2026-11-20")
@click.option("--system", metavar="SYSTEM", default="", help="runs of this system only")
@click.option("--checker", "checkers", multiple=True, metavar="NAME", help="this checker only; may be repeated")
@click.option("--again", is_flag=True, help="judge also what was judged by the same version of a checker")
@click.option("--fail-on", type=click.Choice(["unknown", "violation"]), default="unknown", show_default=True)
@spark_flags
@common
def check(
    *,
    since: str,
    system: str,
    checkers: tuple[str, ...],
    again: bool,
    fail_on: Any,
    master: str,
    conf: tuple[str, ...],
    url: str,
    as_json: bool,
    quiet: bool,
    verbose: int,
) -> None:
    """Judge the runs of the corpus with Spark, as `dethrone check` judges one. What was judged is not judged again."""
    screen = flags.screen(as_json=as_json, quiet=quiet, verbose=verbose)
    sys.exit(
        told.check(
            url,
            screen,
            since=date(since),
            system=system,
            checkers=checkers,
            again=again,
            fail_on=fail_on,
            master=master,
            conf=conf,
        )
    )


@corpus.command()
@common
def compact(*, url: str, as_json: bool, quiet: bool, verbose: int) -> None:
    """Write few files instead of many, and remove what broken additions left."""
    sys.exit(told.compact(url, flags.screen(as_json=as_json, quiet=quiet, verbose=verbose)))


@corpus.command()
@common
def verify(*, url: str, as_json: bool, quiet: bool, verbose: int) -> None:
    """Read everything and compare it with the manifest. Changes nothing; exits 3 if anything is damaged."""
    sys.exit(told.verify(url, flags.screen(as_json=as_json, quiet=quiet, verbose=verbose)))


@corpus.command()
@click.option("--keep", required=True, metavar="DAYS", help="for how long events are kept, like 90d")
@common
def prune(*, keep: str, url: str, as_json: bool, quiet: bool, verbose: int) -> None:
    """Remove the events of old runs. Verdicts and findings stay, and so do runs that were never judged."""
    screen = flags.screen(as_json=as_json, quiet=quiet, verbose=verbose)
    sys.exit(told.prune(url, screen, keep_days=days(keep)))


def date(text: str) -> str:
    """``2026-11-20`` as it is, or "". ConfigError for anything else."""
    try:
        return text and dt.date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise ConfigError(f"--since {text!r} is no date", next_step="write it like 2026-11-20") from error


def days(text: str) -> int:
    """``90d`` → 90. ConfigError for anything else."""
    match = re.fullmatch(r"(\d{1,5})d", text.strip())
    if match is None:
        raise ConfigError(f"{text!r} is no number of days", next_step="write it like 90d")
    return int(match[1])
