"""Who votes: the keys of ``[membership]`` that say which nodes are members without a vote.

    [membership]
    voters = 3

Guarantees: pure; of any number of nodes it is known who votes, and at least one does, else ConfigError. Out of scope:
what a node makes of it: its command and files hold words for that (``node_words``).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from dethrone.clusters.own.table import Table, read_table
from dethrone.clusters.own.words import fill, words_in
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.registry import unknown_name

KEYS = ("voters", "observers", "roles")
OBSERVERS, VOTERS = "observers", "voters"
"""Words for these nodes, wherever a description names nodes."""
_NODE = re.compile(r"n[1-9][0-9]?")
_KNOB = re.compile(r"\{[a-z][a-z0-9_]*\}")


class Voting(Table, frozen=True, kw_only=True):
    """``voters``: how many nodes vote, from the first on: a number, or a knob in braces. ``observers``: those that do
    not, by name. Neither: all vote. ``roles``: the word ``{role}`` of a node that votes, and of one that does not.
    """

    voters: int | str | None = None
    observers: tuple[str, ...] = ()
    roles: tuple[str, str] = ("voter", "observer")

    @property
    def named(self) -> bool:
        """Whether there may be nodes without a vote."""
        return self.voters is not None or bool(self.observers)


def voting(raw: Mapping[str, Any], knobs: Collection[str], *, where: str) -> Voting:
    """The keys as they stand in the table. ConfigError."""
    found = read_table(Voting, {key: raw[key] for key in KEYS if key in raw}, where=where)
    if found.voters is not None and found.observers:
        raise ConfigError("both voters and observers", where=where, next_step="keep one of them")
    if "roles" in raw and not found.named:
        step = "write voters = 3, or observers with the names of nodes"
        raise ConfigError("roles without nodes that do not vote", where=where, next_step=step)
    for name in found.observers:
        if not _NODE.fullmatch(name):
            raise ConfigError(f"{name!r} is no node", where=f"{where} observers", next_step="nodes are n1, n2 …")
    if isinstance(found.voters, str):
        if not _KNOB.fullmatch(found.voters):
            step = "write a number, or a knob in braces"
            raise ConfigError(f"voters = {found.voters!r} is no number", where=f"{where} voters", next_step=step)
        (knob,) = words_in(found.voters)
        if knob not in knobs:
            error = unknown_name("knob", knob, knobs)
            raise ConfigError(error.what, where=f"{where} voters", next_step=error.next_step)
    elif found.voters is not None:
        _count(str(found.voters), where=f"{where} voters")
    return found


def voters_of(table: Voting, nodes: tuple[str, ...], knobs: Mapping[str, str], *, path: str) -> tuple[str, ...]:
    """Those of ``nodes`` that vote, in their order. ConfigError: none does, or the knob that says it is no number."""
    where = f"{path}: [membership]"
    if table.voters is not None:
        return nodes[: _count(fill(str(table.voters), knobs), where=f"{where} voters")]
    found = tuple(node for node in nodes if node not in table.observers)
    if not found:
        step = "give more --nodes, or name fewer observers"
        raise ConfigError(f"none of {', '.join(nodes)} votes", where=f"{where} observers", next_step=step)
    return found


def _count(text: str, *, where: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text[:9]) < 1:
        raise ConfigError(f"{text!r} voters", where=where, next_step="write how many nodes vote, 1 or more")
    return int(text[:9])
