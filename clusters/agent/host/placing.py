"""Files that the harness reads from this host and places on it, part by part.

Guarantees: a file appears whole, by a rename, or not, also one that is copied from elsewhere on the host; a pipe under
a file's name is not waited for; a part is bounded (``CHUNK_MAX``). Out of scope: who may ask (``server``), and the
node's own files (``damage``).
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import shutil
import stat
from collections.abc import Mapping
from typing import Any

from dethrone.clusters.agent.host.common import Refused
from dethrone.clusters.agent.host.requests import integer_of, text_of

CHUNK_MAX = 1 << 20
"""Limit on a file's bytes in one request or answer."""


def read_part(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """``path``, from ``offset``. Raises Refused, OSError."""
    offset = integer_of(request, "offset", low=0, high=1 << 40)
    # without waiting: a pipe under a log's name would block this lane for ever
    fd = os.open(text_of(request, "path"), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(fd, "rb") as file:
        seen = os.fstat(fd)
        if not stat.S_ISREG(seen.st_mode):
            raise Refused("it is no regular file")
        file.seek(offset)
        data = file.read(CHUNK_MAX)
    return {"data": base64.b64encode(data).decode(), "more": len(data) == CHUNK_MAX, "size": seen.st_size}


def write_part(request: Mapping[str, Any]) -> str:
    """``data`` of ``path`` at ``offset``; the path once it is whole, else "". Raises Refused, OSError.

    ``private``: only its owner may read it.
    """
    path, temporary = _places(request)
    try:
        data = base64.b64decode(text_of(request, "data"), validate=True)
    except binascii.Error as error:
        raise Refused(f"data is not base64: {error}") from None
    os.makedirs(os.path.dirname(path) or "/", exist_ok=True)  # noqa: PTH103, PTH120
    mode = 0o600 if request.get("private") is True else 0o644
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    try:
        os.lseek(fd, integer_of(request, "offset", low=0, high=1 << 40), os.SEEK_SET)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        if request.get("last") is not True:
            return ""
        os.replace(temporary, path)  # noqa: PTH105
    except (OSError, Refused):
        os.unlink(temporary)  # noqa: PTH108
        raise
    return path


def copy_whole(request: Mapping[str, Any]) -> str:
    """Copy ``source``, a file of this host, to ``path``; the path, or "" if there is no such file. Raises Refused,
    OSError."""
    path, temporary = _places(request)
    try:
        source = os.open(text_of(request, "source"), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return ""
    with os.fdopen(source, "rb") as file:
        os.makedirs(os.path.dirname(path) or "/", exist_ok=True)  # noqa: PTH103, PTH120
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            with os.fdopen(fd, "wb") as copy:
                shutil.copyfileobj(file, copy, CHUNK_MAX)
            os.replace(temporary, path)  # noqa: PTH105
        except OSError:
            os.unlink(temporary)  # noqa: PTH108
            raise
    return path


def _places(request: Mapping[str, Any]) -> tuple[str, str]:
    """Where the file is to be, and where it is until it is whole."""
    path, token = text_of(request, "path"), text_of(request, "token")
    if re.fullmatch(r"[0-9a-f]{1,32}", token) is None:
        raise Refused("token must be hexadecimal digits")
    return path, f"{path}.dethrone-{token}"
