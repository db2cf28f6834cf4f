"""What the reads of a proof lack: values that its clients wrote and that a read of the same object does not show.

A certificate's lines cut long lists, and what was lost is missing in the middle of one. Guarantees: pure; a read is put
together from its records as checkers do; nothing is said of a read that cannot be. Out of scope: whether a read should
have shown a value; the finding's sentence says that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dethrone.harness.core.errors import HistoryError
from dethrone.harness.core.events import Invoke, Return
from dethrone.harness.core.history import History
from dethrone.harness.core.shown import Reader, is_record, key_of
from dethrone.harness.report.words import invokes

HISTORY_MAX = 500_000
"""Events of a history of which reads are put together again for a sentence."""


def lacking(history: History, certificate: Sequence[int]) -> Mapping[int, Sequence[Any]]:
    """``seq`` of a read's return → the values written in the same proof, to the same key, that it does not show."""
    events = [history.at(seq) for seq in certificate if 0 <= seq < len(history)]
    if not any(isinstance(event, Return) and _is_list(event.value) for event in events):
        return {}
    asked = invokes(history)
    written: dict[str, dict[str, Any]] = {}
    for event in events:
        invoke = asked.get(event.op) if isinstance(event, Invoke | Return) else None
        if invoke is not None and isinstance(invoke.value, list | tuple) and len(invoke.value) == 2:
            key, value = invoke.value
            written.setdefault(f"{invoke.group} {key!r}", {})[repr(value)] = value
    out: dict[int, Sequence[Any]] = {}
    for event in events:
        invoke = asked.get(event.op) if isinstance(event, Return) and event.status == "ok" else None
        if invoke is None or not _is_list(event.value):
            continue
        shown = _read(history, event, asked)
        values = written.get(f"{invoke.group} {invoke.value!r}", {})
        if shown is not None and (missing := [value for word, value in values.items() if word not in shown]):
            out[event.seq] = missing
    return out


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple) or is_record(value)


def _read(history: History, event: Return, asked: Mapping[int, Invoke]) -> set[str] | None:
    """What this read showed, as words; None: it cannot be put together."""
    shown: Any = event.value
    if is_record(shown):
        if len(history) > HISTORY_MAX:
            return None
        key, reader = key_of(asked[event.op]), Reader()
        try:
            for back in history.of(Return):
                invoke = asked.get(back.op)
                if back.seq <= event.seq and is_record(back.value) and invoke is not None and key_of(invoke) == key:
                    shown = reader.read(key, back.value)
        except HistoryError:
            return None
    return set(map(repr, shown)) if isinstance(shown, Sequence) and not isinstance(shown, str) else None
