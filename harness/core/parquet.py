"""A history as one Parquet file: the contract with the readers of many runs.

Guarantees: an explicit, versioned schema (version in the file's metadata); one row per event, in order; int64 ns,
no unsigned and no time types; zstd; reading back gives equal events. A file of an older version lacks some derived
columns and is read all the same. Out of scope: what the columns hold (``rows``), corpora and partitioning. pyarrow is
imported on use.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dethrone.harness.core import rows
from dethrone.harness.core.arrow_arrays import array, numbers
from dethrone.harness.core.errors import HistoryError
from dethrone.harness.core.files import open_regular, sync, why_unwritten
from dethrone.harness.core.history import History
from dethrone.harness.core.row_chunks import RowChunk
from dethrone.harness.core.rows import COLUMNS, DERIVED, WORDS, event_of, events_of, row_of

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 3
"""1: the columns of ``COLUMNS`` alone. 2: besides, the first three of ``DERIVED``. 3: all of ``DERIVED``."""
_META = b"dethrone.schema"
_DAMAGE = b"dethrone.damage"
_LINES = b"dethrone.lines"
"""The digest of the canonical lines of a block, without its end record (``history.LineDigest``)."""
BATCH = 16_384


class NumberTooLargeError(HistoryError):
    """A number of an event has more than the 64 bits that columns hold."""


def write_parquet(history: History, path: Path) -> None:
    """Write the history to ``path``, atomically. HistoryError: the disk refuses, or a number is too large."""
    write_events(history.events, path, damage=history.damage)


def write_events(events: Sequence[Any], path: Path, *, damage: str | None = None, lines: str = "") -> None:
    """Write these events, or a part of a history, to ``path``: on disk and whole when this returns.

    ``lines``: the digest of their lines, if they are a block.
    HistoryError: the disk refuses; NumberTooLargeError, one of them: a number has more than 64 bits.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = _schema(damage, lines)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with pq.ParquetWriter(temporary, schema, compression="zstd", write_page_checksum=True) as writer:
            for batch in _batches(events, schema):
                writer.write_batch(batch)
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)
    except (pa.ArrowInvalid, OverflowError) as error:
        raise NumberTooLargeError(f"columns cannot hold this history: {error}", where=str(path)) from error
    except OSError as error:
        raise HistoryError(
            f"cannot write the Parquet file: {error.strerror or error}", where=str(path), cause=why_unwritten(error)
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def read_parquet(path: Path) -> History:
    """Read it back. HistoryError for a foreign file, a newer schema or rows that are no events."""
    return history_of(_opened(path), where=str(path))


def history_of(*sources: Any, where: str) -> History:
    """``read_parquet`` on anything that pyarrow can read: a path, an open file, a buffer; or several, one history."""
    damage: str | None = None
    events: list[Any] = []
    for source in sources:
        damage, part = events_in(source, where=where)
        events += part
    return History(events, damage=damage)


def stored_events(path: Path) -> tuple[str | None, Iterator[Any]]:
    """``events_in`` of a file of this machine."""
    return events_in(_opened(path), where=str(path))


def events_in(source: Any, *, where: str) -> tuple[str | None, Iterator[Any]]:
    """The damage that the file records, and its events, read in pieces. HistoryError as of ``read_parquet``."""
    import pyarrow.parquet as pq

    with _readable(where):
        # Not read_table: that would take ``name=value`` in the path for more columns.
        file = pq.ParquetFile(source, page_checksum_verification=True)
    return _damage(file.schema_arrow.metadata or {}, where), _in_pieces(file, where)


def _in_pieces(file: Any, where: str) -> Iterator[Any]:
    with _readable(where), file:
        for batch in file.iter_batches(BATCH):
            yield from events_of(batch)


class Block(NamedTuple):
    """What a file says of itself. ``lines``: the digest of its lines, "" if it holds none; ``groups``: where each of
    its row groups begins."""

    rows: int
    lines: str
    groups: tuple[int, ...]


def block_of(path: Path, first: int) -> Block | None:
    """The file as a block; None: damage is noted in it, or its ``seq`` do not run from ``first`` on without a gap."""
    import numpy as np
    import pyarrow.parquet as pq

    with _readable(path), pq.ParquetFile(_opened(path), page_checksum_verification=True) as file:
        metadata = file.schema_arrow.metadata or {}
        if _damage(metadata, str(path)) is not None:
            return None
        seq = file.read(columns=["seq"], use_threads=False).column("seq")
        places = np.concatenate([np.empty(0, np.int64), *map(numbers, seq.chunks)])
        if not np.array_equal(places, np.arange(first, first + len(seq))):
            return None
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        return Block(len(seq), metadata.get(_LINES, b"").decode(), tuple(accumulate(sizes[:-1], initial=0)))


def chunks_of(path: Path) -> Iterator[RowChunk]:
    """A file of columns, batch by batch."""
    import pyarrow.parquet as pq

    words = list(WORDS)
    with (
        _readable(path),
        pq.ParquetFile(_opened(path), page_checksum_verification=True, read_dictionary=words) as file,
    ):
        for batch in file.iter_batches(BATCH, use_threads=False):
            yield RowChunk(batch)


def group_at(path: Path, group: int) -> pa.Table:
    """One row group of a file."""
    import pyarrow.parquet as pq

    with _readable(path), pq.ParquetFile(_opened(path), page_checksum_verification=True) as file:
        return file.read_row_group(group)


@contextlib.contextmanager
def _readable(where: Path | str) -> Iterator[None]:
    """Turn all that can be wrong with a file, or in it, into a HistoryError."""
    import pyarrow as pa

    try:
        yield
    except (OSError, pa.ArrowInvalid) as error:
        raise HistoryError(
            f"cannot read the Parquet file: {error}",
            where=str(where),
            cause="cut off while it was written or copied",
        ) from error
    except rows.NOT_EVENTS as error:
        raise HistoryError(f"a row is not an event: {error}", where=str(where)) from error


def event_at(path: Path, place: int) -> Any:
    """One event of a file: the first (0) or the last (-1). HistoryError as of ``read_parquet``."""
    import pyarrow.parquet as pq

    with _readable(path), pq.ParquetFile(_opened(path), page_checksum_verification=True) as file:
        _damage(file.schema_arrow.metadata or {}, str(path))
        found = file.read_row_group(place % max(1, file.num_row_groups))
        return event_of(found.slice(place % max(1, found.num_rows), 1).to_pylist()[0])


def _opened(path: Path) -> Any:
    try:
        return open_regular(path)
    except OSError as error:
        raise HistoryError(f"cannot read the Parquet file: {error.strerror}", where=str(path)) from error


def faults_begun(*sources: Any, where: str) -> list[tuple[int, str]]:
    """``seq`` and kind of all faults that began and were not skipped, read alone. HistoryError as above."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    wanted = ["seq", "type", "phase", "name", "outcome"]
    with _readable(where):
        table = pa.concat_tables(pq.ParquetFile(source).read(columns=wanted) for source in sources)
    rows = table.filter((pc.field("type") == "fault") & (pc.field("phase") == "begin")).to_pylist()
    return sorted((row["seq"], row["name"]) for row in rows if row["outcome"] != "skipped")


def version_of(metadata: Mapping[bytes, bytes], *, where: str) -> int:
    """The schema version that a file's metadata hold. HistoryError: none, or a newer one than this code knows."""
    version = metadata.get(_META, b"")
    if not version.isdigit():
        raise HistoryError("not a Dethrone history", where=where, cause="a foreign Parquet file")
    if int(version) > SCHEMA_VERSION:
        raise HistoryError(
            f"the Parquet file has schema {int(version)}, this version reads up to {SCHEMA_VERSION}",
            where=where,
            next_step="use a newer dethrone",
        )
    return int(version)


def _damage(metadata: Mapping[bytes, bytes], where: str) -> str | None:
    version_of(metadata, where=where)
    damage = metadata.get(_DAMAGE)
    return None if damage is None else damage.decode()


def schema(damage: str | None = None) -> pa.Schema:
    """The Arrow schema of a file."""
    return _schema(damage)


def _schema(damage: str | None, lines: str = "") -> pa.Schema:
    import pyarrow as pa

    types = {"int64": pa.int64(), "string": pa.string(), "bool": pa.bool_()}
    meta = {_META: str(SCHEMA_VERSION).encode()}
    if damage is not None:
        meta[_DAMAGE] = damage.encode()
    if lines:
        meta[_LINES] = lines.encode()
    required = {"seq", "t", "type", "group", "rest"}
    return pa.schema(
        [pa.field(name, types[kind], nullable=name not in required) for name, kind in {**COLUMNS, **DERIVED}.items()],
        metadata=meta,
    )


def _batches(events: Sequence[Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    last = len(events) - 1
    for start in range(0, len(events), BATCH):
        rows = [row_of(event) for event in events[start : start + BATCH]]
        if start + BATCH > last:
            rows[-1]["last_ns"] = max(event.t for event in events)
        columns = [array([row.get(field.name) for row in rows], field.type) for field in schema]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
