"""``dethrone export RUN``: the client operations of a stored run, for Jepsen's checkers."""

from __future__ import annotations

from pathlib import Path

import click

from dethrone.harness.commands import export as export_command
from dethrone.harness.core.foreign.writing import WRITERS


@click.command()
@click.argument("run", type=click.Path(exists=True, path_type=Path), metavar="DIR|FILE")
@click.option("--format", "form", type=click.Choice(sorted(WRITERS)), required=True, help="format of the export")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="write to this file instead of stdout")
def export(*, run: Path, form: str, out: Path | None) -> None:
    """Write the client operations of a run as another tool reads them (docs/histories.md)."""
    export_command.export(run, form, out)
