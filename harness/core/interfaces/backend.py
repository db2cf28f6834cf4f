"""Where hosts come from, and what can be done to one: deploy, converge, prove, destroy.

Guarantees: a host brings itself into a desired state and proves it from inside; a backend touches only what carries
our label. Out of scope: which states are wanted, and when (``.nemesis``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import msgspec

from dethrone.harness.core.clock import Ns, Span
from dethrone.harness.core.hoststate import DiskModel, HostState
from dethrone.harness.core.interfaces.availability import Available
from dethrone.harness.core.interfaces.system import ClockCommand, Command, Places
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import NOISE_MAX_NS
from dethrone.harness.core.watches import Watch


class DeploySpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a backend needs to make hosts. ``state_dir``: this run's ledger directory (for labels and heal).

    ``voters``: who counts for quorums; empty: all nodes. ``needs``: what the planned faults need of hosts, as in
    ``Fault.needs``. ``memory_bytes``, ``pids``: as in ``RunDefaults``. ``shown``: paths of this machine that nodes
    read, where hosts are made of it (``OfThisMachine``). ``files``: large contents of nodes' files, where the
    backend brings them with its hosts (``Bringing``).
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
    files: tuple[bytes, ...] = ()


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

    The agent replaces the text ``{incarnation}`` in argv and env. ``faketime``: preload libfaketime at offset 0; where
    it is not, clocks are skewed in the vDSO of the process.
    ``link_socket``: a unix socket where the process takes what is to become of its peers' messages, or None.
    ``clock_socket``: a unix socket where the process reports its own clocks (``{"mono_ns", "wall_ns"}``), or None.
    ``clock_command``: how the process is asked for its wall clock, where it only prints it.
    The directories of ``data_dir``, ``log_path`` and ``run_dir`` become the node's own.
    ``fatal``: plain texts; a line that contains one is reported. They are looked for in ``fatal_path``, or in the
    node's output where that is None, and in ``fatal_more``.
    ``watches``: what the agent looks for all the time and reports as ``sighted``.
    ``noise_max_ns``: the promise's; the agent reports a thread of the node that waits for longer.
    ``fails``: the node's data directory is served by a helper that can make it fail and lose power.
    ``disk_model``: what a sync of its files makes durable then.
    ``limits``: what of the node's use the agent must be able to limit by a control group (``cpu``, ``memory``).
    ``keeps_copies``: before each start the agent copies the node's files, for damage that puts older ones back.
    ``versions``: where there are several, name → the command that starts the node as this version, in place of
    ``command``; ``version``: the one of the first start.
    """

    command: Command
    trace_path: str | None = None
    log_path: str
    data_dir: str
    clock_socket: str | None = None
    clock_command: ClockCommand | None = None
    link_socket: str | None = None
    faketime: bool = False
    run_dir: str | None = None
    fatal: tuple[str, ...] = ()
    fatal_path: str | None = None
    fatal_more: tuple[str, ...] = ()
    watches: tuple[Watch, ...] = ()
    noise_max_ns: Ns = NOISE_MAX_NS
    keeps_copies: bool = False
    fails: bool = False
    disk_model: DiskModel = "journal"
    limits: tuple[str, ...] = ()
    versions: Mapping[str, Command] = {}
    version: str = ""


class HostNews(msgspec.Struct, frozen=True, kw_only=True):
    """A report of an agent. ``kind``: ``started``, ``exited``, ``fatal``, ``sighted``, ``trace``, ``noise``,
    ``lost``.

    ``span``: when, in harness ns. ``data``: by kind — started: pid, incarnation, asked, and version where there are
    several; exited: pid, incarnation, code,
    asked, and if the exit was not requested ``lines`` (the end of its output) and ``detail`` as in ``NodeDied``; fatal:
    pattern, line, incarnation; sighted: as in ``Sighted``; trace: lines (list of bytes), incarnation; noise: kind,
    value_ns; lost: the connection broke (not the node).
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
        take: that is ``confirmed=False`` and ``why``. Network probes need peers: see ``Backend``."""

    def reset_flows(self, peers: Sequence[str]) -> Mapping[str, Any]:
        """Reset TCP flows to these peers (``ss -K`` or what is there); says what was done and whether it worked."""

    def run(self, argv: Sequence[str], *, timeout_ns: Ns) -> tuple[int, bytes, bytes]:
        """Run a command on the host: exit code, stdout, stderr (each at most 1 MiB)."""

    def read_file(self, path: str, *, most: int | None = None) -> bytes:
        """A regular file of the host (at most 64 MiB); with ``most`` only its last ``most`` bytes."""

    def write_file(self, path: str, content: bytes, *, private: bool = False) -> None:
        """Atomically replace a file of the host. ``private``: only its owner, the node's user, may read it."""

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


@runtime_checkable
class ShapedHost(Protocol):
    """A host that can try whether the quality of its links can be changed."""

    def unshaped(self) -> str:
        """Try it: why it cannot be changed, or ""."""


@runtime_checkable
class SkewedHost(Protocol):
    """A host that can try whether the clocks of its node can be skewed."""

    def unskewed(self) -> str:
        """Try what does no harm: why they cannot, or ""."""


@runtime_checkable
class ClockAsked(Protocol):
    """A host that can ask its node for its wall clock (``NodeStart.clock_command``)."""

    def ask_clock(self) -> Mapping[str, Any]:
        """``printed``, ``wall_ns``; ``skew_ns`` against the host's clock, known within ``within_ns``; ``wrong``: it is
        more than what is tolerated. ClusterError: no answer that is understood."""


@runtime_checkable
class Probing(Protocol):
    """A backend that can try what its hosts are capable of."""

    def probe(self) -> Mapping[str, Available]:
        """What ``Fault.needs`` may name → whether a host had it that was started for a moment, and is gone."""


OF_GROUPS = frozenset({"cpu", "memory"})
"""What a host can do whose agent has a control group for the node."""
OF_MOUNTS = frozenset({"disks", "power"})
"""What a host can do whose agent may mount over the node's data directory."""
USUAL_CAPABILITIES = frozenset(
    {"iptables", "signals", "faketime", "vdso", "files", "commands", "links", "logs", "frames", "pages", "versions"}
)
"""What faults and triggers may need on hosts of our own. ``vdso``: clocks of any program, where ``faketime`` needs one
with libc. ``versions``: an agent starts the node, as any version. ``logs``, ``frames``, ``pages``: an agent sees what
nodes log, what hosts send, and pages of metrics."""


class Lending(msgspec.Struct, frozen=True, kw_only=True):
    """How a user names hosts that are his.

    ``lent``: the backend of the hosts in a file, or named one by one; nothing is connected. Raises ConfigError for a
    file or word that is wrong. ``usable``: the names of the hosts that a run may use, in their order. ``zones``: name →
    zone, of the hosts that have one.
    """

    lent: Callable[[Path | None, Sequence[str]], Backend]
    usable: Callable[[], tuple[str, ...]]
    zones: Mapping[str, str] = {}


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

    ``memory_dir``: where nodes may keep their data in memory, so that no other process's syncs hold up theirs; each
    host has its own, which lives as long as the host; "": nowhere.

    ``brings``: what ``DeploySpec.files`` has comes with its hosts.
    """

    capabilities: frozenset[str] = USUAL_CAPABILITIES
    lending: Lending | None = None
    refuse: Callable[[Plan], None] = lambda _: None
    shows: Callable[[tuple[str, ...]], tuple[str, ...]] = lambda observable: observable
    enter: Callable[[], None] = lambda: None
    unsafe: Callable[[], Backend] | None = None
    memory_dir: str = ""
    brings: bool = False


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
