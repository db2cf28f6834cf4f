"""What a run is asked to be, from four places: flag > environment (DETHRONE_…) > dethrone.toml > default.

A scenario stands between environment and file, and leaves of the file only where a run takes place.

Guarantees: every key is spelled as its flag; an unknown key or a value of the wrong form is a ConfigError that names
its place and the nearest key; ``set`` is merged knob by knob; what a file that is not the user's own names is executed
only with his trust. Out of scope: whether names of systems, faults and knobs exist: the engine knows.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from dethrone.harness.core import owned, registry
from dethrone.harness.core.duration import parse_duration
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.files import read_text
from dethrone.harness.core.secrets import shown
from dethrone.harness.core.timescale import read_scale, show_scale
from dethrone.harness.core.verdict import FAIL_ON, FailOn
from dethrone.harness.engine.run import file_trust, scenario_lookup
from dethrone.harness.engine.run.options import RunOptions

FILE = "dethrone.toml"
SECTION = "run"
ENV_PREFIX = "DETHRONE_"
NODES_MAX = 99
_SEEDS_MAX = 100_000
_SPAN_MAX = 10_000_000
_OTHER_ENV = frozenset({"DETHRONE_CORPUS", "DETHRONE_STATE_DIR"})


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One key: how its words are read, and what it is in one line. ``example`` is shown when reading fails."""

    name: str
    read: Callable[[Any], Any]
    example: str
    about: str


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """A value and where it came from: ``flag``, ``DETHRONE_NODES``, ``dethrone.toml`` or ``default``.

    ``doubt``: why another user may have written that file; "" : it is the user's own, or no file.
    """

    value: Any
    origin: str
    doubt: str = ""


def _whole(lowest: int, highest: int) -> Callable[[Any], int]:
    def read(raw: Any) -> int:
        try:
            value = int("" if isinstance(raw, bool | float) else raw)
        except (ValueError, TypeError):
            raise ValueError("expected a whole number") from None
        if not lowest <= value <= highest:
            raise ValueError(f"expected a number from {lowest} to {highest}")
        return value

    return read


def _duration(raw: Any) -> str:
    try:
        value = parse_duration(raw if isinstance(raw, str) else "")
    except ConfigError as error:
        raise ValueError(error.cause) from error
    if value == 0:
        raise ValueError("expected a duration above 0")
    return str(raw).strip()


def _words(raw: Any) -> tuple[str, ...]:
    parts = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise ValueError("expected words separated by commas")
    out = tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))
    return () if out == ("none",) else out


def _places(raw: Any) -> tuple[str, ...]:
    if not isinstance(raw, str | list | tuple):
        raise ValueError("expected a list of words")  # noqa: TRY004 - what `read` makes a ConfigError of
    return _words(raw if isinstance(raw, str) else [part for word in raw for part in str(word).split(",")])


def _knobs(raw: Any) -> dict[str, str]:
    if isinstance(raw, Mapping):
        return {str(key): _knob_text(value) for key, value in raw.items()}
    if not isinstance(raw, str | list | tuple) or not all(isinstance(part, str) for part in raw):
        raise ValueError("expected knob=value")
    parts = [part for part in raw.split(",") if part] if isinstance(raw, str) else list(raw)
    out = {}
    for part in parts:
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"{part!r} does not have the form knob=value")
        out[name.strip()] = value.strip()
    return out


def _knob_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | str):
        return str(value)
    raise ValueError("the value of a knob must be a word or a number")


def _text(raw: Any) -> str:
    if not isinstance(raw, str) or not raw.strip():
        raise ValueError("expected a word")
    return raw.strip()


def _flag(raw: Any) -> bool:
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, str) and raw.lower() in words:
        return words[raw.lower()]
    raise ValueError("expected true or false")


def _clients(raw: Any) -> str:
    text = str(raw)
    if isinstance(raw, bool) or not re.fullmatch(r"[1-9]\d{0,4}n?|n", text):
        raise ValueError("expected a number, or a multiple of the number of nodes like 2n")
    return text


def _fail_on(raw: Any) -> str:
    if raw not in FAIL_ON:
        raise ValueError(f"expected {' or '.join(FAIL_ON)}")
    return str(raw)


def _time_scale(raw: Any) -> str:
    value = read_scale(raw)
    return "auto" if value is None else show_scale(value)


