"""``dethrone doctor``: what this machine can do, what it cannot, why, and what to do about it."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from harness.cli import flags
from harness.core.protocols import No
from harness.engine import shadow
from harness.engine.model import EXIT_PASS, EXIT_TROUBLE, JSON_SCHEMA


@click.command()
@flags.hosts_flags
@flags.json_flag
def doctor(*, hosts: Path | None, host: tuple[str, ...], as_json: bool) -> None:
    """Say what can be used here. Exit code 3 if no backend can."""
    from harness.engine import doctor as engine

    screen = flags.screen(as_json=as_json)
    rows = [*engine.rows(hosts=hosts, host=host), *shadow.rows()]
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
