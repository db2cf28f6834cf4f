"""A fault as a desired state of hosts: what is wrong with each host right now, as data.

Faults overlap and compose: the desired state of the cluster is the fold of all active faults over the empty state,
recomputed whenever one begins or ends, in any order (``HostState.plus``). Healing is converging to the empty state. Out
of scope: how an agent gets there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar, get_args

import msgspec

from dethrone.harness.core.clock import Ns

T = TypeVar("T")

Signal = Literal["SIGKILL", "SIGTERM", "OOM", "POWER"]
"""How a node process is ended. ``OOM``: by the kernel, because it may use less memory than it does. ``POWER``: the host
loses power, and with it every write that was not synced."""


RATE_MAX_PPM = 900_000
"""By how much a clock may run too fast or too slow."""


class Strobe(msgspec.Struct, frozen=True):
    """The wall clock jumps forth and back by ``amplitude_ns``, every ``period_ns``."""

    amplitude_ns: Ns
    period_ns: Ns


class ClockSkew(msgspec.Struct, frozen=True):
    """The wall clock of the host's node process: a constant offset, a rate and possibly a strobe on top.

    ``mono_rate_ppm``: its monotonic clock runs that much too fast; what it gained stays when the skew ends.
    """

    offset_ns: Ns = 0
    rate_ppm: int = 0
    strobe: Strobe | None = None
    mono_rate_ppm: int = 0

    def plus(self, other: ClockSkew) -> ClockSkew:
        """Both at once: the sums, and of two strobes the larger one."""
        strobes = [skew.strobe for skew in (self, other) if skew.strobe is not None]
        return ClockSkew(
            offset_ns=self.offset_ns + other.offset_ns,
            rate_ppm=self.rate_ppm + other.rate_ppm,
            strobe=max(strobes, key=lambda strobe: (strobe.amplitude_ns, -strobe.period_ns), default=None),
            mono_rate_ppm=max(-RATE_MAX_PPM, min(RATE_MAX_PPM, self.mono_rate_ppm + other.mono_rate_ppm)),
        )


class LinkQuality(msgspec.Struct, frozen=True):
    """Quality of what arrives from ``src`` (a host's name): of messages on simulated links, of packets on real ones.

    ``duplicate_percent``: arrive twice. ``reorder_percent``: wait up to ``reorder_ns`` longer and may be overtaken.
    ``hold``: this number of next messages is kept back until this quality ends, then they arrive, in order.
    ``corrupt_percent``: arrive with a bit flipped, and are dropped by who checks their sum. ``rate_kbit_per_s``: what
    the link carries, in thousands of bits a second. These two are absent where they are not wanted.
    """

    src: str
    delay_ns: Ns = 0
    jitter_ns: Ns = 0
    loss_percent: int = 0
    duplicate_percent: int = 0
    reorder_percent: int = 0
    reorder_ns: Ns = 0
    hold: int = 0
    corrupt_percent: int | msgspec.UnsetType = msgspec.UNSET
    rate_kbit_per_s: int | msgspec.UnsetType = msgspec.UNSET

    def plus(self, other: LinkQuality) -> LinkQuality:
        """Both at once, on one link: delays and holds add up, of shares the larger one counts, of rates the smaller."""
        rates = [one.rate_kbit_per_s for one in (self, other) if one.rate_kbit_per_s]
        return LinkQuality(
            src=self.src,
            delay_ns=self.delay_ns + other.delay_ns,
            jitter_ns=self.jitter_ns + other.jitter_ns,
            loss_percent=max(self.loss_percent, other.loss_percent),
            duplicate_percent=max(self.duplicate_percent, other.duplicate_percent),
            reorder_percent=max(self.reorder_percent, other.reorder_percent),
            reorder_ns=max(self.reorder_ns, other.reorder_ns),
            hold=self.hold + other.hold,
            corrupt_percent=max(self.corrupt_percent or 0, other.corrupt_percent or 0) or msgspec.UNSET,
            rate_kbit_per_s=min(rates, default=msgspec.UNSET),
        )


Damage = Literal["flipped", "truncated", "unreadable", "emptied", "removed", "stale"]
"""What is done to one file of a process that is down."""
DAMAGES: tuple[Damage, ...] = get_args(Damage)
Age = Literal["newest", "oldest"]


DiskModel = Literal["journal", "posix"]
"""What a sync makes durable besides the content of its file: all changes of names and lengths before it, as ext4 does;
or nothing, and only a sync of the directory its names, the least that POSIX says."""
DISK_MODELS: tuple[DiskModel, ...] = get_args(DiskModel)
DiskAccess = Literal["reads", "writes", "syncs"]
DISK_ACCESSES: tuple[DiskAccess, ...] = get_args(DiskAccess)


class DiskTrouble(msgspec.Struct, frozen=True):
    """What is wrong with the node's data directory.

    While the process runs: ``full`` and ``readonly`` fail writes, ``eio`` what ``of`` names (absent: writes and
    syncs), ``percent`` of them (absent: all); ``slow`` makes each sync take ``latency_ns``.
    Done once to the files of a process that is down: after a loss of power ``torn`` (the last write that was not synced
    survives in part) and ``unsynced`` (it does not, as without a trouble), by this ``model`` (absent: the run's);
    ``wiped`` (every file is gone), and, to one file: ``flipped`` (one bit), ``truncated`` (its end is cut off),
    ``unreadable``, ``emptied``, ``removed`` and ``stale`` (what it held when the process last started, as after a
    restore from an old backup). ``path``: its name below the data directory, or a pattern
    (``wal/*``); "": any. ``age``: of these the one that was changed last or first; absent: one that the host chooses.
    """

    kind: Literal["full", "readonly", "eio", "slow", "unsynced", "torn", "wiped", Damage]
    latency_ns: Ns = 0
    path: str = ""
    age: Age | msgspec.UnsetType = msgspec.UNSET
    of: DiskAccess | msgspec.UnsetType = msgspec.UNSET
    percent: int | msgspec.UnsetType = msgspec.UNSET
    model: DiskModel | msgspec.UnsetType = msgspec.UNSET


class HostCommand(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent does to its host what the parts of ``HostState`` do not know: three command lines.

    ``check`` exits with 0 exactly while ``begin`` is in force, and ``end`` takes it back. ``of``: names of hosts: the
    three are run for each address of each, which stands for ``{address}`` in their words; ``{run}`` stands for the
    name of the run, as a label, ``{data_dir}`` and ``{run_dir}`` for the node's directories. No shell is in between.
    """

    begin: tuple[str, ...]
    check: tuple[str, ...]
    end: tuple[str, ...]
    of: tuple[str, ...] = ()


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """What the fault ``kind`` does to a host by commands of its own, and what that amounts to.

    ``says``: in words, for reports. ``means``: the same in the other parts of ``HostState``. Simulated hosts suffer it,
    and selectors, probes and the graph of who hears whom count on it, so a reader of the history needs no plug-in.
    ``unmodelled``: it does harm that ``means`` does not say: nothing is owed of the host meanwhile.
    """

    kind: str
    says: str
    means: HostState
    commands: tuple[HostCommand, ...]
    unmodelled: bool = True

    def __post_init__(self) -> None:
        """Raise ValueError for a trouble within a trouble."""
        if self.means.troubles:
            raise ValueError(f"what the trouble {self.kind!r} means has troubles itself")


class HostState(msgspec.Struct, frozen=True):
    """The desired state of one host; the default value is a healthy host with its node running.

    ``cuts``: names of hosts (or ``client``) whose packets are dropped on ARRIVAL here; a two-way cut is in the state of
    both ends. ``resets``: of these, the ones whose TCP is answered with a reset, so that their connections end at once.
    ``lingers``: of these, the ones whose connections are left alone when the cut ends: they return by TCP's own
    retransmission. ``refuses``: hosts that can make no new TCP connection to this one; what else they send arrives.
    ``down``: the node process is ended by this signal and stays down. ``frozen``: SIGSTOP. ``troubles``: of kinds of
    faults with commands of their own, sorted. ``version``: as which version the process starts the next time, and from
    then on; absent: as the one that the node has, so healing takes no version back. ``resets``, ``lingers``,
    ``refuses`` and ``troubles`` are absent where there are none.
    """

    cuts: tuple[str, ...] = ()
    links: tuple[LinkQuality, ...] = ()
    down: Signal | None = None
    frozen: bool = False
    clock: ClockSkew | None = None
    disk: DiskTrouble | None = None
    cpu_percent: int | None = None
    troubles: tuple[Trouble, ...] | msgspec.UnsetType = msgspec.UNSET
    resets: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    lingers: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    refuses: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    version: str | msgspec.UnsetType = msgspec.UNSET

    @property
    def healthy(self) -> bool:
        """Whether nothing at all is wrong with this host."""
        return self == HEALTHY

    @property
    def suffered(self) -> HostState:
        """All that is wrong with the host, with what its troubles amount to, and without them."""
        if not self.troubles:
            return self
        out = msgspec.structs.replace(self, troubles=msgspec.UNSET)
        for trouble in self.troubles:
            out = out.plus(trouble.means)
        return out

    @property
    def unmodelled(self) -> bool:
        """Whether it suffers what ``suffered`` does not say."""
        return any(trouble.unmodelled for trouble in self.troubles or ())

    def plus(self, other: HostState) -> HostState:
        """Both at once, whichever came first: all cuts and links, the harder end, the worse disk, the sum of skews.

        Of two versions, which no schedule wants of one node at once, the one whose name sorts last.
        """
        links = {link.src: link for link in self.links}
        for link in other.links:
            links[link.src] = link if link.src not in links else links[link.src].plus(link)
        troubles = {*(self.troubles or ()), *(other.troubles or ())}
        return HostState(
            cuts=_both(self.cuts, other.cuts),
            links=tuple(links[src] for src in sorted(links)) if links else (),
            down=_worse(self.down, other.down, _HARDNESS.index),
            frozen=self.frozen or other.frozen,
            clock=self.clock.plus(other.clock) if self.clock and other.clock else self.clock or other.clock,
            disk=_worse(self.disk, other.disk, _severity),
            cpu_percent=_less(self.cpu_percent, other.cpu_percent),
            troubles=tuple(sorted(troubles, key=msgspec.json.encode)) if troubles else msgspec.UNSET,
            resets=_both(self.resets, other.resets) or msgspec.UNSET,
            lingers=_both_let(self, other) or msgspec.UNSET,
            refuses=_both(self.refuses, other.refuses) or msgspec.UNSET,
            version=max(self.version or "", other.version or "") or msgspec.UNSET,
        )


HEALTHY = HostState()

ClusterState = Mapping[str, HostState]
"""Host name → desired state, every host present."""


def healthy_cluster(hosts: tuple[str, ...]) -> dict[str, HostState]:
    """The empty desired state of these hosts."""
    return dict.fromkeys(hosts, HEALTHY)


def with_more(state: ClusterState, more: Mapping[str, HostState]) -> dict[str, HostState]:
    """``state`` plus what is wrong with some of its hosts besides."""
    return {**state, **{host: state[host].plus(trouble) for host, trouble in more.items()}}


def with_cuts(
    state: ClusterState, links: frozenset[tuple[str, str]], *, reset: bool = False, lingers: bool = False
) -> dict[str, HostState]:
    """``state`` plus the DIRECTED cuts ``(src, dst)``: what src sends no longer arrives at dst, which may say so.

    ``lingers``: connections are not reset as the cuts end.
    """
    out = dict(state)
    for src, dst in sorted(links):
        more = HostState(
            cuts=(src,), resets=(src,) if reset else msgspec.UNSET, lingers=(src,) if lingers else msgspec.UNSET
        )
        out[dst] = out[dst].plus(more)
    return out


def without_new(state: ClusterState, links: frozenset[tuple[str, str]]) -> dict[str, HostState]:
    """``state``, but src can make no new connection to dst, for each DIRECTED link ``(src, dst)``."""
    out = dict(state)
    for src, dst in sorted(links):
        out[dst] = out[dst].plus(HostState(refuses=(src,)))
    return out


def flows_to_reset(before: HostState, after: HostState) -> list[str]:
    """The hosts whose connections to this one are reset as it goes from the one state to the other, sorted."""
    was = before.suffered
    return sorted(set(was.cuts) - set(after.suffered.cuts) - set(was.lingers or ()))


_Names = tuple[str, ...] | msgspec.UnsetType


def _both(one: _Names, other: _Names) -> tuple[str, ...]:
    """All of these hosts."""
    return tuple(sorted({*(one or ()), *(other or ())})) if one or other else ()


def _worse(one: T | None, other: T | None, badness: Callable[[T], Any]) -> T | None:
    return max(one, other, key=badness) if one and other else one or other


def _less(one: int | None, other: int | None) -> int | None:
    """The smaller share; None: there is no limit."""
    return other if one is None else one if other is None else min(one, other)


def _both_let(one: HostState, other: HostState) -> tuple[str, ...]:
    """Whose connections are left alone as a cut ends: those of which no cut wants a reset."""
    if not (one.lingers or other.lingers):
        return ()
    left = {*(one.lingers or ()), *(other.lingers or ())}
    for state in (one, other):
        left -= set(state.cuts) - set(state.lingers or ())
    return tuple(sorted(left))


_HARDNESS: tuple[Signal, ...] = ("SIGTERM", "OOM", "SIGKILL", "POWER")
_SEVERITY = (
    *("slow", "full", "readonly", "eio", "unsynced", "torn"),
    *("truncated", "flipped", "stale", "unreadable", "emptied", "removed", "wiped"),
)


def _severity(trouble: DiskTrouble) -> tuple[int, Ns, int, str, str, str, str]:
    """The trouble that leaves less is worse; of two slow disks the slower one."""
    place, share = _SEVERITY.index(trouble.kind), trouble.percent or 100
    return place, trouble.latency_ns, share, trouble.of or "", trouble.path, trouble.age or "", trouble.model or ""
