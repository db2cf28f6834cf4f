"""What agents look for on their hosts so that a trigger can wait for it, and what a change of a value is.

The ``where`` of such a trigger is what is looked for. Guarantees: pure; one name for one thing, which the agent repeats
in what it reports, so that a report finds its trigger; a pattern that does not compile, or is too long, is refused
before a run. Out of scope: looking (``dethrone.clusters.agent``), and which triggers are armed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.registry import unknown_name
from dethrone.harness.core.schedule import OnEvent

LOGGED = "logged"
"""The trigger that waits for a pattern in a node's log."""
LOG_FIELDS = ("pattern", "regex")
METRIC = "metric-changed"
"""The trigger that waits for a figure on a page of metrics."""
METRIC_FIELDS = ("metric", "port", "path", "above", "below")
FRAME = "frame-sent"
"""The trigger that waits for a frame on the wire."""
FRAME_FIELDS = ("to", "port", "bytes_min", "contains", "hex")
STATUS = "status-changed"
"""The trigger that waits for an edge of what nodes answer."""
EDGE_FIELDS = ("from", "to", "above", "below")
STATUS_FIELDS = ("role", "leads", "term", "leader", "voted_for", "commit", "log_term", "log_index")
PATTERN_MAX = 500
"""The longest pattern, characters."""
WATCHES_MAX = 50
"""The most things that one run looks for on a host."""


class LogWatch(msgspec.Struct, frozen=True, kw_only=True, tag_field="of", tag="log"):
    """Lines in which ``pattern`` is found. ``name``: as ``watch_name`` says."""

    name: str
    pattern: str


class WireWatch(msgspec.Struct, frozen=True, kw_only=True, tag_field="of", tag="wire"):
    """Frames that a host sends ``to`` a node ("" : any), of at least ``bytes_min`` bytes over TCP or UDP.

    ``port``: at either end; 0: any. ``contains``: bytes in it, as hexadecimal digits.
    """

    name: str
    to: str = ""
    port: int = 0
    bytes_min: int = 1
    contains: str = ""


class MetricWatch(msgspec.Struct, frozen=True, kw_only=True, tag_field="of", tag="metric"):
    """A series on a node's page of metrics that crosses a number, or, without one, changes."""

    name: str
    metric: str
    port: int
    path: str = "/metrics"
    above: float | None = None
    below: float | None = None


Watch = LogWatch | WireWatch | MetricWatch


def watch_name(where: Mapping[str, Any]) -> str:
    """What a trigger with this ``where`` looks for, as one text; the same for the same thing."""
    return " ".join(f"{field}={where[field]}" for field in sorted(where))


def check_pattern(pattern: str, *, where: str) -> None:
    """Raise ConfigError if nothing can be looked for with this pattern."""
    try:
        if len(pattern) > PATTERN_MAX:
            raise ConfigError(f"a pattern of {len(pattern)} characters", where=where, cause=f"at most {PATTERN_MAX}")
        found = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ConfigError(f"{pattern!r} is no pattern: {error}", where=where) from error
    if found.search("") is not None:
        raise ConfigError(
            f"the pattern {pattern!r} is found in an empty line, so in every line",
            where=where,
            next_step="write what only the line in question contains",
        )


def log_watch(where: Mapping[str, Any], patterns: Mapping[str, str], *, system: str) -> LogWatch:
    """What the trigger ``logged`` looks for. ``patterns``: those that the system names. Raises ConfigError."""
    if "regex" in where:
        return LogWatch(name=watch_name(where), pattern=str(where["regex"]))
    name = str(where["pattern"])
    if name not in patterns:
        if not patterns:
            raise ConfigError(
                f"{system} names no patterns of its log",
                where=f"the trigger {LOGGED!r} with pattern = {name!r}",
                next_step='write where = { regex = "…" }, or name it in [log] patterns of the description',
            )
        raise unknown_name(f"pattern in the log of {system}:", name, patterns)
    return LogWatch(name=watch_name(where), pattern=patterns[name])


