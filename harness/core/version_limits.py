"""How far apart the versions of a cluster's nodes may be, and whether one may become older than all nodes are.

Guarantees: pure; what is refused is refused in words. Out of scope: what a system does that is asked for more.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class VersionLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a system's own documentation allows. The default allows everything.

    ``steps``: how many places in the row of versions a node may move at once, and how many may lie between two nodes.
    ``below_all``: whether a node may become older than every node is. ``source``: who says so.
    """

    steps: int | None = None
    below_all: bool = True
    source: str = ""

    def refused(self, versions: tuple[str, ...], version_of: Mapping[str, str], to: str) -> str:
        """Why no node can become this version now; "" if one can. ``versions``: from the oldest.

        >>> limits = VersionLimits(steps=1, below_all=False, source="the guide")
        >>> limits.refused(("1", "2", "3"), {"n1": "1", "n2": "1"}, "2")
        ''
        >>> limits.refused(("1", "2", "3"), {"n1": "2", "n2": "1"}, "3")
        '3 is more than 1 step from 1, which n2 runs (the guide)'
        >>> limits.refused(("1", "2", "3"), {"n1": "2", "n2": "3"}, "1")
        'every node runs 2 or newer by now, and none may become older than that (the guide)'
        """
        place = {version: number for number, version in enumerate(versions)}
        ran = {one: version for one, version in version_of.items() if version in place}
        lowest = min(ran.values(), key=place.__getitem__, default=to)
        why = ""
        if not self.below_all and place[to] < place[lowest]:
            why = f"every node runs {lowest} or newer by now, and none may become older than that"
        elif self.steps is not None:
            far = next((one for one in sorted(ran) if abs(place[to] - place[ran[one]]) > self.steps), None)
            if far is not None:
                unit = "step" if self.steps == 1 else "steps"
                why = f"{to} is more than {self.steps} {unit} from {ran[far]}, which {far} runs"
        return f"{why} ({self.source})" if why and self.source else why
