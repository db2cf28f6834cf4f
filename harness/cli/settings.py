"""What a run is asked to be, from four places: flag > environment (DETHRONE_…) > dethrone.toml > default.

A scenario stands between environment and file, and leaves of the file only where a run takes place.

Guarantees: an unknown key is a ConfigError that names its place and the nearest key; ``set`` is merged knob by knob;
each value knows where it came from, and whether another user may have written it. Out of scope: the keys themselves
(``setting_table``), and what the engine makes of them (``run_options``).
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dethrone.harness.cli.setting_table import DEFAULTS, SETTINGS, read
from dethrone.harness.core import owned, registry
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.files import read_text
from dethrone.harness.core.secrets import shown
from dethrone.harness.engine.run import scenario_lookup

FILE = "dethrone.toml"
SECTION = "run"
ENV_PREFIX = "DETHRONE_"
_OTHER_ENV = frozenset({"DETHRONE_CORPUS", "DETHRONE_STATE_DIR"})
_TABLES = ("set", "tag")
"""Keys that hold words by name, merged one by one."""
_BESIDE_SCENARIO = frozenset(
    {
        "scenario",
        "tag",
        "on",
        "hosts",
        "host",
        "project",
        "label",
        "out",
        "base",
        "keep-cluster",
        "unsafe-root",
        "fail-on",
        "known",
        "seed",
    }
)
"""What a file may say in addition to a scenario: where it is run, not what."""


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """A value and where it came from: ``flag``, ``DETHRONE_NODES``, ``dethrone.toml`` or ``default``.

    ``doubt``: why another user may have written that file; "" : it is the user's own, or no file.
    """

    value: Any
    origin: str
    doubt: str = ""


def merge(flags: Mapping[str, Any], env: Mapping[str, str], path: Path | None) -> dict[str, Given]:
    """Key → value and origin. ``flags``: only what was given. ``path``: None: ``dethrone.toml`` if it is there."""
    file = read_file(path)
    doubt = _doubt(path or Path(FILE), file, env) if file else ""
    scenario = _scenario(flags, env, file)
    layers: list[tuple[str, Mapping[str, Any], Callable[[str], str]]] = [
        ("default", DEFAULTS, lambda _: "default"),
        ("file", {k: v for k, v in file.items() if not scenario or k in _BESIDE_SCENARIO}, lambda _: str(path or FILE)),
        ("scenario", scenario, lambda _: "scenario"),
        ("env", _from_env(env), env_name),
        ("flag", flags, lambda key: f"--{key}"),
    ]
    out: dict[str, Given] = {}
    for layer, values, origin in layers:
        for key, raw in values.items():
            value = read(key, raw, where=origin(key))
            if key in _TABLES and key in out:
                value = {**out[key].value, **value}
            out[key] = Given(
                value=value,
                origin="flag" if layer == "flag" else origin(key),
                doubt=doubt if layer == "file" else "",
            )
    _refuse_foreign(out)
    return out


def asked(flags: Mapping[str, Any]) -> dict[str, Given]:
    """The same for verbs that are no runs and take some of the settings: those that were set anywhere, by key.

    Where a run takes place is one answer for all verbs. ``flags``: what the verb takes, None or empty where not given.
    """
    given = merge({key: value for key, value in flags.items() if value not in (None, ())}, os.environ, None)
    return {key: given[key] for key in flags if key in given and given[key].origin != "default"}


def defaults() -> dict[str, Given]:
    """What holds where nothing is said."""
    return {key: Given(value=value, origin="default") for key, value in DEFAULTS.items()}


def _refuse_foreign(given: Mapping[str, Given]) -> None:
    """ConfigError where a scenario's file, which may come from an untrusted source, names code that is to be
    executed.
    """
    if "trust" in given and given["trust"].value:
        return
    for key in ("variant", "workload"):
        one = given.get(key)
        if one is not None and one.origin == "scenario" and registry.is_code(one.value):
            raise ConfigError(
                f"the scenario names a file that would be executed with your rights: {one.value}",
                where=str(given["scenario"].value),
                next_step=f"look at it, then name it yourself with --{key} {one.value}, or add --trust",
            )


def _scenario(flags: Mapping[str, Any], env: Mapping[str, str], file: Mapping[str, Any]) -> dict[str, Any]:
    """What the scenario that is asked for, if any, says of a run: before the file, which was not meant for it."""
    named = [place["scenario"] for place in (flags, _from_env(env), file) if "scenario" in place]
    if not named:
        return {}
    scenario = scenario_lookup.find(read("scenario", named[0], where="scenario"))
    said = {
        "scenario": scenario.name,
        "nodes": scenario.nodes,
        "profile": scenario.profile,
        "variant": scenario.variant,
        "workload": scenario.workload,
        "rate": scenario.rate_per_s,
        "concurrency": scenario.processes,
        "set": dict(scenario.settings) or None,
        "time-limit": f"{scenario.time_limit_ns}ns",
        "first-failure": False,
    }
    return {key: value for key, value in said.items() if value is not None}


def read_file(path: Path | None) -> dict[str, Any]:
    """The ``[run]`` table of the file, keys spelled with dashes."""
    if path is None and not Path(FILE).is_file():
        return {}
    place = path or Path(FILE)
    try:
        content = tomllib.loads(read_text(place))
    except OSError as error:
        raise ConfigError(f"cannot read the configuration: {error.strerror}", where=str(place)) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the configuration is not TOML: {error}", where=str(place)) from error
    for key in content:
        if key != SECTION:
            raise unknown_key(key, [SECTION], where=str(place))
    table = content.get(SECTION, {})
    if not isinstance(table, dict):
        raise ConfigError(
            "[run] must be a table", where=str(place), next_step="write [run], followed by keys like nodes = 5"
        )
    out = {}
    for key, value in table.items():
        name = key.replace("_", "-")
        if name == "trust":
            raise ConfigError(
                "a file cannot trust a file", where=str(place), next_step="remove trust; use the flag --trust"
            )
        if name not in SETTINGS:
            raise unknown_key(key, SETTINGS, where=f"{place}: [{SECTION}]")
        out[name] = value
    return out


def unknown_key(key: str, known: Sequence[str] | Mapping[str, Any], *, where: str) -> ConfigError:
    """The error for a key that does not exist, with the nearest one that does."""
    near = difflib.get_close_matches(key, list(known), n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return ConfigError(f"unknown key {key!r}", where=where, next_step=f"{hint}known: {', '.join(known)}")


def env_name(key: str) -> str:
    """``DETHRONE_TIME_LIMIT`` for ``time-limit``."""
    return ENV_PREFIX + key.upper().replace("-", "_")


def misspelt_env(env: Mapping[str, str]) -> list[str]:
    """Variables that look like ours and are none, each with the one that was probably meant."""
    known = {env_name(key) for key in SETTINGS} | _OTHER_ENV
    out = []
    for name in sorted(env):
        if name.startswith(ENV_PREFIX) and name not in known:
            near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.85)
            if near:
                out.append(f"{name} is not a known variable and is ignored; did you mean {near[0]}?")
    return out


def _doubt(path: Path, file: Mapping[str, Any], env: Mapping[str, str]) -> str:
    """Why another user may have written the settings, or what they name by a path that begins here; "" : no doubt."""
    paths = [file[key] for key in ("variant", "workload", "strategy", "hosts") if isinstance(file.get(key), str)]
    for key in ("faults", "checker"):
        several = file.get(key, "")
        paths += map(str, several) if isinstance(several, list) else str(several).split(",")
    files = [file.get("hosts"), file.get("variant")]
    paths = [one for one in paths if registry.is_code(one) or one in files]
    here = [Path.cwd()] if any(not Path(one).is_absolute() for one in paths) else []
    return owned.doubt(path, owned.selves(env), beside=here)


def show(given: Mapping[str, Given]) -> str:
    """The merged configuration as a dethrone.toml, each key with its origin."""
    lines = [f"[{SECTION}]"]
    for key, setting in SETTINGS.items():
        if key in given and key not in _TABLES:
            lines.append(f"{key} = {_toml(given[key].value)}  # {given[key].origin}")
        elif key not in _TABLES:
            lines.append(f"# {key} = {_toml(setting.example)}  (not set: {setting.about})")
    for table in _TABLES:
        if table in given:
            lines += ["", f"[{SECTION}.{table}]  # {given[table].origin}"]
            lines += [f"{_toml(key)} = {_toml(shown(key, value))}" for key, value in sorted(given[table].value.items())]
    return "\n".join(lines)


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(part) for part in value) + "]"
    # JSON's strings, numbers and booleans are TOML's
    return msgspec.json.encode(value).decode()


def _from_env(env: Mapping[str, str]) -> dict[str, str]:
    return {key: env[env_name(key)] for key in SETTINGS if env.get(env_name(key))}
