"""The small tables of a corpus (runs, verdicts, findings): Parquet files that are only ever added, newest row wins.

A table is a directory of immutable files. A row replaces the rows of the same key that were written before it, so that
rewriting one run loses no other, a crash leaves the old rows, and two writers do not harm each other. ``compact``
writes what is current, one file a date, and then removes what it read. Guarantees: explicit, versioned schemas (int64
ns, no unsigned and no time types); a column that an older file lacks reads as null; a newer file is refused. Out of
scope: what the rows mean.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from dethrone.harness.core.errors import HistoryError
from dethrone.harness.pipeline.places import Place

if TYPE_CHECKING:
    import pyarrow as pa

_META = b"dethrone.table"


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """One table: its directory, columns (name → type), the key of a row, and the column that says which is newest.

    Types: ``int64``, ``string``, ``bool``, ``strings``, ``ints``. With ``several``, all rows of a key that were
    written at its newest moment are current, and older ones none.
    """

    name: str
    version: int
    columns: Mapping[str, str]
    key: tuple[str, ...]
    newest: str
    several: bool = False

    def schema(self) -> pa.Schema:
        """The Arrow schema of new files."""
        import pyarrow as pa

        types = {
            "int64": pa.int64(),
            "string": pa.string(),
            "bool": pa.bool_(),
            "strings": pa.list_(pa.string()),
            "ints": pa.list_(pa.int64()),
        }
        fields = [pa.field(name, types[kind]) for name, kind in self.columns.items()]
        return pa.schema(fields, metadata={_META: f"{self.name} {self.version}".encode()})


def typed(words: str) -> dict[str, str]:
    """``run seed:int64`` as columns: name → type, ``string`` where none is said."""
    split = (word.partition(":") for word in words.split())
    return {name: kind or "string" for name, _, kind in split}


def encode_rows(rows: pa.Table) -> bytes:
    """The bytes of a file with these rows."""
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    pq.write_table(rows, sink, compression="zstd")
    return sink.getvalue()


def rows_of(table: Table, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Rows as an Arrow table of this table's schema."""
    import pyarrow as pa

    return pa.Table.from_pylist([dict(row) for row in rows], schema=table.schema())


def append(place: Place, table: Table, rows: pa.Table, *, name: str) -> bool:
    """Add a file of this name. False: it is there already."""
    return place.create(f"{table.name}/{name}.parquet", encode_rows(rows))


def read(
    place: Place, table: Table, columns: Sequence[str] = (), *, dates: Sequence[str] = (), paths: Sequence[str] = ()
) -> pa.Table:
    """What is current, or these columns of it; of these dates (of these files) only, where some are given."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = tuple(columns) or tuple(table.columns)
    needed = list(dict.fromkeys((*wanted, *table.key, table.newest, *(("date",) if dates else ()))))
    parts = []
    for path in paths or [entry.path for entry in place.files(table.name)]:
        part = _read_file(place, table, path, needed)
        if dates:
            part = part.filter(pc.is_in(part.column("date"), pa.array(list(dates), pa.string())))
        parts.append(part)
    if not parts:
        return table.schema().empty_table().select(list(wanted))
    return current(table, pa.concat_tables(parts)).select(list(wanted))


def current(table: Table, rows: pa.Table) -> pa.Table:
    """The rows that nothing newer replaced, in order of their keys."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if rows.num_rows == 0:
        return rows
    newest = rows.group_by(list(table.key)).aggregate([(table.newest, "max")])
    keys = [*table.key, table.newest]
    newest = newest.rename_columns([*table.key, table.newest])
    numbered = rows.append_column("_row", pa.array(range(rows.num_rows), pa.int64()))
    kept = numbered.select([*keys, "_row"]).join(newest, keys=keys, join_type="inner")
    if not table.several:  # two writers in one nanosecond: the later file
        kept = kept.group_by(list(table.key)).aggregate([("_row", "max")]).rename_columns([*table.key, "_row"])
    order = kept.sort_by([*((name, "ascending") for name in table.key), ("_row", "ascending")])
    return rows.take(pc.cast(order.column("_row"), pa.int64()))


def compact(
    place: Place, table: Table, *, stamp: int, keep: Callable[[pa.Table], pa.Table] | None = None
) -> tuple[int, int]:
    """One file per date instead of many: how many there were, and are. ``keep`` may drop rows no longer needed."""
    old = {entry.path: _dates(place, table, entry.path) for entry in place.files(table.name)}
    holders: dict[str, list[str]] = {}
    for path, dates in old.items():
        for date in dates:
            holders.setdefault(date, []).append(path)
    tidy = {paths[0] for paths in holders.values() if len(paths) == 1 and len(old[paths[0]]) == 1}
    written = 0
    for date, paths in sorted(holders.items()):
        if keep is None and paths[0] in tidy:
            continue
        rows = read(place, table, dates=(date,), paths=paths)
        if keep is not None:
            there, rows = rows.num_rows, keep(rows)
            if paths[0] in tidy and rows.num_rows == there:
                continue
            tidy.discard(paths[0])
        if rows.num_rows:
            append(place, table, rows, name=f"compacted-{date}-{stamp}")
            written += 1
    for path in old:
        if path not in tidy:
            place.delete(path)
    return len(old), len(tidy) + written


def _dates(place: Place, table: Table, path: str) -> set[str]:
    return {str(date) for date in _read_file(place, table, path, ["date"]).column("date").to_pylist()}


def _read_file(place: Place, table: Table, path: str, columns: Sequence[str]) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    where = f"{path} in {place.url}"
    try:
        file = pq.ParquetFile(place.open(path))
        word = (file.schema_arrow.metadata or {}).get(_META, b"").decode()
        name, _, version = word.partition(" ")
        if name != table.name or not version.isdigit():
            raise HistoryError(
                f"not a file of the table {table.name!r}", where=where, next_step="move it out of the corpus"
            )
        if int(version) > table.version:
            raise HistoryError(
                f"the table {name!r} has schema {version}, this version reads up to {table.version}",
                where=where,
                next_step="use a newer dethrone",
            )
        there = [column for column in columns if column in file.schema_arrow.names]
        found = file.read(columns=there)
    except (OSError, pa.ArrowInvalid) as error:
        raise HistoryError(
            f"cannot read the table {table.name!r}: {' '.join(str(error).split())[:200]}",
            where=where,
            cause="cut off while it was copied",
            next_step="`dethrone corpus verify` lists all damage",
        ) from error
    schema = table.schema()
    arrays = [
        found.column(column) if column in there else pa.nulls(found.num_rows, schema.field(column).type)
        for column in columns
    ]
    return pa.table(arrays, schema=pa.schema([schema.field(column) for column in columns], metadata=schema.metadata))
