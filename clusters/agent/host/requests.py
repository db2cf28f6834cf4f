"""Requests of the harness, checked field by field before anything acts on them.

Guarantees: pure; a returned value has every field, of the right type and within its bounds; anything else is
``Refused`` with a text that names the field. Out of scope: whether the host can do what the request asks.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from typing import Any

from dethrone.clusters.agent.host.common import MS, SECOND, STARVED_NS, Refused

DOWN = ("SIGKILL", "SIGTERM", "OOM", "POWER")
YEAR_NS = 366 * 86400 * SECOND
LINK_MOST = {
    **dict.fromkeys(("delay_ns", "jitter_ns", "reorder_ns"), 3600 * SECOND),
    **dict.fromkeys(("loss_percent", "duplicate_percent", "reorder_percent", "corrupt_percent"), 100),
    "hold": 10_000,
    "rate_kbit_per_s": 10**9,
}
"""The parts of a link's quality, and the largest value of each."""


def integer_of(raw: Mapping[str, Any], key: str, *, low: int, high: int) -> int:
    """The integer under ``key``, 0 if absent. Raises Refused unless it is in ``low`` to ``high``."""
    value = raw.get(key, 0)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise Refused(f"{key} must be an integer of {low} … {high}, not {value!r:.80}")
    return value


def text_of(raw: Mapping[str, Any], key: str) -> str:
    """The text under ``key``. Raises Refused if it is none."""
    value = raw.get(key)
    if not isinstance(value, str) or "\0" in value:
        raise Refused(f"{key} must be a text, not {value!r:.80}")
    return value


def object_of(raw: Any, what: str) -> Mapping[str, Any]:
    """The object itself. Raises Refused if it is none."""
    if not isinstance(raw, dict):
        raise Refused(f"{what} must be an object, not {raw!r:.80}")
    return raw


def texts_of(raw: Any, what: str) -> list[str]:
    """A copy of the list. Raises Refused if it contains anything but texts."""
    if not isinstance(raw, list) or not all(isinstance(item, str) and "\0" not in item for item in raw):
        raise Refused(f"{what} must be a list of texts, not {raw!r:.80}")
    return list(raw)


NETWORK = ("cuts", "resets", "lingers", "refuses")
"""What a state says of packets from other hosts, as lists of their names. The agent has no use for ``lingers``."""


def clean_state(raw: Any) -> dict[str, Any]:
    """A desired state with every field present and checked. Raises Refused for anything else."""
    raw = object_of(raw, "want")
    unknown = set(raw) - {*NETWORK, "links", "down", "frozen", "clock", "disk", "cpu_percent", "troubles", "version"}
    if unknown:
        raise Refused(f"unknown in want: {', '.join(sorted(unknown))[:200]}")
    down = raw.get("down")
    if down is not None and (not isinstance(down, str) or down not in DOWN):
        raise Refused(f"down must be one of {', '.join(DOWN)} or null, not {down!r:.80}")
    if not isinstance(raw.get("frozen", False), bool):
        raise Refused("frozen must be true or false")
    links = []
    given_links = raw.get("links") or []
    if not isinstance(given_links, list):
        raise Refused("links must be a list")
    for link in given_links:
        link = object_of(link, "a link")  # noqa: PLW2901 - the same value, checked
        bounds = {name: integer_of(link, name, low=0, high=high) for name, high in LINK_MOST.items()}
        links.append({"src": text_of(link, "src"), **bounds})
    clock = None
    if raw.get("clock") is not None:
        given = object_of(raw["clock"], "clock")
        strobe = None
        if given.get("strobe") is not None:
            inner = object_of(given["strobe"], "strobe")
            strobe = {
                "amplitude_ns": integer_of(inner, "amplitude_ns", low=-YEAR_NS, high=YEAR_NS),
                "period_ns": integer_of(inner, "period_ns", low=MS, high=3600 * SECOND),
            }
        clock = {
            "offset_ns": integer_of(given, "offset_ns", low=-10 * YEAR_NS, high=10 * YEAR_NS),
            "rate_ppm": integer_of(given, "rate_ppm", low=-999_999, high=9_000_000),
            "strobe": strobe,
            "mono_rate_ppm": integer_of(given, "mono_rate_ppm", low=-999_999, high=9_000_000),
        }
    return {
        **{name: texts_of(raw.get(name) or [], name) for name in NETWORK},
        "links": links,
        "down": down,
        "frozen": raw.get("frozen", False),
        "clock": clock,
        "disk": _clean_disk(raw.get("disk")),
        "cpu_percent": _clean_share(raw, "cpu_percent"),
        "troubles": _clean_troubles(raw.get("troubles") or []),
        "version": text_of(raw, "version") if raw.get("version") else "",
    }


