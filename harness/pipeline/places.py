"""Where a corpus lies: a local directory, an object store, a cluster's file system; six verbs on whole files.

Guarantees: a file that can be read is whole (staged and renamed, or one upload, which appears at its end); ``create``
replaces no file, as far as the place can check (a local directory for certain, others by asking first); paths are
relative, with ``/``. Out of scope: what the files mean.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import msgspec

from dethrone.harness.core.errors import ConfigError, HistoryError
from dethrone.harness.core.files import sync

if TYPE_CHECKING:
    import pyarrow.fs as pafs

STAGING = "_staging"
"""Hidden from Spark, pandas and DuckDB by its underscore, and as it is not inside a table."""

_STAGING_LOCK = "_staging_lock"
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://")
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
"""Errors of file systems without hard links."""

_UPLOADS = frozenset({"s3", "gcs", "abfs"})
"""pyarrow's names of file systems on which a file appears when it is closed, and a rename is a copy."""


class Entry(msgspec.Struct, frozen=True):
    """A file: its relative path and its size in bytes."""

    path: str
    size: int


class Place(Protocol):
    """A root with files below it. OSErrors come out as HistoryError, which names the file."""

    url: str
    locks: bool
    """Whether ``locked`` excludes other processes."""

    def files(self, below: str) -> list[Entry]:
        """All files below a directory, sorted by path; none where there is no such directory."""

    def size(self, path: str) -> int | None:
        """Its size in bytes, or None: no such file."""

    def open(self, path: str) -> Any:
        """Something that pyarrow can read from: a path, or a seekable file."""

    def create(self, path: str, content: bytes | Path) -> bool:
        """Write a whole file. False: there is one already, which is left alone."""

    def delete(self, path: str) -> None:
        """Remove a file; no error if it is not there."""

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """Keep other writers out, where the place can."""

    def sweep(self) -> int:
        """Remove what broken writers left staged, unless a writer is at work; the number of removed files."""


