"""A stored run for other tools: its history as canonical JSON lines, or the operations of its clients.

Guarantees: a damaged history is exported up to the damage, with a message; a file is written whole or not at all; lines
are written as they are read, in bounded memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from dethrone.harness.core.errors import HarnessError
from dethrone.harness.core.foreign.writing import WRITERS
from dethrone.harness.core.history import Reading, line_of
from dethrone.harness.core.history_files import history_at, read_history, stream
from dethrone.harness.report.plain import complain, data

JSON_LINES = "jsonl"
FORMATS = (JSON_LINES, *sorted(WRITERS))


def export(path: Path, form: str, out: Path | None) -> None:
    """Write a run directory or history in that form, to a file or to stdout."""
    lines = _lines(history_at(path), form)
    if out is None:
        for line in lines:
            data(line)
    else:
        _write(lines, out)


def _lines(path: Path, form: str) -> Iterator[str]:
    if form == JSON_LINES:
        reading = Reading(str(path))
        for event in stream(path, reading):
            yield line_of(event).decode().removesuffix("\n")
        reading.close()
        damage = reading.damage
    else:
        history = read_history(path)
        damage = history.damage
        yield from WRITERS[form](history)
    if damage is not None:
        complain(f"note: the history is damaged; exported up to the damage: {damage}")


def _write(lines: Iterator[str], out: Path) -> None:
    part = out.with_name(out.name + ".part")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in lines)
        os.replace(part, out)  # noqa: PTH105 - atomic, and it says so
    except OSError as error:
        raise HarnessError(f"cannot write the export: {error.strerror}", where=str(out)) from error
