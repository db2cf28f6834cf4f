"""``dethrone heal``: undo what a killed run left behind."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec

from dethrone.harness.cli import flags
from dethrone.harness.engine.run.exit_status import EXIT_PASS, EXIT_TROUBLE
from dethrone.harness.engine.run.judgement import JSON_SCHEMA


@click.command()
@click.option("--all", "kept", is_flag=True, help="also remove clusters kept with --keep-cluster")
@click.option("--dry-run", is_flag=True, help="print what would be undone, and change nothing")
@flags.hosts_flags
@flags.json_flag
def heal(*, kept: bool, dry_run: bool, hosts: Path | None, host: tuple[str, ...], as_json: bool) -> None:
    """Heal and remove hosts, networks and rules of runs whose harness is gone. Live runs are not disturbed."""
    from dethrone.harness.engine.host import healing as engine

    screen = flags.screen(as_json=as_json)
    report = engine.heal(dry_run=dry_run, kept=kept, hosts=hosts, host=host, progress=screen.say)
    code = EXIT_TROUBLE if report.left and not dry_run else EXIT_PASS
    if not report.healed and not report.left:
        asked = f"{len(report.asked)} backends checked ({', '.join(report.asked) or 'none is usable here'})"
        screen.say(f"no leftovers found: {asked}, {report.ledgers} ledgers read")
    if report.healed:
        screen.say(f"healed: {', '.join(report.healed)}")
    if report.skipped_live:
        screen.say(f"skipped, still running: {', '.join(report.skipped_live)}")
    if report.skipped_kept:
        screen.say(f"skipped, kept on purpose (remove with --all): {', '.join(report.skipped_kept)}")
    if report.left:
        screen.say(f"{'would be healed' if dry_run else 'still left'}: {', '.join(report.left)}", level=-1)
    screen.result({"schema": JSON_SCHEMA, "command": "heal", **msgspec.to_builtins(report), "exit_code": code})
    sys.exit(code)
