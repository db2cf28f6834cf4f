"""What a system under test is to the engine: its nodes, its answers, its trace, its clients.

Optional abilities are small extra protocols. Guarantees: an adapter observes and describes; it starts nothing itself.
Out of scope: protocol cores, and where nodes run (``.backend``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.interfaces.availability import Available
from dethrone.harness.core.promise import NOISE_MAX_NS, Promise
from dethrone.harness.core.tls import Tls
from dethrone.harness.core.version_limits import VersionLimits


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """Where things of a node lie on its host, as absolute paths. The defaults are those of a container.

    ``run_dir``: configuration and sockets. ``python``: an interpreter with msgspec; ``lib``: the project's code.
    """

    data_dir: str = "/var/lib/dethrone/data"
    log_dir: str = "/var/log/dethrone"
    run_dir: str = "/run/dethrone"
    python: str = "/opt/dethrone/venv/bin/python"
    lib: str = "/opt/dethrone/lib"


IN_A_CONTAINER = Places()


class NodeSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One node as its system's adapter meets it. Paths are inside the host; the last three as in ``Places``."""

    name: str
    address: str
    members: Mapping[str, str]
    """All members: name → address, this node included."""
    knobs: Mapping[str, str]
    profile: str
    variant: str | None
    seed: int
    data_dir: str
    log_dir: str
    run_dir: str = IN_A_CONTAINER.run_dir
    python: str = IN_A_CONTAINER.python
    lib: str = IN_A_CONTAINER.lib
    noise_max_ns: Ns = NOISE_MAX_NS
    """The promise's: what a node shell of ours records as a slow sync or a stall lasts longer."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """How the node process is started: argument vector, environment, working directory.

    ``user``: the user that runs it, by name or number; None: a user that the host reserves for nodes.
    ``capabilities``: what that user may do on its host in addition (``NET_RAW`` …); usually empty. ``rejoining``: the
    argument vector of a node that was removed from its cluster and has nothing stored; empty: the same one.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = {}
    cwd: str = "/"
    user: str | None = None
    capabilities: tuple[str, ...] = ()
    rejoining: tuple[str, ...] = ()


class ClockCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command on a node's host that prints the wall clock of the node itself.

    ``pattern``: finds the time in its output, with the groups ``s``, ``ms``, ``us`` and ``ns``, which add up, or
    ``time``. A skew that is wrong by more than ``tolerance_ns``, besides what the question took, did not take.
    """

    argv: tuple[str, ...]
    pattern: str
    tolerance_ns: Ns


class StatusCall(msgspec.Struct, frozen=True, kw_only=True):
    """How to ask a node for its status without blocking: bytes to a TCP port, and how the answer is framed.

    ``framing``: ``u32`` (4-byte big-endian length, then that many bytes) or ``http`` (one HTTP/1.1 response;
    the reading gets its body, any status but 200 is silence). Connections are kept open and reused. ``answers``: how
    many responses ``request`` asks for, one after another (``http`` only); the reading gets their bodies with a zero
    byte between them. ``tls``: how the connection is encrypted; None: it is not.
    """

    port: int
    request: bytes
    framing: Literal["u32", "http"]
    answers: int = 1
    tls: Tls | None = None


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a status answer; fields as in ``dethrone.harness.core.events.Observed``. ``incarnation`` None: not
    known. ``version``: which of several versions at hand it runs as; None: it does not say.

    ``others``: for a node in several groups, what the same answer says of its other groups. ``tells_leader``: False
    where no node says which leader it follows, so that ``leader`` None means nothing.
    """

    role: str
    leads: bool
    term: int
    leader: str | None = None
    voted_for: str | None = None
    log_end: tuple[int, int] | None = None
    commit: int | None = None
    atomic: bool = True
    incarnation: int | None = None
    group: str = ""
    others: tuple[Reading, ...] = ()
    tells_leader: bool = True
    version: str | None = None


