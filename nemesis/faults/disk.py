"""disk: the node's disk is full or read-only, fails with EIO, or syncs slowly.

Parameters: ``how`` (``full``, ``readonly``: every write fails; ``eio``: every write and sync; ``slow``: syncs take
``latency_ns``); ``of`` (``reads``, ``writes``, ``syncs``: what fails instead; ``eio`` only); ``percent`` (1 to 100,
default 100: the share of them that fails; not with ``slow``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast, get_args

import msgspec

from dethrone.harness.core.clock import MS, SECOND, Ns
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.hoststate import DISK_ACCESSES, DiskAccess, DiskTrouble, HostState, with_more
from dethrone.harness.core.interfaces import FaultTraits
from dethrone.harness.core.registry import unknown_name
from dethrone.harness.core.rng import Rng
from dethrone.nemesis.faults.afflicted import Affliction
from dethrone.nemesis.parameters import integer

How = Literal["full", "readonly", "eio", "slow"]
HOW: tuple[How, ...] = get_args(How)
DRAWN: tuple[How, ...] = ("full", "eio", "slow")
"""What default schedules draw."""
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
    of, percent = params.get("of"), integer("disk", params, "percent", least=1, most=100) or 100
    if of is not None and (how != "eio" or of not in DISK_ACCESSES):
        raise ConfigError(f"the fault 'disk' takes of = {' or '.join(DISK_ACCESSES)}, and only where how = eio")
    if how == "slow" and percent != 100:
        raise ConfigError("the fault 'disk' takes percent only where operations fail; a slow disk is slow for all")
    return DiskTrouble(
        kind=how,
        latency_ns=latency_ns,
        of=msgspec.UNSET if of is None else cast("DiskAccess", of),
        percent=msgspec.UNSET if percent == 100 else percent,
    )


def _draws(rng: Rng, _hold_ns: Ns) -> Mapping[str, Any]:
    how = rng.choice(DRAWN)
    return {"how": how, "latency_ns": rng.choice(LATENCIES_NS)} if how == "slow" else {"how": how}


def _afflict(
    state: Mapping[str, HostState], victims: tuple[str, ...], params: Mapping[str, Any]
) -> Mapping[str, HostState]:
    return with_more(state, dict.fromkeys(victims, HostState(disk=_trouble(params))))


FAULT = Affliction(
    kind="disk",
    line="the node's disk is full or read-only, fails with EIO, or syncs slowly",
    params=("how", "latency_ns", "of", "percent"),
    judge=_trouble,
    draws=_draws,
    afflict=_afflict,
    capabilities=frozenset({"disks"}),
    traits=FaultTraits(harms="disk", touches=frozenset({"disk"})),
)
