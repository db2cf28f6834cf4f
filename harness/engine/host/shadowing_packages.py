"""A foreign ``dethrone`` that Python finds before ours: processes that a run starts would import that one."""

from __future__ import annotations

from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

import dethrone
from dethrone.harness.core.errors import ConfigError

if TYPE_CHECKING:
    from dethrone.harness.core.interfaces import Available

PACKAGES = ("dethrone",)


def shadows() -> dict[str, Path]:
    """Package name → the foreign place that Python would import it from."""
    home = Path(str(dethrone.__file__)).resolve().parent.parent
    out = {}
    for name in PACKAGES:
        spec = PathFinder.find_spec(name)
        if spec is not None and spec.origin is not None and Path(spec.origin).resolve().parent.parent != home:
            out[name] = Path(spec.origin).parent if Path(spec.origin).name == "__init__.py" else Path(spec.origin)
    return out


def refuse() -> None:
    """Raise ConfigError if anything shadows our package."""
    for name, place in shadows().items():
        raise ConfigError(
            f"{place} shadows dethrone's own package {name!r}",
            cause="Python looks there first (the current directory, or PYTHONPATH)",
            next_step="run `dethrone` from another directory, rename your package, or remove it from PYTHONPATH",
        )


def rows() -> list[tuple[str, str, Available]]:
    """For ``doctor``."""
    from dethrone.harness.core.interfaces import No, Yes  # every command asks ``refuse``, and this is much to load

    found = shadows()
    return [
        (
            "packages",
            name,
            No(f"shadowed by {found[name]}", "rename it, or remove it from PYTHONPATH") if name in found else Yes(),
        )
        for name in PACKAGES
    ]