def wire_watch(where: Mapping[str, Any], *, place: str = "") -> WireWatch:
    """What the trigger ``frame-sent`` looks for. Raises ConfigError."""
    port, least = where.get("port", 0), where.get("bytes_min", 1)
    for name, number, most in (("port", port, 0xFFFF), ("bytes_min", least, 0xFFFF)):
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= most:
            raise ConfigError(f"{name} = {number!r} is no number of 0 to {most}", where=place)
    texts = {name: where.get(name, "") for name in ("to", "contains", "hex")}
    for name, text in texts.items():
        if not isinstance(text, str):
            raise ConfigError(f"{name} = {text!r} is no text", where=place)
    if texts["contains"] and texts["hex"]:
        raise ConfigError("contains and hex say two things", where=place, next_step="write one of them")
    try:
        wanted = texts["contains"].encode() or bytes.fromhex(texts["hex"])
    except ValueError as error:
        raise ConfigError(f"hex = {texts['hex']!r}: {error}", where=place) from error
    return WireWatch(name=watch_name(where), to=texts["to"], port=port, bytes_min=least, contains=wanted.hex())


def metric_watch(where: Mapping[str, Any], *, place: str = "") -> MetricWatch:
    """What the trigger ``metric-changed`` looks for. Raises ConfigError."""
    metric, port, path = where.get("metric"), where.get("port"), where.get("path", "/metrics")
    if not isinstance(metric, str) or not metric.strip() or metric != metric.strip() or "\n" in metric:
        raise ConfigError(
            f"metric = {metric!r} is no series",
            where=place,
            next_step="write a line of the page up to its value: metric = 'raft_state{role=\"leader\"}'",
        )
    if isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= 0xFFFF:
        raise ConfigError(
            f"port = {port!r} is no port", where=place, next_step="name the port of the page: port = 2379"
        )
    if not isinstance(path, str) or not path.startswith("/") or not path.isprintable() or " " in path:
        raise ConfigError(f"path = {path!r} is no path of a page", where=place, next_step='begin it with "/"')
    check_edge(where, place=place)
    ends = {end: float(where[end]) for end in ("above", "below") if end in where}
    return MetricWatch(name=watch_name(where), metric=metric, port=port, path=path, **ends)


def watches_of(triggers: Iterable[OnEvent], patterns: Mapping[str, str], *, system: str) -> tuple[Watch, ...]:
    """All that these triggers need to be looked for, each once. Raises ConfigError."""
    found: dict[str, Watch] = {}
    for trigger in triggers:
        if trigger.event == LOGGED:
            watch: Watch = log_watch(trigger.where, patterns, system=system)
        elif trigger.event == FRAME:
            watch = wire_watch(trigger.where)
        elif trigger.event == METRIC:
            watch = metric_watch(trigger.where)
        else:
            continue
        found[watch.name] = watch
    if len(found) > WATCHES_MAX:
        raise ConfigError(f"{len(found)} things to look for on each host", next_step=f"at most {WATCHES_MAX} in a run")
    return tuple(found.values())


def is_edge(before: Any, now: Any, where: Mapping[str, Any]) -> bool:
    """Whether a value changed as ``where`` says: ``from`` and ``to`` (words in any case), or across a number.

    ``above = 3``: it was not above 3 and is now; ``below`` likewise. Without any of them: it is another value.
    """
    if "above" in where or "below" in where:
        if not (_number(before) and _number(now)):
            return False
        rose = "above" in where and before <= where["above"] < now
        return rose or ("below" in where and before >= where["below"] > now)
    if _word(before) == _word(now):
        return False
    return all(_word(value) == _word(where[end]) for end, value in (("from", before), ("to", now)) if end in where)


def check_edge(where: Mapping[str, Any], *, place: str) -> None:
    """Raise ConfigError for an edge that says nothing, or two things."""
    numbers = [end for end in ("above", "below") if end in where]
    if numbers and ("from" in where or "to" in where):
        raise ConfigError(f"{numbers[0]} and from or to say two things", where=place, next_step="write one of them")
    for end in numbers:
        if not _number(where[end]):
            raise ConfigError(f"{end} = {where[end]!r} is no number", where=place)
    if "from" in where and "to" in where and _word(where["from"]) == _word(where["to"]):
        raise ConfigError(f"a change from {where['from']!r} to the same is none", where=place)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _word(value: Any) -> str:
    return "" if value is None else str(value).lower()
