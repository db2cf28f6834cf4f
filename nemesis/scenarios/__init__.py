"""Known sequences as data, a TOML file each: the weaknesses that the protocols' descriptions name.

A file's name is the scenario's. Guarantees: every file of this folder is read, or is an error that names it. Out of
scope: what they mean (``dethrone.harness.core.scenario``).
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from dethrone.harness.core.scenario import Scenario, parse_scenario
from dethrone.harness.core.schedule_text import parse_table


class PackagedScenarios:
    """See ``dethrone.harness.core.scenario.Scenarios``."""

    def __init__(self, package: str) -> None:
        self._package = package

    def scenarios(self) -> Sequence[Scenario]:
        """All of them, by name."""
        found = sorted((file for file in files(self._package).iterdir() if file.name.endswith(".toml")), key=str)
        out = []
        for file in found:
            table = parse_table(file.read_bytes(), toml=True, where=file.name)
            out.append(parse_scenario(table, name=file.name.removesuffix(".toml"), where=file.name))
        return out


SCENARIOS = PackagedScenarios(__name__)
