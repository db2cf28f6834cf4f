"""Damage to the files of a node that is down: one file is damaged in one way, or all files are gone.

Guarantees: where the original lies is on disk before anything happens to it, and it stays there until the damage was
read back; so damage that was interrupted never happened (``put_back``, also without an agent, and twice). Links are not
followed, and nothing outside the data directory is touched. Out of scope: when the node starts again on what is left.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dethrone.clusters.agent.host.common import complain

DAMAGES = ("wiped", "flipped", "truncated", "unreadable", "emptied", "removed", "stale")
UNDO = ".dethrone-undo"
"""Ends the name of an original, and is the directory of all, until the damage is proved. No node finds it."""
OLDER_BYTES_MAX = 256 << 20
"""Limit on the older copies of a node's files; what is above it is not copied, and ``stale`` does not choose that."""
COPY_BYTES = 1 << 20


class DataFiles:
    """The files below one data directory. Used by one thread at a time.

    ``older_dir``: where older copies lie, out of the node's reach; ``remember``: stores ``undo`` before it is needed.
    """

    def __init__(self, older_dir: str, remember: Callable[[], None]) -> None:
        self._older_dir = older_dir
        self._remember = remember
        self.undo: dict[str, Any] | None = None
        """What ``put_back`` needs while damage is under way."""
        self._done: Mapping[str, Any] | None = None
        """What was damaged since the process is down: the trouble, and what was found of it."""

    def starting(self, data_dir: str, *, copies: bool) -> None:
        """The process is about to start: the next damage is a new one. ``copies``: keep them, for ``stale``."""
        self._done = None
        if copies:
            try:
                self._keep_copies(data_dir)
            except OSError as error:  # that there is no older copy is reported where one is needed
                complain("older copies", error)

    def _keep_copies(self, data_dir: str) -> None:
        shutil.rmtree(self._older_dir, ignore_errors=True)
        os.makedirs(self._older_dir, mode=0o700)
        left = OLDER_BYTES_MAX
        for name, seen in data_files(data_dir):
            left -= seen.st_size
            if left >= 0:
                target = os.path.join(self._older_dir, name)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                _copied(os.path.join(data_dir, name), target, seen)

    def damage(self, data_dir: str, trouble: Mapping[str, Any], *, turn: int) -> tuple[str, dict[str, Any]]:
        """Do it once: "" or why it was not done, and what was found. ``turn``: which file, where none is named."""
        if self._done is not None and self._done["trouble"] == trouble:
            why = self.changed(data_dir)
            return why, {**self._done["found"], "again": True}
        kind = trouble["kind"]
        try:
            if kind == "wiped":
                found = self._wipe(data_dir)
            else:
                name = self._choose(data_dir, trouble, turn)
                if not name:
                    said = f"no file {trouble['path']!r} to damage" if trouble["path"] else "no file to damage"
                    return said + (" that has an older copy" if kind == "stale" else ""), {}
                found = self._damage_one(data_dir, name, kind, turn)
        except OSError as error:
            why = f"{kind}: {error.strerror or error}"
            try:
                self._interrupt()
            except OSError as another:  # what was noted stays, for the next attempt
                why += f"; it could not be undone: {another.strerror or another}"
            return why, {}
        self._done = {"trouble": dict(trouble), "found": found, "mark": _mark(data_dir, found)}
        return "", found

    def changed(self, data_dir: str) -> str:
        """Why the files are no longer as they were left; "" if they are, or nothing was damaged."""
        if self._done is None:
            return ""
        found = self._done["found"]
        if _mark(data_dir, found) == self._done["mark"]:
            return ""
        return f"{found['damaged']}: something changed that while the process was down"

    def forget(self) -> None:
        """Remove the older copies, and put back what was not damaged to the end."""
        self._interrupt()
        shutil.rmtree(self._older_dir, ignore_errors=True)

    def _interrupt(self) -> None:
        """Put back what was not damaged to the end. Raises OSError."""
        if self.undo is not None:
            put_back(self.undo)
            self._note(None)

    def _note(self, undo: dict[str, Any] | None) -> None:
        self.undo = undo
        self._remember()

    def _choose(self, data_dir: str, trouble: Mapping[str, Any], turn: int) -> str:
        found = {name: seen for name, seen in data_files(data_dir) if seen.st_size}
        if trouble["path"]:
            found = {name: seen for name, seen in found.items() if fnmatch.fnmatchcase(name, trouble["path"])}
        if trouble["kind"] == "stale":
            found = {name: seen for name, seen in found.items() if self._has_older(data_dir, name)}
        if not found:
            return ""
        if trouble["age"]:
            by_age = sorted(found, key=lambda name: (found[name].st_mtime_ns, name))
            return by_age[0 if trouble["age"] == "oldest" else -1]
        return sorted(found)[_drawn(f"{turn} {sorted(found)}", len(found))]

    def _has_older(self, data_dir: str, name: str) -> bool:
        older = os.path.join(self._older_dir, name)
        return os.path.isfile(older) and _digest(older) != _digest(os.path.join(data_dir, name))

    def _damage_one(self, data_dir: str, name: str, kind: str, turn: int) -> dict[str, Any]:
        """Damage one file, and read back that it is so. Raises OSError."""
        path = os.path.join(data_dir, name)
        seen = os.lstat(path)
        found: dict[str, Any] = {"damaged": name, "how": kind, "bytes_before": seen.st_size}
        if kind == "unreadable":
            self._note({"path": path, "mode": stat.S_IMODE(seen.st_mode)})
            os.chmod(path, 0)
            if stat.S_IMODE(os.lstat(path).st_mode):
                raise OSError(0, f"{name} can still be read")
            self._note(None)
            return found
        kept = path + UNDO
        self._note({"path": path, "kept": kept})
        os.rename(path, kept)
        expected = _digest(kept)
        if kind != "removed":
            source = os.path.join(self._older_dir, name) if kind == "stale" else kept
            length = None
            if kind in {"emptied", "truncated"}:
                length = 0 if kind == "emptied" else _drawn(f"cut {turn} {name}", seen.st_size)
            _copied(source, path, seen, length)
            if kind == "flipped":
                at, bit = _drawn(f"byte {turn} {name}", seen.st_size), _drawn(f"bit {turn} {name}", 8)
                found.update(offset=at, bit=bit)
                _flip(path, at, bit)
            expected = _digest(source, length, flipped=(found["offset"], found["bit"]) if kind == "flipped" else None)
        _sync_directory(os.path.dirname(path))
        if kind == "removed":
            if os.path.lexists(path):
                raise OSError(0, f"{name} is still there")
        else:
            found["bytes_after"] = os.lstat(path).st_size
            if _digest(path) != expected:
                raise OSError(0, f"{name} does not read as it was written")
        os.unlink(kept)
        _sync_directory(os.path.dirname(path))
        self._note(None)
        return found

    def _wipe(self, data_dir: str) -> dict[str, Any]:
        """Take all files away, and see that none is left. Raises OSError."""
        kept = os.path.join(data_dir, UNDO)
        names = sorted(os.listdir(data_dir))
        files = [seen.st_size for _, seen in data_files(data_dir)]
        self._note({"all": data_dir, "kept": kept})
        os.mkdir(kept, 0o700)
        for name in names:
            os.rename(os.path.join(data_dir, name), os.path.join(kept, name))
        _sync_directory(data_dir)
        if os.listdir(data_dir) != [UNDO]:
            raise OSError(0, "files appeared while they were taken away")
        self._note({"gone": kept})  # from here on it has happened
        shutil.rmtree(kept)
        _sync_directory(data_dir)
        self._note(None)
        if os.listdir(data_dir):
            raise OSError(0, "the directory is not empty")
        return {"damaged": "wiped", "how": "wiped", "files_before": len(files), "bytes_before": sum(files)}


