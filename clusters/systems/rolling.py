"""Released systems of which several versions lie on every host, so that nodes can change between them.

Guarantees: each version starts as the adapter of its release says, over the same data. Out of scope: what shows which
version a node is (each system's reading), and which may run side by side (its limits).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dethrone.clusters.systems.released import Choice, Knob, Released
from dethrone.harness.core.interfaces import Command, NodeSpec, RunDefaults, System
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.registry import unknown_name

KNOB = "version"
"""The knob that says with which one nodes begin; also ``oldest`` and ``newest``."""
OLDEST, NEWEST = "oldest", "newest"
FAULTS = ("upgrade", "kill", "partition")
"""What a run of such a system does by default."""
CHANGES = ("upgrade", "downgrade")
"""What it promises to bear, within its limits."""


def chosen(word: str, names: tuple[str, ...]) -> str:
    """The version that the knob means; ``names``: from the oldest to the newest. ConfigError."""
    if word in {OLDEST, NEWEST}:
        return names[0] if word == OLDEST else names[-1]
    if word not in names:
        raise unknown_name("version", word, (*names, OLDEST, NEWEST))
    return word


class Rolling(Released):
    """See ``dethrone.harness.core.interfaces.Upgradable``: the part that is the same for all. Mixed in before the
    adapter of a release, whose knobs it has besides ``version``."""

    releases: Mapping[str, System]
    """Version → the adapter of that release, from the oldest to the newest."""

    def known_knobs(self) -> Mapping[str, Knob]:
        """Those of a release, and the version with which nodes begin: the oldest."""
        names = self.versions()
        return {**super().known_knobs(), KNOB: Choice(names[0], (*names, OLDEST, NEWEST))}

    def defaults(self) -> RunDefaults:
        """Those of a release, with an upgrade first."""
        return msgspec.structs.replace(super().defaults(), faults=FAULTS)

    def promise(self, knobs: Mapping[str, str], *, profile: str, voters: int) -> Promise:
        """That of a release, also while nodes change theirs."""
        return super().promise(knobs, profile=profile, voters=voters).doing(CHANGES)

    def knobs(self, settings: Mapping[str, str], *, profile: str | None, variant: str | None) -> Mapping[str, str]:
        """All knobs as words. Raises ConfigError."""
        found = super().knobs(settings, profile=profile, variant=variant)
        return {**found, KNOB: chosen(found[KNOB], self.versions())}

    def version(self) -> str:
        """From the oldest to the newest."""
        return f"{self.versions()[0]} to {self.versions()[-1]}"

    def versions(self) -> tuple[str, ...]:
        """See ``dethrone.harness.core.interfaces.Upgradable``."""
        return tuple(self.releases)

    def begins_with(self, knobs: Mapping[str, str]) -> str:
        """See ``dethrone.harness.core.interfaces.Upgradable``."""
        return knobs[KNOB]

    def version_of(self, said: str) -> str:
        """Which of the versions ``3.5.35`` is; itself where it is none."""
        return next((name for name in self.releases if said.startswith(f"{name}.")), said)

    def commands(self, node: NodeSpec) -> Mapping[str, Command]:
        """See ``dethrone.harness.core.interfaces.Upgradable``."""
        return {version: release.command(node) for version, release in self.releases.items()}

    def command(self, node: NodeSpec) -> Command:
        """That of the version with which nodes begin."""
        return self.commands(node)[self.begins_with(node.knobs)]
