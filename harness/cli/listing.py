"""``dethrone list …``: what there is to choose from, and which distribution it comes from."""

from __future__ import annotations

import click

from dethrone.harness.cli import flags
from dethrone.harness.commands import listing as listing_command
from dethrone.harness.engine.host.namespace_entry import enter
from dethrone.harness.engine.run.judgement import JSON_SCHEMA


@click.command(name="list")
@click.argument("what", type=click.Choice(sorted(listing_command.KINDS)))
@click.option("--system", help="limit to variants, scenarios or claims of this system")
@click.option("--on", "backend", help="with `faults`: try now what hosts of this backend can do")
@flags.json_flag
def listing(*, what: str, system: str | None, backend: str | None, as_json: bool) -> None:
    """List what is available: systems, faults, workloads, checkers, models and so on."""
    screen = flags.screen(as_json=as_json)
    if backend is not None:
        if what != "faults":
            raise click.UsageError("--on belongs to `list faults`")
        enter(backend)
        headers, rows = listing_command.faults_on(backend)
    else:
        headers, rows = listing_command.KINDS[what](system)
    screen.table(headers, rows)
    screen.result(
        {
            "schema": JSON_SCHEMA,
            "command": "list",
            "what": what,
            "rows": [dict(zip(headers, row, strict=True)) for row in rows],
        }
    )
