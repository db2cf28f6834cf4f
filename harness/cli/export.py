"""``dethrone export RUN``: a stored run as JSON lines, or its client operations for Jepsen's checkers."""

from __future__ import annotations

from pathlib import Path

import click

from dethrone.harness.commands import export as export_command


@click.command()
@click.argument("run", type=click.Path(exists=True, path_type=Path), metavar="DIR|FILE")
@click.option(
    "--format",
    "form",
    type=click.Choice(export_command.FORMATS),
    required=True,
    help="jsonl: the whole history (docs/history.md); the others: what clients did (docs/histories.md)",
)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="write to this file instead of stdout")
def export(*, run: Path, form: str, out: Path | None) -> None:
    """Write a stored run as another tool reads it."""
    export_command.export(run, form, out)
