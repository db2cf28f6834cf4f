"""``[probe]`` of a description: whether it can be asked, and says what it must.

Guarantees: pure; a key that belongs to another kind of probe, a place that cannot be found, and what is claimed of one
moment but is of several requests are ConfigErrors that name them. Out of scope: what an answer says (``answers``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from dethrone.clusters.own.conditions import check_conditions, conditions_of
from dethrone.clusters.own.headers import check_carried
from dethrone.clusters.own.operations import port_of
from dethrone.clusters.own.spec import NodeTable, ProbeTable
from dethrone.clusters.own.sums import check_sum, places_in
from dethrone.clusters.own.table import duration, placed, split
from dethrone.clusters.own.tls import check_tls
from dethrone.clusters.own.words import MEMBER_WORDS, NODE_WORDS, PLACES, check_words
from dethrone.harness.core.clock import MS
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.registry import unknown_name

EVERY_MIN_NS, EVERY_MAX_NS = 20 * MS, 300 * MS
PLACED = ("role", "leader", "voted_for", "commit", "log_term", "log_index", "incarnation", "version")
"""Fields that are one place each."""
CLAIMED = ("role", "leads", "term", "leader", "voted_for", "commit", "log_term", "log_index")
"""Fields that are of one moment, where the description claims it."""
_GROUPS = ("role", "term", "leader", "voted_for", "commit", "log_term", "log_index", "version")


def checked_probe(
    probe: ProbeTable, node: NodeTable, knobs: Mapping[str, str], *, bound: bool, where: str
) -> ProbeTable:
    """The table, if it makes sense. ``bound``: the leader that an answer names is promised to be of its term.
    ConfigError.
    """
    ways = [name for name in ("http", "metrics", "command", "log") if getattr(probe, name) is not None]
    if len(ways) != 1:
        raise ConfigError(
            "a probe is by exactly one of http, metrics, command and log",
            where=where,
            cause=f"given: {', '.join(ways) or 'none'}",
        )
    way = ways[0]
    if not EVERY_MIN_NS <= duration(probe.every, where=f"{where} every") <= EVERY_MAX_NS:
        raise ConfigError(f"every = {probe.every!r} is out of range", where=where, next_step="write 20ms to 300ms")
    check_words([probe.member_id], (*MEMBER_WORDS, *node.ports), where=f"{where} member_id")
    if way in {"metrics", "log"} and probe.version is not None:
        raise ConfigError(f"a probe by {way} says no version", where=where, next_step="probe by http or command")
    if way in {"http", "metrics"}:
        for place in paths_of(probe) or ("",):
            if not place.startswith("/") or " " in place:
                raise ConfigError(f"{place!r} is no path of a URL", where=where, next_step="write it like /status")
        port_of(probe.port, node, where=where)
    elif probe.port is not None:
        raise ConfigError(f"a probe by {way} has no port", where=where)
    elif probe.headers or probe.auth is not None or probe.tls is not False:
        raise ConfigError(f"a probe by {way} has no headers, and no auth or tls", where=where)
    check_carried(probe, ports=node.ports, knobs=knobs, secrets=node.secrets, where=where)
    check_tls(probe.tls, ports=node.ports, knobs=knobs, where=where)
    _check_groups(probe, way, where=where)
    if way == "log":
        return _log_probe(probe, where=where)
    if probe.became:
        raise ConfigError("`became` belongs to a probe by log", where=where)
    if way == "command":
        known = (*(word for word in NODE_WORDS if word != "incarnation"), *node.ports, *knobs)
        check_words(split(probe.command or "", where=where), known, where=f"{where} command")
    elif probe.lasting:
        raise ConfigError("`lasting` belongs to a probe by command", where=where)
    if probe.pattern is not None:
        if probe.lasting:
            raise ConfigError("a command that runs on answers in JSON, without a `pattern`", where=where)
        if way != "command":
            raise ConfigError("`pattern` belongs to a probe by command", where=where)
        _pattern(probe.pattern, where=f"{where} pattern", needs="term")
        return probe
    if probe.term is None or (probe.role is None and probe.leads is None):
        raise ConfigError(
            "a probe needs a node's term, and its role or whether it leads",
            where=where,
            next_step='write term = "…", and role = "…" or leads = "…": places in the answer',
        )
    check_sum(probe.term, where=f"{where} term")
    if way == "metrics" and not isinstance(probe.leads, str):
        raise ConfigError("of metrics, `leads` names the one that is 1 at a leader", where=where)
    conditions = conditions_of(probe.leads, plain=way == "metrics")
    if probe.leads is not None and not conditions:
        raise ConfigError("leads is empty", where=where, next_step="write a condition, or remove the key")
    check_conditions(conditions, node.ports, where=f"{where} leads")
    if isinstance(probe.http, tuple):
        _check_requests(probe, len(probe.http), bound=bound, where=where)
    return probe


def _check_groups(probe: ProbeTable, way: str, *, where: str) -> None:
    """ConfigError where several consensus groups cannot be looked for."""
    if probe.groups is not None and (way in {"metrics", "log"} or probe.pattern is not None):
        raise ConfigError("`groups` are looked for in JSON only", where=where, next_step="probe by http or command")
    if probe.groups is not None and isinstance(probe.http, tuple):
        raise ConfigError("`groups` are looked for in one answer", where=where, next_step="write one path in http")
    if probe.group is not None and probe.groups is None:
        step = 'write groups = "…": the place of the list in the answer'
        raise ConfigError("`group` without `groups`", where=where, next_step=step)


def paths_of(probe: ProbeTable) -> tuple[str, ...]:
    """What is asked for over HTTP, in order."""
    if probe.metrics is not None:
        return (probe.metrics,)
    return (probe.http,) if isinstance(probe.http, str) else probe.http or ()


def _check_requests(probe: ProbeTable, count: int, *, bound: bool, where: str) -> None:
    """ConfigError for a place that names none of the requests, and for what is claimed of one moment but is of two."""
    places: dict[str, tuple[str, ...]] = {name: (at,) for name in PLACED if (at := getattr(probe, name)) is not None}
    places["leads"] = tuple(one.place for one in conditions_of(probe.leads, plain=False))
    places["term"] = places_in(probe.term or "")
    asked: dict[str, set[str]] = {}
    for name, each in places.items():
        for place in each:
            number = place.removeprefix("/").replace("/", ".").partition(".")[0]
            if number not in {str(one) for one in range(1, count + 1)}:
                raise ConfigError(
                    f"{name} = {place!r} does not say which of the {count} requests has it",
                    where=where,
                    cause="of several requests, a place begins with the number of one: 1 is the first",
                    next_step=f'write it like "{count}.{place}"',
                )
            asked.setdefault(name, set()).add(number)
    claims = {"atomic = true": probe.atomic, "leader_bound_to_term = true in [promise]": bound}
    for claim in (claim for claim, made in claims.items() if made):
        _check_one_request(claim, {name: asked[name] for name in CLAIMED if name in asked}, where=where)
    ends = {name: numbers for name, numbers in asked.items() if name in {"log_term", "log_index"}}
    _check_one_request("a log's end", ends, where=where)


def _check_one_request(what: str, asked: Mapping[str, set[str]], *, where: str) -> None:
    """ConfigError where these fields are of several requests."""
    if len(set().union(*asked.values())) > 1:
        named = ", ".join(f"{name} of {' and '.join(sorted(numbers))}" for name, numbers in asked.items())
        raise ConfigError(
            f"{what}, and the fields are of different requests",
            where=where,
            cause=f"two answers are of two moments: {named}",
            next_step="take these fields out of one answer, or remove the claim",
        )


def check_reported(probe: ProbeTable, *, where: str) -> None:
    """Raise ConfigError unless nodes of several versions say which one they are."""
    if probe.version is None and "(?P<version>" not in (probe.pattern or ""):
        raise ConfigError(
            "a node does not say which of the versions it is",
            where=where,
            cause="that a node runs as another version is proved by what it reports itself",
            next_step='write version = "…" (or a group (?P<version>…) in `pattern`): its place in the answer',
        )


def _log_probe(probe: ProbeTable, *, where: str) -> ProbeTable:
    check_words([probe.log or ""], PLACES, where=f"{where} log")
    if "leader" not in probe.became or len(probe.became) < 2:
        raise ConfigError(
            "a probe by log needs the lines that report a new role",
            where=where,
            next_step="write became = { leader = '…(?P<term>\\d+)…', follower = '…' }: patterns of a log line",
        )
    for name, pattern in probe.became.items():
        _pattern(pattern, where=f"{where} became {name}", needs="")
    if not any("(?P<term>" in pattern for pattern in probe.became.values()):
        raise ConfigError("no pattern of `became` has a group (?P<term>…)", where=where)
    return probe


def _pattern(pattern: str, *, where: str, needs: str) -> None:
    try:
        groups = re.compile(pattern).groupindex
    except re.error as error:
        raise ConfigError(f"{pattern!r} is no pattern: {error}", where=where) from error
    for name in groups:
        if name not in _GROUPS:
            raise placed(unknown_name("group", name, _GROUPS), where)
    if needs and needs not in groups:
        raise ConfigError(f"the pattern has no group (?P<{needs}>…)", where=where)
