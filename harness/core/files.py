"""Files that a user names, or that lie where another may have put them: regular ones only, and not without end.

Guarantees: opening never waits, for any kind of path (a FIFO, a device, a socket); a bounded number of bytes is read.
What is refused is an OSError with words, as is a file that is missing. Out of scope: what is in them.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

INPUT_MAX = 64 << 20
"""Longest file that a person wrote: a schedule, a list of hosts, a description."""

HISTORY_MAX = 8 << 30
"""Longest file that a program wrote and that is read at once."""

PIECE = 4 << 20


def open_regular(path: Path) -> BinaryIO:
    """The file, to read. OSError: it cannot be opened, or is no regular file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL, f"it is {_kind(mode)}", str(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path, *, most: int = INPUT_MAX) -> bytes:
    """Its bytes. OSError: as ``open_regular``, or it is longer than ``most``."""
    parts, left = [], most + 1
    # In pieces: one read of ``most`` would take that much memory at once.
    with open_regular(path) as file:
        while left and (part := file.read(min(left, PIECE))):
            parts.append(part)
            left -= len(part)
    if not left:
        raise OSError(errno.EFBIG, f"it is longer than {_size(most)}", str(path))
    return b"".join(parts)


def read_text(path: Path, *, most: int = INPUT_MAX) -> str:
    """Its text. OSError: as ``read_regular``. UnicodeDecodeError: it is no UTF-8."""
    return read_regular(path, most=most).decode("utf-8")


def sync(path: Path) -> None:
    """Have a file, or the names in a directory, on disk when this returns. OSError: the disk refuses."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def why_unwritten(error: OSError) -> str:
    """The likely cause of a write that failed, for people to read."""
    return _WHY.get(error.errno or 0, "the disk is full or was removed")


_WHY = {
    errno.EMFILE: "this process may open no more files (`ulimit -n`)",
    errno.ENFILE: "the machine may open no more files",
    errno.EFBIG: "a limit on the size of files (`ulimit -f`)",
    errno.EDQUOT: "the user's quota is used up",
    errno.EACCES: "this user may not write there",
    errno.EPERM: "this user may not write there",
    errno.EROFS: "the file system is read-only",
    errno.ENOENT: "the directory was removed",
}


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFDIR: "a directory",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return f"{kinds.get(stat.S_IFMT(mode), 'something else')}, not a regular file"


def _size(number: int) -> str:
    for shift, unit in ((30, "GiB"), (20, "MiB")):
        if number >= 1 << shift:
            return f"{number >> shift} {unit}"
    return f"{number} bytes"
