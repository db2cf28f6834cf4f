"""``dethrone shrink RUN``: the smallest schedule found that still fails as RUN did."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.text import Text

from dethrone.harness.cli import flags
from dethrone.harness.commands import shrink as shrink_command
from dethrone.harness.engine.replay import place as place_module
from dethrone.harness.report import json_objects
from dethrone.harness.report.terminal import Screen

SCENARIO = "scenario.toml"
TRIES, TRIES_REAL = 500, 40


@click.command()
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--on", "backend", help="backend that provides the hosts [default: that of RUN]")
@click.option("--tries", type=click.IntRange(1), help="maximum schedules to try [500; on real hosts 40]")
@click.option("--of", default=3, show_default=True, type=click.IntRange(1), help="maximum real runs per candidate")
@click.option("--need", type=click.IntRange(1), help="failing runs that confirm a candidate [2; with --of 1: 1]")
@click.option(
    "--checker",
    "checkers",
    multiple=True,
    metavar="NAME",
    help="checker that must fail again (repeatable: one of them) [default: the one that heads the verdict of RUN]",
)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="directory of the shrunk run")
@flags.trust_flag
@flags.hosts_flags
@flags.screen_flags
def shrink(
    *,
    run: Path,
    backend: str | None,
    hosts: Path | None,
    host: tuple[str, ...],
    tries: int | None,
    of: int,
    need: int | None,
    checkers: tuple[str, ...],
    out: Path | None,
    trust: bool,
    screen: Screen,
) -> None:
    """Shrink the schedule of the failing run RUN. Exits 1 if the small schedule also fails."""
    place = place_module.Place(backend=backend, hosts=hosts, host=host, trust=trust)
    if tries is None:
        tries = TRIES if place_module.backend_of(run, place) == shrink_command.SIM else TRIES_REAL
    outcome = shrink_command.shrink_run(
        screen, run, place=place, tries=tries, need=need or min(2, of), of=of, out=out, checkers=checkers
    )
    schedule = outcome.shrunk.schedule
    screen.say("")
    screen.say(
        f"{outcome.steps_before} steps shrunk to {len(schedule.steps)} in {outcome.shrunk.tries} tries"
        f"{' (limit reached)' if outcome.shrunk.exhausted else ''}; fails {outcome.rate}",
        level=-1,
    )
    screen.say(shrink_command.scenario(schedule))
    done = outcome.done
    screen.say("")
    screen.say(Text(outcome.text))
    if done.result.run_dir is not None:
        file = done.result.run_dir / SCENARIO
        file.write_text(outcome.text)
        screen.say(f"scenario      {file}", level=-1)
    screen.result(
        {
            **json_objects.run_object(done.result, done.files, report=done.report),
            "command": "shrink",
            "shrunk": {
                "steps_before": outcome.steps_before,
                "steps": len(schedule.steps),
                "faults": sum(len(step.faults) for step in schedule.steps),
                "tries": outcome.shrunk.tries,
                "exhausted": outcome.shrunk.exhausted,
                "failed": outcome.rate.failed,
                "of": outcome.rate.of,
                "schedule": schedule,
                "scenario": outcome.text,
            },
        }
    )
    sys.exit(shrink_command.exit_code(outcome))
