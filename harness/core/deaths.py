"""What the end of a node process says about the system: a crash of its own, the work of another, or doubt. Pure.

Guarantees: an end that the machine or another user of the host may have caused is never called the system's own; before
the first fault an end is called a crash only with positive evidence, because a wrong command line ends a process too.
Out of scope: which ends the harness asked for (``NodeProcess.asked``), and what a checker makes of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

LINES_MAX = 30
"""Last lines of a node's output that are kept for each exit."""
LINE_MAX = 300
"""Characters of each of them."""

_KILLED = (-9, 137)
_STOPPED: Mapping[int, str] = {
    -1: "SIGHUP",
    129: "SIGHUP",
    -2: "SIGINT",
    130: "SIGINT",
    -15: "SIGTERM",
    143: "SIGTERM",
}
"""Exit codes after a signal that another process sent (a shell or a JVM reports 128 + the signal)."""
_CRASH_SIGNALS = (4, 5, 6, 7, 8, 11, 31)
"""SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS: a process gets them for what it did itself."""
_NOT_STARTED = (126, 127)
"""A shell could not execute the command, or did not find it."""
_MEMORY = ("OutOfMemoryError", "out of memory", "Cannot allocate memory", "std::bad_alloc", "MemoryError")
_HOST = ("No space left on device", "address already in use", "Address already in use")
LAST_WORDS = (
    "panic:",
    "fatal error:",
    "AddressSanitizer",
    "ThreadSanitizer",
    "WARNING: DATA RACE",
    "terminate called",
    "Assertion",
    "thread 'main' panicked",
    "segmentation fault",
)
"""What runtimes print when a program crashes, never for a wrong command line."""


def last_lines(output: bytes) -> tuple[str, ...]:
    """The last lines of a process' output, printable and bounded."""
    return bounded(output.decode("utf-8", "replace").splitlines())


def bounded(lines: Iterable[Any]) -> tuple[str, ...]:
    """These lines, at most the last ``LINES_MAX`` that are not empty, each cut and without control characters."""
    kept = [text for text in (printable(str(line)) for line in lines) if text.strip()]
    return tuple(kept[-LINES_MAX:])


def printable(line: str) -> str:
    """A line without control characters, at most ``LINE_MAX`` characters long."""
    cut = line[: LINE_MAX + 1].replace("\t", "    ")
    text = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in cut)
    return text if len(text) <= LINE_MAX else text[: LINE_MAX - 1] + "…"


def telling_line(lines: Sequence[str]) -> str:
    """The line that says why: the first with a runtime's last words, else the last one; "" if there is none."""
    for line in lines:
        if any(words in line for words in LAST_WORDS):
            return line.strip()
    return lines[-1].strip() if lines else ""


def not_its_own(code: int | None, lines: Sequence[str], detail: Mapping[str, Any]) -> str:
    """Why the end may not be the system's own doing; "" if it certainly is."""
    if detail.get("signalled"):
        return f"another user of the host sent it {detail['signalled']}"
    if code in _KILLED:
        if detail.get("oom_kills"):
            return "the kernel killed it for lack of memory; give the host more memory or the node a smaller limit"
        return "a process outside the harness sent SIGKILL, or the kernel did for lack of memory"
    if code is not None and code in _STOPPED:
        return f"a process outside the harness sent {_STOPPED[code]}"
    if code is None:
        return "its exit code is not visible here, and a restart by its operator looks the same"
    for words, why in ((_MEMORY, "it ran out of memory"), (_HOST, "its host refused a request")):
        found = next((line for line in lines if any(word in line for word in words)), None)
        if found is not None:
            return f"{why}, which the machine may have caused: {found.strip()}"
    return ""


def crashed_early(code: int | None, lines: Sequence[str], *, ready: bool) -> bool:
    """Whether an end before the first fault is certainly a crash, and not a wrong command or configuration.

    ``ready``: the process had answered a status request. A process that answered and exits with code 0 may be a
    launcher that left its daemon behind.
    """
    if code is None or code in _NOT_STARTED:
        return False
    if -code in _CRASH_SIGNALS or code - 128 in _CRASH_SIGNALS:
        return True
    if any(words in line for line in lines for words in LAST_WORDS):
        return True
    return ready and code != 0


def code_words(code: int | None) -> str:
    """``with code 2``, ``by signal 11``."""
    if code is None:
        return "with an unknown exit code"
    return f"by signal {-code}" if code < 0 else f"with code {code}"
