"""Whether a file can only have been written by the user who reads it, or by the administrator of the machine.

Guarantees: what is a symbolic link is looked at where it stands and where it leads; a file that cannot be looked at is
in doubt. Out of scope: groups and access lists, by which a user lets others write, and what is done with a file in
doubt.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Mapping
from pathlib import Path

ROOT = 0
"""A user with this id needs no file of ours to act with a user's rights."""


def selves(env: Mapping[str, str]) -> frozenset[int]:
    """The ids under which this user owns files: his own, under ``sudo`` also the one that he came from, and root's."""
    mine = os.geteuid()
    before = env.get("SUDO_UID", "")
    came_from = {int(before)} if mine == ROOT and before.isascii() and before.isdigit() else set()
    return frozenset({mine, ROOT, *came_from})


def doubt(path: Path, users: Collection[int], *, beside: Collection[Path] = ()) -> str:
    """Why a user other than ``users`` may have written this file, or put it there; "" : no other can have.

    ``beside``: directories that what it names is looked for in.
    """
    try:
        ends = dict.fromkeys((path.absolute(), path.resolve()))
        for end in ends:
            if why := _doubt(end, users):
                return why
        for directory in dict.fromkeys((*(end.parent for end in ends), *beside)):
            if why := _doubt(directory, users):
                return why
    except OSError as error:
        return f"it cannot be examined: {error.strerror}"
    return ""


def _doubt(path: Path, users: Collection[int]) -> str:
    # Of a link the mode says nothing, and its owner who put it there.
    found = path.lstat()
    if found.st_uid not in users:
        return f"{path} belongs to user {found.st_uid}"
    if found.st_mode & stat.S_IWOTH and not stat.S_ISLNK(found.st_mode):
        return f"any user may write {'into ' if stat.S_ISDIR(found.st_mode) else ''}{path}"
    return ""
