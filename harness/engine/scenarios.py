"""Scenarios by name, from every collection that is installed.

Promises: an unknown name is a ConfigError with the nearest known one; two scenarios of one name are one, too. Leaves
out what a scenario holds.
"""

from __future__ import annotations

from harness.core import registry
from harness.core.errors import ConfigError
from harness.core.scenario import Scenario, Scenarios


def all_scenarios() -> dict[str, Scenario]:
    """Name → scenario, sorted by name."""
    out: dict[str, Scenario] = {}
    for origin in registry.names(registry.SCENARIOS):
        collection: Scenarios = registry.load(registry.SCENARIOS, origin)
        for scenario in collection.scenarios():
            if scenario.name in out:
                raise ConfigError(
                    f"two scenarios are called {scenario.name!r}", where=origin, next_step="uninstall one of the two"
                )
            out[scenario.name] = scenario
    return dict(sorted(out.items()))


def find(name: str) -> Scenario:
    """The scenario of this name."""
    known = all_scenarios()
    if name not in known:
        raise registry.unknown_name("scenario", name, known)
    return known[name]
