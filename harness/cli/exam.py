"""``dethrone exam``: are the planted bugs found by the checkers named for them, and nothing where nothing is wrong?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from dethrone.harness.cli import flags
from dethrone.harness.commands import exam as exam_command
from dethrone.harness.core import registry
from dethrone.harness.core.duration import parse_duration
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.planted import Planted
from dethrone.harness.engine.host.namespace_entry import enter
from dethrone.harness.report.terminal import Screen


def own_bug(variant: str | None, expect: tuple[str, ...], *, nodes_min: int) -> Planted | None:
    """The bug that is in no list. ConfigError where only half of it was said."""
    if (variant is None) != (not expect):
        raise ConfigError(
            "--variant and --expect belong together",
            cause="a bug counts as found only if its expected checker fails",
            next_step="write --variant my_bugs.py:MyBug --expect one-vote-per-term",
        )
    if variant is None:
        return None
    known = registry.names(registry.CHECKERS)
    for checker in expect:
        if checker not in known:
            raise registry.unknown_name("checker", checker, known)
    return Planted(name=variant, says="a bug of your own", caught_by=expect, nodes_min=nodes_min)


@click.command()
@click.option(
    "--system", "systems", multiple=True, help="limit to this system (repeatable) [default: all with planted bugs]"
)
@click.option("--bug", "bugs", multiple=True, help="limit to this bug (repeatable)")
@click.option("--variant", help="your own bug: path/to/file.py:Class, or an entry point of dethrone.variants")
@click.option("--expect", multiple=True, metavar="CHECKER", help="checker that must find --variant (repeatable)")
@click.option("--nodes-min", default=3, show_default=True, type=click.IntRange(1, 31), help="with --variant")
@click.option("--on", "backend", default="sim", show_default=True, help="backend that provides the hosts")
@click.option(
    "--budget", help="time per bug: CPU time of one core in simulation [60s], wall-clock time elsewhere [180s]"
)
@click.option(
    "--faults", metavar="KIND,…", help="fault kinds to draw schedules from [default: those of the system's exam]"
)
@click.option("--strategy", default="triggered", show_default=True, help="strategy that draws the schedules")
@click.option(
    "--clean", default=0, show_default=True, type=click.IntRange(min=0), help="number of seeds run without a bug"
)
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1, 64), help="number of worker processes")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs/exam"),
    show_default=True,
    help="directory of the result rows; a bug that has its row is not run again",
)
@click.option("--fresh", is_flag=True, help="ignore the rows in --out")
@flags.screen_flags
def exam(
    *,
    variant: str | None,
    expect: tuple[str, ...],
    nodes_min: int,
    backend: str,
    budget: str | None,
    faults: str | None,
    screen: Screen,
    **asked: Any,
) -> None:
    """Run planted bugs and report which were found, by which checker, and how soon. Exits 1 if one was missed."""
    enter(backend)
    budget_ns = parse_duration(budget or ("60s" if backend == "sim" else "180s"))
    own = own_bug(variant, expect, nodes_min=nodes_min)
    kinds = tuple(kind.strip() for kind in faults.split(",")) if faults else ()
    sys.exit(exam_command.sit(screen, own=own, backend=backend, faults=kinds, budget_ns=budget_ns, **asked))
