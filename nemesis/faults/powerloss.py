"""powerloss: a host loses power, and with it every write that was not synced; it starts again when the fault ends.

Parameters: ``torn`` (true: of the first unsynced write of each file a part survives), ``model`` (``journal``, the
default: names and lengths become durable in their order, as on ext4; ``posix``: names only by a sync of their
directory, lengths only by one of their file). ``posix`` is never drawn: it shows what a program relies on beyond
POSIX, and only a promise that names ``powerloss:posix`` covers it. One run has one model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dethrone.harness.core.hoststate import DISK_MODELS, DiskTrouble
from dethrone.harness.core.interfaces import FaultTraits
from dethrone.harness.core.registry import unknown_name
from dethrone.harness.core.rng import Rng
from dethrone.nemesis.faults.downfall import Downfall
from dethrone.nemesis.parameters import bad


def _trouble(params: Mapping[str, Any]) -> DiskTrouble | None:
    torn = params.get("torn", False)
    model = params.get("model", DISK_MODELS[0])
    if not isinstance(torn, bool):
        raise bad("powerloss", "torn", torn, "true or false is needed")
    if not isinstance(model, str) or model not in DISK_MODELS:
        raise unknown_name("model of a disk", str(model), DISK_MODELS)
    if model == DISK_MODELS[0]:
        return DiskTrouble(kind="torn") if torn else None
    return DiskTrouble(kind="torn" if torn else "unsynced", model=model)


def _draws(rng: Rng) -> Mapping[str, Any]:
    return {"torn": True} if rng.chance(1, 3) else {}


FAULT = Downfall(
    kind="powerloss",
    line="cut the host's power: unsynced writes are lost, or torn; it starts again when the fault ends",
    signal="POWER",
    params=("torn", "model"),
    trouble=_trouble,
    draws=_draws,
    capabilities=frozenset({"power"}),
    traits=FaultTraits(harms="disk", ends_process=True, takes_out=True, touches=frozenset({"power", "disk"})),
)
