"""hold: the next message on each link of the victims is kept back, and delivered when the fault ends: late, and stale.

Parameters: ``count`` (messages a link; 1 if absent), ``direction`` as in ``link``. On real hosts a message is a packet
with data: a TCP segment that is held stays so, however often it is sent again, and the rest of its connection waits for
it; over a new connection, messages overtake it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.hoststate import HostState, LinkQuality
from dethrone.harness.core.interfaces import FaultTraits
from dethrone.harness.core.registry import unknown_name
from dethrone.harness.core.rng import Rng
from dethrone.nemesis.faults.afflicted import Affliction
from dethrone.nemesis.faults.link import DIRECTIONS, afflict
from dethrone.nemesis.parameters import integer

COUNT_MAX = 1000


def _count(params: Mapping[str, Any]) -> int:
    direction = params.get("direction", "both")
    if not isinstance(direction, str) or direction not in DIRECTIONS:
        raise unknown_name("direction of a link", str(direction), DIRECTIONS)
    return integer("hold", params, "count", least=1, most=COUNT_MAX) or 1


def _draws(rng: Rng, _hold_ns: Ns) -> Mapping[str, Any]:
    return {"count": rng.choice((1, 1, 3)), "direction": rng.choice(DIRECTIONS)}


def _afflict(
    state: Mapping[str, HostState], victims: tuple[str, ...], params: Mapping[str, Any]
) -> Mapping[str, HostState]:
    quality = LinkQuality(src="", hold=_count(params))
    return afflict(state, victims, params.get("direction", "both"), quality)


FAULT = Affliction(
    kind="hold",
    line="keep back the next message on each link of some nodes, deliver it when the fault ends",
    params=("count", "direction"),
    judge=_count,
    draws=_draws,
    afflict=_afflict,
    capabilities=frozenset({"links"}),
    traits=FaultTraits(harms="network", touches=frozenset({"links"})),
)
