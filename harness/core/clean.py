r"""Text from outside on its way to a person or a CI service: one place that makes it harmless.

Roles, names, logs and all else in a run directory may carry escape sequences (colours, OSC 52 for the clipboard),
letters that change the direction of what follows, line ends that forge lines of ours, or commands that a CI runner
obeys (``::error::``). Guarantees: pure; what is taken out leaves a mark (``\ufffd``), so that it is seen; twice is
once. Out of scope: markup of the place where a text lands (XML, HTML, Markdown), which is each writer's own.
"""

from __future__ import annotations

import re
from html import escape as _escape
from typing import IO

LINE_MAX = 4000
"""Characters of a text that is one line."""

_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_LINE_ENDS = re.compile("[\t\n\x0b\x0c\r\x85\u2028\u2029]+")
_COMMAND = re.compile(r"^([ \t]*):(?=:)|##(?=\[)", re.MULTILINE)


def clean(text: str) -> str:
    """``text`` without characters that do something instead of being shown; lines stay lines."""
    return _UNSAFE.sub("\ufffd", text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """``text`` as one line, cut with an ellipsis."""
    line = _UNSAFE.sub("\ufffd", _LINE_ENDS.sub(" ", text))
    return line if len(line) <= LINE_MAX else f"{line[: LINE_MAX - 1]}…"


def for_output(text: str) -> str:
    """``clean``, and no line is a command to a CI runner (``::error::``, ``##[error]``)."""
    return without_commands(clean(text))


def without_commands(text: str) -> str:
    """No line of ``text`` is a command to a CI runner; everything else stays."""
    return _COMMAND.sub(lambda found: "#·#" if found[1] is None else f"{found[1]}:·", text)


def in_json(text: str) -> str:
    """Encoded JSON that means the same and holds only characters that are shown."""
    text = _UNSAFE.sub(_escaped, text)
    return text.replace("##[", "#\\u0023[")


def in_html(text: str) -> str:
    """``clean`` and escaped for HTML, in elements and in quoted attributes."""
    return _escape(clean(text))


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


class Guarded:
    """A stream for lines that a CI service may read: none of them is a command. For ``rich``, which styles the text."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._held = ""
        """The line that has not ended yet: only then is it known whether it is a command."""

    def write(self, text: str) -> int:
        """Write the lines that are whole, without commands."""
        whole, ends, self._held = (self._held + text).rpartition("\n")
        if ends:
            self._stream.write(without_commands(whole + ends))
        return len(text)

    def flush(self) -> None:
        """Write what is there, and flush the stream."""
        held, self._held = self._held, ""
        if held:
            self._stream.write(without_commands(held))
        self._stream.flush()

    def isatty(self) -> bool:
        """Of the stream."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Of the stream."""
        return self._stream.fileno()

    @property
    def encoding(self) -> str:
        """Of the stream."""
        return getattr(self._stream, "encoding", None) or "utf-8"
