"""What the nodes of one simulated cluster share: their parts, and the listeners that they report to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dethrone.clusters.sim.settings import Settings
from dethrone.harness.core.machine import Core, Target, Witness
from dethrone.harness.core.world import Traces


class Build:
    """What all nodes of one cluster are made of."""

    __slots__ = ("_abilities", "knobs", "members", "profile", "seed", "settings", "target", "variant", "words")

    def __init__(
        self,
        target: Target,
        *,
        knobs: Any,
        words: Mapping[str, str],
        members: tuple[str, ...],
        profile: str,
        variant: str | None,
        seed: int,
        settings: Settings,
    ) -> None:
        self.target = target
        self.knobs = knobs
        self.words = words
        self.members = members
        self.profile = profile
        self.variant = variant
        self.seed = seed
        self.settings = settings
        self._abilities: dict[tuple[type, type], bool] = {}

    def able(self, one: Core | Witness, ability: type) -> bool:
        """Whether its kind has an ability; looked for once, for to ask a protocol is slow."""
        key = type(one), ability
        found = self._abilities.get(key)
        if found is None:
            found = self._abilities[key] = isinstance(one, ability)
        return found


class Ears:
    """Listeners for the nodes' events: traces; by the node's name, starts and ends of processes, answers to clients."""

    __slots__ = ("answered", "ended", "started", "traced")

    def __init__(
        self,
        *,
        traced: Callable[[Traces], None],
        started: Callable[[str], None],
        answered: Callable[[str, int, Any], None],
        ended: Callable[[str, int], None],
    ) -> None:
        self.traced = traced
        self.started = started
        self.answered = answered
        self.ended = ended
