"""A history as one Parquet file: the contract with the readers of many runs.

Guarantees: an explicit, versioned schema (version in the file's metadata); one row per event, in order; int64 ns,
no unsigned and no time types; zstd; reading back gives equal events. Typed nullable columns hold what queries ask for;
the column ``rest`` holds the other fields as JSON. Derived columns repeat, for queries, what ``rest`` holds; a file of
an older version lacks some of them and is read all the same. Out of scope: corpora and partitioning. pyarrow is
imported on use.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from dethrone.harness.core.clock import Span
from dethrone.harness.core.errors import HistoryError
from dethrone.harness.core.events import AnyEvent, Event, FaultEvent, Observed, Traced
from dethrone.harness.core.files import open_regular, sync, why_unwritten
from dethrone.harness.core.history import History

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 3
"""1: the columns of ``COLUMNS`` alone. 2: besides, the first three of ``DERIVED``. 3: all of ``DERIVED``."""
_META = b"dethrone.schema"
_DAMAGE = b"dethrone.damage"
BATCH = 16_384

COLUMNS: Mapping[str, str] = {
    "seq": "int64",
    "t": "int64",
    "type": "string",
    "group": "string",
    "lo": "int64",
    "hi": "int64",
    "node": "string",
    "incarnation": "int64",
    "n": "int64",
    "name": "string",
    "source": "string",
    "role": "string",
    "leads": "bool",
    "term": "int64",
    "leader": "string",
    "voted_for": "string",
    "log_term": "int64",
    "log_index": "int64",
    "commit": "int64",
    "atomic": "bool",
    "op": "int64",
    "process": "int64",
    "status": "string",
    "phase": "string",
    "fault": "int64",
    "outcome": "string",
    "value_ns": "int64",
    "rest": "string",
}
"""Column → type. ``node``: of observations, traces and processes; the host of convergences and noise; of an operation
its target, of a return the node that answered. ``name``: of traces and marks; an operation's ``f``; the kind of faults,
noise and trouble."""

DERIVED: Mapping[str, str] = {
    "candidate": "string",
    "voters": "int64",
    "index": "int64",
    "victims": "string",
    "roles": "string",
    "last_ns": "int64",
}
"""Repeated from the data of trace events: for whom a ``vote`` was; how many voters an ``elected`` names; the log index
of ``acked``, ``commit`` and all else that names one. Of faults that begin, as JSON: ``victims``, and ``roles``. On the
last row alone, ``last_ns``: the largest ``t`` of the history. Null where there is none, and in files too old."""

_RENAMED: Mapping[str, Mapping[str, str]] = {
    "invoke": {"f": "name", "target": "node"},
    "converged": {"host": "node"},
    "noise": {"host": "node", "kind": "name"},
    "fault": {"kind": "name"},
    "trouble": {"kind": "name"},
}
"""Event type → field → column, where they are not called alike."""
_ENCODER = msgspec.json.Encoder()
_INT_MAX = 2**63 - 1


class NumberTooLargeError(HistoryError):
    """A number of an event has more than the 64 bits that columns hold."""


class _Data(msgspec.Struct, forbid_unknown_fields=True):
    """The rest of a trace event."""

    data: dict[str, Any] = {}


_DATA = msgspec.json.Decoder(_Data)
_OBSERVED = ("seq", "t", "group", "lo", "hi", "node", "incarnation", "role", "leads", "term", "atomic")
_OPTIONAL = ("leader", "voted_for", "log_term", "log_index", "commit")
_TRACED = ("seq", "t", "group", "lo", "hi", "node", "incarnation", "n", "name", "term", "role", "source", "rest")


def write_parquet(history: History, path: Path) -> None:
    """Write the history to ``path``, atomically. HistoryError: the disk refuses, or a number is too large."""
    write_events(history.events, path, damage=history.damage)


def write_events(events: Sequence[Any], path: Path, *, damage: str | None = None) -> None:
    """Write these events, or a part of a history, to ``path``: on disk and whole when this returns.

    HistoryError: the disk refuses; NumberTooLargeError, one of them: a number has more than 64 bits.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = _schema(damage)
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
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # Not read_table: that would take ``name=value`` in the path for more columns.
        file = pq.ParquetFile(source, page_checksum_verification=True)
    except (OSError, pa.ArrowInvalid) as error:
        raise _unreadable(error, where) from error
    return _damage(file.schema_arrow.metadata or {}, where), _in_pieces(file, where)


