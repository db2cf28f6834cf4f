"""Histories on disk, for tests: as lines whatever their form, and in the form that older versions wrote."""

from __future__ import annotations

import shutil
from pathlib import Path

from dethrone.harness.core import store
from dethrone.harness.core.history import Reading, line_of
from dethrone.harness.core.history_files import history_at, segments, stream


def lines(run: Path) -> bytes:
    """The canonical lines of a run's history, or of a history, as far as it is sound."""
    path = history_at(run)
    return b"".join(map(line_of, stream(path, Reading(str(path)))))


def as_file(run: Path, path: Path) -> Path:
    """The same in a file."""
    path.write_bytes(lines(run))
    return path


def older(run: Path) -> Path:
    """Change a run directory to what 0.2.0 wrote: all lines in one file. That file."""
    path = as_file(run, run / store.LINES)
    shutil.rmtree(run / store.HISTORY)
    return path


def text(run: Path) -> str:
    """What a run that still goes has written down."""
    place = run / store.HISTORY
    found = segments(place) if place.is_dir() else ()
    return "".join(one.path.read_text() for one in found if not one.sealed)
