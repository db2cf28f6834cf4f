"""Every error that Dethrone raises on purpose, in one tree, with the exit code that it means.

An error has four parts: what happened, where, the likely cause and the next command. Harness trouble is never a verdict
about the system, so nothing here is caught by a checker and turned into ``fail``.
"""

from __future__ import annotations


class HarnessError(Exception):
    """Root of all deliberate errors. ``exit_code`` is what the command line returns for it."""

    exit_code = 3

    def __init__(self, what: str, *, where: str = "", cause: str = "", next_step: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.cause = cause
        self.next_step = next_step

    def __str__(self) -> str:
        """All four parts, one per line; parts that were not given are omitted."""
        parts = [self.what]
        if self.where:
            parts.append(f"  where: {self.where}")
        if self.cause:
            parts.append(f"  likely cause: {self.cause}")
        if self.next_step:
            parts.append(f"  next: {self.next_step}")
        return "\n".join(part.replace("\n", "\n  | ") for part in parts)  # a part cannot pass for another


class ConfigError(HarnessError):
    """The user asked for something that does not exist or cannot be combined: exit 64, nothing was started."""

    exit_code = 64


class MissingCapability(HarnessError):  # noqa: N818 - reads as the noun that reports use
    """This machine or these hosts cannot do what was asked (no engine, no permission, no kernel option)."""


class BrokenVariant(HarnessError):  # noqa: N818 - names what is broken
    """A planted bug of the user's own cannot run: its file or its constructor raises. Never "not found"."""


class ClusterError(HarnessError):
    """Hosts or node processes could not be started, reached or torn down."""


class FaultError(HarnessError):
    """A fault could not be carried out in a way that leaves the host in a known state."""


class NotHealed(FaultError):  # noqa: N818 - reads as the state that it reports
    """A host is not back to its empty desired state; ``next_step`` says how to remove what is left."""


class HistoryError(HarnessError):
    """A history file is damaged, foreign, or was written by a newer schema."""


class Interrupted(HarnessError):  # noqa: N818 - a signal, not an error
    """The user stopped the run (SIGINT or SIGTERM): everything was healed and kept."""

    exit_code = 130
