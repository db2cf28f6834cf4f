"""What this machine owes its hosts: one directory a live run, its intentions on disk BEFORE each effect.

``$DETHRONE_STATE_DIR`` (default: ``~/.local/state/dethrone``) holds ``runs/<run id>/`` with ``ledger.jsonl`` and
``lock``. The lock (flock) is held while the run lives, so that ``heal`` skips live runs and needs no process ids.
Promises: a line is fsynced before ``record`` returns; a torn last line is ignored by readers, for its effect never
began. Leaves out healing itself.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from harness.core.errors import ConfigError

Transition = Literal["deploying", "deployed", "converging", "converged", "destroying", "kept"]


class LedgerLine(msgspec.Struct, frozen=True, kw_only=True):
    """One intention or its completion. ``data``: by transition (hosts and desired states for ``converging``)."""

    transition: Transition
    backend: str
    data: Mapping[str, Any] = {}


def state_dir(env: Mapping[str, str] | None = None) -> Path:
    """Where ledgers lie."""
    env = os.environ if env is None else env
    if env.get("DETHRONE_STATE_DIR"):
        return Path(env["DETHRONE_STATE_DIR"]).absolute()
    base = env.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "dethrone"


class Ledger:
    """The ledger of one live run. Holds its lock until ``close`` or the end of the process."""

    def __init__(self, root: Path, run_id: str) -> None:
        self.run_id = run_id
        self.directory = root / "runs" / run_id
        try:
            self.directory.mkdir(parents=True, exist_ok=False)
        except FileExistsError:
            raise ConfigError(f"a run {run_id} exists already", where=str(self.directory)) from None
        except OSError as error:
            raise ConfigError(
                f"cannot write the state directory: {error.strerror}",
                where=str(self.directory),
                next_step="set DETHRONE_STATE_DIR to a directory of yours",
            ) from error
        self._lock = os.open(self.directory / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._fd = os.open(
            self.directory / "ledger.jsonl", os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o644
        )
        _sync_directory(self.directory)

    def record(self, transition: Transition, *, backend: str, **data: Any) -> None:
        """Put one line on disk; only then may its effect begin."""
        line = msgspec.json.encode(LedgerLine(transition=transition, backend=backend, data=data)) + b"\n"
        os.write(self._fd, line)
        os.fdatasync(self._fd)

    def close(self, *, clean: bool) -> None:
        """Release the lock; ``clean``: nothing is left on any host, the directory goes."""
        os.close(self._fd)
        if clean:
            shutil.rmtree(self.directory, ignore_errors=True)
        os.close(self._lock)


class StaleRun(msgspec.Struct, frozen=True):
    """A run whose harness is gone and whose ledger is still there."""

    run_id: str
    directory: Path
    lines: tuple[LedgerLine, ...]


def read_ledger(directory: Path) -> tuple[LedgerLine, ...]:
    """The lines of one ledger; reading stops at the first torn one."""
    try:
        raw = (directory / "ledger.jsonl").read_bytes()
    except OSError:
        return ()
    out = []
    for line in raw.splitlines(keepends=True):
        if not line.endswith(b"\n"):
            break
        try:
            out.append(msgspec.json.decode(line, type=LedgerLine))
        except (msgspec.DecodeError, msgspec.ValidationError):
            break
    return tuple(out)


def is_live(directory: Path) -> bool:
    """Whether some process still holds the run's lock."""
    try:
        fd = os.open(directory / "lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def stale_runs(root: Path) -> list[StaleRun]:
    """Runs whose harness is gone, oldest first."""
    runs = root / "runs"
    if not runs.is_dir():
        return []
    return [
        StaleRun(directory.name, directory, read_ledger(directory))
        for directory in sorted(runs.iterdir(), key=lambda entry: entry.stat().st_mtime)
        if directory.is_dir() and not is_live(directory)
    ]


def forget(run: StaleRun) -> None:
    """Remove a stale run's ledger, once nothing of it is left."""
    shutil.rmtree(run.directory, ignore_errors=True)


def _sync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
