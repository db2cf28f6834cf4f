"""damage: the node process is killed and one of its files damaged while it is down; it starts again at the end.

Parameters: ``how`` (``flipped``: one bit; ``truncated``: the end is cut off; ``unreadable``; ``emptied``; ``removed``;
``stale``: what the file held when the process last started, as a restore from an old backup), ``path`` (a file below
the data directory, or a pattern with ``*`` and ``?``; "" or absent: any), ``age`` (``newest`` or ``oldest``: of these
files the one that was changed last or first; absent: one that the host chooses, and reports).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import msgspec

from dethrone.harness.core.hoststate import DAMAGES, Age, DiskTrouble
from dethrone.harness.core.interfaces import FaultTraits
from dethrone.harness.core.registry import unknown_name
from dethrone.harness.core.rng import Rng
from dethrone.nemesis.faults.downfall import Downfall
from dethrone.nemesis.parameters import bad

DRAWN = ("flipped", "truncated", "unreadable")
"""What is drawn: damage that shows itself where files are sealed. What looks like another disk must be asked for."""
AGES: tuple[Age, ...] = get_args(Age)


def _trouble(params: Mapping[str, Any]) -> DiskTrouble | None:
    how, path, age = params.get("how", DAMAGES[0]), params.get("path", ""), params.get("age")
    if not isinstance(how, str) or how not in DAMAGES:
        raise unknown_name("damage", str(how), DAMAGES)
    if not isinstance(path, str):
        raise bad("damage", "path", path, "a file's name is needed")
    if age is not None and (not isinstance(age, str) or age not in AGES):
        raise unknown_name("age of a file", str(age), AGES)
    return DiskTrouble(kind=how, path=path, age=age or msgspec.UNSET)


def _draws(rng: Rng) -> Mapping[str, Any]:
    return {"how": rng.choice(DRAWN)}


FAULT = Downfall(
    kind="damage",
    line="kill -9 the node process and flip a bit of a file, cut, empty or remove it, or put an older copy there",
    signal="SIGKILL",
    params=("how", "path", "age"),
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
