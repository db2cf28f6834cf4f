"""Output without colours: errors, requested data, and lines for people where stdout is not a terminal.

Guarantees: loads nothing heavy, so that a command for programs starts fast. ``terminal`` has colours, tables and live
views.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, Protocol

from dethrone.harness.core.clean import for_output
from dethrone.harness.core.errors import HarnessError
from dethrone.harness.report import json_objects


class Lines(Protocol):
    """Where lines for people go: a ``Screen``, or ``Plain``."""

    def say(self, line: str, *, level: int = 0) -> None:
        """A line, unless they asked for less."""

    def parts(self, *parts: str | tuple[str, str], level: int = 0) -> None:
        """A line in pieces, each as it is or with a style; as ``say``."""

    def result(self, value: Mapping[str, Any]) -> None:
        """The JSON object, if asked for."""


class Plain:
    """Lines for people on stderr, one JSON object on stdout. ``level`` as of a ``Screen``."""

    def __init__(self, *, level: int = 0) -> None:
        self.level = level

    def say(self, line: str, *, level: int = 0) -> None:
        """A line, unless they asked for less."""
        if self.level >= level:
            print(for_output(line), file=sys.stderr)

    def parts(self, *parts: str | tuple[str, str], level: int = 0) -> None:
        """A line in pieces, without their styles."""
        self.say("".join(part if isinstance(part, str) else part[0] for part in parts), level=level)

    def result(self, value: Mapping[str, Any]) -> None:
        """The JSON object."""
        sys.stderr.flush()
        output(json_objects.encode(value))


def colours_wanted() -> bool:
    """Whether stderr is a terminal, or is to be taken for one."""
    return sys.stderr.isatty() or bool(os.environ.get("FORCE_COLOR")) or os.environ.get("TTY_COMPATIBLE") == "1"


def complain(error: HarnessError | str, *, hint: str = "") -> None:
    """An error on stderr: what, where, likely cause, next command."""
    print(for_output(f"dethrone: {error}"), file=sys.stderr)
    if hint:
        print(for_output(f"  next: {hint}"), file=sys.stderr)
    sys.stderr.flush()


def output(text: str) -> None:
    """Plain text on stdout: what was asked for, nothing else."""
    print(for_output(text), flush=True)


def data(text: str) -> None:
    """A line of data on stdout, as it is where a program reads it."""
    print(for_output(text) if sys.stdout.isatty() else text, flush=True)
