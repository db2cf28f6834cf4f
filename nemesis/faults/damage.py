"""damage: the node process is killed and one of its files damaged while it is down; it starts again at the end.

Parameters: ``how`` (``flipped``: one bit; ``truncated``: the end is cut off; ``unreadable``), ``path`` (a file below
the data directory; "" or absent: any that the run's seed chooses).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

from dethrone.harness.core.hoststate import DiskTrouble
from dethrone.harness.core.interfaces import FaultTraits
from dethrone.harness.core.registry import unknown_name
from dethrone.harness.core.rng import Rng
from dethrone.nemesis.faults.downfall import Downfall
from dethrone.nemesis.parameters import bad

HOW = ("flipped", "truncated", "unreadable")


def _trouble(params: Mapping[str, Any]) -> DiskTrouble | None:
    how, path = params.get("how", HOW[0]), params.get("path", "")
    if not isinstance(how, str) or how not in HOW:
        raise unknown_name("damage", str(how), HOW)
    if not isinstance(path, str):
        raise bad("damage", "path", path, "a file's name is needed")
    return DiskTrouble(kind=cast("Literal['flipped', 'truncated', 'unreadable']", how), path=path)


def _draws(rng: Rng) -> Mapping[str, Any]:
    return {"how": rng.choice(HOW)}


FAULT = Downfall(
    kind="damage",
    line="kill -9 the node process and flip a bit of a file, truncate it or make it unreadable; start it at the end",
    signal="SIGKILL",
    params=("how", "path"),
    trouble=_trouble,
    draws=_draws,
    capabilities=frozenset({"signals", "disks"}),
    traits=FaultTraits(
        harms="disk",
        lasts="for-good",
        ends_process=True,
        takes_out=True,
        touches=frozenset({"killed", "stopped", "disk"}),
    ),
)
