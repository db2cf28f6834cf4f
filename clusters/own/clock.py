r"""``[clock]`` of a description: the command that prints a node's own wall clock, and how its output is read.

    [clock]
    command = "redis-cli -h {address} -p {redis} time"
    pattern = '(?P<s>\d+)\s+(?P<us>\d+)'

Guarantees: pure; what cannot be meant is a ConfigError that names it. Out of scope: asking, and comparing what was
printed (``dethrone.clusters.agent.host.told_clock``).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from dethrone.clusters.agent.host.told_clock import UNITS_NS
from dethrone.clusters.own.table import Table, Words, placed, read_table, split
from dethrone.clusters.own.words import check_words, fill
from dethrone.harness.core.duration import parse_duration
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.interfaces import ClockCommand
from dethrone.harness.core.registry import unknown_name

TIME = "time"
_GROUPS = (*UNITS_NS, TIME)


class ClockTable(Table, frozen=True, kw_only=True):
    """``command``: prints the clock of the node that it asks; ``pattern``: finds the time in its output, seconds since
    1970 by default. ``tolerance``: how far what it prints may be from the requested skew.
    """

    command: Words
    pattern: str = r"(?P<s>\d+(?:\.\d+)?)"
    tolerance: str = "50ms"


def clock_table(raw: Mapping[str, Any], known: Collection[str], *, where: str) -> ClockTable:
    """The table. ``known``: the words of a command. ConfigError."""
    table = read_table(ClockTable, raw, where=where)
    check_words(split(table.command, where=where), known, where=f"{where} command")
    try:
        groups = re.compile(table.pattern).groupindex
    except re.error as error:
        raise ConfigError(f"{table.pattern!r} is no pattern: {error}", where=f"{where} pattern") from error
    for name in groups:
        if name not in _GROUPS:
            raise placed(unknown_name("group", name, _GROUPS), f"{where} pattern")
    if not groups or (TIME in groups and len(groups) > 1):
        raise ConfigError(
            "the pattern finds no time, or two",
            where=f"{where} pattern",
            next_step="write groups (?P<s>…), (?P<ms>…), (?P<us>…), (?P<ns>…), which add up, or a date's (?P<time>…)",
        )
    try:
        parse_duration(table.tolerance)
    except ConfigError as error:
        raise placed(error, f"{where} tolerance") from error
    return table


def clock_command(table: ClockTable, words: Mapping[str, str], *, where: str) -> ClockCommand:
    """What the agent of a node is given. ``words``: those of the node."""
    return ClockCommand(
        argv=tuple(fill(word, words) for word in split(table.command, where=where)),
        pattern=table.pattern,
        tolerance_ns=parse_duration(table.tolerance),
    )