def _setting(name: str, read: Callable[[Any], Any], example: str, about: str) -> Setting:
    return Setting(name=name, read=read, example=example, about=about)


SETTINGS: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        _setting("nodes", _whole(1, NODES_MAX), "5", "number of nodes [default: 5; on lent hosts, all of them]"),
        _setting("on", _text, "docker", "backend that provides the hosts (`list backends`) [default: docker]"),
        _setting("hosts", _text, "hosts.toml", "file that names the machines to run on, for `--on ssh`"),
        _setting("host", _places, "n1=root@192.0.2.11", "machine in addition to those of the file (repeatable)"),
        _setting("project", _text, "shop", "docker compose project whose containers to break, for `--on attach`"),
        _setting(
            "label",
            _places,
            "app=kv",
            "label of the containers to break, instead of a project (repeatable: all must match)",
        ),
        _setting("faults", _words, "partition,kill", "fault kinds, or `none` [default: the system's]"),
        _setting("workload", _text, "log", "operations of the clients (`list workloads`) [default: the system's]"),
        _setting("strategy", _text, "random", "strategy that draws the schedule (`list strategies`) [default: random]"),
        _setting("time-limit", _duration, "60s", "length of the fault phase [default: the system's]"),
        _setting(
            "time-scale",
            _time_scale,
            "2",
            "factor for timers, bounds and faults on slow hosts; auto: measure the real hosts [default: auto]",
        ),
        _setting("seed", _whole(0, 2**63 - 1), "7", "seed of all random choices [default: random, and printed]"),
        _setting("nemesis-interval", _duration, "5s", "time from one fault to the next [default: the system's]"),
        _setting("set", _knobs, "time_factor=0.1", "knob of the system (repeatable)"),
        _setting("profile", _text, "raft-paper", "named set of knobs (`list systems`)"),
        _setting("variant", _text, "vote-twice", "planted bug (`list variants`)"),
        _setting(
            "concurrency", _clients, "2n", "number of client processes; 2n: twice the nodes [default: the workload's]"
        ),
        _setting(
            "rate", _whole(0, 10**6), "100", "operations per second; 0: send the next one as soon as one is answered"
        ),
        _setting("out", _text, "runs/a", "run directory; must be new or empty"),
        _setting("base", _text, "debian:12-slim", "base image of the hosts"),
        _setting(
            "schedule", _text, "schedule.planned.json", "stored or hand-written schedule to run instead of a drawn one"
        ),
        _setting(
            "scenario",
            _text,
            "raft-b1",
            "known fault sequence with its settings (`list scenarios`), or a file that holds one",
        ),
        _setting("trust", _flag, "true", "execute the files that a scenario file names"),
        _setting(
            "fail-on",
            _fail_on,
            "violation",
            "lowest outcome that fails the command: unknown [default], violation or excused",
        ),
        _setting(
            "known",
            _text,
            "known.toml",
            "known findings (TOML): matching findings are shown but do not fail the command (docs/nightly.md)",
        ),
        _setting("keep-cluster", _flag, "true", "keep the hosts running at the end (`heal --all` removes them)"),
        _setting(
            "unsafe-root",
            _flag,
            "true",
            "run `--on local` as root even where the machine cannot be protected from its nodes",
        ),
        _setting("first-failure", _flag, "true", "stop at the first certain safety finding [default: the system's]"),
    )
}
_BESIDE_SCENARIO = frozenset(
    {
        "scenario",
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
_LENDERS = ("hosts", "host", "project", "label")
"""Keys that name other people's hosts."""
DEFAULTS: dict[str, Any] = {
    "nodes": 5,
    "on": "docker",
    "strategy": "random",
    "fail-on": "unknown",
    "keep-cluster": False,
    "unsafe-root": False,
}


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
            if key == "set" and key in out:
                value = {**out[key].value, **value}
            out[key] = Given(
                value=value,
                origin="flag" if layer == "flag" else origin(key),
                doubt=doubt if layer == "file" else "",
            )
    _refuse_foreign(out)
    return out


def _refuse_foreign(given: Mapping[str, Given]) -> None:
    """ConfigError where a scenario's file, which may come from an untrusted source, names code that is to be
    executed.
    """
    variant = given.get("variant")
    trusted = "trust" in given and given["trust"].value
    if variant is None or trusted or variant.origin != "scenario" or not registry.is_code(variant.value):
        return
    raise ConfigError(
        f"the scenario names a file that would be executed with your rights: {variant.value}",
        where=str(given["scenario"].value),
        next_step=f"look at it, then name it yourself with --variant {variant.value}, or add --trust",
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


def system_of(named: str | None, given: Mapping[str, Given]) -> str:
    """The system that is run: the one that is named, or the scenario's. ConfigError: none, or two different ones."""
    if "scenario" not in given:
        if named is None:
            raise ConfigError(
                "no system was named", next_step="choose one of `dethrone list systems`, or add --scenario"
            )
        # the path of a description stands in run.json, and a replay may start anywhere
        return str(Path(named).resolve()) if registry.is_file(named) else named
    scenario = scenario_lookup.find(given["scenario"].value)
    if named is None and registry.is_file(scenario.system) and not ("trust" in given and given["trust"].value):
        raise ConfigError(
            f"the scenario names a file that would be executed with your rights: {scenario.system}",
            where=str(given["scenario"].value),
            next_step=f"look at it, then name it yourself: dethrone run {scenario.system} …, or add --trust",
        )
    if named not in (None, scenario.system):
        raise ConfigError(
            f"the scenario {scenario.name!r} belongs to {scenario.system}, not to {named}",
            next_step=f"remove {named} or --scenario",
        )
    return scenario.system


def read(key: str, raw: Any, *, where: str) -> Any:
    """One value. ConfigError names the key, its place and an example."""
    setting = SETTINGS[key]
    try:
        return setting.read(raw)
    except ValueError as error:
        raise ConfigError(
            f"{raw!r} is not a valid value for {key}",
            where=where,
            cause=str(error),
            next_step=f"write {key} like {setting.example}",
        ) from error


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


def run_options(system: str, given: Mapping[str, Given]) -> RunOptions:
    """The engine's options."""
    value: dict[str, Any] = {key: one.value for key, one in given.items()}

    def ns(key: str) -> int | None:
        return parse_duration(value[key]) if key in value else None

    def path(key: str) -> Path | None:
        return Path(value[key]) if key in value else None

    hosts, host, lent = _lent(given)
    _refuse_strangers(given, hosts=hosts, host=host)
    nodes = lent if lent and given["nodes"].origin == "default" else value["nodes"]
    return RunOptions(
        system=system,
        nodes=nodes,
        backend=value["on"],
        faults=value.get("faults"),
        workload=value.get("workload"),
        strategy=value["strategy"],
        time_limit_ns=ns("time-limit"),
        seed=value.get("seed"),
        nemesis_interval_ns=ns("nemesis-interval"),
        settings=value.get("set", {}),
        profile=value.get("profile"),
        variant=value.get("variant"),
        rate_per_s=value.get("rate"),
        processes=clients(value["concurrency"], nodes=nodes) if "concurrency" in value else None,
        out=path("out"),
        base=value.get("base"),
        keep_cluster=value["keep-cluster"],
        unsafe_root=_unsafe_root(given["unsafe-root"]),
        stop_at_first_failure=value.get("first-failure"),
        schedule=path("schedule"),
        scenario=value.get("scenario"),
        hosts=hosts,
        host=host,
        fail_on=cast("FailOn", value["fail-on"]),
        known=path("known"),
        time_scale=None if value.get("time-scale", "auto") == "auto" else float(value["time-scale"]),
    )


def _doubt(path: Path, file: Mapping[str, Any], env: Mapping[str, str]) -> str:
    """Why another user may have written the settings, or what they name by a path that begins here; "" : no doubt."""
    paths = [file[key] for key in ("variant", "hosts") if isinstance(file.get(key), str)]
    here = [Path.cwd()] if any(not Path(one).is_absolute() for one in paths) else []
    return owned.doubt(path, owned.selves(env), beside=here)


def _refuse_strangers(given: Mapping[str, Given], *, hosts: Path | None, host: tuple[str, ...]) -> None:
    """ConfigError where a settings file that may be another user's names what a run would execute or reach."""
    doubted = {key: one for key, one in given.items() if one.doubt}
    if not doubted or ("trust" in given and given["trust"].value):
        return
    lent = any(key in doubted for key in _LENDERS)
    named = RunOptions(
        system="",
        variant=doubted["variant"].value if "variant" in doubted else None,
        base=doubted["base"].value if "base" in doubted else None,
        hosts=hosts if lent else None,
        host=host if lent else (),
    )
    one = next(iter(doubted.values()))
    file_trust.refuse_settings(named, where=one.origin, doubt=one.doubt)


def _unsafe_root(given: Given) -> bool:
    """Only a user says so at the moment of the run: a file may be another's."""
    if given.value and given.origin != "flag":
        raise ConfigError(
            "unsafe-root is set by a file or the environment",
            where=given.origin,
            cause="it lets nodes act as root on this machine, which must not be decided by a file "
            "that came with a project",
            next_step="add --unsafe-root to the command line if you trust the system and can afford "
            "to lose the machine",
        )
    return bool(given.value)


def _lent(given: Mapping[str, Given]) -> tuple[Path | None, tuple[str, ...], int]:
    """The hosts file, the hosts named one by one, and how many a run may use (0: not known, or none were named).

    Hosts of a configuration file are for the backend that takes hosts; a run elsewhere leaves them alone.
    """
    named = [given[key] for key in _LENDERS if key in given]
    file = Path(given["hosts"].value).absolute() if "hosts" in given else None
    words: tuple[str, ...] = given["host"].value if "host" in given else ()
    words += (f"project={given['project'].value}",) if "project" in given else ()
    words += tuple(f"label={label}" for label in given["label"].value) if "label" in given else ()
    if not named:
        return None, (), 0
    backend = registry.load(registry.BACKENDS, given["on"].value)
    lending = backend.traits.lending
    if lending is None:
        asked = any(one.origin == "flag" for one in named)
        return (file, words, 0) if asked else (None, (), 0)
    now = lending.lent(file, words).traits.lending
    return file, words, 0 if now is None else len(now.usable())


def clients(text: str, *, nodes: int) -> int:
    """``10`` → 10; ``2n`` → twice the nodes; ``n`` → the nodes."""
    if text.endswith("n"):
        return int(text[:-1] or "1") * nodes
    return int(text)


def seeds(text: str) -> Sequence[int]:
    """``0..9``, ``7``, ``1,5,8..12``: the seeds in order, each once. ConfigError. A single span is a ``range``."""
    out: dict[int, None] = {}
    parts = text.split(",")
    for part in parts:
        match = re.fullmatch(r"\s*(\d{1,18})(?:\.\.(\d{1,18}))?\s*", part)
        if match is None or (match[2] is not None and int(match[2]) < int(match[1])):
            raise ConfigError(f"{text!r} is not a list of seeds", where="--seeds", next_step="write 0..9 or 1,5,8..12")
        lo, hi = int(match[1]), int(match[2] or match[1])
        most = _SPAN_MAX if len(parts) == 1 else _SEEDS_MAX
        if hi - lo + len(out) >= most:
            raise ConfigError(
                f"more than {most} seeds", where="--seeds", next_step="split the seeds over several campaigns"
            )
        if len(parts) == 1:
            return range(lo, hi + 1)
        out.update(dict.fromkeys(range(lo, hi + 1)))
    return tuple(out)


def show(given: Mapping[str, Given]) -> str:
    """The merged configuration as a dethrone.toml, each key with its origin."""
    lines = [f"[{SECTION}]"]
    for key, setting in SETTINGS.items():
        if key in given and key != "set":
            lines.append(f"{key} = {_toml(given[key].value)}  # {given[key].origin}")
        elif key != "set":
            lines.append(f"# {key} = {_toml(setting.example)}  (not set: {setting.about})")
    if "set" in given:
        lines += ["", f"[{SECTION}.set]  # {given['set'].origin}"]
        lines += [f"{_toml(key)} = {_toml(shown(key, value))}" for key, value in sorted(given["set"].value.items())]
    return "\n".join(lines)


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(part) for part in value) + "]"
    # JSON's strings, numbers and booleans are TOML's
    return msgspec.json.encode(value).decode()


def _from_env(env: Mapping[str, str]) -> dict[str, str]:
    return {key: env[env_name(key)] for key in SETTINGS if env.get(env_name(key))}
