"""Systems that people run, each described by a TOML file as a user's own is: examples to copy, and names to run.

A folder holds the description (``NAME.toml``, with ``NAME.lock``), the programs of its nodes, if it needs any, and a
module that names its systems. Guarantees: ``dethrone run NAME`` and ``dethrone run …/NAME.toml`` take the same road.
Out of scope: systems that need an adapter (``dethrone.clusters.systems``).
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from dethrone.clusters.own.system import OwnSystem, described


def packaged(package: str, name: str) -> OwnSystem:
    """The system that ``name``.toml in this package describes."""
    return described(Path(str(files(package))) / f"{name}.toml")
