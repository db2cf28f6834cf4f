"""Every interface between the layers, in one place: what the engine needs of its four siblings.

Built-ins and plug-ins come through the same entry points. Each interface says what it must NOT do. Optional
abilities are small extra protocols.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from dethrone.harness.core.clock import Ns, Span
from dethrone.harness.core.events import Event, Invoke, Observed, Return
from dethrone.harness.core.history import History
from dethrone.harness.core.hoststate import ClusterState, HostState
from dethrone.harness.core.operations import ModelOptions, Operations
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import NOISE_MAX_NS, Channel, Promise
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import OnEvent, PlannedFault, Schedule
from dethrone.harness.core.verdict import Kind, Verdict

# --- clusters: systems ------------------------------------------------------------------------------------------


class Yes(msgspec.Struct, frozen=True):
    """Available here."""


class No(msgspec.Struct, frozen=True):
    """Not available: why, and what to do about it."""

    why: str
    what_to_do: str = ""


Available = Yes | No


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
    ``capabilities``: what that user may do on its host in addition (``NET_RAW`` …); usually empty.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = {}
    cwd: str = "/"
    user: str | None = None
    capabilities: tuple[str, ...] = ()


class StatusCall(msgspec.Struct, frozen=True, kw_only=True):
    """How to ask a node for its status without blocking: bytes to a TCP port, and how the answer is framed.

    ``framing``: ``u32`` (4-byte big-endian length, then that many bytes) or ``http`` (one HTTP/1.1 response;
    the reading gets its body, any status but 200 is silence). Connections are kept open and reused.
    """

    port: int
    request: bytes
    framing: Literal["u32", "http"]


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a status answer; fields as in ``dethrone.harness.core.events.Observed``. ``incarnation`` None: not
    known.

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
class Logged(Protocol):
    """A system that knows lines which its nodes never print in health."""

    def fatal(self, node: NodeSpec) -> tuple[tuple[str, ...], str | None]:
        """Plain texts, and the file in which they are looked for; None: the node's output."""


@runtime_checkable
class Secretive(Protocol):
    """A system that marks knobs as secret, besides those whose names say so."""

    def secret_knobs(self) -> tuple[str, ...]:
        """Their names: no file that others can read, no report and no screen shows their values."""


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


class LineFormat(Protocol):
    """A published format of trace lines."""

    def every_line(self, line: bytes) -> Sequence[TraceLine | Malformed]:
        """What a line of output holds of the trace; nothing, if it is not of it."""

    def trace_name(self, line: TraceLine) -> str:
        """The name by which the format knows the line."""


@runtime_checkable
class Described(Protocol):
    """A system that a file describes: how ``dethrone doctor FILE`` goes through it, step by step."""

    def ports(self, node: NodeSpec) -> Mapping[str, int]:
        """Name → TCP port on which the node listens once it runs."""

    def explain(self, node: NodeSpec, body: bytes) -> Sequence[tuple[str, Available]]:
        """A status answer field by field: ``term = 3``, or what was looked for and not found."""

    def told(self) -> tuple[str, ...]:
        """The names of the trace lines that the file says the nodes print."""

    def every_line(self, line: bytes) -> Sequence[TraceLine | Malformed]:
        """What a line of the trace log holds, be it named in the file or not."""

    def trace_name(self, line: TraceLine) -> str:
        """The name by which the file knows the line."""

    def samples(self) -> Sequence[tuple[str, Any]]:
        """Operations to try on a healthy cluster, in this order."""

    def remarks(self) -> Sequence[tuple[str, Available]]:
        """What the description omits, and what can therefore not be judged."""


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


class RunDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """A system's default run. ``settings``: knobs that differ from the specification in the default RUN."""

    faults: tuple[str, ...] = ("partition", "kill", "pause")
    workload: str = "log"
    nemesis_interval_ns: Ns = 5_000_000_000
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


# --- clusters: backends and hosts -------------------------------------------------------------------------------


class DeploySpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a backend needs to make hosts. ``state_dir``: this run's ledger directory (for labels and heal).

    ``voters``: who counts for quorums; empty: all nodes. ``needs``: what the planned faults need of hosts, as in
    ``Fault.needs``. ``memory_bytes``, ``pids``: as in ``RunDefaults``. ``shown``: paths of this machine that nodes
    read, where hosts are made of it (``OfThisMachine``).
    """

    run_id: str
    nodes: tuple[str, ...]
    image: str
    base: str | None
    state_dir: str
    voters: tuple[str, ...] = ()
    needs: frozenset[str] = frozenset()
    memory_bytes: int | None = None
    pids: int | None = None
    shown: tuple[str, ...] = ()


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent found after converging or probing. ``lo``/``hi``: command taken … effect probed, harness ns.

    ``confirmed``: the host IS in ``state``, seen from inside. ``detail``: counters, probes, pids, measured skew.
    """

    host: str
    span: Span
    state: HostState
    confirmed: bool
    why: str = ""
    detail: Mapping[str, Any] = {}


CLOCK_SOCKET = "clock.sock"
"""Where in its run directory a node process reports its own clocks, if it does."""


class NodeStart(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent needs to start, restart and tail a node by itself.

    The agent replaces the text ``{incarnation}`` in argv and env. ``faketime``: preload libfaketime at offset 0.
    ``clock_socket``: a unix socket where the process reports its own clocks (``{"mono_ns", "wall_ns"}``), or None.
    The directories of ``data_dir``, ``log_path`` and ``run_dir`` become the node's own.
    ``fatal``: plain texts; a line that contains one is reported. They are looked for in ``fatal_path``, or in the
    node's output where that is None.
    ``noise_max_ns``: the promise's; the agent reports a thread of the node that waits for longer.
    """

    command: Command
    trace_path: str | None
    log_path: str
    data_dir: str
    clock_socket: str | None
    faketime: bool
    run_dir: str | None = None
    fatal: tuple[str, ...] = ()
    fatal_path: str | None = None
    noise_max_ns: Ns = NOISE_MAX_NS


class HostNews(msgspec.Struct, frozen=True, kw_only=True):
    """A report of an agent. ``kind``: ``started``, ``exited``, ``fatal``, ``trace``, ``noise``, ``lost``.

    ``span``: when, in harness ns. ``data``: by kind — started: pid, incarnation, asked; exited: pid, incarnation, code,
    asked, and if the exit was not requested ``lines`` (the end of its output) and ``detail`` as in ``NodeDied``; fatal:
    pattern, line, incarnation; trace: lines (list of bytes), incarnation; noise: kind, value_ns; lost: the connection
    broke (not the node).
    """

    host: str
    kind: str
    span: Span
    data: Mapping[str, Any]


class Host(Protocol):
    """One host through its agent. Thread-safe. Every call is bounded and raises ClusterError when the agent is lost."""

    name: str
    address: str
    sets_timers: bool
    """Whether the node there runs with our configuration; False: its operator configured and started it."""

    @property
    def places(self) -> Places:
        """Where the files of its node lie."""

    @property
    def shares_user(self) -> str:
        """Why its node can touch the agent or its rules: it runs as the agent's user, or as one that we did not choose.

        "": it has a user of its own.
        """

    def measure(
        self, directory: str, peers: Mapping[str, str], *, window_ns: Ns, writes_per_s: int
    ) -> Mapping[str, Any]:
        """How slow the machine is: wake-ups, syncs of small writes near ``directory``, round trips to ``peers``.

        ``wakeups_ns``, ``syncs_ns``, ``trips_ns``: lists; ``stalls_ns``: (since it began, length) of the longer ones;
        ``lost``; ``unreadable``: what could not be measured. Takes ``window_ns`` and a little. Asked only where
        ``sets_timers``: elsewhere nothing could be made slower.
        """

    def prepare(self, start: NodeStart, peers: Mapping[str, str], *, dead_man_ns: Ns) -> None:
        """Send the agent the node's definition and its peers (name → address). Starts nothing."""

    def start_node(self) -> None:
        """Start the node process (next incarnation). News follow."""

    def converge(self, want: HostState) -> Evidence:
        """Bring the host into ``want`` (idempotent) and prove it from inside. Never raises for a fault that did not
        take: that is ``confirmed=False`` and ``why``. Network probes need peers: see ``probe_links``."""

    def send_probes(self, nonce: int) -> None:
        """Send one UDP probe with this nonce to every peer's agent."""

    def probe_links(self, nonce: int, *, expect: Sequence[str], timeout_ns: Ns) -> Mapping[str, Any]:
        """Which peers' probes of ``nonce`` arrived (waits for ``expect``, at most ``timeout_ns``); drop counters."""

    def reset_flows(self, peers: Sequence[str]) -> Mapping[str, Any]:
        """Reset TCP flows to these peers (``ss -K`` or what is there); says what was done and whether it worked."""

    def run(self, argv: Sequence[str], *, timeout_ns: Ns) -> tuple[int, bytes, bytes]:
        """Run a command on the host: exit code, stdout, stderr (each at most 1 MiB)."""

    def read_file(self, path: str, *, most: int | None = None) -> bytes:
        """A regular file of the host (at most 64 MiB); with ``most`` only its last ``most`` bytes."""

    def write_file(self, path: str, content: bytes) -> None:
        """Atomically replace a file of the host."""

    def stop_node(self) -> None:
        """SIGTERM, then SIGKILL after a bound: the end of the run. Not a fault."""

    def close(self) -> None:
        """Drop the connection; the agent stays."""


class Owned(msgspec.Struct, frozen=True, kw_only=True):
    """Something on this machine that carries our label: ``kind`` container or network, its id, the run it is of."""

    backend: str
    kind: str
    id: str
    name: str
    run_id: str
    state_dir: str


USUAL_CAPABILITIES = frozenset({"iptables", "signals", "faketime"})
"""What faults may need on hosts of our own."""


class Lending(msgspec.Struct, frozen=True, kw_only=True):
    """How a user names hosts that are his.

    ``lent``: the backend of the hosts in a file, or named one by one; nothing is connected. Raises ConfigError for a
    file or word that is wrong. ``usable``: the names of the hosts that a run may use, in their order.
    """

    lent: Callable[[Path | None, Sequence[str]], Backend]
    usable: Callable[[], tuple[str, ...]]


class BackendTraits(msgspec.Struct, frozen=True, kw_only=True):
    """In what a backend differs from one that makes hosts of its own, anywhere, for every run: the defaults.

    ``capabilities``: everything that ``Fault.needs`` may name on its hosts. ``lending``: its hosts belong to the user;
    None: it makes them. ``refuse``: raises ConfigError for a run that may not happen on its hosts; connects to nothing.

    ``shows``: of a system's channels (``Plan.observable``) those that can be seen on its hosts. The word
    ``incarnation`` among them: the harness passes nodes their incarnation; if not, the reported one is not believed.

    ``enter``: enters the only place where its hosts can be made, for users who are not root: returns if this process is
    inside, else executes the same command there. Only a command may call it, before it has done anything. Raises
    MissingCapability if the user may not enter. ``unsafe``: the same backend without what keeps this machine safe from
    its hosts, for a caller who was warned; None: it has no such protection.
    """

    capabilities: frozenset[str] = USUAL_CAPABILITIES
    lending: Lending | None = None
    refuse: Callable[[Plan], None] = lambda _: None
    shows: Callable[[tuple[str, ...]], tuple[str, ...]] = lambda observable: observable
    enter: Callable[[], None] = lambda: None
    unsafe: Callable[[], Backend] | None = None


class Backend(Protocol):
    """Where hosts come from."""

    name: str

    @property
    def traits(self) -> BackendTraits:
        """What is special about it, as it is now on this machine. Cheap: nothing is connected."""

    def available(self) -> Available:
        """Whether it can be used on this machine now."""

    def deploy(
        self,
        spec: DeploySpec,
        *,
        origin_ns: Ns,
        news: Callable[[HostNews], None],
        progress: Callable[[str], None],
    ) -> Mapping[str, Host]:
        """Hosts up, agents connected, no node started. ``origin_ns``: harness monotonic ns of the history's 0; all
        spans are relative to it. ``news`` is called from reader threads. On failure everything made is removed."""

    def introduce(self, hosts: Mapping[str, Host]) -> Mapping[str, str]:
        """Once all are prepared and healthy: learn every way by which packets pass between them. No fault is in force.

        Answers host → why links to it cannot all be cut, where that is so.
        """

    def converge_all(self, hosts: Mapping[str, Host], wants: Mapping[str, HostState]) -> Mapping[str, Evidence]:
        """Converge the hosts in ``wants`` as one transaction; then one probe round over ALL ``hosts`` proves the links.

        Evidence for each host in ``wants``. Bounded; a host that is lost has no entry or an unconfirmed one.
        """

    def destroy(self, run_id: str) -> None:
        """Remove everything of that run that carries our label; nothing else. Idempotent."""

    def leftovers(self) -> Sequence[Owned]:
        """Everything on this machine with our label, of any run."""

    def doctor(self) -> Sequence[tuple[str, Available]]:
        """Rows for ``dethrone doctor``."""


@runtime_checkable
class Scalable(Protocol):
    """A system all of whose timers are knobs, so that it runs as well on a machine that is slower."""

    def at_scale(self, knobs: Mapping[str, str], scale: float) -> Mapping[str, str]:
        """The knobs with every timer ``scale`` times as long. Raises ConfigError where a knob has no room."""


@runtime_checkable
class OfThisMachine(Protocol):
    """A system whose program may lie anywhere on this machine."""

    def shown(self) -> tuple[str, ...]:
        """Paths that its nodes need to read, where hosts are made of this machine's own files."""


# --- nemesis ----------------------------------------------------------------------------------------------------


class Occurrence(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a trigger waited for happened, once. ``span``: when, as far as known.

    ``roles``: which node did what in it: always ``actor`` (the node of the event), and ``candidate``, ``voter`` … where
    they make sense. ``key``: equal for two events that report the same occurrence, which counts once.
    """

    event: str
    span: Span
    key: tuple[Any, ...]
    roles: Mapping[str, tuple[str, ...]]
    term: int = 0
    group: str = ""

    @property
    def actor(self) -> str:
        """The node of the event; several are joined by commas."""
        return ",".join(self.roles.get("actor", ()))


class ClusterView(msgspec.Struct, frozen=True, kw_only=True):
    """What the harness believes of the nodes at this moment, from the last observations; for selectors.

    ``leader``: the node that leads in the highest term and answered so within the last second, else None.
    ``occurrence``: what triggered the fault that is being resolved, if something did. ``hit``: named faults of the run
    so far → whom they hit. ``voters``: who counts for quorums and may follow, in the order of ``nodes``; empty: all.
    """

    nodes: tuple[str, ...]
    leader: str | None
    roles: Mapping[str, str]
    terms: Mapping[str, int]
    state: ClusterState
    occurrence: Occurrence | None = None
    hit: Mapping[str, tuple[str, ...]] = {}
    voters: tuple[str, ...] = ()


class Fault(Protocol):
    """One kind of fault. Pure: it computes desired states and touches nothing."""

    kind: str

    def summary(self) -> str:
        """One line for ``list faults``."""

    def check(self, fault: PlannedFault, *, nodes: int) -> None:
        """Raise ConfigError for bad params, an unknown selector or more victims than nodes."""

    def draw(self, rng: Rng, *, nodes: int, hold_ns: Ns, knobs: Mapping[str, Any]) -> PlannedFault:
        """One planned fault of this kind."""

    def resolve(
        self, fault: PlannedFault, view: ClusterView, rng: Rng
    ) -> tuple[tuple[str, ...], Mapping[str, Any]] | str:
        """Victims and concrete params (for a partition: the directed cuts); or why it cannot be done now (skipped)."""

    def apply(
        self, state: ClusterState, victims: tuple[str, ...], params: Mapping[str, Any]
    ) -> Mapping[str, HostState]:
        """``state`` with this fault in force."""

    def needs(self) -> frozenset[str]:
        """Capabilities of hosts that it needs: ``iptables``, ``signals``, ``faketime``."""


class Condition(Protocol):
    """One thing that a trigger can wait for. Pure: it looks at one event at a time and keeps nothing."""

    name: str

    def summary(self) -> str:
        """One line for ``list triggers``."""

    def roles(self) -> tuple[str, ...]:
        """The roles that its occurrences name, ``actor`` first."""

    def channels(self) -> frozenset[str]:
        """Channels of ``Plan.observable``, one of which is enough to see it; empty: it needs none."""

    def hears(self) -> tuple[type[Event], ...]:
        """The types of events that ``match`` has to be asked about."""

    def check(self, trigger: OnEvent, *, nodes: int) -> None:
        """Raise ConfigError for fields it does not have, or a ``by`` that selects by chance."""

    def match(self, event: Any, trigger: OnEvent, asked: Invoke | None) -> Occurrence | None:
        """The occurrence that ``event`` reports, if any. ``asked``: for a Return, the operation that it answers."""

    def concerns(self, trigger: OnEvent, occurrence: Occurrence, view: ClusterView) -> bool:
        """Whether a node that ``trigger.by`` selects did it. Called only where that is not ``anybody``."""


class Strategy(Protocol):
    """Draws whole schedules from a seed. Obligations are met by construction."""

    def draw(
        self, rng: Rng, *, faults: Mapping[str, Fault], nodes: int, time_limit_ns: Ns, interval_ns: Ns, promise: Promise
    ) -> Schedule:
        """A schedule; ConfigError if the time limit is shorter than one fault."""


@runtime_checkable
class Informed(Protocol):
    """A strategy that wants to know what can be seen of the system, to draw no trigger that can never hit."""

    def informed(self, *, observable: frozenset[str], operations: frozenset[str], outsiders: int = 0) -> Strategy:
        """The strategy for that system.

        ``observable``: as in ``Plan``; ``operations``: what the workload does; ``outsiders``: nodes that do not vote.
        """


# --- workloads --------------------------------------------------------------------------------------------------


class OpPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One operation to do: ``target`` is the node to ask first."""

    f: str
    value: Any
    target: str


class Generator(Protocol):
    """Pure source of operations; the engine asks when a client process is free."""

    def next(self, process: int, now: Ns, view: ClusterView) -> OpPlan | Ns | None:
        """An op for this free process; a moment (ns) to ask again; or None: no more of this phase."""

    def returned(self, process: int, op: OpPlan, result: Return) -> None:
        """How it ended (for values that must not be reused, last known leaders …)."""


class Workload(Protocol):
    """What clients do during a run, and after it."""

    name: str

    def needs(self) -> frozenset[str]:
        """Op names that the system's clients must serve; empty: none."""

    def processes(self, nodes: int) -> int:
        """How many client processes by default."""

    def rate_per_s(self) -> int:
        """Ops a second over all processes by default."""

    def main(self, rng: Rng, *, nodes: tuple[str, ...], processes: int, rate_per_s: int) -> Generator:
        """Operations of the main phase."""

    def final(self, rng: Rng, *, nodes: tuple[str, ...], processes: int) -> Generator:
        """Operations after everything healed (final reads); ends by itself."""


# --- checkers ---------------------------------------------------------------------------------------------------


class Checker(Protocol):
    """A pure function: history, promise, plan → verdict. A crash is turned into ``unknown`` by the caller.

    Must not read files or clocks; must not judge what the promise exempts (``n/a`` with its reason).
    """

    name: str
    version: str
    kind: Kind
    needs: frozenset[Channel]

    def check(self, history: History, promise: Promise, plan: Plan) -> Verdict:
        """The verdict."""


class Unmet(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has yet to show, in words, and the fault kinds of which one more may show it."""

    what: str
    kinds: tuple[str, ...]


@runtime_checkable
class Demanding(Protocol):
    """A checker that says, while a run lasts, what it would miss if the run ended now."""

    def unmet(self, history: History, promise: Promise, plan: Plan) -> Sequence[Unmet]:
        """Of a history that holds faults, convergences, marks, processes, noise and who led, and nothing else."""


@runtime_checkable
class Thorough(Protocol):
    """A strategy that can put having each fault kind at least once before everything else."""

    def thorough(self) -> Strategy:
        """The strategy that does."""


@runtime_checkable
class Incremental(Protocol):
    """A safety checker that can also watch a running history, to stop a run at its first finding."""

    def watcher(self, promise: Promise, plan: Plan) -> Callable[[Observed | Any], bool]:
        """A function that is fed events in order and answers True once a finding is certain."""


class Model(Protocol):
    """What clients may see of one kind of object (a register, a set, a log): judges operations of any origin.

    Pure, as a checker is. ``pass`` only if every operation could be judged; a search that gives up is ``unknown`` with
    how far it came; certificates hold places (``dethrone.harness.core.operations``). A model that takes much memory may
    say in ``operations_max`` how many operations of a file it is given unless asked for more.
    """

    name: str

    def summary(self) -> str:
        """One line for ``list models``: the operations that it knows."""

    def functions(self) -> frozenset[str]:
        """The names of the operations that it knows; any other is an error of the file."""

    def judge(self, operations: Operations, options: ModelOptions) -> Verdict:
        """The verdict on these operations."""
