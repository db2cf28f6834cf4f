"""A fault as a desired state of hosts: what is wrong with each host right now, as data.

Faults overlap and compose: the desired state of the cluster is the fold of all active faults over the empty state,
recomputed whenever one begins or ends. Healing is converging to the empty state. Out of scope: how an agent gets there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from dethrone.harness.core.clock import Ns

Signal = Literal["SIGKILL", "SIGTERM", "POWER"]
"""How a node process is ended. ``POWER``: the host loses power, and with it every write that was not synced."""


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


class LinkQuality(msgspec.Struct, frozen=True):
    """Quality of packets that arrive from ``src`` (a host's name). What follows ``loss_percent`` is of messages.

    ``duplicate_percent``: arrive twice. ``reorder_percent``: wait up to ``reorder_ns`` longer and may be overtaken.
    ``hold``: this number of next messages is kept back until this quality ends, then they arrive, in order.
    """

    src: str
    delay_ns: Ns = 0
    jitter_ns: Ns = 0
    loss_percent: int = 0
    duplicate_percent: int = 0
    reorder_percent: int = 0
    reorder_ns: Ns = 0
    hold: int = 0


class DiskTrouble(msgspec.Struct, frozen=True):
    """What is wrong with the node's data directory.

    While the process runs: ``full`` and ``eio`` fail writes and syncs, ``slow`` makes each sync take ``latency_ns``.
    Done once to the files of a process that is down: ``torn`` (the last write that was not synced survives in part;
    after a loss of power only), ``wiped`` (every file is gone), and, to the file ``path``: ``flipped`` (one bit),
    ``truncated`` (its end is cut off) and ``unreadable``. ``path`` "": whichever file the run's seed chooses.
    """

    kind: Literal["full", "eio", "slow", "torn", "wiped", "flipped", "truncated", "unreadable"]
    latency_ns: Ns = 0
    path: str = ""


class HostState(msgspec.Struct, frozen=True):
    """The desired state of one host; the default value is a healthy host with its node running.

    ``cuts``: names of hosts (or ``client``) whose packets are dropped on ARRIVAL here; a two-way cut is in the state of
    both ends. ``down``: the node process is ended by this signal and stays down. ``frozen``: SIGSTOP.
    """

    cuts: tuple[str, ...] = ()
    links: tuple[LinkQuality, ...] = ()
    down: Signal | None = None
    frozen: bool = False
    clock: ClockSkew | None = None
    disk: DiskTrouble | None = None
    cpu_percent: int | None = None

    @property
    def healthy(self) -> bool:
        """Whether nothing at all is wrong with this host."""
        return self == HEALTHY


HEALTHY = HostState()

ClusterState = Mapping[str, HostState]
"""Host name → desired state, every host present."""


def healthy_cluster(hosts: tuple[str, ...]) -> dict[str, HostState]:
    """The empty desired state of these hosts."""
    return dict.fromkeys(hosts, HEALTHY)


def with_cuts(state: ClusterState, links: frozenset[tuple[str, str]]) -> dict[str, HostState]:
    """``state`` plus the DIRECTED cuts ``(src, dst)``: what src sends no longer arrives at dst."""
    out = dict(state)
    for src, dst in sorted(links):
        old = out[dst]
        out[dst] = msgspec.structs.replace(old, cuts=tuple(sorted({*old.cuts, src})))
    return out