class TraceLine(msgspec.Struct, frozen=True, kw_only=True):
    """One parsed line of a node's trace log. ``mono_ns`` is of the host's monotonic clock.

    In a line without these fields, ``incarnation`` and ``n`` are 0 and ``mono_ns`` is None. The reader then takes the
    running process's incarnation, the number of the line in its output, and the time at which the agent found it.
    """

    incarnation: int
    n: int
    mono_ns: Ns | None
    name: str
    term: int
    role: str
    source: Literal["core", "shell"]
    data: Mapping[str, Any]
    group: str = ""


class Malformed(msgspec.Struct, frozen=True):
    """A line that means to be one of the trace, and is none: how it begins, and what is wrong with it."""

    line: str
    why: str


class OpOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a client operation ended; see ``dethrone.harness.core.events.Return``. Doubt is ``info``."""

    status: Literal["ok", "fail", "info"]
    value: Any = None
    error: str | None = None
    node: str | None = None


class Client(Protocol):
    """One client process' connection(s) to the cluster. Blocking; used by one thread only."""

    def invoke(self, f: str, value: Any, *, target: str, timeout_ns: Ns) -> OpOutcome:
        """Carry out one operation, first at node ``target``. Never raises for trouble of the system: doubt is info.

        Must not retry an operation that may have taken effect. Must return within ``timeout_ns`` plus 1 s.
        """

    def close(self) -> None:
        """Drop connections. Must not touch logical state."""


class RunDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """A system's default run. ``settings``: knobs that differ from the specification in the default RUN."""

    faults: tuple[str, ...] = ("partition", "kill", "pause")
    workload: str = "log"
    nemesis_interval_ns: Ns = 5_000_000_000
    gap_ns_max: Ns | None = None
    """The longest gap from health to the next fault, where no interval was asked for and the strategy is ``Brisk``."""
    time_limit_ns: Ns = 60_000_000_000
    settings: Mapping[str, str] = {}
    stop_at_first_failure: bool = False
    stop_at: tuple[str, ...] = ()
    """Checkers whose certain finding ends such a run; empty: every checker that can watch a running history."""
    base: str | None = None
    """The image that the hosts' image is built on, where hosts are made of images."""
    memory_bytes: int | None = None
    """What one host may use of the machine's memory, where hosts have a limit; None: as the backend has it."""
    pids: int | None = None
    """How many processes and threads one host may have, likewise."""


class System(Protocol):
    """What is tested. Stateless; every method is a function of its arguments."""

    name: str

    def knobs(self, settings: Mapping[str, str], *, profile: str | None, variant: str | None) -> Mapping[str, str]:
        """All knobs with defaults filled in, as words. Raises ConfigError: unknown knob, value, profile, variant."""

    def profiles(self) -> Mapping[str, str]:
        """Profile name → one line; the first is the default."""

    def variants(self) -> Mapping[str, str]:
        """Planted bugs: name → one sentence."""

    def defaults(self) -> RunDefaults:
        """The system's default run, which flags override."""

    def image(self) -> str:
        """Name of the image recipe the hosts need (``node``, ``etcd`` …); backends map it."""

    def files(self, node: NodeSpec) -> Mapping[str, bytes]:
        """Files to place on the host before the first start: absolute path → content."""

    def command(self, node: NodeSpec) -> Command:
        """How the node process is started; the text ``{incarnation}`` in it is replaced by 1, 2 … at each start."""

    def status_call(self, node: NodeSpec) -> StatusCall | None:
        """How to ask for the status; None: cannot be asked."""

    def reading(self, node: NodeSpec, body: bytes) -> Reading | None:
        """What the answer says; None if it is no proper answer."""

    def trace_path(self, node: NodeSpec) -> str | None:
        """The trace log on the host, None if the system writes none."""

    def trace(self, line: bytes) -> TraceLine | None:
        """One line of it; None for a line that is none of ours (counted, never guessed)."""

    def client(self, nodes: Mapping[str, NodeSpec]) -> Client:
        """A new client."""

    def operations(self) -> frozenset[str]:
        """The op names its clients serve: ``append``, ``read``, ``put``, ``get``, ``cas`` and so on."""

    def promise(self, knobs: Mapping[str, str], *, profile: str, voters: int) -> Promise:
        """What it claims under these knobs."""

    def observable(self) -> tuple[str, ...]:
        """See ``dethrone.harness.core.plan.Plan.observable``."""

    def fault_support(self, kind: str) -> Available:
        """Whether this system's processes can suffer that fault kind (a static Go binary cannot be libfaked)."""


