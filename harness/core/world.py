"""The world as the director meets it: a clock, actions to submit, happenings to wait for.

One interface for real hosts (``dethrone.harness.engine.run.live_world``) and virtual time (a ``VirtualBackend``'s).
Actions and happenings are data. Guarantees: an action is submitted only after the events that announce it are in the
history. Out of scope: any decision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from dethrone.harness.core.clock import Ns, Span
from dethrone.harness.core.hoststate import HostState
from dethrone.harness.core.interfaces import Available, Evidence, HostNews, NodeSpec, OpOutcome, OpPlan, Reading, System
from dethrone.harness.core.machine import Target
from dethrone.harness.core.plan import Plan

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
    """Let a client thread carry out an operation.

    ``thread``: its number. After an operation without an answer it continues as another ``Invoke.process``.
    """

    op: int
    thread: int
    plan: OpPlan
    timeout_ns: Ns


class Request(msgspec.Struct, frozen=True):
    """Ask the system for something that is no client's operation: a fault's (``Requesting``). Answered once."""

    token: int
    plan: OpPlan
    timeout_ns: Ns


Action = StartNodes | Converge | InvokeOp | Request

# --- happenings -------------------------------------------------------------------------------------------------


class OpDone(msgspec.Struct, frozen=True):
    """A client operation ended at ``at``."""

    op: int
    thread: int
    at: Ns
    outcome: OpOutcome


class RequestDone(msgspec.Struct, frozen=True):
    """A request ended at ``at``."""

    token: int
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


TraceTold = tuple[int, str, int, str, Literal["core", "shell"], Mapping[str, Any], str]
"""One line of a node's trace, where no file lies in between: n, name, term, role, source, data, group, as
``dethrone.harness.core.events.Traced`` has them; a bare tuple, for it lives only until the director makes an event of
it.
Sequences within ``data`` may be tuples, which a line that was read from a file has as lists."""


class Traces(msgspec.Struct, frozen=True, gc=False):
    """What a node did in one moment of ``span``, in its own order."""

    node: str
    incarnation: int
    span: Span
    lines: Sequence[TraceTold]


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
    """An error of the harness itself. ``ends``: the run cannot continue."""

    kind: str
    message: str
    ends: bool = True


Happening = OpDone | RequestDone | Polled | ConvergeDone | Traces | HostSaid | Stalled | Stop | Broken


class World(Protocol):
    """Where a run takes place."""

    def now(self) -> Ns:
        """Ns since the run began."""

    def submit(self, action: Action) -> None:
        """Begin an action; its happenings come later. Never blocks for long."""

    def wait(self, until: Ns) -> Sequence[Happening]:
        """Happenings, at least one unless ``until`` passes first. In order of arrival."""


# --- virtual time -----------------------------------------------------------------------------------------------


@runtime_checkable
class Simulable(Protocol):
    """A system whose nodes are protocol cores, so that they can also live in virtual time."""

    tells_log: bool
    tells_vote: bool

    def target(self) -> Target:
        """The protocol target."""

    def typed(self, knobs: Mapping[str, str], *, profile: str) -> Any:
        """The target's own knobs from a plan's words."""

    def reading(self, node: NodeSpec, body: bytes) -> Reading | None:
        """See ``System``."""

    def rpc_timeout_ns(self, typed: Any) -> Ns:
        """How long one call between nodes may take."""


class VirtualWorld(World, Protocol):
    """A world in virtual time: ``wait`` moves the clock, nothing else does. Single-threaded."""

    eager: bool
    """Return from ``wait`` at every observation and trace. False: deliver them together with the next other event."""

    @property
    def happened(self) -> int:
        """Events of the simulation so far (deliveries, timers, disk batches …): a figure, not a promise."""

    def logs(self) -> Mapping[str, bytes]:
        """Node → what its processes would have written to their log files; nodes without output are omitted."""


@runtime_checkable
class VirtualBackend(Protocol):
    """A backend without hosts: a run there costs no real time but that of computing it.

    The same plan gives the same happenings, byte for byte, on any machine.
    """

    name: str

    def simulates(self, system: System) -> Available:
        """Whether nodes of this system can live here."""

    def settings(self, words: Mapping[str, str]) -> Mapping[str, str]:
        """All settings of the world with defaults filled in, as words. Raises ConfigError."""

    def world(self, system: System, plan: Plan) -> VirtualWorld:
        """A new world for this plan, at its moment 0."""
