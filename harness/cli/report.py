"""``dethrone report DIR``: draw a run's report again from its files."""

from __future__ import annotations

from pathlib import Path

import click

from dethrone.harness.cli import flags
from dethrone.harness.commands import report as report_command
from dethrone.harness.report import json_objects
from dethrone.harness.report.plain import output


@click.command()
@click.argument("directory", type=click.Path(exists=True, path_type=Path), metavar="DIR|FILE")
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="path of the page [default: report.html in DIR]"
)
@click.option("--open", "show", is_flag=True, help="open the page in the browser")
@flags.json_flag
def report(*, directory: Path, out: Path | None, show: bool, as_json: bool) -> None:
    """Draw the report of a run directory (or of a history file alone) and print its path."""
    files, path = report_command.redraw(directory, out)
    if as_json:
        output(json_objects.encode(report_command.as_object(files, path)))
    else:
        output(str(path))
    if show:
        click.launch(path.resolve().as_uri())