@runtime_checkable
class Zoned(Protocol):
    """A system whose description says in which zone each node is."""

    def zones(self, nodes: Sequence[str]) -> Mapping[str, str]:
        """Node → the label of its zone; empty: it says nothing."""


@runtime_checkable
class Electorate(Protocol):
    """A system in which not every node votes, from the start. Without it, all nodes do."""

    def voters(self, nodes: tuple[str, ...], knobs: Mapping[str, str], *, profile: str) -> tuple[str, ...]:
        """Those of ``nodes`` that vote, in their order. Raises ConfigError where the knobs do not fit the nodes.

        They are ``Plan.voters``, and their number is what ``promise`` is asked with.
        """


@runtime_checkable
class Telling(Protocol):
    """A system whose trace lines a foreign program writes: among other output, glued together by a crash, or wrong."""

    def trace_lines(self, line: bytes) -> Sequence[TraceLine | Malformed]:
        """What a line of the trace log holds, in place of ``System.trace``; nothing, if it is not of the trace."""


@runtime_checkable
class Unpreloaded(Protocol):
    """A system into whose processes no library is preloaded for clock faults: their vDSO is changed instead."""

    def unpreloaded(self) -> str:
        """Why: they have no libc, or do not report their clocks."""


@runtime_checkable
class Timekeeping(Protocol):
    """A system whose nodes print their own wall clock on request."""

    def clock_command(self, node: NodeSpec) -> ClockCommand | None:
        """The command, or None: these do not."""


@runtime_checkable
class Shaping(Protocol):
    """A system whose nodes double, reorder and hold back messages themselves: TCP hides what packets suffer."""

    def link_socket(self, node: NodeSpec) -> str:
        """The unix socket where a node takes that; see ``clusters.node.linksock``."""


@runtime_checkable
class Logged(Protocol):
    """A system that knows lines which its nodes never print in health."""

    def fatal(self, node: NodeSpec) -> tuple[tuple[str, ...], str | None]:
        """Plain texts, and the file in which they are looked for; None: the node's output."""


@runtime_checkable
class Speaking(Protocol):
    """A system that names patterns of what its nodes log, for triggers."""

    def log_patterns(self) -> Mapping[str, str]:
        """Name → regular expression; its named group ``term`` is a term. Looked for where ``Logged.fatal`` says."""


@runtime_checkable
class Composed(Protocol):
    """A system whose nodes may be several processes each. What hits a node hits all of them; ``KIND:PROCESS`` one."""

    def processes(self) -> tuple[str, ...]:
        """Their names, in starting order; empty: a node is one process."""

    def logs(self, node: NodeSpec) -> tuple[str, ...]:
        """Where on the host their output is, besides the node's."""


@runtime_checkable
class Secretive(Protocol):
    """A system that marks knobs as secret, besides those whose names say so."""

    def secret_knobs(self) -> tuple[str, ...]:
        """Their names: no file that others can read, no report and no screen shows their values."""


@runtime_checkable
class Guarding(Protocol):
    """A system that gives nodes files which other users of their hosts may not read."""

    def private_files(self, node: NodeSpec) -> frozenset[str]:
        """Those of ``files`` that only the node's user may read."""


