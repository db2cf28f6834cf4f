"""A history as one Parquet file: the contract with whatever reads many runs.

Promises: an explicit, versioned schema (its version is in the file's metadata); one row an event, in order; int64 ns,
no unsigned and no time types; zstd; reading back gives equal events. Typed nullable columns hold what queries ask for;
the column ``rest`` holds the other fields as JSON. Leaves out corpora and partitioning. pyarrow is imported on use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from harness.core.errors import HistoryError
from harness.core.events import AnyEvent, Event
from harness.core.history import History

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 1
_META = b"dethrone.schema"
_DAMAGE = b"dethrone.damage"
BATCH = 65_536

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

_RENAMED: Mapping[str, Mapping[str, str]] = {
    "invoke": {"f": "name", "target": "node"},
    "converged": {"host": "node"},
    "noise": {"host": "node", "kind": "name"},
    "fault": {"kind": "name"},
    "trouble": {"kind": "name"},
}
"""Event type → field → column, where they are not called alike."""
_ENCODER = msgspec.json.Encoder()


def write_parquet(history: History, path: Path) -> None:
    """Write the history to ``path``, atomically. HistoryError: the disk refuses, or a number is too large."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = _schema(history.damage)
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
            for batch in _batches(history, schema):
                writer.write_batch(batch)
        temporary.replace(path)
    except (OSError, pa.ArrowInvalid, OverflowError) as error:
        raise HistoryError(f"cannot write the Parquet file: {error}", where=str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


def read_parquet(path: Path) -> History:
    """Read it back. HistoryError for a foreign file, a newer schema or rows that are no events."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise HistoryError(f"cannot read the Parquet file: {error}", where=str(path)) from error
    meta: Mapping[bytes, bytes] = table.schema.metadata or {}
    version = meta.get(_META, b"")
    if not version.isdigit():
        raise HistoryError("not a Dethrone history", where=str(path), cause="a foreign Parquet file")
    if int(version) > SCHEMA_VERSION:
        raise HistoryError(
            f"the Parquet file has schema {int(version)}, this version reads up to {SCHEMA_VERSION}",
            where=str(path),
            next_step="use a newer dethrone",
        )
    try:
        events = [_event(row) for row in table.to_pylist()]
    except (msgspec.DecodeError, msgspec.ValidationError, KeyError, TypeError) as error:
        raise HistoryError(f"a row is no event: {error}", where=str(path)) from error
    damage = meta.get(_DAMAGE)
    return History(events, damage=None if damage is None else damage.decode())


def _schema(damage: str | None) -> pa.Schema:
    import pyarrow as pa

    types = {"int64": pa.int64(), "string": pa.string(), "bool": pa.bool_()}
    meta = {_META: str(SCHEMA_VERSION).encode()}
    if damage is not None:
        meta[_DAMAGE] = damage.encode()
    required = {"seq", "t", "type", "group", "rest"}
    return pa.schema(
        [pa.field(name, types[kind], nullable=name not in required) for name, kind in COLUMNS.items()], metadata=meta
    )


def _batches(history: History, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for start in range(0, len(history.events), BATCH):
        rows = [_row(event) for event in history.events[start : start + BATCH]]
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
    return row


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
        if value is not None and column not in {"type", "rest", "lo", "hi", "log_term", "log_index"}:
            fields[back.get(column, column)] = value
    return msgspec.convert(fields, AnyEvent)  # type: ignore[no-any-return]
