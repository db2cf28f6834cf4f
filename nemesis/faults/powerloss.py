"""powerloss: a host loses power, and with it every write that was not synced; it starts again when the fault ends.

Parameter: ``torn`` (true: of the first unsynced write of each file a part survives).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dethrone.harness.core.hoststate import DiskTrouble
from dethrone.harness.core.interfaces import FaultTraits
from dethrone.harness.core.rng import Rng
from dethrone.nemesis.faults.downfall import Downfall
from dethrone.nemesis.parameters import bad


def _trouble(params: Mapping[str, Any]) -> DiskTrouble | None:
    torn = params.get("torn", False)
    if not isinstance(torn, bool):
        raise bad("powerloss", "torn", torn, "true or false is needed")
    return DiskTrouble(kind="torn") if torn else None


def _draws(rng: Rng) -> Mapping[str, Any]:
    return {"torn": True} if rng.chance(1, 3) else {}


FAULT = Downfall(
    kind="powerloss",
    line="cut the host's power: unsynced writes are lost, or torn; it starts again when the fault ends",
    signal="POWER",
    params=("torn",),
    trouble=_trouble,
    draws=_draws,
    capabilities=frozenset({"power"}),
    traits=FaultTraits(harms="disk", ends_process=True, takes_out=True, touches=frozenset({"power", "disk"})),
)
