"""A file of another tool, read piece by piece into operations.

Guarantees: memory is bounded by the operations that are kept and one piece of text; bytes that are no UTF-8 are an
error with their line; a file that grows or ends while it is read is read as far as it went. Out of scope: judging.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from dethrone.harness.core.errors import ConfigError, HistoryError
from dethrone.harness.core.files import open_regular
from dethrone.harness.core.foreign import jepsen, jepsen_log, json_lines
from dethrone.harness.core.foreign.pairing import OPERATIONS_MAX, Pairing, independent
from dethrone.harness.core.operations import Operations

PIECE_BYTES = 2**20

Reader = Callable[[Iterable[str], str, Pairing], None]

READERS: dict[str, Reader] = {"jepsen-edn": jepsen.read, "jepsen-log": jepsen_log.read, "jsonl": json_lines.read}
"""Format → what reads it."""


def read_file(
    path: Path, form: str, functions: Iterable[str], *, most: int = OPERATIONS_MAX, timed: bool = False
) -> Operations:
    """The operations of a file. ``functions``: what the model knows; ``timed``: whether it judges by times.

    HistoryError says what is wrong, and where.
    """
    try:
        with open_regular(path) as file:
            return read_pieces(_pieces(file), form, functions, where=str(path), most=most, timed=timed)
    except OSError as error:
        raise HistoryError(f"cannot read the history: {error.strerror}", where=str(path)) from error


def read_pieces(
    pieces: Iterable[bytes],
    form: str,
    functions: Iterable[str],
    *,
    where: str = "",
    most: int = OPERATIONS_MAX,
    timed: bool = False,
) -> Operations:
    """``read_file`` on bytes in pieces."""
    if form not in READERS:
        raise ConfigError(f"unknown format {form!r} of a history", next_step=f"one of: {', '.join(READERS)}")
    pairing = Pairing(where, functions, most=most, reuse=form == "jsonl", timed=timed)
    READERS[form](_text(pieces, where), where, pairing)
    return independent(pairing.operations())


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(PIECE_BYTES):
        yield piece


def _text(pieces: Iterable[bytes], where: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    line = 1
    first = True
    for piece in pieces:
        try:
            text = decoder.decode(piece)
        except UnicodeDecodeError as error:
            at = line + piece[: max(0, error.start)].count(b"\n")
            raise _no_text(where, at) from error
        if first:
            text, first = text.removeprefix("\ufeff"), False
        line += piece.count(b"\n")
        yield text
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise _no_text(where, line) from error


def _no_text(where: str, line: int) -> HistoryError:
    return HistoryError(
        "the history is no UTF-8 text",
        where=f"{where}, line {line}",
        cause="a compressed or binary file",
        next_step="unpack it first",
    )
