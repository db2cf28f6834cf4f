"""Everything that can stand in a history, as frozen data. One event is one JSON line.

Times: ``t`` is when the harness wrote the event down; ``span`` is when it happened, as far as that is known. Both are
ns of the harness' monotonic clock since the run began. Guarantees: no path, host name of the machine, date or version
in any event. Order within a node is ``(node, incarnation, n)``, never ``t``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from dethrone.harness.core.clock import Ns, Span
from dethrone.harness.core.hoststate import HostState

SCHEMA = 1
"""Version of the event schema; a reader refuses a newer one."""

LOG_SKIPPED = "log-skipped"
"""A kind of ``Noise``: a node wrote its log faster than it is searched for fatal lines, so a part was not searched."""

TRACE_MALFORMED = "trace-malformed"
"""A kind of ``Noise``: a line of a node's trace that cannot be understood, so that something it did is not known."""


AGENT_LOST = "agent-lost"
"""A kind of ``Noise``: the agent of a host gave no sign of life, so that what happened there is not known."""


NOISE_FIGURES = frozenset({"sources", "load", "summary"})
"""Kinds of ``Noise`` that say what is watched and how busy the host was: no disturbances themselves."""


class Event(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Base: ``seq`` rises by one per line; ``group`` is the consensus group, "" where a system has only one."""

    seq: int
    t: Ns
    group: str = ""


class Begin(Event, frozen=True, gc=False, kw_only=True, tag="begin"):
    """The first line: schema, system name, member names, seed."""

    schema: int
    system: str
    nodes: tuple[str, ...]
    seed: int


class Mark(Event, frozen=True, gc=False, kw_only=True, tag="mark"):
    """A phase of the run begins: ``warmup``, ``faults``, ``heal``, ``quiet``, ``final``, ``stop``; or a step of the
    schedule: ``step`` with ``data={"step": k, "phase": "begin" | "held" | "healed" | "healthy" | "not-healthy"}``; or
    ``more``: the schedule is over and a step is added, with ``data={"unmet": […]}``."""

    name: str
    data: Mapping[str, Any] = {}


class Invoke(Event, frozen=True, gc=False, kw_only=True, tag="invoke"):
    """A client operation begins. In the history BEFORE it is sent. ``target`` is the node asked first."""

    op: int
    process: int
    f: str
    value: Any
    target: str


class Return(Event, frozen=True, gc=False, kw_only=True, tag="return"):
    """A client operation ends: ``ok``, ``fail`` (certainly no effect, ever) or ``info`` (unknown)."""

    op: int
    status: Literal["ok", "fail", "info"]
    value: Any = None
    error: str | None = None
    node: str | None = None
    """The node that gave the answer, where one did."""


class Observed(Event, frozen=True, gc=False, kw_only=True, tag="observed"):
    """What one node said of itself; true at SOME moment of ``span`` (asked … answered).

    ``leads`` is what the role means, by the system's adapter. ``atomic``: role, term and leader are of one moment.
    ``log_end`` is (term, index). Unknown fields are None; term 0 and leader None mean "none".
    """

    span: Span
    node: str
    incarnation: int
    role: str
    leads: bool
    term: int
    leader: str | None = None
    voted_for: str | None = None
    log_end: tuple[int, int] | None = None
    commit: int | None = None
    atomic: bool = True


class Silent(Event, frozen=True, gc=False, kw_only=True, tag="silent"):
    """A node did not answer a status request. Unknown, not "no leader"."""

    span: Span
    node: str
    error: str


class Traced(Event, frozen=True, gc=False, kw_only=True, tag="traced"):
    """What one node did, from its own trace log, in its own order ``(node, incarnation, n)``.

    ``source``: ``core`` (its own words, a protocol's event names) or ``shell`` (witnessed on wire and disk: ``vote``,
    ``elected``, ``acked``, ``log_append``, ``log_kept``, ``log_truncate``, ``commit``, ``persisted``, ``found``,
    ``answered``, ``config``; see dethrone.harness.core.machine).
    """

    span: Span
    node: str
    incarnation: int
    n: int
    name: str
    term: int
    role: str
    source: Literal["core", "shell"]
    data: Mapping[str, Any] = {}


class NodeProcess(Event, frozen=True, gc=False, kw_only=True, tag="process"):
    """A node process started, answers, or exited. ``asked``: the harness wanted it so.

    ``version``: of a system with several at hand. Started: as which version the process was started; ready: which one
    it reports itself.
    """

    span: Span
    node: str
    incarnation: int
    phase: Literal["started", "ready", "exited"]
    asked: bool
    code: int | None = None
    """Exit code; negative: the signal number."""
    version: str | msgspec.UnsetType = msgspec.UNSET


class NodeDied(Event, frozen=True, gc=False, kw_only=True, tag="died"):
    """What is known of an exit that the harness did not ask for. Follows the ``NodeProcess`` of that exit.

    ``lines``: the last lines of the process' output, bounded. ``detail``: facts from outside the process, where they
    are known: ``oom_kills`` (processes that the kernel killed for lack of memory in its lifetime), ``signalled`` (a
    signal that another user of the host sent).
    """

    span: Span
    node: str
    incarnation: int
    code: int | None = None
    lines: tuple[str, ...] = ()
    detail: Mapping[str, Any] = {}


class FatalLine(Event, frozen=True, gc=False, kw_only=True, tag="fatal-line"):
    """A line of a node's output that contains ``pattern``, which its description declares fatal."""

    span: Span
    node: str
    incarnation: int
    pattern: str
    line: str


class Sighted(Event, frozen=True, gc=False, kw_only=True, tag="sighted"):
    """An agent saw what an armed trigger of the schedule waits for.

    ``name``: what it looks for (``dethrone.harness.core.watches.watch_name``), ``by``: where. ``n``: numbers what this
    agent saw. ``data``: log: ``line`` (its beginning) and the pattern's named ``groups``; wire: ``to``, ``port`` and
    ``bytes`` of the frame; metric: ``before`` and ``now``; ``left_out``: sightings before this one that came too fast
    to be reported.
    """

    span: Span
    node: str
    incarnation: int
    n: int
    by: Literal["log", "wire", "metric"]
    name: str
    data: Mapping[str, Any] = {}


class Converged(Event, frozen=True, gc=False, kw_only=True, tag="converged"):
    """A host was brought from ``before`` to ``after``. Between span.lo and span.hi neither is certain.

    ``confirmed``: probed from inside the host and found so. Not confirmed: neither state is certain until the next
    confirmed one. ``evidence``: counters, probes, signals, measured skew; JSON values.
    """

    span: Span
    host: str
    before: HostState
    after: HostState
    confirmed: bool
    why: str = ""
    evidence: Mapping[str, Any] = {}


class FaultEvent(Event, frozen=True, gc=False, kw_only=True, tag="fault"):
    """One fault of the schedule begins or ends. ``fault`` numbers them within the run; ``victims`` are host names.

    ``installed``: in force and probed on every host concerned · ``skipped``: certainly not in force (``why``) ·
    ``indeterminate``: unknown; at its end: healed now, but not in force all the time until then · ``healed`` /
    ``heal_failed``: its end.
    """

    fault: int
    step: int
    kind: str
    phase: Literal["begin", "end"]
    span: Span
    victims: tuple[str, ...]
    roles: Mapping[str, str] = {}
    """Host → what it was when the fault began (``leader``, ``follower`` …), as last observed."""
    outcome: Literal["installed", "skipped", "indeterminate", "healed", "heal_failed"]
    why: str = ""
    params: Mapping[str, Any] = {}
    evidence: Mapping[str, Any] = {}


class Noise(Event, frozen=True, gc=False, kw_only=True, tag="noise"):
    """Something of the machine disturbed a host, or what is watched for that. ``value_ns``: how long or how far.

    One stretch without progress, ``span``: ``stall`` (the canary was not scheduled) · ``fsync`` (its sync; reports
    while it hangs have ``hanging`` in ``detail``, all of one sync the same ``id``) · ``process`` (a thread of the node
    process; ``source``: ``schedstat``, it waited for a processor, or ``dstate``, it was blocked in the kernel) ·
    ``wall`` (wall − monotonic moved) · ``harness`` (the harness itself stalled; host "").

    Times of which it is not known what happened: ``agent-lost`` (since the last sign of life of the host's agent; not
    ``back``: to the end) · ``news-dropped`` · ``dead-man`` (the host healed itself; reported again, same ``id``, once
    the harness says how it is to be).

    ``sources``: what is read on this host and why something is not, before its node starts and whenever that changes;
    ``machine``: the same word for hosts of one machine. ``{"virtual": true}``: virtual time needs none.

    Figures: ``load`` (growth of host-wide totals in a window) and ``summary``, one a host. Only values over a stored
    threshold are written.
    """

    span: Span
    host: str
    kind: str
    value_ns: Ns
    detail: Mapping[str, Any] = {}


class Trouble(Event, frozen=True, gc=False, kw_only=True, tag="trouble"):
    """Something went wrong with the harness itself, never a statement about the system."""

    kind: str
    message: str


class End(Event, frozen=True, gc=False, kw_only=True, tag="end"):
    """The last line: ``count`` events before it, ``digest`` of their bytes, why the run ended.

    ``reason``: ``complete``, ``first-failure``, ``interrupted``, ``trouble``. Without this line never ``pass``.
    """

    count: int
    digest: str
    reason: str


AnyEvent = (
    Begin
    | Mark
    | Invoke
    | Return
    | Observed
    | Silent
    | Traced
    | NodeProcess
    | NodeDied
    | FatalLine
    | Sighted
    | Converged
    | FaultEvent
    | Noise
    | Trouble
    | End
)
