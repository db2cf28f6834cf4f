"""``dethrone check DIR|FILE…``: judge stored histories again, without a cluster."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from harness.cli import flags
from harness.report import machine, recheck, write


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path), metavar="DIR|FILE...")
@flags.output_flags
@flags.level_flags
@click.option("--fail-on", type=click.Choice(["unknown", "violation"]), default="unknown", show_default=True)
@click.option("--update", is_flag=True, help="store the new verdict and redraw the report in each directory")
def check(
    *,
    paths: tuple[Path, ...],
    as_json: bool,
    junit_xml: Path | None,
    github: bool,
    quiet: bool,
    verbose: int,
    fail_on: Any,
    update: bool,
) -> None:
    """Judge run directories, or history files alone, again: the same code as a run's last step."""
    screen = flags.screen(as_json=as_json, quiet=quiet, verbose=verbose)
    rows = []
    for path in paths:
        if len(paths) > 1:
            screen.say(f"\n== {path}", level=-1)
        row = recheck.check(path, fail_on=fail_on, update=update)
        recheck.show(row, screen)
        rows.append(row)
    if junit_xml is not None:
        write.write_junit([row.suite() for row in rows], junit_xml)
    if github:
        for row in rows:
            flags.print_annotations(row.github(), as_json=as_json)
    value = machine.check_object([row.as_object() for row in rows])
    screen.result(value)
    sys.exit(value["exit_code"])
