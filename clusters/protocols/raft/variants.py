"""The deliberately broken builds, and the harmless ones that must raise no alarm."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from clusters.protocols.raft.knobs import RaftKnobs
from clusters.protocols.raft.rules import Rules


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """One build that differs from the honest one in a rule."""

    says: str
    rules: Callable[[RaftKnobs], Rules]
    needs: Mapping[str, str] = {}

    def unmet(self, knobs: RaftKnobs) -> str:
        """The first needed knob that is not so set; empty when all are."""
        for name, word in self.needs.items():
            value = getattr(knobs, name)
            if ({True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)) != word:
                return f"{name}={word}"
        return ""


VARIANTS: Mapping[str, Variant] = {}
