"""``dethrone doctor``: what this machine can do, what it cannot, why, and what to do about it.

With a file: whether the system that it describes starts, answers, prints its trace lines and serves its operations.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

import click
import msgspec

from dethrone.harness.cli import flags, run_options, setting_table, settings
from dethrone.harness.core import registry
from dethrone.harness.core.interfaces import No
from dethrone.harness.engine.host import shadowing_packages
from dethrone.harness.engine.host.namespace_entry import enter
from dethrone.harness.engine.run.exit_status import EXIT_PASS, EXIT_TROUBLE
from dethrone.harness.engine.run.judgement import JSON_SCHEMA
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.report.terminal import Screen, Watcher

if TYPE_CHECKING:
    from dethrone.harness.engine.host.doctor_row import DoctorRow

FILE_NODES = 1


@click.command()
@click.argument("file", required=False)
@click.option(
    "--nodes",
    type=click.IntRange(1, setting_table.NODES_MAX),
    default=FILE_NODES,
    help="number of nodes for FILE [default: 1]",
)
@click.option("--on", "backend", help="backend that provides the hosts for FILE [default: docker]")
@click.option("--base", help="base image of the hosts for FILE")
@click.option("--set", "knobs", multiple=True, metavar="<knob=value>", help="knob of FILE (repeatable)")
@click.option("--lines", type=click.File("rb"), help="search this output (-: stdin) for trace lines")
@flags.hosts_flags
@flags.json_flag
def doctor(
    *,
    file: str | None,
    nodes: int,
    backend: str | None,
    base: str | None,
    knobs: tuple[str, ...],
    lines: BinaryIO | None,
    hosts: Path | None,
    host: tuple[str, ...],
    as_json: bool,
) -> None:
    """Report what works on this machine (exit code 3 if no backend does), or try out the system that FILE describes."""
    screen = flags.screen(as_json=as_json)
    if lines is not None:
        from dethrone.harness.engine.host.line_check import examine_lines

        _print(screen, lines.name, examine_lines(lines))
    asked = {"on": backend, "base": base, "set": list(knobs) or None, "hosts": hosts and str(hosts), "host": host}
    given = settings.asked(asked)
    if file is not None:
        one = {"nodes": settings.Given(value=nodes, origin="flag")}
        named = file if registry.is_file(file) or file in registry.names(registry.SYSTEMS) else f"./{file}"
        value = run_options.run_options(named, {**settings.defaults(), **given, **one})
        enter(value.backend)
        _file(screen, msgspec.structs.replace(value, faults=()))
    from dethrone.harness.engine.host import doctor as engine

    hosts, host = run_options.named_hosts(given)
    run_options.refuse_strangers(given, hosts=hosts, host=host)
    rows = [*engine.rows(hosts=hosts, host=host), *shadowing_packages.rows()]
    screen.table(
        ("section", "what", "usable", "why not", "what to do"),
        [
            (section, name, "no", found.why, found.what_to_do)
            if isinstance(found, No)
            else (section, name, "yes", "", "")
            for section, name, found in rows
        ],
    )
    backends = [not isinstance(found, No) for section, _, found in rows if section.startswith("backend")]
    code = EXIT_TROUBLE if backends and not any(backends) else EXIT_PASS
    listed = [
        {
            "section": section,
            "name": name,
            "usable": not isinstance(found, No),
            "why": found.why if isinstance(found, No) else "",
            "what_to_do": found.what_to_do if isinstance(found, No) else "",
        }
        for section, name, found in rows
    ]
    screen.result({"schema": JSON_SCHEMA, "command": "doctor", "rows": listed, "exit_code": code})
    sys.exit(code)


def _file(screen: Screen, options: RunOptions) -> NoReturn:
    from dethrone.harness.engine.host import description_check as engine

    _print(screen, options.system, engine.examine(options, Watcher(screen).progress))


def _print(screen: Screen, named: str, rows: Sequence[DoctorRow]) -> NoReturn:
    screen.table(
        ("step", "what", "seen", "why not", "what to do"),
        [(row.step, row.what, row.seen, row.why, row.what_to_do) for row in rows],
    )
    code = EXIT_TROUBLE if any(row.seen == "no" for row in rows) else EXIT_PASS
    listed: list[dict[str, Any]] = [
        {"step": row.step, "what": row.what, "seen": row.seen, "why": row.why, "what_to_do": row.what_to_do}
        for row in rows
    ]
    screen.result({"schema": JSON_SCHEMA, "command": "doctor", "file": named, "rows": listed, "exit_code": code})
    sys.exit(code)
