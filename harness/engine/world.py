"""The world as the director meets it: a clock, actions to submit, happenings to wait for.

One interface for real hosts (``live``) and, later, virtual time. Actions and happenings are data. Promises: an action
is submitted only after the events that announce it are in the history. Leaves out any decision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from harness.core.clock import Ns, Span
from harness.core.hoststate import HostState
from harness.core.protocols import Evidence, HostNews, OpOutcome, OpPlan, Reading

# --- actions ----------------------------------------------------------------------------------------------------


class StartNodes(msgspec.Struct, frozen=True):
    """Start the node processes of all hosts, and watch their status."""


class Converge(msgspec.Struct, frozen=True):
    """Bring hosts into these states and prove it; one at a time. ``reset``: reset the TCP flows of healed links."""

    token: int
    before: Mapping[str, HostState]
    wants: Mapping[str, HostState]
    reset: bool = True


class InvokeOp(msgspec.Struct, frozen=True):
    """Let a client process carry out an operation."""

    op: int
    process: int
    plan: OpPlan
    timeout_ns: Ns


Action = StartNodes | Converge | InvokeOp

# --- happenings -------------------------------------------------------------------------------------------------


class OpDone(msgspec.Struct, frozen=True):
    """A client operation ended at ``at``."""

    op: int
    process: int
    at: Ns
    outcome: OpOutcome


class Polled(msgspec.Struct, frozen=True):
    """A status question was answered (``reading``) or not (``error``)."""

    node: str
    span: Span
    reading: Reading | None
    error: str = ""


class ConvergeDone(msgspec.Struct, frozen=True):
    """All hosts concerned have answered, or failed to. ``span``: of the whole transaction."""

    token: int
    span: Span
    evidence: Mapping[str, Evidence]
    resets: Mapping[str, Mapping[str, object]]


class HostSaid(msgspec.Struct, frozen=True):
    """An agent's news."""

    news: HostNews


class Stalled(msgspec.Struct, frozen=True):
    """The harness itself was not scheduled for this long."""

    span: Span
    value_ns: Ns


class Stop(msgspec.Struct, frozen=True):
    """The user wants the run to end now (a signal)."""

    signal: str


class Broken(msgspec.Struct, frozen=True):
    """The harness cannot go on: an error of its own."""

    kind: str
    message: str


Happening = OpDone | Polled | ConvergeDone | HostSaid | Stalled | Stop | Broken


class World(Protocol):
    """Where a run takes place."""

    def now(self) -> Ns:
        """Ns since the run began."""

    def submit(self, action: Action) -> None:
        """Begin an action; its happenings come later. Never blocks for long."""

    def wait(self, until: Ns) -> Sequence[Happening]:
        """Happenings, at least one unless ``until`` passes first. In order of arrival."""
