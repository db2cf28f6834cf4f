"""Logs of Jepsen runs that print each operation, such as the etcd logs that Porcupine is tested with.

    INFO  jepsen.util - 0   :invoke :write  3

Fields are set apart by white space; the value is EDN (a time-out stands in its place, which is no value). Lines that
print no operation are passed over and counted; a line that begins like one and is none is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from dethrone.harness.core.foreign.edn import first_form
from dethrone.harness.core.foreign.pairing import FileEvent, Pairing

_BEGINS = re.compile(r"jepsen\.(?:util|core)(?: -|:)\s+(?P<process>-?\d+|:\w[\w-]*)\s+:(?P<rest>\S.*)")
_OP = re.compile(r"(?P<type>invoke|ok|fail|info)\s+:(?P<f>[\w-]+)\s+(?P<value>\S.*?)\s*$")
_INT = re.compile(r"-?\d{1,18}")
LINE_MAX = 64 * 2**20
"""Characters of one line."""


def read(pieces: Iterable[str], where: str, pairing: Pairing) -> None:
    """Feed a file's text into ``pairing``. Raises HistoryError with the line of what is wrong."""
    for number, line in enumerate(lines(pieces, pairing), start=1):
        begins = _BEGINS.search(line)
        if begins is None:
            pairing.ignore(event=False)
            continue
        process = begins["process"]
        if process[0] == ":":
            pairing.ignore()
            continue
        op = _OP.match(begins["rest"])
        if op is None:
            raise pairing.fault(
                f"{line.strip()[:60]!r} is no operation", number, cause="a line is: process, :type, :f, value"
            )
        word = op["value"]
        value = None
        if word != ":timed-out":
            value = int(word) if _INT.fullmatch(word) else _value(word, where, number, pairing)
        event = FileEvent(op["type"], int(process), op["f"], None, value, None, number)
        if not pairing.take(event):
            return


def _value(word: str, where: str, number: int, pairing: Pairing) -> object:
    return first_form(word, where, lambda what: pairing.fault(what, number))


def lines(pieces: Iterable[str], pairing: Pairing) -> Iterable[str]:
    """The lines of a text in pieces. HistoryError for one that does not end within bounds."""
    rest = ""
    number = 0
    for piece in pieces:
        *whole, rest = (rest + piece).split("\n")
        yield from whole
        number += len(whole)
        if len(rest) > LINE_MAX:
            raise pairing.fault(f"a line of more than {LINE_MAX} characters", number + 1)
    if rest:
        yield rest
