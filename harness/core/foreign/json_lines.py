"""Our own exchange format: one JSON object a line, which any language writes in ten lines (docs/histories.md).

    {"type": "invoke", "process": 0, "f": "write", "value": 3}
    {"type": "ok", "process": 0, "f": "write", "value": 3}

The order of the lines is the order of the events. ``key`` names one of many objects, ``time`` is in ns of any clock
that does not run backwards; both are optional. Guarantees: a line that is cut off, or that is no such object, is an
error.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from dethrone.harness.core.foreign.jepsen_log import lines
from dethrone.harness.core.foreign.pairing import FileEvent, Pairing


class _Line(msgspec.Struct):
    type: str
    process: int | str
    f: str | None = None
    value: Any = None
    key: Any = None
    time: int | None = None


_DECODER = msgspec.json.Decoder(_Line)


def read(pieces: Iterable[str], where: str, pairing: Pairing) -> None:
    """Feed a file's text into ``pairing``. Raises HistoryError with the line of what is wrong."""
    del where
    for number, line in enumerate(lines(pieces, pairing), start=1):
        if not line or line.isspace():
            continue
        try:
            found = _DECODER.decode(line)
        except (msgspec.DecodeError, ValueError) as error:
            raise pairing.fault(
                f"not an event: {error}", number, cause="another format, or a line that was cut off"
            ) from error
        except RecursionError as error:
            raise pairing.fault("values nest too deep", number) from error
        if found.process == "nemesis":
            pairing.ignore()
            continue
        event = FileEvent(found.type, found.process, found.f, found.key, found.value, found.time, number)
        if not pairing.take(event):
            return
