"""``dethrone corpus add | check | table | trends | compact | verify | prune`` and ``dethrone compare``: many
runs, kept in one place, judged and compared."""

from __future__ import annotations

import datetime as dt
import functools
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from dethrone.harness.cli import flags
from dethrone.harness.commands import corpus as told
from dethrone.harness.commands import trends as comparing
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.verdict import FAIL_ON
from dethrone.harness.report.terminal import Screen


def common(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Flags of all of them; the verb gets ``where`` and ``screen``."""

    @functools.wraps(verb)
    def wrapped(
        *args: Any,
        url: str,
        master: str,
        conf: tuple[str, ...],
        **values: Any,
    ) -> Any:
        sys.exit(verb(*args, where=told.Where(url=url, master=master, conf=conf), **values))

    out: Callable[..., Any] = wrapped
    for option in (
        flags.screen_flags,
        click.option("--spark-conf", "conf", multiple=True, metavar="K=V", help="Spark setting (repeatable)"),
        click.option("--master", default="", metavar="URL", help="Spark master [default: the cores of this machine]"),
        click.option(
            "--corpus",
            "url",
            default="corpus",
            envvar="DETHRONE_CORPUS",
            show_default=True,
            metavar="PATH",
            help="the corpus: a directory, or s3a://…, hdfs://… (also: DETHRONE_CORPUS)",
        ),
    ):
        out = option(out)
    return out


@click.group()
def corpus() -> None:
    """Store the runs of many nights in one place and query them (docs/corpus.md)."""


@corpus.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@common
def add(*, paths: tuple[Path, ...], where: told.Where, screen: Screen) -> int:
    """Add the runs at or below PATHS. A run that is already stored is not added twice.

    Exits 3 if a run was refused or is stored with different bytes; all other runs are added.
    """
    return told.add(where, paths, screen)


@corpus.command()
@click.option("--since", metavar="DATE", default="", help="limit to runs that started on or after this day (UTC)")
@click.option("--system", metavar="SYSTEM", default="", help="limit to runs of this system")
@click.option("--checker", "checkers", multiple=True, metavar="NAME", help="limit to this checker (repeatable)")
@click.option("--again", is_flag=True, help="judge runs again that the same checker version already judged")
@click.option("--on-finding", metavar="COMMAND", default="", help="shell command that gets each new finding as JSON")
@click.option(
    "--known",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="known findings (TOML): --on-finding is not called for them",
)
@click.option("--fail-on", type=click.Choice(FAIL_ON), default="unknown", show_default=True)
@common
def check(
    *,
    since: str,
    system: str,
    checkers: tuple[str, ...],
    again: bool,
    on_finding: str,
    known: Path | None,
    fail_on: Any,
    where: told.Where,
    screen: Screen,
) -> int:
    """Judge the runs of the corpus with Spark, as `dethrone check` judges one. Runs already judged are skipped."""
    hook = told.Hook(command=on_finding, known=known)
    return told.check(
        where, screen, since=date(since), system=system, checkers=checkers, again=again, hook=hook, fail_on=fail_on
    )


@corpus.command()
@click.argument("name", metavar="TABLE")
@click.option("--since", metavar="DATE", default="", help="limit to runs that started on or after this day (UTC)")
@click.option("--system", metavar="SYSTEM", default="", help="limit to runs of this system")
@click.option("--limit", type=click.IntRange(0, 100_000), default=20, show_default=True, help="number of rows to show")
@click.option("--out", metavar="DIR", default="", help="write all rows to this new directory, as Parquet")
@common
def table(*, name: str, since: str, system: str, limit: int, out: str, where: told.Where, screen: Screen) -> int:
    """Query the corpus with Spark.

    TABLE is votes, elections, split-votes, windows, overlaps, faults, failovers or availability.
    """
    return told.table(where, screen, name=name, since=date(since), system=system, limit=limit, out=out)


def comparison(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Flags of what compares runs."""
    for option in (
        click.option("--fail-on", type=click.Choice(FAIL_ON), default="unknown", show_default=True),
        click.option("--trace", metavar="CELL", default="", help="list the runs behind a number, like raft/kill/elect"),
        click.option("--junit-xml", type=click.Path(dir_okay=False, path_type=Path), help="write JUnit XML here"),
        click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="write an offline HTML page here"),
        click.option(
            "--known",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="known findings (TOML): matching findings are listed but do not fail the command",
        ),
        click.option("--variants", is_flag=True, help="include runs of planted bugs"),
        click.option("--system", metavar="SYSTEM", default="", help="limit to runs of this system"),
    ):
        verb = option(verb)
    return verb


@corpus.command()
@click.option("--night", metavar="DATE", default="", help="night (UTC) to examine [default: the last one]")
@click.option(
    "--nights",
    type=click.IntRange(1, 1000),
    default=7,
    show_default=True,
    help="number of earlier nights to compare with",
)
@comparison
@common
def trends(*, night: str, where: told.Where, screen: Screen, **asked: Any) -> int:
    """Report what got worse in a night compared with the nights before: slower, new, remaining or more frequent.

    Exits 1 if something got worse and is not known; 2 if runs were not judged or nothing could be compared.
    """
    return comparing.trends(where, screen, comparing.Asked(night=date(night), **asked))


@click.command()
@click.argument("a")
@click.argument("b")
@comparison
@common
def compare(*, a: str, b: str, where: told.Where, screen: Screen, **asked: Any) -> int:
    """Report what got worse in the runs B of a corpus compared with the runs A.

    A and B are nights (2026-11-20), ranges of nights (2026-11-01..2026-11-07) or values of a field
    (versions.dethrone=0.1.0, knobs.election_timeout_min_ms=150). Conditions joined by commas must all hold.
    """
    return comparing.trends(where, screen, comparing.Asked(sides=(a, b), **asked))


@corpus.command()
@common
def compact(*, where: told.Where, screen: Screen) -> int:
    """Merge many small files into few, and remove the remains of interrupted additions."""
    return told.compact(where, screen)


@corpus.command()
@common
def verify(*, where: told.Where, screen: Screen) -> int:
    """Read all files and compare them with the manifest. Changes nothing; exits 3 if a file is damaged."""
    return told.verify(where, screen)


@corpus.command()
@click.option("--keep", required=True, metavar="DAYS", help="age up to which events are kept, like 90d")
@common
def prune(*, keep: str, where: told.Where, screen: Screen) -> int:
    """Remove the events of old runs. Verdicts, findings and runs that were never judged stay."""
    return told.prune(where, screen, keep_days=days(keep))


def date(text: str) -> str:
    """``2026-11-20`` as it is, or "". ConfigError for anything else."""
    try:
        return text and dt.date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise ConfigError(f"{text!r} is not a date", next_step="write it like 2026-11-20") from error


def days(text: str) -> int:
    """``90d`` → 90. ConfigError for anything else."""
    match = re.fullmatch(r"(\d{1,5})d", text.strip())
    if match is None:
        raise ConfigError(f"{text!r} is not a number of days", next_step="write it like 90d")
    return int(match[1])
