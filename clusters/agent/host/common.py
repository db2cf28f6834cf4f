"""Shared by all modules of the agent: units, the clock, the error of a request, small files.

Guarantees: a file is replaced whole or not at all; reporting trouble never raises. Out of scope: everything that only
one module needs.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time

MS = 1_000_000
SECOND = 1_000_000_000
STARVED_NS = 50 * MS
"""A longer wait of a node's thread is news, unless ``prepare`` sets another limit (``noise_max_ns``)."""


class Refused(Exception):  # noqa: N818 - names what happened to the request
    """A request that cannot be served; the text is the answer."""


def now_ns() -> int:
    """The host's monotonic clock."""
    return time.monotonic_ns()


def replace_file(path: str, content: bytes, mode: int = 0o644) -> None:
    """Write ``content`` next to ``path`` and rename it there."""
    temporary = f"{path}.new-{os.getpid()}-{threading.get_ident()}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
        os.replace(temporary, path)  # noqa: PTH105
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108
        raise


def complain(where: str, error: BaseException) -> None:
    """Write one line on stderr (a container's log) about trouble of the agent itself."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"dethrone agent: {where}: {type(error).__name__}: {error}\n")
        sys.stderr.flush()


def boot_id() -> str:
    """Identifies this boot of this kernel: two processes with the same one share the monotonic clock."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123
            return file.read().strip()
    except OSError:
        return ""
