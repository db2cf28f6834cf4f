"""What this machine owes its hosts: one directory a live run, its intentions on disk BEFORE each effect.

``$DETHRONE_STATE_DIR`` (default: ``~/.local/state/dethrone``) holds ``runs/<run id>/`` with ``ledger.jsonl`` and
``lock``. The lock (flock) is held while the run lives, so that ``heal`` skips live runs and needs no process ids. A
directory appears with its lock held and goes in one step: its names while it is made and removed begin with a dot.
Guarantees: a line is fsynced before ``record`` returns; a torn last line is ignored by readers, for its effect never
began. Out of scope: when it is written (``engine/run/runner`` records the states of hosts before it asks for any), and
healing itself (``engine/host/healing``).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from dethrone.harness.core.errors import ConfigError, HarnessError
from dethrone.harness.core.files import sync, why_unwritten

SCARCE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENOMEM})
"""What another directory may not help against: trouble, and no mistake of the user's."""

SWEEP_AFTER_S = 3600.0
"""So old is nothing that is still being made."""

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


def unwritable(what: str, directory: Path, error: OSError) -> HarnessError:
    """The error for a directory of this machine's state: trouble where something ran out, else the user's mistake."""
    said, where = f"{what}: {error.strerror}", str(directory)
    if error.errno in SCARCE:
        return HarnessError(said, where=where, cause=why_unwritten(error))
    return ConfigError(said, where=where, next_step="set DETHRONE_STATE_DIR to a directory that you own")


class Ledger:
    """The ledger of one live run. Holds its lock until ``close`` or the end of the process."""

    def __init__(self, root: Path, run_id: str) -> None:
        self.run_id = run_id
        self.directory = root / "runs" / run_id
        staged = _unseen(self.directory)
        opened: list[int] = []
        try:
            staged.mkdir(parents=True, exist_ok=False)
            opened.append(os.open(staged / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644))
            fcntl.flock(opened[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
            flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
            opened.append(os.open(staged / "ledger.jsonl", flags, 0o644))
            sync(staged)
            staged.rename(self.directory)
            staged = self.directory
            sync(self.directory.parent)
        except OSError as error:
            for descriptor in opened:
                os.close(descriptor)
            _delete(staged)
            if error.errno in {errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR} and os.path.lexists(self.directory):
                raise ConfigError(f"a run {run_id} exists already", where=str(self.directory)) from None
            raise unwritable("cannot write the state directory", self.directory, error) from error
        self._lock, self._fd = opened

    def record(self, transition: Transition, *, backend: str, **data: Any) -> None:
        """Put one line on disk; only then may its effect begin."""
        line = msgspec.json.encode(LedgerLine(transition=transition, backend=backend, data=data)) + b"\n"
        os.write(self._fd, line)
        os.fdatasync(self._fd)

    def close(self, *, clean: bool) -> None:
        """Release the lock; ``clean``: nothing is left on any host, the directory goes."""
        os.close(self._fd)
        if clean:
            _remove(self.directory)
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
        except (msgspec.DecodeError, ValueError, RecursionError):
            break
    return tuple(out)


def is_live(directory: Path) -> bool:
    """Whether some process still holds the run's lock. PermissionError: it is another user's to know."""
    try:
        fd = os.open(directory / "lock", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
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
    found: list[tuple[float, StaleRun]] = []
    for directory in runs.iterdir():
        with contextlib.suppress(OSError):  # it goes this moment, or is another user's
            began = directory.stat().st_mtime
            if directory.name.startswith(".") or not directory.is_dir() or is_live(directory):
                continue
            if directory.is_dir():  # still: a run that ends takes it away before it lets go of the lock
                found.append((began, StaleRun(directory.name, directory, read_ledger(directory))))
    return [run for _, run in sorted(found, key=lambda one: (one[0], one[1].run_id))]


def forget(run: StaleRun) -> None:
    """Remove a stale run's ledger, once nothing of it is left."""
    _remove(run.directory)


def sweep(root: Path, *, now_s: float) -> None:
    """Remove what processes left that ended while they made or removed a ledger, some time ago (wall clock)."""
    runs = root / "runs"
    for directory in runs.iterdir() if runs.is_dir() else ():
        with contextlib.suppress(OSError):
            old = now_s - directory.lstat().st_mtime > SWEEP_AFTER_S
            if directory.name.startswith(".") and old and not is_live(directory):
                _delete(directory)


def _delete(directory: Path) -> None:
    """Remove a ledger, by its names first: that opens nothing, and there may be no descriptor left."""
    for name in ("lock", "ledger.jsonl"):
        with contextlib.suppress(OSError):
            (directory / name).unlink()
    with contextlib.suppress(OSError):
        directory.rmdir()
        return
    shutil.rmtree(directory, ignore_errors=True)


def _unseen(directory: Path) -> Path:
    """A name for it while it is not whole."""
    return directory.with_name(f".{directory.name}.{secrets.token_hex(4)}")


def _remove(directory: Path) -> None:
    """All at once, for everyone who looks."""
    unseen = _unseen(directory)
    with contextlib.suppress(OSError):
        directory.rename(unseen)
        directory = unseen
    _delete(directory)
