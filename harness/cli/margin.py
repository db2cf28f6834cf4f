"""``dethrone margin SYSTEM --fault pause``: the smallest dose of a fault that breaks a property."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import click

from dethrone.harness.cli import flags, run_options, settings
from dethrone.harness.commands import margin as margin_command
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.duration import parse_duration
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.engine.host.namespace_entry import enter
from dethrone.harness.engine.margin.dose_search import Search
from dethrone.harness.engine.margin.doses import HOLD_NS, KINDS, DoseKind, kind_of
from dethrone.harness.engine.margin.margin import LEADER_LOST, Question
from dethrone.harness.report.terminal import Screen

_OWN = ("out", "faults", "schedule", "scenario", "strategy", "nemesis-interval", "time-limit", "time-scale")


@click.command()
@click.argument("system", required=False)
@click.option("--fault", metavar="KIND", help=f"what is dosed: {', '.join(KINDS)}")
@click.option("--breaks", default=LEADER_LOST, show_default=True, help="a checker that must fail, or leader-lost")
@click.option("--victims", default="leader", show_default=True, help="selector of the nodes that get the dose")
@click.option("--from", "least", metavar="DOSE", help="smallest dose, like 100ms or 5% [default: the kind's]")
@click.option("--to", "most", metavar="DOSE", help="largest dose [default: the kind's]")
@click.option("--precision", type=click.IntRange(1, 400), help="widest answer, in percent [default: 25; of shares: 5]")
@click.option("--confidence", default=95, show_default=True, type=click.IntRange(50, 99), help="in percent")
@click.option(
    "--hold",
    default=f"{HOLD_NS // SECOND}s",
    show_default=True,
    help="how long a fault is held, where that is not the dose",
)
@click.option("--per-run", default=10, show_default=True, type=click.IntRange(1, 100), help="faults a run, at most")
@click.option(
    "--out",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="directory of the rows; a repeated call continues from them",
)
@click.option(
    "--table",
    "stored",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="measure nothing: print the table of the margins stored in and below this directory (repeatable)",
)
@click.option(
    "--into",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="with --table: put the table between the marks of this Markdown page",
)
@flags.run_flags(*_OWN)
@flags.screen_flags
def margin(
    *,
    system: str | None,
    fault: str | None,
    breaks: str,
    victims: str,
    least: str | None,
    most: str | None,
    precision: int | None,
    confidence: int,
    hold: str,
    per_run: int,
    directory: Path | None,
    stored: tuple[Path, ...],
    into: Path | None,
    given: Mapping[str, settings.Given],
    screen: Screen,
) -> None:
    """Find the smallest dose of a fault that breaks a property of SYSTEM, by bisection; a repeated call resumes."""
    if stored:
        if system is not None or fault is not None:
            raise click.UsageError("--table measures nothing: remove SYSTEM and --fault")
        sys.exit(margin_command.table(stored, into, screen))
    if fault is None or directory is None:
        raise ConfigError(
            "a margin needs --fault and --out", next_step="add --fault pause --breaks leader-lost --out runs/pause"
        )
    kind = kind_of(fault)
    question = Question(
        fault=fault,
        breaks=breaks,
        victims=victims,
        hold_ns=parse_duration(hold),
        per_run=per_run,
        search=_search(kind, least, most, precision=precision, confidence=confidence),
    )
    kept = {key: one for key, one in given.items() if key not in _OWN or key == "strategy"}
    options = run_options.run_options(run_options.system_of(system, kept), kept)
    enter(options.backend)
    sys.exit(margin_command.measure(options, question, directory, screen))


def _search(kind: DoseKind, least: str | None, most: str | None, *, precision: int | None, confidence: int) -> Search:
    try:
        return Search(
            least=kind.least if least is None else kind.read(least),
            most=kind.most if most is None else kind.read(most),
            scale=kind.scale,
            precision=kind.precision if precision is None else precision,
            confidence_percent=confidence,
        )
    except ValueError as error:
        raise ConfigError(str(error), where="--from, --to", next_step="give --from a smaller dose than --to") from error
