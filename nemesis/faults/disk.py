"""disk: the node's disk fails every write (``full``), every write and sync (``eio``), or syncs slowly (``slow``).

Parameters: ``how``; ``latency_ns`` (of each sync; ``slow`` only).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

from dethrone.harness.core.clock import MS, SECOND, Ns
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.hoststate import DiskTrouble, HostState, with_more
from dethrone.harness.core.interfaces import FaultTraits
from dethrone.harness.core.registry import unknown_name
from dethrone.harness.core.rng import Rng
from dethrone.nemesis.faults.afflicted import Affliction
from dethrone.nemesis.parameters import integer

HOW = ("full", "eio", "slow")
HANG_NS: Ns = 60 * SECOND
"""A sync that does not come back while the fault lasts."""

LATENCIES_NS: tuple[Ns, ...] = (5 * MS, 50 * MS, 200 * MS, SECOND, HANG_NS)
"""What is drawn: unnoticed, as long as a heartbeat, as an election, as many of them, for ever."""


def _trouble(params: Mapping[str, Any]) -> DiskTrouble:
    how = params.get("how", HOW[0])
    if not isinstance(how, str) or how not in HOW:
        raise unknown_name("trouble of a disk", str(how), HOW)
    latency_ns = integer("disk", params, "latency_ns", least=1)
    if (how == "slow") != bool(latency_ns):
        raise ConfigError("the fault 'disk' needs latency_ns where it is slow, and only there")
    return DiskTrouble(kind=cast("Literal['full', 'eio', 'slow']", how), latency_ns=latency_ns)


def _draws(rng: Rng, _hold_ns: Ns) -> Mapping[str, Any]:
    how = rng.choice(HOW)
    return {"how": how, "latency_ns": rng.choice(LATENCIES_NS)} if how == "slow" else {"how": how}


def _afflict(
    state: Mapping[str, HostState], victims: tuple[str, ...], params: Mapping[str, Any]
) -> Mapping[str, HostState]:
    return with_more(state, dict.fromkeys(victims, HostState(disk=_trouble(params))))


FAULT = Affliction(
    kind="disk",
    line="the node's disk is full, fails with EIO, or syncs slowly",
    params=("how", "latency_ns"),
    judge=_trouble,
    draws=_draws,
    afflict=_afflict,
    capabilities=frozenset({"disks"}),
    traits=FaultTraits(harms="disk", touches=frozenset({"disk"})),
)