def _clean_share(raw: Mapping[str, Any], name: str) -> int | None:
    return None if raw.get(name) is None else integer_of(raw, name, low=1, high=100)


def _clean_disk(raw: Any) -> dict[str, Any] | None:
    if raw is None:
        return None
    given = object_of(raw, "disk")
    age = text_of(given, "age") if given.get("age") else ""
    if age not in {"", "newest", "oldest"}:
        raise Refused(f"age must be newest or oldest, not {age!r:.80}")
    return {
        "kind": text_of(given, "kind"),
        "latency_ns": integer_of(given, "latency_ns", low=0, high=86400 * SECOND),
        "path": text_of(given, "path") if given.get("path") else "",
        "age": age,
        "of": text_of(given, "of") if given.get("of") else "",
        "model": text_of(given, "model") if given.get("model") else "",
        "percent": integer_of(given, "percent", low=1, high=100) if given.get("percent") else 100,
    }


def _clean_troubles(given: Any) -> list[dict[str, Any]]:
    """The kind and the commands of each; what they mean is for others."""
    if not isinstance(given, list):
        raise Refused("troubles must be a list")
    troubles = []
    for trouble in given:
        kind = text_of(object_of(trouble, "a trouble"), "kind")
        commands = trouble.get("commands")
        if not isinstance(commands, list):
            raise Refused(f"the commands of {kind!r:.80} must be a list")
        clean = []
        for command in commands:
            parts = {
                part: texts_of(object_of(command, "a command").get(part), part) for part in ("begin", "check", "end")
            }
            if not all(parts.values()):
                raise Refused(f"a command of {kind!r:.80} is empty")
            clean.append({**parts, "of": texts_of(command.get("of") or [], "of")})
        troubles.append({"kind": kind, "commands": clean})
    return troubles


HEALTHY = clean_state({})


def clean_peers(raw: Any) -> dict[str, tuple[str, ...]]:
    """Name → addresses of each peer, normalized; a single address needs no list. Raises Refused for anything else."""
    out = {}
    for name, given in object_of(raw, "peers").items():
        addresses = [given] if isinstance(given, str) else texts_of(given, f"the addresses of {name!r:.80}")
        try:
            spelled = [str(ipaddress.ip_address(address)) for address in addresses]
        except ValueError as error:
            raise Refused(f"peers: {error}") from None
        out[str(name)] = tuple(dict.fromkeys(spelled))
    return out


def _clean_watches(given: Any) -> list[dict[str, Any]]:
    """What to look for, one by one; whether a pattern compiles is found out by the process that matches it."""
    if not isinstance(given, list):
        raise Refused("watches must be a list")
    out = []
    for raw in given:
        watch = object_of(raw, "a watch")
        clean = {"of": watch.get("of"), "name": text_of(watch, "name")}
        if clean["of"] == "log":
            clean["pattern"] = text_of(watch, "pattern")
        elif clean["of"] == "wire":
            clean.update(to=text_of(watch, "to"), contains=text_of(watch, "contains"))
            clean.update(port=integer_of(watch, "port", low=0, high=0xFFFF))
            clean.update(bytes_min=integer_of(watch, "bytes_min", low=0, high=0xFFFF))
        elif clean["of"] == "metric":
            clean.update(metric=text_of(watch, "metric"), path=text_of(watch, "path"))
            clean.update(port=integer_of(watch, "port", low=1, high=0xFFFF))
            clean.update(above=_bound_of(watch, "above"), below=_bound_of(watch, "below"))
        else:
            raise Refused(f"nothing can be looked for in {clean['of']!r:.80} here")
        out.append(clean)
    return out