class LocalPlace:
    """A directory of this machine."""

    locks = True

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.url = str(self.root)

    def files(self, below: str) -> list[Entry]:
        """See ``Place``."""
        start = self.root / below
        found = [path for path in start.rglob("*") if path.is_file()] if start.is_dir() else []
        return sorted(
            (Entry(path.relative_to(self.root).as_posix(), path.stat().st_size) for path in found),
            key=lambda entry: entry.path,
        )

    def size(self, path: str) -> int | None:
        """See ``Place``."""
        try:
            return (self.root / path).stat().st_size
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _trouble(error, path, self.url) from error

    def open(self, path: str) -> Any:
        """The path itself."""
        return str(self.root / path)

    def create(self, path: str, content: bytes | Path) -> bool:
        """Staged, synced, then linked to its name, which fails if that is taken."""
        target = self.root / path
        staged = self.root / STAGING / uuid.uuid4().hex
        with self._staging():
            try:
                staged.parent.mkdir(parents=True, exist_ok=True)
                target.parent.mkdir(parents=True, exist_ok=True)
                if isinstance(content, Path):
                    shutil.copyfile(content, staged)
                else:
                    staged.write_bytes(content)
                sync(staged)
                _name(staged, target)
                sync(target.parent)
            except FileExistsError:
                return False
            except OSError as error:
                raise _trouble(error, path, self.url) from error
            finally:
                staged.unlink(missing_ok=True)
        return True

    def delete(self, path: str) -> None:
        """Also removes the directories that it leaves empty, unless another process is about to put a file there."""
        target = self.root / path
        try:
            target.unlink(missing_ok=True)
        except OSError as error:
            raise _trouble(error, path, self.url) from error
        with self._nobody_staging() as alone:
            if alone:
                self._without_empty(target)

    def _without_empty(self, gone: Path) -> None:
        for parent in gone.parents:
            if parent == self.root:
                break
            with contextlib.suppress(OSError):
                parent.rmdir()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """A lock that ends with the process, however that ends."""
        with self._opened("_lock") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def sweep(self) -> int:
        """See ``Place``."""
        with self._nobody_staging() as alone:
            left = [self.root / entry.path for entry in self.files(STAGING)] if alone else []
            for staged in left:
                staged.unlink(missing_ok=True)
                self._without_empty(staged)
        return len(left)

    @contextlib.contextmanager
    def _staging(self) -> Iterator[None]:
        """Many stage at once, with or without ``locked``; while they do, no process removes staged files."""
        with self._opened(_STAGING_LOCK) as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            yield

    @contextlib.contextmanager
    def _nobody_staging(self) -> Iterator[bool]:
        """Whether no process stages; if so, none begins until this ends. It never blocks."""
        with self._opened(_STAGING_LOCK) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True

    def _opened(self, name: str) -> BinaryIO:
        """A file to lock by."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            return (self.root / name).open("ab")
        except OSError as error:
            raise _trouble(error, name, self.url) from error


class ArrowPlace:
    """A file system that pyarrow knows: S3, GCS, ABFS, HDFS with its native library."""

    locks = False

    def __init__(self, url: str, filesystem: pafs.FileSystem, root: str) -> None:
        self.url = url
        self._fs = filesystem
        self._root = root.rstrip("/")
        self._uploads = filesystem.type_name in _UPLOADS

    def files(self, below: str) -> list[Entry]:
        """See ``Place``."""
        import pyarrow.fs as pafs

        selector = pafs.FileSelector(f"{self._root}/{below}", allow_not_found=True, recursive=True)
        with _said(below, self.url):
            infos = self._fs.get_file_info(selector)
        cut = len(self._root) + 1
        found = [Entry(info.path[cut:], info.size) for info in infos if info.type == pafs.FileType.File]
        return sorted(found, key=lambda entry: entry.path)

    def size(self, path: str) -> int | None:
        """See ``Place``."""
        import pyarrow.fs as pafs

        with _said(path, self.url):
            info = self._fs.get_file_info(f"{self._root}/{path}")
        return int(info.size) if info.type == pafs.FileType.File else None

    def open(self, path: str) -> Any:
        """A seekable file."""
        with _said(path, self.url):
            return self._fs.open_input_file(f"{self._root}/{path}")

    def create(self, path: str, content: bytes | Path) -> bool:
        """One upload; or staged and renamed, where renaming is a step of its own."""
        if self.size(path) is not None:
            return False
        target = f"{self._root}/{path}"
        staged = target if self._uploads else f"{self._root}/{STAGING}/{uuid.uuid4().hex}"
        with _said(path, self.url):
            if not self._uploads:
                self._fs.create_dir(f"{self._root}/{STAGING}", recursive=True)
                self._fs.create_dir(target.rpartition("/")[0], recursive=True)
            with _reading(content) as source, self._fs.open_output_stream(staged) as sink:
                shutil.copyfileobj(source, sink, 1 << 20)
            if not self._uploads:
                self._fs.move(staged, target)
        return True

    def delete(self, path: str) -> None:
        """See ``Place``."""
        if self.size(path) is not None:
            with _said(path, self.url):
                self._fs.delete_file(f"{self._root}/{path}")

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """No lock: the manifest is read again after each writing."""
        return contextlib.nullcontext()

    def sweep(self) -> int:
        """Always 0: an object store cannot say whether a staged file is still being written."""
        return 0


def place_of(url: str) -> Place:
    """The place behind a path or URL. ConfigError: nothing here knows its scheme."""
    scheme = scheme_of(url)
    if not scheme:
        return LocalPlace(Path(url).expanduser())
    if scheme == "file":
        return LocalPlace(Path(url.removeprefix("file://")))
    return _arrow_place(url, scheme)


def scheme_of(url: str) -> str:
    """The scheme of a URL, "" for a path."""
    match = _SCHEME.match(url)
    return match[1] if match else ""


def _arrow_place(url: str, scheme: str) -> Place:
    import pyarrow as pa
    import pyarrow.fs as pafs

    # Hadoop's names of what pyarrow calls otherwise.
    known = {"s3a": "s3", "s3n": "s3"}.get(scheme, scheme)
    try:
        filesystem, root = pafs.FileSystem.from_uri(known + url[len(scheme) :])
    except (OSError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ConfigError(
            f"cannot open the corpus: {' '.join(str(error).split())[:300]}",
            where=url,
            cause="the credentials or the endpoint are missing, or pyarrow does not know this scheme",
            next_step="give a local directory, s3://, gs://, abfss:// or hdfs:// (docs/corpus.md)",
        ) from error
    return ArrowPlace(url, filesystem, root)


@contextlib.contextmanager
def _said(path: str, url: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _trouble(error, path, url) from error


def read_bytes(place: Place, path: str) -> bytes:
    """A whole small file."""
    source = place.open(path)
    if isinstance(source, str):
        with _said(path, place.url):
            return Path(source).read_bytes()
    with source, _said(path, place.url):
        return bytes(source.read())


def _reading(content: bytes | Path) -> Any:
    return content.open("rb") if isinstance(content, Path) else io.BytesIO(content)


def _name(staged: Path, target: Path) -> None:
    """Give a staged file its name. FileExistsError: the name is taken, which a link detects for certain."""
    try:
        os.link(staged, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if target.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from error
        staged.rename(target)


def _trouble(error: OSError, path: str, url: str) -> HistoryError:
    return HistoryError(
        f"the corpus refuses: {error.strerror or ' '.join(str(error).split())[:300]}",
        where=f"{path} in {url}",
        cause="the disk is full, or the permission or the network is missing",
        next_step="repair that and call the command again: what is stored stays stored",
    )
