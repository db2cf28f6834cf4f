"""Mounts of ours: a file system over a directory, and its removal, by system calls that need no tool.

Guarantees: only a mount that carries our label (``MOUNT_LABEL`` and the run) is ever removed; what lies below it is
never touched. Out of scope: who serves it (``fuse_server``).
"""

from __future__ import annotations

import ctypes
import os
import re
import stat
from typing import NamedTuple

MOUNT_LABEL = "dethrone"
"""A mount's type is ``fuse.dethrone``, its source ``dethrone-RUN``."""
_NOSUID, _NODEV, _DETACH = 2, 4, 2


class Mounted(NamedTuple):
    """A mount as the kernel shows it."""

    path: str
    kind: str
    source: str


def mounted(path: str | None = None) -> list[Mounted]:
    """The mounts that this process sees, the topmost last; only those at ``path``, if one is given."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        lines = file.read().splitlines()
    out = []
    for line in lines:
        before, _, after = line.partition(" - ")
        fields, more = before.split(" "), after.split(" ")
        out.append(Mounted(_plain(fields[4]), more[0], _plain(more[1])))
    wanted = None if path is None else os.path.realpath(path)
    return [one for one in out if wanted in {None, one.path}]


def mount_fuse(path: str, run: str) -> int:
    """Mount over a directory; returns the device that its requests are read from. Raises OSError."""
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
        words = f"fd={device},rootmode={kind:o},user_id={os.geteuid()},group_id={os.getegid()}"
        options = f"{words},default_permissions,allow_other"
        names = [os.fsencode(name) for name in (f"{MOUNT_LABEL}-{run}", path, f"fuse.{MOUNT_LABEL}")]
        if _library().mount(*names, ctypes.c_ulong(_NOSUID | _NODEV), options.encode()):
            raise _error(path)
    except BaseException:
        os.close(device)
        raise
    return device


def unmount_ours(path: str, run: str | None) -> bool:
    """Remove our topmost mount there, busy or not; whether there was one. ``run`` None: of any run. Raises OSError."""
    found = mounted(path)
    if not found or not is_ours(found[-1], run):
        return False
    if _library().umount2(os.fsencode(path), _DETACH):
        raise _error(path)
    return True


def is_ours(one: Mounted, run: str | None) -> bool:
    """Whether the mount carries our label, of this run if one is given."""
    wanted = f"{MOUNT_LABEL}-{run or ''}"
    return one.kind == f"fuse.{MOUNT_LABEL}" and (
        one.source.startswith(wanted) if run is None else one.source == wanted
    )


def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _error(path: str) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code), path)


def _plain(word: str) -> str:
    """A path without the escapes of mountinfo."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found.group(1), 8)), word)
