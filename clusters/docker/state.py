"""Where the Docker world keeps what outlives one process: the engine's log and pid file, build locks, compiled code.

Guarantees: one directory a user, made on first use, readable by that user only; locks that wait by condition and with a
bound. Out of scope: runs and their ledgers, which have a state directory of their own.
"""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from dethrone.harness.core.errors import ClusterError
from dethrone.harness.core.ledger import state_dir, unwritable

Progress = Callable[[str], None]
"""Receives one line of progress at a time, without its newline."""


def silent(_line: str) -> None:
    """A ``Progress`` that says nothing."""


def state_directory(part: str) -> Path:
    """The directory for ``part`` within the user's state directory (``dethrone.harness.core.ledger.state_dir``), made
    if absent.

    Raises ConfigError where it cannot be made, and HarnessError where something ran out.
    """
    directory = state_dir() / part
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable("cannot make a state directory", directory, error) from error
    return directory


@contextlib.contextmanager
def locked(path: Path, *, limit_s: float, progress: Progress = silent) -> Iterator[None]:
    """Hold the file lock ``path`` for the body; wait for another holder at most ``limit_s`` seconds.

    The kernel drops the lock with its holder, so a killed process leaves nothing to clean up.
    """
    deadline = time.monotonic() + limit_s
    with path.open("a", encoding="ascii") as file:
        told = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise ClusterError(
                        f"another process has held a lock for more than {limit_s:.0f} s",
                        where=str(path),
                        cause="an image build or an engine start in another process is slow or hangs",
                        next_step=f"see who holds it with `fuser -v {path}`, then run the command again",
                    ) from None
            if not told:
                told = True
                progress(f"waiting for another process ({path.name})")
            time.sleep(0.05)
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)
