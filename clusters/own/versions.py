"""Several versions of one described system: what is different in each, as a description of its own.

    [node]
    command = "{run_dir}/{version}/server"
    [versions."2.12.1"]
    files = { "{run_dir}/{version}/server" = "build/server-2.12.1" }
    [versions."2.15.2"]
    files = { "{run_dir}/{version}/server" = "build/server-2.15.2" }

They stand from the oldest to the newest. Guarantees: pure; each version is the same file with the version's keys over
those of ``[node]`` and ``[system]``, and its name wherever ``{version}`` stands, so that it is checked like any other
file; two versions never bring one file of a host. Out of scope: changing a node's version (an agent's).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dethrone.clusters.own.maven_jars import Named
from dethrone.clusters.own.table import Table, Words, placed, read_table
from dethrone.clusters.systems.rolling import KNOB, NEWEST, OLDEST
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.registry import unknown_name

WORD = "{version}"
VERSIONS_MAX = 8
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?=[A-Za-z0-9])){0,40}")
_OF_NODE = ("env", "files", "texts", "go", "maven", "java")
_FILLED = ("node", "process", "setup", "probe", "clock")


class VersionTable(Table, frozen=True, kw_only=True):
    """``[versions.NAME]``: what only this version has. ``reports``: what its nodes say they are, if not its name.

    The other keys are those of ``[node]`` and ``[system]``, and add to them; ``command`` replaces it.
    """

    reports: str | None = None
    command: Words = ()
    env: Mapping[str, str] = {}
    files: Mapping[str, str] = {}
    texts: Mapping[str, str] = {}
    go: Mapping[str, str] = {}
    maven: Mapping[str, Named] = {}
    java: Mapping[str, Named] = {}
    python: tuple[str, ...] = ()
    npm: tuple[str, ...] = ()


def split_up(tables: Mapping[str, Any], *, path: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """Version → what its nodes say they are, and the tables of its own description. ConfigError."""
    given = tables["versions"]
    where = f"{path}: [versions]"
    if not 2 <= len(given) <= VERSIONS_MAX:
        raise ConfigError(f"{len(given)} versions", where=where, next_step=f"name 2 to {VERSIONS_MAX}, or none")
    if "version_command" in tables["system"]:
        raise ConfigError("both [versions] and version_command", where=where, next_step="remove version_command")
    if KNOB in tables.get("knobs", {}):
        raise ConfigError(f"both [versions] and a knob {KNOB!r}", where=where, next_step="rename the knob")
    out: dict[str, tuple[str, dict[str, Any]]] = {}
    for name, raw in given.items():
        if not _NAME.fullmatch(name) or name in {OLDEST, NEWEST}:
            raise ConfigError(f"{name!r} is no name of a version", where=where, next_step='write it like "2.15.2"')
        if not isinstance(raw, dict):
            raise ConfigError(f"{name!r} must be a table", where=where, next_step=f'write [versions."{name}"]')
        table = read_table(VersionTable, raw, where=f'{path}: [versions."{name}"]')
        for place in (*table.files, *table.texts, *table.go, *table.maven, *table.java):
            if WORD not in place:
                raise ConfigError(
                    f"{place!r} would be a file of every version",
                    where=f'{path}: [versions."{name}"]',
                    next_step="begin its path with {run_dir}/{version}/",
                )
        said = table.reports or name
        if any(said == other for other, _ in out.values()):
            raise ConfigError(f"two versions report {said!r}", where=where, next_step="write how they differ")
        out[name] = (said, _merged(tables, name, table))
    first = str(tables["system"].get("version", name))
    if first not in out:
        raise placed(unknown_name("version", first, out), f"{path}: [system] version")
    return out


def first_of(tables: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """The version with which nodes begin unless the knob says otherwise: that of ``[system]``, else the newest."""
    return str(tables["system"].get("version", names[-1]))


def _merged(tables: Mapping[str, Any], name: str, table: VersionTable) -> dict[str, Any]:
    system, node = dict(tables["system"]), dict(tables["node"])
    system["version"] = name
    added = {key: getattr(table, key) for key in _OF_NODE}
    of_system = [(system, key, getattr(table, key)) for key in ("python", "npm")]
    for into, key, more in (*of_system, *((node, key, more) for key, more in added.items())):
        given = into.get(key)
        if given is None or not more:  # what is no list, or no table, is named where it is read
            into[key] = more if given is None else given
        elif isinstance(given, Mapping):
            into[key] = {**given, **more}
        elif isinstance(given, list):
            into[key] = [*given, *more]
    if table.command:
        node["command"] = table.command
    rest = {key: one for key, one in tables.items() if key not in {"versions", "system", "node"}}
    whole = {**rest, "node": node}
    return {"system": system, **{key: _filled(one, name) if key in _FILLED else one for key, one in whole.items()}}


def _filled(value: Any, name: str) -> Any:
    """The same with the version's name in all texts, and in the names of keys."""
    if isinstance(value, str):
        return value.replace(WORD, name)
    if isinstance(value, Mapping):
        return {_filled(key, name): _filled(one, name) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_filled(one, name) for one in value]
    return value
