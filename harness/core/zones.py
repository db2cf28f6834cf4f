"""Zones of hosts: which nodes share a rack, a room or a data centre, and so are lost, cut off or slow together.

A zone is a label. Labels come from ``--zones``, a hosts file or a description. Guarantees: pure; a label that could be
mistaken for a word of the selectors is a ConfigError, and so is a schedule that names a zone that no host is in. Out
of scope: resolving selectors, and what is done to a zone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.schedule import PlannedFault, Schedule

LEADERS, OTHER = "leader", "other"
"""Words of the selector ``zone:`` that are no labels: the zone that the leader is in; one of the others."""

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")
_SELECTOR = re.compile(r"\s*zone\s*:(.*)", re.DOTALL)


def check_label(label: str, *, where: str) -> None:
    """Raise ConfigError for what cannot be the label of a zone."""
    if _LABEL.fullmatch(label) is None or label in {LEADERS, OTHER}:
        raise ConfigError(
            f"{label!r} is no label of a zone",
            where=where,
            next_step=f"use letters, digits, '-', '_' and '.', at most 40; {LEADERS} and {OTHER} mean other things",
        )


def zones_in_order(labels: Sequence[str], nodes: Sequence[str]) -> dict[str, str]:
    """Node → zone, where a user named one zone for each node in their order. Raises ConfigError."""
    for label in labels:
        check_label(label, where="--zones")
    if labels and len(labels) != len(nodes):
        raise ConfigError(
            f"{len(labels)} zones for {len(nodes)} nodes",
            where="--zones",
            cause="each node has one zone, in the order of their names",
            next_step=f"write {len(nodes)} labels, as --zones {','.join('abc'[i % 3] for i in range(len(nodes)))}",
        )
    return dict(zip(nodes, labels, strict=True)) if labels else {}


def members(zones: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Zone → its nodes, both sorted."""
    return {zone: tuple(sorted(node for node in zones if zones[node] == zone)) for zone in sorted(set(zones.values()))}


def check_zones(schedule: Schedule, zones: Mapping[str, str]) -> None:
    """Raise ConfigError where a fault of the schedule speaks of zones that these hosts do not have."""
    for step in schedule.steps:
        for fault in step.faults:
            for label in _labels(fault):
                if not zones:
                    raise ConfigError(
                        f"the {fault.kind} fault hits a zone, and no host has one",
                        where=f"victims {fault.victims}",
                        next_step="give --zones a,a,b,b,c, one label for each node",
                    )
                if label not in {LEADERS, OTHER, *zones.values()}:
                    raise ConfigError(
                        f"no host is in the zone {label!r}",
                        where=f"the {fault.kind} fault of {fault.victims}",
                        next_step=f"known: {', '.join(members(zones))}",
                    )


def _labels(fault: PlannedFault) -> Iterator[str]:
    """The zones that its selectors name."""
    links = fault.params.get("links", ())
    pairs = links if isinstance(links, Sequence) and not isinstance(links, str) else ()
    words = [word for pair in pairs if isinstance(pair, Sequence) and not isinstance(pair, str) for word in pair]
    for text in (fault.victims, *words):
        found = _SELECTOR.fullmatch(str(text))
        yield from (label for label in re.split(r"[,\s]+", found[1]) if label) if found else ()
