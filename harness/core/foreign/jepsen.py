"""Jepsen's ``history.edn``: a vector of op maps, or one map after another.

An op map has ``:type`` (``:invoke``, ``:ok``, ``:fail``, ``:info``), ``:process``, ``:f``, ``:value``, and may have
``:time`` (ns), ``:index`` and ``:key``. Processes that are no numbers (``:nemesis``) are passed over and counted.
Keywords are words with their colon; of ``:f`` and ``:type`` the colon goes.

Source: Jepsen's documentation of histories, jepsen.io; github.com/jepsen-io/history.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dethrone.harness.core.foreign.edn import KNOWN_MAX, forms
from dethrone.harness.core.foreign.pairing import FileEvent, Pairing


def read(pieces: Iterable[str], where: str, pairing: Pairing) -> None:
    """Feed a file's text into ``pairing``. Raises HistoryError with the line of what is wrong."""
    last_index = -1
    words = _Words()
    for op, line in forms(pieces, where, unpack=True):
        if not isinstance(op, Mapping):
            raise pairing.fault(
                f"{str(op)[:40]!r} is no operation",
                line,
                cause="a history is a vector of maps, or one map after another",
            )
        index = op.get(":index")
        if type(index) is int:
            if index <= last_index:
                raise pairing.fault(
                    f"the index goes from {last_index} to {index}", line, cause="two histories in one file"
                )
            last_index = index
        process = op.get(":process")
        kind = op.get(":type")
        kind = words[kind] if type(kind) is str else None
        f = op.get(":f")
        if type(process) is not int:
            if kind is None and process is None:
                raise pairing.fault("a map without :type and :process", line, cause="this is no history of Jepsen")
            pairing.ignore()
            continue
        time_ns = op.get(":time")
        event = FileEvent(
            kind or "",
            process,
            words[f] if type(f) is str else None,
            op.get(":key"),
            op.get(":value"),
            time_ns if type(time_ns) is int else None,
            line,
        )
        if not pairing.take(event):
            return


class _Words(dict[str, str]):
    """Words without their colon, as they come up."""

    def __missing__(self, word: str) -> str:
        bare = word.removeprefix(":")
        if len(self) < KNOWN_MAX:
            self[word] = bare
        return bare
