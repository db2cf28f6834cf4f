"""``dethrone check DIR|FILE…``: judge stored histories again, without a cluster; also those of other tools."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from dethrone.harness.cli import flags
from dethrone.harness.core.known_findings import read as read_known
from dethrone.harness.core.verdict import FAIL_ON
from dethrone.harness.engine.run.garbage_collection import no_garbage
from dethrone.harness.report import json_objects
from dethrone.harness.report.plain import Lines


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path), metavar="DIR|FILE...")
@flags.json_flag
@flags.level_flags
@flags.ci_flags
@click.option("--fail-on", type=click.Choice(FAIL_ON), default="unknown", show_default=True)
@flags.known_flag
@click.option(
    "--checker",
    "checkers",
    multiple=True,
    metavar="NAME",
    help="checker that judges, instead of all; FILE.py:NAME is one more (repeatable)",
)
@click.option("--update", is_flag=True, help="store the new verdict and redraw the report in each directory")
@flags.foreign_flags
def check(
    *,
    paths: tuple[Path, ...],
    as_json: bool,
    junit_xml: Path | None,
    github: bool,
    quiet: bool,
    verbose: int,
    fail_on: Any,
    known: Path | None,
    checkers: tuple[str, ...],
    update: bool,
    foreign: flags.Foreign | None,
    memory_bytes_max: int | None,
) -> None:
    """Judge run directories or single history files again, with the same code as the last step of a run.

    With --format, files are histories of other tools, judged by --model (docs/histories.md).
    """
    if foreign is not None:
        if update:
            raise click.UsageError("--update is for runs, not for files with --format")
        if checkers:
            raise click.UsageError("--checker is for runs; files with --format are judged by --model")
        if known is not None:
            raise click.UsageError("--known is for runs: findings in files with --format have no signature")
        lines = flags.lines(as_json=as_json, quiet=quiet, verbose=verbose)
        sys.exit(_foreign(paths, foreign, lines, fail_on, as_json=as_json, junit_xml=junit_xml, github=github))
    if checkers and update:
        raise click.UsageError("--update stores the verdict of all checkers: remove --checker")
    from dethrone.harness.commands import check as check_command
    from dethrone.harness.report import report_files as write  # what a file of another tool can do without
    from dethrone.harness.report.meter import JudgingMeter

    screen = flags.screen(as_json=as_json, quiet=quiet, verbose=verbose)
    told = JudgingMeter(flags.screen(as_json=True, quiet=quiet, verbose=verbose))  # on stderr, with --json or without
    entries = () if known is None else read_known(known)
    rows = []
    for path in paths:
        if len(paths) > 1:
            screen.say(f"\n== {path}", level=-1)
        row = check_command.check(
            path,
            fail_on=fail_on,
            update=update,
            checkers=checkers,
            known=entries,
            memory_bytes_max=memory_bytes_max,
            told=told,
        )
        check_command.show(row, screen)
        rows.append(row)
    if junit_xml is not None:
        write.write_junit([row.suite() for row in rows], junit_xml)
    if github:
        for row in rows:
            flags.print_annotations(row.github(), as_json=as_json)
    value = json_objects.check_object([row.as_object() for row in rows])
    screen.result(value)
    sys.exit(value["exit_code"])


def _foreign(
    paths: tuple[Path, ...],
    asked: flags.Foreign,
    screen: Lines,
    fail_on: Any,
    *,
    as_json: bool,
    junit_xml: Path | None,
    github: bool,
) -> int:
    """Judge histories of other tools; the exit code."""
    with no_garbage():
        from dethrone.harness.commands import check_foreign as foreign

    rows = []
    for path in paths:
        if len(paths) > 1:
            screen.say(f"\n== {path}", level=-1)
        row = foreign.check(
            path, form=asked.form, model=asked.model, options=asked.options, most=asked.most, fail_on=fail_on
        )
        foreign.show(row, screen)
        rows.append(row)
    objects = [row.as_object() for row in rows]
    if asked.report is not None:
        foreign.write_page(objects, asked.report)
        screen.say(f"report      {asked.report}", level=-1)
    if junit_xml is not None:
        from dethrone.harness.report import report_files as write

        write.write_junit([row.suite() for row in rows], junit_xml)
    if github:
        for row in rows:
            flags.print_annotations(row.github(report=asked.report), as_json=as_json)
    value = json_objects.check_object(objects)
    screen.result(value)
    return int(value["exit_code"])
