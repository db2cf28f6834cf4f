"""The one door for built-ins and plug-ins: entry points, by group and name.

Guarantees: an unknown name is a ConfigError that names the nearest known one; a plug-in that fails to import is named,
never silently absent. Out of scope: any knowledge of what is behind a name.
"""

from __future__ import annotations

import difflib
import functools
import re
import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.renamed import of_import

SYSTEMS = "dethrone.systems"
SYSTEM_FILES = "dethrone.system_files"
"""By the ending of a file's name: what makes a system of it."""
BACKENDS = "dethrone.backends"
LINE_FORMATS = "dethrone.line_formats"
FAULTS = "dethrone.faults"
WORKLOADS = "dethrone.workloads"
CHECKERS = "dethrone.checkers"
MODELS = "dethrone.models"
STRATEGIES = "dethrone.strategies"
TRIGGERS = "dethrone.triggers"
SCENARIOS = "dethrone.scenarios"
CLAIMS = "dethrone.claims"
CODE = re.compile(r"(?P<path>.+\.py):(?P<name>[A-Za-z_]\w*)", re.DOTALL)
_KINDS = {
    SYSTEMS: "system",
    SYSTEM_FILES: "kind of file that describes a system",
    BACKENDS: "backend",
    LINE_FORMATS: "format of trace lines",
    FAULTS: "fault",
    WORKLOADS: "workload",
    CHECKERS: "checker",
    MODELS: "model",
    STRATEGIES: "strategy",
    TRIGGERS: "trigger event",
    SCENARIOS: "collection of scenarios",
    CLAIMS: "collection of claims",
}


def names(group: str) -> dict[str, EntryPoint]:
    """Name → entry point of that group, sorted by name; ConfigError if two distributions claim one name."""
    return dict(_names(group, tuple(sys.path)))


@functools.lru_cache(maxsize=64)
def _names(group: str, _places: tuple[str, ...]) -> dict[str, EntryPoint]:
    """Read once per search path: a campaign asks ten times per run, and each reading takes milliseconds."""
    out: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=group), key=lambda entry: entry.name):
        other = out.get(point.name)
        if other is not None and other.value != point.value:
            raise ConfigError(
                f"two plug-ins are called {point.name!r} in {group}",
                where=f"{other.value} and {point.value}",
                next_step="uninstall one of them",
            )
        out[point.name] = point
    return out


def origin(point: EntryPoint) -> str:
    """The distribution that a plug-in comes from, with its version."""
    return f"{point.dist.name} {point.dist.version}" if point.dist else "unknown"


def load(group: str, name: str) -> Any:
    """The object behind a name. A system may also be the path of a file that describes one."""
    if group == SYSTEMS and is_file(name):
        return load(SYSTEM_FILES, Path(name).suffix.removeprefix("."))(Path(name))
    known = names(group)
    if name not in known:
        raise unknown_name(_KINDS.get(group, group), name, known)
    try:
        return known[name].load()
    except ImportError as error:
        raise ConfigError(
            f"the plug-in {name!r} cannot be imported: {error}",
            where=f"{group}: {known[name].value}",
            cause=of_import(error) or "a missing dependency, or another folder that Python finds before it",
            next_step="install its version for this one, or run from another directory",
        ) from error


def is_file(name: str) -> bool:
    """Whether a system's name is the path of a file that describes it."""
    return "/" in name or name.endswith(".toml")


def is_code(name: str) -> bool:
    """Whether a variant's name is a class in a Python file: ``path/to/file.py:Class``."""
    return CODE.fullmatch(name) is not None


def load_all(group: str) -> dict[str, Any]:
    """Name → object for the whole group."""
    return {name: load(group, name) for name in names(group)}


def unknown_name(kind: str, name: str, known: Any) -> ConfigError:
    """The error for a name that does not exist, with the nearest one that does."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return ConfigError(f"unknown {kind} {name!r}", next_step=f"{hint}known: {', '.join(sorted(known))}")
