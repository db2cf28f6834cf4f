"""``dethrone demo``: one election is proven safe, another is not."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from dethrone.harness.cli import flags, run_options, settings
from dethrone.harness.commands import demo as demo_command
from dethrone.harness.engine.host.namespace_entry import enter
from dethrone.harness.report.terminal import Screen


@click.command()
@click.option("--seed", type=click.IntRange(min=0), help="seed of both runs [default: random, and printed]")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="parent of both run directories")
@click.option(
    "--on", "backend", help="backend that provides the hosts [default: the first of docker, local and sim that works]"
)
@click.option("--base", help="base image of the hosts")
@flags.screen_flags
def demo(
    *,
    seed: int | None,
    out: Path | None,
    backend: str | None,
    base: str | None,
    screen: Screen,
) -> None:
    """Run raft under partitions, kills, pauses and clock steps (must pass), then nacos (must fail)."""
    given = settings.asked({"on": backend, "base": base})
    run_options.refuse_strangers(given)
    backend = given["on"].value if "on" in given else demo_command.backend_here(screen)
    base = given["base"].value if "base" in given else None
    enter(backend)
    value = demo_command.show(screen, seed=seed, out=out, backend=backend, base=base)
    screen.result(value)
    sys.exit(value["exit_code"])
