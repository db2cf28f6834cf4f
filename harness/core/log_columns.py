"""What trace events say of logs, as columns: entries appended, indices named, without an object for each event.

Guarantees: only what is exactly as expected is read; any other event is marked as not ``plain`` and left to a reader of
events. Out of scope: what the events mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import numpy as np

from dethrone.harness.core.columns import Bools, Codes, Dictionary, Ints, TracedColumns
from dethrone.harness.core.rolling import number

APPEND, COMMIT = "log_append", "commit"
_INT_MAX = 2**63 - 1
Index = Annotated[int, msgspec.Meta(ge=1, le=_INT_MAX)]
Number = Annotated[int, msgspec.Meta(ge=-_INT_MAX, le=_INT_MAX)]
Entry = tuple[Index, Number, str | int]


class _Entries(msgspec.Struct):
    entries: list[Entry]


class _Appended(msgspec.Struct, forbid_unknown_fields=True):
    data: _Entries


class _Indices(msgspec.Struct):
    new: Number | None = None
    commit: Number | None = None


class _Committed(msgspec.Struct, forbid_unknown_fields=True):
    data: _Indices


@dataclass(frozen=True, eq=False)
class LogColumns:
    """Trace events, and the entries of those that append some, one after another.

    ``index``: the log index that an event names; -1: none. ``plain``: False where the event itself must be read.
    ``owner``: of each entry the place of its event; ``payload``: its number (``rolling``).
    """

    words: Dictionary
    seq: Ints
    group: Codes
    node: Codes
    incarnation: Ints
    name: Codes
    term: Ints
    shell: Bools
    index: Ints
    plain: Bools
    owner: Ints
    entry_index: Ints
    entry_term: Ints
    payload: Ints

    def __len__(self) -> int:
        return len(self.seq)


def log_columns(
    table: TracedColumns,
    words: Dictionary,
    wanted: Bools,
    *,
    named: Ints,
    known: Bools,
    rests: Callable[[Ints], Any],
) -> LogColumns:
    """The columns of the trace events of ``table`` that are ``wanted``. Of these: the log index ``named``, where it is
    ``known``; and of those at some places ``rests``, as an Arrow dictionary."""
    name, shell = table.name[wanted], table.shell[wanted]
    index, plain = np.where(known, np.maximum(named, -1), -1), np.ones(len(name), dtype=np.bool_)
    appends = np.flatnonzero((name == words.code(APPEND)) & shell)
    held, texts = _coded(rests(appends))  # nodes that store the same say the same
    counts, entry_index, entry_term, payload, sound = _flat(_entries_in(texts))
    plain[appends] = sound[held]
    entries = _spread(counts, held)
    others = np.flatnonzero((name == words.code(COMMIT)) & ~known)
    codes, texts = _coded(rests(others))
    found = _indices_in(texts)
    plain[others] = np.array([one is not None for one in found], dtype=np.bool_)[codes]
    index[others] = np.array([-1 if one is None else max(one, -1) for one in found], dtype=np.int64)[codes]
    return LogColumns(
        words=words,
        seq=table.seq[wanted],
        group=table.group[wanted],
        node=table.node[wanted],
        incarnation=table.incarnation[wanted],
        name=name,
        term=table.term[wanted],
        shell=shell,
        index=index,
        plain=plain,
        owner=np.repeat(appends, counts[held]),
        entry_index=entry_index[entries],
        entry_term=entry_term[entries],
        payload=payload[entries],
    )


def _coded(column: Any) -> tuple[Ints, list[str]]:
    """Codes, and the texts that they stand for."""
    return column.indices.to_numpy(), column.dictionary.to_pylist()


def _entries_in(rests: Sequence[str]) -> list[list[Entry] | None]:
    """The entries in the JSON of each event that appends some; None: not plain."""
    return [None if one is None else one.data.entries for one in _decoded(rests, _Appended)]


def _indices_in(rests: Sequence[str]) -> list[int | None]:
    """The index that each event names as ``new`` or ``commit`` in its JSON, -1 if none; None: not plain."""
    found = (None if one is None else (one.data.new, one.data.commit) for one in _decoded(rests, _Committed))
    return [None if one is None else next((number for number in one if number is not None), -1) for one in found]


def _decoded(rests: Sequence[str], kind: type[Any]) -> list[Any]:
    """All of them at once, which is much faster; one by one only where one does not fit."""
    try:
        whole: list[Any] = msgspec.json.decode("[" + ",".join(rests) + "]", type=list[kind])  # type: ignore[valid-type]
    except (msgspec.DecodeError, ValueError, RecursionError):
        whole = []
    if len(whole) == len(rests):
        return whole
    one_by_one = msgspec.json.Decoder(kind)
    found: list[Any] = []
    for rest in rests:
        try:
            found.append(one_by_one.decode(rest))
        except (msgspec.DecodeError, ValueError, RecursionError):
            found.append(None)
    return found


def _flat(entries: Sequence[list[Entry] | None]) -> tuple[Ints, Ints, Ints, Ints, Bools]:
    """Of some texts: how many entries each has; index, term and payload of these; and which texts are plain."""
    held = [entry for some in entries if some is not None for entry in some]
    payloads = [payload for _, _, payload in held]
    numbers = {payload: number(payload) for payload in set(payloads)}
    return (
        np.array([0 if some is None else len(some) for some in entries], dtype=np.int64),
        np.array([index for index, _, _ in held], dtype=np.int64),
        np.array([term for _, term, _ in held], dtype=np.int64),
        np.array([numbers[payload] for payload in payloads], dtype=np.int64),
        np.array([some is not None for some in entries], dtype=np.bool_),
    )


def _spread(counts: Ints, codes: Ints) -> Ints:
    """The places of the entries of these texts, one text after another; ``counts``: how many entries each text has."""
    starts, sizes = np.cumsum(counts) - counts, counts[codes]
    ends = np.cumsum(sizes)
    within = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - sizes, sizes)
    found: Ints = np.repeat(starts[codes], sizes) + within
    return found