def data_files(data_dir: str) -> Iterator[tuple[str, os.stat_result]]:
    """The regular files below a directory, by their relative names. Links are not followed; ours are not among them."""
    for place, below, names in os.walk(data_dir):
        below[:] = sorted(name for name in below if name != UNDO)
        for name in sorted(names):
            path = os.path.join(place, name)
            with contextlib.suppress(OSError):
                seen = os.lstat(path)
                if stat.S_ISREG(seen.st_mode) and not name.endswith(UNDO):
                    yield os.path.relpath(path, data_dir), seen


def put_back(undo: Mapping[str, Any]) -> None:
    """Undo damage that was not done to its end; what was is left alone. Raises OSError, KeyError."""
    if "gone" in undo:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(undo["gone"])
        return
    if "mode" in undo:
        os.chmod(undo["path"], undo["mode"], follow_symlinks=True)
        return
    kept = undo["kept"]
    if not os.path.lexists(kept):
        return
    if "all" not in undo:
        os.replace(kept, undo["path"])
        return
    for name in os.listdir(kept):
        os.rename(os.path.join(kept, name), os.path.join(undo["all"], name))
    os.rmdir(kept)


def _drawn(of: str, below: int) -> int:
    """A number below ``below``: the same for the same text on every host and Python."""
    return int.from_bytes(hashlib.sha256(of.encode()).digest()[:8], "big") % below


def _mark(data_dir: str, found: Mapping[str, Any]) -> Any:
    """Changes whenever the damaged file does, or a wiped directory is no longer empty."""
    if found["how"] == "wiped":
        return sorted(os.listdir(data_dir))
    try:
        seen = os.lstat(os.path.join(data_dir, found["damaged"]))
    except OSError:
        return None
    return seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_mode


def _digest(path: str, length: int | None = None, *, flipped: tuple[int, int] | None = None) -> bytes:
    """Of the first ``length`` bytes of a file; ``flipped``: as if that bit of that byte were the other one."""
    digest, at = hashlib.sha256(), 0
    with open(path, "rb") as file:
        while length is None or at < length:
            part = bytearray(file.read(COPY_BYTES if length is None else min(COPY_BYTES, length - at)))
            if not part:
                break
            if flipped is not None and at <= flipped[0] < at + len(part):
                part[flipped[0] - at] ^= 1 << flipped[1]
            digest.update(part)
            at += len(part)
    return digest.digest()


def _copied(source: str, target: str, like: os.stat_result, length: int | None = None) -> None:
    """A new file with the first ``length`` bytes, with the owner and mode of ``like``; synced."""
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "wb") as new, open(source, "rb") as old:
        left = os.fstat(old.fileno()).st_size if length is None else length
        while left > 0:
            part = old.read(min(COPY_BYTES, left))
            if not part:
                break
            new.write(part)
            left -= len(part)
        new.flush()
        if os.geteuid() == 0:
            os.fchown(fd, like.st_uid, like.st_gid)
        os.fchmod(fd, stat.S_IMODE(like.st_mode))
        os.fsync(fd)


def _flip(path: str, at: int, bit: int) -> None:
    """Flip one bit of a file, and sync it."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        old = os.pread(fd, 1, at)
        os.pwrite(fd, bytes((old[0] ^ (1 << bit),)), at)
        os.fsync(fd)
    finally:
        os.close(fd)


def _sync_directory(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
