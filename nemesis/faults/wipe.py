"""wipe: the node process is killed and its data directory emptied; it starts again, knowing nothing, at the end.

Few protocols promise to bear this: where a promise does not tolerate it, what follows is excused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dethrone.harness.core.hoststate import DiskTrouble
from dethrone.harness.core.interfaces import FaultTraits
from dethrone.harness.core.rng import Rng
from dethrone.nemesis.faults.downfall import Downfall


def _trouble(_params: Mapping[str, Any]) -> DiskTrouble | None:
    return DiskTrouble(kind="wiped")


def _draws(_rng: Rng) -> Mapping[str, Any]:
    return {}


FAULT = Downfall(
    kind="wipe",
    line="kill -9 the node process and empty its disk, start it again when the fault ends",
    signal="SIGKILL",
    params=(),
    trouble=_trouble,
    draws=_draws,
    capabilities=frozenset({"signals", "files"}),
    traits=FaultTraits(
        harms="disk",
        lasts="for-good",
        ends_process=True,
        takes_out=True,
        touches=frozenset({"killed", "stopped", "disk"}),
    ),
)
