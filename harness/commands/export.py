"""The client operations of a stored run, for other tools.

Guarantees: a damaged history is exported up to the damage, with a message; a file is written whole or not at all.
"""

from __future__ import annotations

import os
from pathlib import Path

from dethrone.harness.core import store
from dethrone.harness.core.errors import HarnessError, HistoryError
from dethrone.harness.core.events import Invoke
from dethrone.harness.core.foreign.writing import WRITERS
from dethrone.harness.core.history import History, read_history
from dethrone.harness.report.plain import complain, data


def export(path: Path, form: str, out: Path | None) -> int:
    """Write the operations of a run directory or history file; how many there were."""
    file = path / store.HISTORY if path.is_dir() else path
    if not file.is_file():
        raise HistoryError("no history found here", where=str(file), next_step="name a run directory")
    history = read_history(file)
    if history.damage is not None:
        complain(f"note: the history is damaged; exported up to the damage: {history.damage}")
    if out is None:
        for line in WRITERS[form](history):
            data(line)
    else:
        _write(history, form, out)
    return len(history.of(Invoke))


def _write(history: History, form: str, out: Path) -> None:
    part = out.with_name(out.name + ".part")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in WRITERS[form](history))
        os.replace(part, out)  # noqa: PTH105 - atomic, and it says so
    except OSError as error:
        raise HarnessError(f"cannot write the export: {error.strerror}", where=str(out)) from error
