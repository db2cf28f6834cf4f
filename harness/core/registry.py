"""The one door for built-ins and plug-ins: entry points, by group and name.

Guarantees: an unknown name is a ConfigError that names the nearest known one; a plug-in that fails to import is named,
never silently absent. Out of scope: any knowledge of what is behind a name.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import re
import sys
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from dethrone.harness.core.code_files import object_in
from dethrone.harness.core.errors import BrokenVariant, ConfigError
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
_FILED: dict[str, dict[str, Any]] = {}
"""Group → name → object of the files that this process was asked to use, by ``plug``."""
_VERBS = {
    FAULTS: ("draw", "check", "needs"),
    WORKLOADS: ("needs", "main", "final"),
    CHECKERS: ("check",),
    STRATEGIES: ("draw",),
}
"""Group whose objects a file may hold → methods without which one is none."""
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
    """The object behind a name. A system may also be the path of a file that describes one, a fault of one process
    (``kill:sentinel``)."""
    if group == SYSTEMS and is_file(name):
        return load(SYSTEM_FILES, Path(name).suffix.removeprefix("."))(Path(name))
    if name in plugged(group):
        return plugged(group)[name]
    known = names(group)
    base, colon, process = name.partition(":")
    if group == FAULTS and colon and base in known:
        return _of_process(base, process)
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


def _of_process(base: str, process: str) -> Any:
    of_process = getattr(load(FAULTS, base), "of_process", None)
    if of_process is None:
        raise ConfigError(
            f"the fault {base!r} hits all processes of a node, not {process!r} alone", next_step=f"write {base}"
        )
    return of_process(process)


def plug(group: str, code: str) -> str:
    """Take what ``path/to/file.py:Name`` names into the group, for this process; returns the name that it has there.

    Only for files that the user named, or trusts: it executes them. A class is called without arguments. ConfigError:
    the object lacks the methods of its group, or has the name of one that is installed.
    """
    found = CODE.fullmatch(code)
    if found is None or group not in _VERBS:
        raise ConfigError(f"{code!r} is not the path of a {_KINDS.get(group, group)}")
    kind = _KINDS[group]
    chosen = object_in(str(Path(found["path"]).absolute()), found["name"], kind=kind)
    if inspect.isclass(chosen):
        try:
            chosen = chosen()
        except Exception as error:
            raise BrokenVariant(f"the {kind} cannot be made: {type(error).__name__}: {error}", where=code) from error
    lacking = [verb for verb in _VERBS[group] if not callable(getattr(chosen, verb, None))]
    if lacking:
        raise ConfigError(
            f"{code} is no {kind}: it has no {', '.join(lacking)}", next_step="see dethrone.harness.core.interfaces"
        )
    given = getattr(chosen, "kind" if group == FAULTS else "name", None)
    name = given if isinstance(given, str) and given else _dashed(found["name"])
    if name in names(group):
        raise ConfigError(f"there is a {kind} called {name!r} already", where=code, next_step="give it another name")
    _FILED.setdefault(group, {})[name] = chosen
    return name


def plugged(group: str) -> Mapping[str, Any]:
    """Name → object of those that came from files."""
    return _FILED.get(group, {})


def known(group: str) -> list[str]:
    """The names in a group: those of installed distributions and of files."""
    return sorted({*names(group), *plugged(group)})


def absolute_code(name: str) -> str:
    """The same with the file's whole path, where it names one: a replay may start anywhere."""
    found = CODE.fullmatch(name)
    return name if found is None else f"{Path(found['path']).resolve()}:{found['name']}"


def _dashed(name: str) -> str:
    """``SlowDisk`` → ``slow-disk``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).replace("_", "-").lower()


def is_file(name: str) -> bool:
    """Whether a system's name is the path of a file that describes it."""
    return "/" in name or name.endswith(".toml")


def is_code(name: str) -> bool:
    """Whether a name is a class in a Python file: ``path/to/file.py:Class``."""
    return CODE.fullmatch(name) is not None


def load_all(group: str) -> dict[str, Any]:
    """Name → object for the whole group."""
    return {name: load(group, name) for name in names(group)}


def unknown_name(kind: str, name: str, known: Any) -> ConfigError:
    """The error for a name that does not exist, with the nearest one that does."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return ConfigError(f"unknown {kind} {name!r}", next_step=f"{hint}known: {', '.join(sorted(known))}")
