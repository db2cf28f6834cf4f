"""Rows in a file, one per task: a task that has a row is not done again, and Ctrl-C loses none.

Guarantees: a row is written once, when its task is done, and by one process at a time; reading drops a last line that
was cut short, so that the next row starts on its own line. Tasks are opaque; ``worker_processes`` distributes the work.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

import msgspec

from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.files import HISTORY_MAX, read_regular
from dethrone.harness.engine.campaign.worker_processes import spread


class Keyed(Protocol):
    """A row that names its task."""

    @property
    def key(self) -> Any:
        """The key of its task."""
        ...


T = TypeVar("T")
Kept = TypeVar("Kept")
R = TypeVar("R", bound=Keyed)


_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})
"""Errors of file systems without locks."""


@contextlib.contextmanager
def adding_rows(path: Path, *, what: str) -> Iterator[BinaryIO]:
    """The file, open for more rows. ``what``: whose they are, for the ConfigError if another process adds to it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigError(
                f"another {what} is using this directory",
                where=str(path.parent),
                next_step="wait for it, or choose another --out",
            ) from error
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
        yield file


def read_kept(path: Path, row: type[Kept], *, what: str) -> list[Kept]:
    """The rows so far; a torn last line leaves the file. ``what``: whose they are, for the ConfigError if not ours."""
    if not path.exists():
        return []
    lines = read_regular(path, most=HISTORY_MAX).splitlines(keepends=True)
    if lines and not lines[-1].endswith(b"\n"):  # else the next row would be written behind it
        path.write_bytes(b"".join(lines[:-1]))
        lines = lines[:-1]
    try:
        return [msgspec.json.decode(line, type=row) for line in lines]
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"{what} rows are damaged: {error}", where=str(path), next_step="choose another --out"
        ) from error


def keep_rows(
    work: Callable[[T], R],
    wanted: Mapping[Any, T],
    kept: list[R],
    path: Path,
    *,
    jobs: int,
    on_row: Callable[[R, int, int], None],
) -> tuple[list[R], bool]:
    """The work on every task without a row among ``kept``. All rows of these tasks, and whether it was interrupted.

    ``wanted``: key → task. ``on_row`` is called in this process with each new row, how many are done, and how many
    there are.
    """
    rows = {row.key: row for row in kept if row.key in wanted}
    todo = [task for key, task in wanted.items() if key not in rows]
    interrupted = False
    with adding_rows(path, what="process") as file:

        def keep(row: R) -> None:
            rows[row.key] = row
            file.write(msgspec.json.encode(row) + b"\n")
            file.flush()
            on_row(row, len(rows), len(wanted))

        try:
            spread(work, todo, jobs=jobs, keep=keep)
        except KeyboardInterrupt:
            interrupted = True
    return [rows[key] for key in wanted if key in rows], interrupted