@runtime_checkable
class Paced(Protocol):
    """A system whose nodes are asked for their status at a pace of its own."""

    def observe_interval_ns(self) -> Ns:
        """From one question to the next."""


@runtime_checkable
class Profiled(Protocol):
    """A system whose profiles promise so differently that each has a default run of its own."""

    def profile_defaults(self, profile: str) -> RunDefaults:
        """The default run of this profile; what hosts need (``base``, ``memory_bytes``, ``pids``) is the system's."""


@runtime_checkable
class Versioned(Protocol):
    """A system of which not its name says which build is tested."""

    def version(self) -> str:
        """The build that is tested; "" : not known. May run a command of this machine. ConfigError where it fails."""


@runtime_checkable
class Upgradable(Protocol):
    """A system of which several versions are at hand, between which its nodes can change."""

    def versions(self) -> tuple[str, ...]:
        """Their names, from the oldest to the newest; empty: there is only one."""

    def begins_with(self, knobs: Mapping[str, str]) -> str:
        """The version with which the nodes of a run under these knobs begin; "": there is only one."""

    def commands(self, node: NodeSpec) -> Mapping[str, Command]:
        """Version → how the node process is started as it; ``System.command`` is that of the first start."""


@runtime_checkable
class Limited(Protocol):
    """An ``Upgradable`` system not all of whose versions may run side by side, or go back."""

    def limits(self) -> VersionLimits:
        """What is allowed."""


@runtime_checkable
class Scalable(Protocol):
    """A system all of whose timers are knobs, so that it runs as well on a machine that is slower."""

    def at_scale(self, knobs: Mapping[str, str], scale: float) -> Mapping[str, str]:
        """The knobs with every timer ``scale`` times as long. Raises ConfigError where a knob has no room."""


@runtime_checkable
class Enabling(Protocol):
    """A system that can do some of what faults ask of it (``FaultTraits.asks``) only under knobs which are off."""

    def enabling(self, operation: str) -> Mapping[str, str]:
        """The knobs that are set, unless the user sets them, where a fault that asks for this is wanted."""


@runtime_checkable
class Remaking(Protocol):
    """A system whose members can change while it runs. Its ``files`` have what a host needs for that."""

    def changes_members(self) -> Available:
        """Whether a node can be removed from its cluster and added again (``FaultTraits.removes``)."""


@runtime_checkable
class OfThisMachine(Protocol):
    """A system whose program may lie anywhere on this machine."""

    def shown(self) -> tuple[str, ...]:
        """Paths that its nodes need to read, where hosts are made of this machine's own files."""


@runtime_checkable
class Bringing(Protocol):
    """A system with large files that are the same on every node."""

    def large_files(self) -> Sequence[bytes]:
        """Their contents, which ``files`` has as well."""


class LineFormat(Protocol):
    """A published format of trace lines."""

    def every_line(self, line: bytes) -> Sequence[TraceLine | Malformed]:
        """What a line of output holds of the trace; nothing, if it is not of it."""

    def trace_name(self, line: TraceLine) -> str:
        """The name by which the format knows the line."""


class Contrast(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a node that two builds take differently: its event, what ``did`` happen, what the other ``would``."""

    step: int
    event: str
    did: tuple[str, ...]
    would: tuple[str, ...]


@runtime_checkable
class Rerunnable(Protocol):
    """A system whose nodes journal their inputs, so that one of them can be re-executed from its journal."""

    def rerun(
        self, journal: Path, *, incarnation: int | None, variant: str | None
    ) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Each step's event and effects, by their names. HistoryError for a step that differs from what it was live.

        ``variant``: of the run, as its plan names it.
        """

    def contrast(self, journal: Path, *, incarnation: int | None, variant: str | None) -> Contrast | None:
        """Where the build without the variant first does otherwise; None: nowhere. Raises as ``rerun`` does."""
