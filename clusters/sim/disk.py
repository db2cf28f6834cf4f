"""One simulated disk: files as processes see them, and what is left of them after a loss of power.

Guarantees: a synced write survives everything but damage; a write that was not synced survives a kill of the process
and is gone after a loss of power; a rename is atomic and durable with its directory, as the real shell does it; an
unsynced file behind a durable name is as long as its synced content. A rename whose directory is not synced is undone
by a loss of power, until some other sync of that directory takes it along with its content, as a journal does. Costs
nothing per synced byte: each file keeps what its unsynced writes replaced. Out of scope: time and who is to blame.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

from dethrone.harness.core.hoststate import Age, Damage, DiskTrouble
from dethrone.harness.core.machine import DiskOp, Fsync, Rename, Unlink, Unreadable, Write
from dethrone.harness.core.rng import Rng

_EIO = "[Errno 5] Input/output error"
_ENOSPC = "[Errno 28] No space left on device"
_EROFS = "[Errno 30] Read-only file system"


class _Undo:
    """What one unsynced write replaced, and what it wrote."""

    __slots__ = ("at", "new", "old", "size")

    def __init__(self, at: int, old: bytes, size: int, new: bytes) -> None:
        self.at = at
        self.old = old
        self.size = size
        self.new = new


class _File:
    __slots__ = ("changed", "data", "readable", "taken", "undo")

    def __init__(self) -> None:
        self.changed = 0
        """The number of its last write among all of this disk."""
        self.data = bytearray()
        self.undo: list[_Undo] = []
        self.readable = True
        self.taken = False
        """It got its name by a rename whose directory was not synced: the next sync of that takes its content along."""

    def write(self, at: int, new: bytes, *, truncate: bool) -> None:
        data, end = self.data, at + len(new)
        size = len(data)
        old = bytes(data[at:]) if truncate else bytes(data[at:end])
        self.undo.append(_Undo(at, old, size, new))
        if at > size:
            data.extend(bytes(at - size))
        data[at:end] = new
        if truncate:
            del data[end:]

    def revert(self, torn: int | None) -> None:
        """Take the unsynced writes back; ``torn``: except this number of bytes of the first of them."""
        first = self.undo[0] if self.undo else None
        data = self.data
        for undo in reversed(self.undo):
            data[undo.at : undo.at + max(len(undo.new), len(undo.old))] = undo.old
            del data[undo.size :]
        self.undo.clear()
        if first is not None and torn:
            part = first.new[:torn]
            if first.at > len(data):
                data.extend(bytes(first.at - len(data)))
            data[first.at : first.at + len(part)] = part


class SimDisk:
    """The data directory of one host."""

    __slots__ = ("_changes", "_durable", "_names", "older")

    def __init__(self) -> None:
        self.older: Mapping[str, bytes | Unreadable] = {}
        """What the last process found at its start: what a restore from an old backup brings back."""
        self._changes = 0
        self._names: dict[str, _File] = {}
        self._durable: dict[str, _File] = {}
        """Directory entries that survive a loss of power."""

    def image(self) -> dict[str, bytes | Unreadable]:
        """What a process finds at its start."""
        return {path: bytes(file.data) if file.readable else "unreadable" for path, file in sorted(self._names.items())}

    def carry_out(self, op: Any) -> None:
        """One operation."""
        kind = type(op)
        if kind is Write:
            file = self._open(op.path)
            file.write(len(file.data) if op.offset is None else op.offset, op.data, truncate=op.truncate)
            self._changes += 1
            file.changed = self._changes
        elif kind is Fsync:
            file = self._open(op.path)
            file.undo.clear()
            if self._durable.get(op.path) is not file:
                self._sync_directories(op.path)
        elif kind is Rename:
            file = self._names.pop(op.src)
            self._names[op.dst] = file
            file.taken = not op.sync
            if not op.sync:
                return
            self._sync_directories(op.dst)
            if _parent(op.src) != _parent(op.dst):
                self._sync_directories(op.src)
        else:
            self._names.pop(op.path, None)

    def fail(self, op: DiskOp, trouble: DiskTrouble, rng: Rng) -> str | None:
        """One operation of a disk in trouble: the error, or None if it was carried out all the same."""
        name = type(op).__name__.lower()
        if trouble.kind == "readonly" or trouble.of == "writes":
            if not isinstance(op, Fsync):
                return f"{name}: {_EROFS if trouble.kind == 'readonly' else _EIO}"
            self.carry_out(op)
            return None
        if trouble.of == "reads" or (trouble.of == "syncs" and isinstance(op, Write)):
            self.carry_out(op)
            return None
        if trouble.kind == "full":
            if not isinstance(op, Write) or not op.data:
                self.carry_out(op)
                return None
            part = op.data[: rng.below(len(op.data))]
            if part:
                self.carry_out(Write(op.path, part, op.offset))
            return f"write: {_ENOSPC}"
        if isinstance(op, Unlink):
            self.carry_out(op)
            return None
        if isinstance(op, Rename):
            self._names[op.dst] = self._names.pop(op.src)  # done, but its directory cannot be synced
        return f"{name}: {_EIO}"

    def unread(self, trouble: DiskTrouble, rng: Rng) -> dict[str, bytes | Unreadable]:
        """What a process finds at its start where reads fail."""
        percent = trouble.percent or 100
        return {path: "unreadable" if rng.below(100) < percent else data for path, data in self.image().items()}

    # --- misfortunes ----------------------------------------------------------------------------------------------

    def lose_power(self, *, torn: Rng | None = None) -> None:
        """Everything unsynced is gone; ``torn``: of each file's first unsynced write a part survives."""
        self._names = dict(sorted(self._durable.items()))
        for path, file in self._names.items():
            kept = 0
            if torn is not None and file.undo and len(file.undo[0].new) > 1:
                kept = torn.stream(path).between(1, len(file.undo[0].new) - 1)
            file.revert(kept)

    def wipe(self) -> None:
        """Every file is gone."""
        self._names.clear()
        self._durable.clear()

    def damage(self, how: Damage, path: str, rng: Rng, *, age: Age | None = None) -> str | None:
        """Damage one file (see ``DiskTrouble``); its path, or None where there is nothing to damage."""
        full = (name for name, file in self._names.items() if file.data)
        paths = sorted(name for name in full if not path or fnmatchcase(name, path))
        older = {name: found for name in paths if isinstance(found := self.older.get(name), bytes)}
        if how == "stale":
            paths = [name for name, found in older.items() if found != self._names[name].data]
        if not paths:
            return None
        if age is None:
            chosen = rng.choice(paths)
        else:
            by_age = sorted(paths, key=lambda name: self._names[name].changed)
            chosen = by_age[0 if age == "oldest" else -1]
        file = self._names[chosen]
        if how == "unreadable":
            file.readable = False
        elif how == "removed":
            del self._names[chosen]
            self._durable.pop(chosen, None)
        elif how == "flipped":
            at = rng.below(len(file.data))
            file.data[at] ^= 1 << rng.below(8)
        else:
            if how == "stale":
                file.data[:] = older[chosen]
            else:
                del file.data[0 if how == "emptied" else rng.below(len(file.data)) :]
            file.undo.clear()
        return chosen

    # --- small parts ----------------------------------------------------------------------------------------------

    def _open(self, path: str) -> _File:
        file = self._names.get(path)
        if file is None:
            file = self._names[path] = _File()
        return file

    def _sync_directories(self, path: str) -> None:
        """Make the entries of the path's directory durable, and those of all above it."""
        directory = _parent(path)
        while True:
            for name in [name for name in self._durable if _parent(name) == directory and name not in self._names]:
                del self._durable[name]
            for name, file in self._names.items():
                if _parent(name) == directory:
                    self._durable[name] = file
                    if file.taken:
                        file.undo.clear()
                        file.taken = False
            if not directory:
                return
            directory = _parent(directory)


@lru_cache(maxsize=256)  # the same few paths, at every sync
def _parent(path: str) -> str:
    return path.rpartition("/")[0]