def _bound_of(watch: Mapping[str, Any], key: str) -> float | None:
    value = watch.get(key)
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
        raise Refused(f"{key} must be a number, not {value!r:.80}")
    return value


def _clean_command(raw: Any) -> dict[str, Any]:
    command = object_of(raw, "command")
    argv = texts_of(command.get("argv"), "argv")
    if not argv:
        raise Refused("argv is empty")
    env = dict(object_of(command.get("env") or {}, "env"))
    texts_of(list(env.values()), "env")
    return {
        "argv": argv,
        "env": env,
        "cwd": command.get("cwd") or "/",
        "user": None if command.get("user") is None else text_of(command, "user"),
        "capabilities": texts_of(command.get("capabilities") or [], "capabilities"),
        "rejoining": texts_of(command.get("rejoining") or [], "rejoining"),
    }


def _clean_question(raw: Any) -> dict[str, Any] | None:
    """How the node is asked for its clock; whether the pattern compiles is found out by the process that matches it."""
    if raw is None:
        return None
    question = object_of(raw, "clock_command")
    argv = texts_of(question.get("argv"), "argv")
    if not argv:
        raise Refused("argv is empty")
    tolerance_ns = integer_of(question, "tolerance_ns", low=0, high=3600 * SECOND)
    return {"argv": argv, "pattern": text_of(question, "pattern"), "tolerance_ns": tolerance_ns}


def clean_start(raw: Any) -> dict[str, Any]:
    """How to start a node, with every field checked. Raises Refused for anything else."""
    raw = object_of(raw, "start")
    version = text_of(raw, "version") if raw.get("version") else ""
    versions = {name: _clean_command(given) for name, given in object_of(raw.get("versions") or {}, "versions").items()}
    if versions and version not in versions:
        raise Refused(f"no version is called {version!r:.80}")
    for key in ("trace_path", "clock_socket", "link_socket", "fatal_path"):
        if raw.get(key) is not None:
            text_of(raw, key)
    fatal = texts_of(raw.get("fatal") or [], "fatal")
    return {
        "command": _clean_command(raw.get("command")),
        "versions": versions,
        "version": version,
        "run_dir": text_of(raw, "run_dir") if raw.get("run_dir") else os.path.dirname(raw.get("clock_socket") or ""),  # noqa: PTH120
        "trace_path": raw.get("trace_path"),
        "log_path": text_of(raw, "log_path"),
        "data_dir": text_of(raw, "data_dir"),
        "clock_socket": raw.get("clock_socket"),
        "clock_command": _clean_question(raw.get("clock_command")),
        "link_socket": raw.get("link_socket"),
        "faketime": raw.get("faketime") is True,
        "fails": raw.get("fails") is True,
        "disk_model": text_of(raw, "disk_model") if raw.get("disk_model") else "journal",
        "keeps_copies": raw.get("keeps_copies") is True,
        "limits": texts_of(raw.get("limits") or [], "limits"),
        "fatal": [text for text in fatal if text],
        "fatal_path": raw.get("fatal_path"),
        "fatal_more": texts_of(raw.get("fatal_more") or [], "fatal_more"),
        "watches": _clean_watches(raw.get("watches") or []),
        "noise_max_ns": integer_of(raw, "noise_max_ns", low=0, high=3600 * SECOND) or STARVED_NS,
    }
