"""Parts of a history in columns, which answer as those in memory do (``chunks``).

Guarantees: objects are made of those events only that are asked for; a row that is no event is a HistoryError once it
is looked at. Out of scope: the order of a node's trace events, which rows cannot be put into (``long_history``).
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from dethrone.harness.core import arrow_arrays, rows
from dethrone.harness.core.chunks import ALL, E, Note, nodes_of
from dethrone.harness.core.columns import (
    Bools,
    Codes,
    Dictionary,
    Ints,
    ObservedColumns,
    TracedColumns,
    changes,
)
from dethrone.harness.core.errors import HistoryError
from dethrone.harness.core.events import Event, Invoke, Traced
from dethrone.harness.core.log_columns import LogColumns, log_columns
from dethrone.harness.core.op_columns import Asked, Returned, Values

if TYPE_CHECKING:
    import pyarrow as pa

_SHORT_MAX = 2**31 - 1


class RowChunk:
    """Events in columns: a batch whose words are dictionaries (``rows.WORDS``)."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._made: dict[type, Sequence[Any]] = {}
        self._filled: dict[str, Any] = {}
        """Column → its values as numbers: several views take the same."""
        self._traced: dict[int, Traced] = {}
        """Place in ``table`` → what was made of it: several views keep the same events."""

    def without(self, kinds: Collection[type[Event]]) -> Mapping[type, Sequence[Any]]:
        """See ``Chunk``."""
        tags = {str(kind.__struct_config__.tag) for kind in kinds}
        coded = self._batch.column("type")
        codes = [code for code, tag in enumerate(coded.dictionary.to_pylist()) if tag not in tags]
        found: dict[type, list[Any]] = defaultdict(list)
        for event in self._events(np.flatnonzero(np.isin(self._column("type"), codes))):
            found[type(event)].append(event)
        return found

    def of(self, kind: type[E]) -> Sequence[E]:
        """See ``Chunk``."""
        if kind not in self._made:
            mask = self._is("type", str(kind.__struct_config__.tag))
            self._made[kind] = self._events(np.flatnonzero(mask))
        return self._made[kind]

    def asked_to(self, functions: Collection[str]) -> Sequence[Invoke]:
        """See ``Chunk``."""
        return self._events(np.flatnonzero(self._named(functions) & self._is("type", "invoke")))

    def traced(self, names: Collection[str]) -> Sequence[Traced]:
        """See ``Chunk``."""
        held = [self._by_name[name] for name in names if name in self._by_name]
        return self.traced_at(np.sort(np.concatenate(held))) if held else ()

    def traced_at(self, places: Ints) -> Sequence[Traced]:
        """See ``Chunk``."""
        wanted = places.tolist()
        fresh = [place for place in dict.fromkeys(wanted) if place not in self._traced]
        if fresh:
            made = self._events(self._traced_rows[fresh], rows.TRACED)
            self._traced.update(zip(fresh, made, strict=True))
        return [self._traced[place] for place in wanted]

    def notes(self, names: Collection[str], indexed: Collection[str], within: slice = ALL) -> Iterator[Note]:
        """See ``Chunk``."""
        places = np.flatnonzero(self._named(names) & self._all_traced)[within]
        index = self._batch.column("index")
        known = arrow_arrays.known(index)[places]
        bare = known & self._named(indexed)[places]
        columns = ("seq", "group", "node", "incarnation", "name", "term")
        taken = (self._batch.column(name).take(arrow_arrays.indices(places)) for name in columns)
        shell = self._is("source", "shell")[places].tolist()
        numbers = zip(self._column("index")[places].tolist(), known.tolist(), strict=True)
        rest = iter(self._batch.column("rest").take(arrow_arrays.indices(places[~bare])).to_pylist())
        with decoded():
            yield from map(
                Note,
                *map(rows.listed, taken),
                shell,
                [number if there else None for number, there in numbers],
                [None if without else rows.data_in(next(rest)) for without in bare.tolist()],
            )

    def logs(self, names: Collection[str]) -> LogColumns | None:
        """See ``Chunk``."""
        mask, index, rest = (
            self._named(names)[self._traced_rows],
            self._batch.column("index"),
            self._batch.column("rest"),
        )
        rows_of = self._traced_rows[mask]
        return log_columns(
            self.table,
            self.words,
            mask,
            named=self._column("index")[rows_of],
            known=arrow_arrays.known(index)[rows_of],
            rests=lambda places: rest.take(arrow_arrays.indices(rows_of[places])).dictionary_encode(),
        )

    @cached_property
    def words(self) -> Dictionary:
        """See ``Chunk``."""
        return Dictionary()

    @cached_property
    def table(self) -> TracedColumns:
        """See ``Chunk``."""
        mask, words = self._all_traced, self.words
        return TracedColumns(
            seq=self._numbers("seq", mask),
            group=self._codes("group", mask, words),
            node=self._codes("node", mask, words),
            incarnation=self._numbers("incarnation", mask),
            n=self._numbers("n", mask),
            name=self._codes("name", mask, words),
            term=self._numbers("term", mask),
            shell=self._is("source", "shell")[mask],
        )

    @cached_property
    def by_node(self) -> list[tuple[tuple[str, str], Ints]]:
        """See ``Chunk``."""
        return nodes_of(self.table, self.words)

    def observed_columns(self, words: Dictionary) -> ObservedColumns:
        """See ``Chunk``."""
        mask = self._is("type", "observed")
        return ObservedColumns(
            seq=self._numbers("seq", mask),
            t=self._numbers("t", mask),
            lo=self._numbers("lo", mask),
            hi=self._numbers("hi", mask),
            group=self._codes("group", mask, words),
            node=self._codes("node", mask, words),
            incarnation=np.clip(self._numbers("incarnation", mask), -_SHORT_MAX, _SHORT_MAX).astype(np.int32),
            role=self._codes("role", mask, words),
            leads=self._flags("leads", mask),
            term=self._numbers("term", mask),
            leader=self._codes("leader", mask, words),
            voted_for=self._codes("voted_for", mask, words),
            log_term=self._numbers("log_term", mask),
            log_index=self._numbers("log_index", mask),
            commit=self._numbers("commit", mask),
            atomic=self._flags("atomic", mask),
        )

    def asked(self, words: Dictionary) -> Asked:
        """See ``Chunk``."""
        mask = self._is("type", "invoke")
        rest = self._batch.column("rest").take(arrow_arrays.indices(np.flatnonzero(mask)))
        return Asked(
            seq=self._numbers("seq", mask),
            t=self._numbers("t", mask),
            group=self._codes("group", mask, words),
            op=self._numbers("op", mask),
            process=self._numbers("process", mask),
            f=self._codes("name", mask, words),
            target=self._codes("node", mask, words),
            values=_values(rest, rows.value_asked),
        )

    def returned(self, words: Dictionary) -> Returned:
        """See ``Chunk``."""
        mask = self._is("type", "return")
        rest = self._batch.column("rest").take(arrow_arrays.indices(np.flatnonzero(mask)))
        return Returned(
            seq=self._numbers("seq", mask),
            t=self._numbers("t", mask),
            op=self._numbers("op", mask),
            status=self._codes("status", mask, words),
            node=self._codes("node", mask, words),
            values=_values(rest, rows.value_returned),
        )

    def answers(self, naming: str) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
        """See ``Chunk``."""
        batch = self._batch.select(["seq", "group", "rest"])
        taken = batch.take(arrow_arrays.indices(np.flatnonzero(self._is("type", "return") & self._is("status", "ok"))))
        word = f'"{naming}"'
        with decoded():
            for seq, group, rest in zip(*map(rows.listed, taken.columns), strict=True):
                if word in rest:
                    value = rows.value_returned(rest)
                    if isinstance(value, Mapping) and naming in value:
                        yield seq, group, value

    @property
    def last_ns(self) -> int:
        """See ``Chunk``."""
        times = arrow_arrays.numbers(self._batch.column("t"))
        return int(times.max()) if len(times) else 0

    @cached_property
    def _all_traced(self) -> Bools:
        return self._is("type", "traced")

    @cached_property
    def _traced_rows(self) -> Ints:
        """Place in ``table`` → row."""
        return np.flatnonzero(self._all_traced)

    @cached_property
    def _by_name(self) -> dict[str, Ints]:
        """Name → the places of its trace events in ``table``: many views ask for a name that is rare."""
        name = self.table.name
        order = np.argsort(name, kind="stable")
        bounds = [*changes(name[order]).tolist(), len(order)]
        return {self.words.word(int(name[order[lo]])) or "": order[lo:hi] for lo, hi in pairwise(bounds)}

    def _is(self, column: str, word: str) -> Bools:
        coded = self._batch.column(column)
        held = coded.dictionary.to_pylist()
        if word not in held:
            return np.zeros(len(self._batch), dtype=np.bool_)
        mask: Bools = self._column(column) == held.index(word)
        return mask

    def _named(self, names: Collection[str]) -> Bools:
        """Rows with one of these in the column ``name``."""
        coded = self._batch.column("name")
        codes = [code for code, word in enumerate(coded.dictionary.to_pylist()) if word in names]
        mask: Bools = np.isin(self._column("name"), codes)
        return mask

    def _events(self, places: Ints, columns: Sequence[str] = ()) -> Sequence[Any]:
        """The events of these rows, which need these columns only; (): any. HistoryError: one is none."""
        if not len(places):
            return ()
        with decoded():
            batch = self._batch.select(["type", *columns]) if columns else self._batch
            return list(rows.events_of(batch.take(arrow_arrays.indices(places))))

    def _numbers(self, column: str, mask: Bools) -> Ints:
        values: Ints = self._column(column)[mask]
        return values

    def _flags(self, column: str, mask: Bools) -> Bools:
        return arrow_arrays.flags(self._batch.column(column))[mask]

    def _codes(self, column: str, mask: Bools, words: Dictionary) -> Codes:
        coded = self._batch.column(column)
        table = np.array([*map(words.code, coded.dictionary.to_pylist()), -1], dtype=np.int32)
        codes: Codes = table[self._column(column)[mask]]
        return codes

    def _column(self, name: str) -> Any:
        """All numbers of a column, or the codes of its words; -1 where there is none."""
        if name not in self._filled:
            column = self._batch.column(name)
            self._filled[name] = arrow_arrays.numbers(getattr(column, "indices", column))
        return self._filled[name]


@contextlib.contextmanager
def decoded() -> Iterator[None]:
    """Raise a HistoryError for rows that are no events."""
    try:
        yield
    except rows.NOT_EVENTS as error:
        raise HistoryError(f"a row is not an event: {error}") from error


def _values(rest: Any, decode: Callable[[str], Any]) -> Values:
    """Of these texts the values. They wait compressed: there is one an operation, and few are ever looked at."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    batch = pa.record_batch({"rest": rest})
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_batch(batch)
    packed = sink.getvalue()

    def values(places: Ints | None) -> list[Any]:
        texts = pa.ipc.open_stream(packed).read_next_batch().column("rest")
        with decoded():
            return list(
                map(decode, (texts if places is None else texts.take(arrow_arrays.indices(places))).to_pylist())
            )

    return values
