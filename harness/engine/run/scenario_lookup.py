"""Scenarios by name, from every installed collection, or by the path of a scenario file.

Guarantees: an unknown name is a ConfigError with the nearest known one; two scenarios with one name are a ConfigError,
too. What a scenario holds is out of scope.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from dethrone.harness.core import registry
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.files import read_text
from dethrone.harness.core.scenario import Scenario, Scenarios, parse_scenario


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
    """The scenario of this name, or in the file of this path (it ends in ``.toml``)."""
    if name.endswith(".toml"):
        return _in_file(Path(name))
    known = all_scenarios()
    if name not in known:
        raise registry.unknown_name("scenario", name, known)
    return known[name]


def _in_file(path: Path) -> Scenario:
    try:
        table = tomllib.loads(read_text(path))
    except OSError as error:
        raise ConfigError(
            f"cannot read the scenario: {error.strerror}", where=str(path), next_step="dethrone list scenarios"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the scenario is not TOML: {error}", where=str(path)) from error
    return parse_scenario(table, name=str(path), where=str(path))
