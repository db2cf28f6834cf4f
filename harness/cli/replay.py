"""``dethrone replay RUN``: a stored run again, here or in the other world; or one node's journal, step by step."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

import click

from dethrone.harness.cli import flags
from dethrone.harness.commands import replay as replay_command
from dethrone.harness.commands import replay_node
from dethrone.harness.engine.replay import place as place_module
from dethrone.harness.report import json_objects
from dethrone.harness.report.terminal import Screen


@click.command()
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--on", "backend", help="backend that provides the hosts [default: that of RUN]")
@click.option(
    "--as",
    "how",
    type=click.Choice(["times", "triggers"]),
    help="replay the realised times, or the planned selectors and events",
)
@click.option(
    "--repeat",
    default=1,
    show_default=True,
    type=click.IntRange(1, 1000),
    help="number of runs; reports how many fail alike (in simulation each run takes the next seed)",
)
@click.option("--node", help="instead, re-execute the core of this node from its journal and check every step")
@click.option("--incarnation", type=click.IntRange(min=1), help="life of the node, with --node [default: the last]")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="directory of the new run")
@flags.trust_flag
@flags.hosts_flags
@flags.screen_flags
def replay(
    *,
    run: Path,
    backend: str | None,
    hosts: Path | None,
    host: tuple[str, ...],
    how: Literal["times", "triggers"] | None,
    repeat: int,
    node: str | None,
    incarnation: int | None,
    out: Path | None,
    trust: bool,
    screen: Screen,
) -> None:
    """Run RUN again, under its own schedule."""
    if node is not None:
        value = replay_node.show(screen, run, node=node, incarnation=incarnation, trust=trust)
        screen.result(value)
        return
    place = place_module.Place(backend=backend, hosts=hosts, host=host, trust=trust)
    replayed = replay_command.replay(screen, run, place=place, how=how, out=out, repeat=repeat)
    done = replayed.done
    value = json_objects.run_object(done.result, done.files, report=done.report)
    screen.result({**value, "command": "replay", "reproduced": replayed.told()})
    sys.exit(replayed.exit_code)
