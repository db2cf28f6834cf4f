"""The run directory: one name a file, claimed once, written atomically.

    history/  plan.json  run.json  secrets.json  schedule.planned.json  schedule.realised.json
    verdict.json  report.html  report-details/  junit.xml  nodes/<node>/…  (logs, traces, journals)

Guarantees: a directory that is not ours, or is in use, is never written to. Out of scope: what the files mean.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from dethrone.harness.core.errors import ConfigError, HistoryError
from dethrone.harness.core.files import read_regular, why_unwritten

T = TypeVar("T")

HISTORY = "history"
"""The directory of segments: ``history_files``."""
LINES = "history.jsonl"
COLUMNS = "history.parquet"
"""The history of a run of 0.2.0 and older, in its two forms."""
PLAN = "plan.json"
RUN = "run.json"
SECRETS = "secrets.json"
"""Settings whose values no other file holds; only its owner can read it."""
PLANNED = "schedule.planned.json"
REALISED = "schedule.realised.json"
VERDICT = "verdict.json"
REPORT = "report.html"
JUNIT = "junit.xml"
NODES = "nodes"
BULKY = (HISTORY, LINES, COLUMNS, NODES)
"""What takes most of the space of a run, and is not needed once it is judged."""
_CLAIM = ".dethrone-run"


def claim_run_dir(path: Path) -> Path:
    """Make ``path`` this run's directory. ConfigError if it holds a run already or anything that is not ours."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        entries = sorted(entry.name for entry in path.iterdir())
        if entries:
            ours = _CLAIM in entries
            raise ConfigError(
                f"the run directory {'holds a run already' if ours else 'is not empty and not ours'}",
                where=str(path),
                next_step="choose another --out, or remove the directory yourself",
            )
        fd = os.open(path / _CLAIM, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        os.close(fd)
    except OSError as error:
        raise ConfigError(f"cannot use the run directory: {error.strerror}", where=str(path)) from error
    return path


def set_aside(path: Path, *, suffix: str = "cut-short") -> None:
    """Give the files of a run that has to be repeated another name, once; what had it before is gone."""
    if path.exists():
        old = path.with_name(f"{path.name}.{suffix}")
        shutil.rmtree(old, ignore_errors=True)
        path.rename(old)


def write_atomic(path: Path, content: bytes, *, private: bool = False) -> None:
    """Replace ``path`` by ``content``, durably; readers see the old or the new file. HistoryError if it cannot be.

    ``private``: only its owner can read it.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600 if private else 0o666)
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise HistoryError(
            f"cannot write {path.name}: {error.strerror}",
            where=str(path.parent),
            cause=why_unwritten(error),
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, value: Any, *, private: bool = False) -> None:
    """``value`` (structs allowed) as indented JSON, atomically; ``private`` as of ``write_atomic``."""
    write_atomic(path, msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n", private=private)


def read_json(path: Path, kind: type[T]) -> T:
    """A typed value from a JSON file. HistoryError says what is wrong with it."""
    try:
        return msgspec.json.decode(read_regular(path), type=kind)
    except OSError as error:
        raise HistoryError(f"cannot read {path.name}: {error.strerror}", where=str(path.parent)) from error
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise HistoryError(f"{path.name} is damaged: {error}", where=str(path.parent)) from error
