"""A place that only Hadoop knows: whole files through the file systems of a running Spark session.

Guarantees: staged and renamed, as renames are atomic where Hadoop is at home; bytes come and go through the driver, one
file at a time. On workers such a place cannot be opened: events reach them as the content of Spark's binary files
(``checking``). Out of scope: credentials: they are settings of Spark (``--spark-conf spark.hadoop.…``).
"""

from __future__ import annotations

import contextlib
import io
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.core.errors import HistoryError
from harness.pipeline.places import STAGING, Entry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class HadoopPlace:
    """A Hadoop file system."""

    locks = False
    through_spark = True

    def __init__(self, spark: SparkSession, url: str) -> None:
        from py4j.protocol import Py4JError

        self.url = url.rstrip("/")
        self._jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - the documented way to Hadoop's classes
        conf: Any = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
        try:
            self._root: Any = self._path("")
            self._fs = self._root.getFileSystem(conf)
            self._home = self._fs.makeQualified(self._root).toString()
        except Py4JError as error:
            raise _trouble(error, "", url) from error

    def files(self, below: str) -> list[Entry]:
        """See ``Place``."""
        with self._said(below):
            start = self._path(below) if below else self._root
            if not self._fs.exists(start):
                return []
            found, listed = [], self._fs.listFiles(start, True)
            while listed.hasNext():
                status = listed.next()
                found.append(Entry(status.getPath().toString()[len(self._home) + 1 :], status.getLen()))
        return sorted(found, key=lambda entry: entry.path)

    def size(self, path: str) -> int | None:
        """See ``Place``."""
        with self._said(path):
            target = self._path(path)
            return int(self._fs.getFileStatus(target).getLen()) if self._fs.exists(target) else None

    def open(self, path: str) -> Any:
        """The whole file, in memory."""
        with self._said(path), tempfile.TemporaryDirectory(prefix="dethrone-hadoop-") as directory:
            local = Path(directory) / "file"
            self._fs.copyToLocalFile(False, self._path(path), self._jvm.org.apache.hadoop.fs.Path(local.as_uri()), True)
            return io.BytesIO(local.read_bytes())

    def create(self, path: str, content: bytes | Path) -> bool:
        """Staged, then renamed; a rename to a name that is taken fails."""
        if self.size(path) is not None:
            return False
        staged, target = self._path(f"{STAGING}/{uuid.uuid4().hex}"), self._path(path)
        with self._said(path), tempfile.TemporaryDirectory(prefix="dethrone-hadoop-") as directory:
            local = content if isinstance(content, Path) else Path(directory) / "file"
            if isinstance(content, bytes):
                local.write_bytes(content)
            source = self._jvm.org.apache.hadoop.fs.Path(local.absolute().as_uri())
            self._fs.mkdirs(target.getParent())
            self._fs.copyFromLocalFile(False, True, source, staged)
            if self._fs.rename(staged, target):
                return True
            self._fs.delete(staged, False)
        if self.size(path) is None:
            raise HistoryError("the corpus refuses: the rename failed", where=f"{path} in {self.url}")
        return False

    def delete(self, path: str) -> None:
        """See ``Place``."""
        with self._said(path):
            self._fs.delete(self._path(path), False)

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """No lock: the manifest is read again after each writing."""
        return contextlib.nullcontext()

    def sweep(self) -> int:
        """None: nobody can tell whether what is staged is still being written."""
        return 0

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.url}/{path}" if path else self.url)

    @contextlib.contextmanager
    def _said(self, path: str) -> Any:
        from py4j.protocol import Py4JError

        try:
            yield
        except Py4JError as error:
            raise _trouble(error, path, self.url) from error


def _trouble(error: Exception, path: str, url: str) -> HistoryError:
    java = getattr(error, "java_exception", None)
    what = java.toString() if java is not None else str(error)
    return HistoryError(
        f"Hadoop refuses: {' '.join(str(what).split())[:300]}",
        where=f"{path} in {url}" if path else url,
        cause="its jar, its credentials or its network are missing",
        next_step="add them: --spark-conf spark.jars.packages=… --spark-conf spark.hadoop.…=…",
    )