def _in_pieces(file: Any, where: str) -> Iterator[Any]:
    import pyarrow as pa

    try:
        with file:
            for batch in file.iter_batches(BATCH):
                yield from _events(batch)
    except (OSError, pa.ArrowInvalid) as error:
        raise _unreadable(error, where) from error
    except (msgspec.DecodeError, ValueError, RecursionError, KeyError, TypeError) as error:
        raise HistoryError(f"a row is not an event: {error}", where=where) from error


def event_at(path: Path, place: int) -> Any:
    """One event of a file: the first (0) or the last (-1). HistoryError as of ``read_parquet``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(_opened(path), page_checksum_verification=True) as file:
            _damage(file.schema_arrow.metadata or {}, str(path))
            rows = file.read_row_group(place % max(1, file.num_row_groups))
    except (OSError, pa.ArrowInvalid) as error:
        raise _unreadable(error, str(path)) from error
    try:
        return _event(rows.slice(place % max(1, rows.num_rows), 1).to_pylist()[0])
    except (msgspec.DecodeError, ValueError, RecursionError, KeyError, TypeError, IndexError) as error:
        raise HistoryError(f"a row is not an event: {error}", where=str(path)) from error


def _unreadable(error: Exception, where: str) -> HistoryError:
    return HistoryError(
        f"cannot read the Parquet file: {error}", where=where, cause="cut off while it was written or copied"
    )


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
    try:
        table = pa.concat_tables(pq.ParquetFile(source).read(columns=wanted) for source in sources)
    except (OSError, pa.ArrowInvalid) as error:
        raise _unreadable(error, where) from error
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


def _schema(damage: str | None) -> pa.Schema:
    import pyarrow as pa

    types = {"int64": pa.int64(), "string": pa.string(), "bool": pa.bool_()}
    meta = {_META: str(SCHEMA_VERSION).encode()}
    if damage is not None:
        meta[_DAMAGE] = damage.encode()
    required = {"seq", "t", "type", "group", "rest"}
    return pa.schema(
        [pa.field(name, types[kind], nullable=name not in required) for name, kind in {**COLUMNS, **DERIVED}.items()],
        metadata=meta,
    )


def _batches(events: Sequence[Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    last = len(events) - 1
    for start in range(0, len(events), BATCH):
        rows = [_row(event) for event in events[start : start + BATCH]]
        if start + BATCH > last:
            rows[-1]["last_ns"] = max(event.t for event in events)
        yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _row(event: Event) -> dict[str, Any]:
    """An event as a row: known fields to their columns, the rest as JSON."""
    fields: dict[str, Any] = {name: getattr(event, name) for name in event.__struct_fields__}
    kind = str(event.__struct_config__.tag)
    row: dict[str, Any] = {"type": kind}
    span = fields.pop("span", None)
    if span is not None:
        row["lo"], row["hi"] = span.lo, span.hi
    log_end = fields.pop("log_end", None)
    if log_end is not None:
        row["log_term"], row["log_index"] = log_end
    renamed = _RENAMED.get(kind, {})
    rest: dict[str, Any] = {}
    for name, value in fields.items():
        column = renamed.get(name, name)
        if column in COLUMNS and column not in row and column != "rest":
            row[column] = value
        else:
            rest[name] = value
    row["rest"] = _ENCODER.encode(rest).decode()
    if type(event) is Traced:
        row.update(_derived(event))
    elif type(event) is FaultEvent and event.phase == "begin":
        row["victims"] = _ENCODER.encode(event.victims).decode()
        row["roles"] = _ENCODER.encode(event.roles).decode()
    return row


def _derived(event: Traced) -> dict[str, Any]:
    data = event.data
    row: dict[str, Any] = {}
    candidate, voters, index = data.get("candidate"), data.get("voters"), data.get("index")
    if event.name == "vote" and isinstance(candidate, str):
        row["candidate"] = candidate
    if event.name == "elected" and isinstance(voters, list | tuple):
        row["voters"] = len(voters)
    if type(index) is int and -_INT_MAX <= index <= _INT_MAX:
        row["index"] = index
    return row


def _events(batch: pa.RecordBatch) -> Iterator[Any]:
    """The events of a batch, in order. The two common kinds column by column, ten times as fast as row by row."""
    import pyarrow.compute as pc

    kinds = batch.column("type").to_pylist()
    sources: dict[str, Iterator[Any]] = {}
    for kind in dict.fromkeys(kinds):
        rows = batch.filter(pc.equal(batch.column("type"), kind)) if len(set(kinds)) > 1 else batch
        sources[kind] = _KINDS.get(kind, _row_by_row)(rows)
    for kind in kinds:
        yield next(sources[kind])


def _row_by_row(rows: pa.RecordBatch) -> Iterator[Any]:
    return map(_event, rows.to_pylist())


def _observed(rows: pa.RecordBatch) -> Iterator[Any]:
    if any(rest != "{}" for rest in rows.column("rest").to_pylist()):
        return _row_by_row(rows)
    columns = [_filled(rows, name) for name in _OBSERVED]
    optional = [rows.column(name).to_pylist() for name in _OPTIONAL]
    return (
        Observed(
            seq=seq,
            t=t,
            group=group,
            span=Span(lo, hi),
            node=node,
            incarnation=incarnation,
            role=role,
            leads=leads,
            term=term,
            leader=leader,
            voted_for=voted_for,
            log_end=None if log_term is None else (log_term, log_index),
            commit=commit,
            atomic=atomic,
        )
        for (seq, t, group, lo, hi, node, incarnation, role, leads, term, atomic), (
            leader,
            voted_for,
            log_term,
            log_index,
            commit,
        ) in zip(zip(*columns, strict=True), zip(*optional, strict=True), strict=True)
    )


def _traced(rows: pa.RecordBatch) -> Iterator[Any]:
    columns = [_filled(rows, name) for name in _TRACED]
    if not set(columns[_TRACED.index("source")]) <= {"core", "shell"}:
        return _row_by_row(rows)  # which says what is wrong
    return (
        Traced(
            seq=seq,
            t=t,
            group=group,
            span=Span(lo, hi),
            node=node,
            incarnation=incarnation,
            n=n,
            name=name,
            term=term,
            role=role,
            source=source,
            data=_DATA.decode(rest).data,
        )
        for seq, t, group, lo, hi, node, incarnation, n, name, term, role, source, rest in zip(*columns, strict=True)
    )


_KINDS: Mapping[str, Callable[[Any], Iterator[Any]]] = {"observed": _observed, "traced": _traced}


def _filled(rows: pa.RecordBatch, name: str) -> list[Any]:
    column = rows.column(name)
    if column.null_count:
        raise TypeError(f"column {name} is empty in row {rows.column('seq').to_pylist()[0]} or after it")
    values: list[Any] = column.to_pylist()
    return values


_NOT_FIELDS = frozenset({"type", "rest", "lo", "hi", "log_term", "log_index", *DERIVED})


def _event(row: Mapping[str, Any]) -> AnyEvent:
    """A row as its event."""
    kind = row["type"]
    back = {column: name for name, column in _RENAMED.get(kind, {}).items()}
    fields: dict[str, Any] = {"type": kind, **msgspec.json.decode(row["rest"])}
    if row["lo"] is not None:
        fields["span"] = [row["lo"], row["hi"]]
    if row["log_term"] is not None:
        fields["log_end"] = [row["log_term"], row["log_index"]]
    for column, value in row.items():
        if value is not None and column not in _NOT_FIELDS:
            fields[back.get(column, column)] = value
    return msgspec.convert(fields, AnyEvent)  # type: ignore[no-any-return]
