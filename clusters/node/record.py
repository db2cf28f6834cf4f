"""The common observer record: what every node process answers to ``status``, for all protocols.

Guarantees: one schema for all systems, values of one moment (``mono_ns``/``wall_ns`` as this process sees its clocks).
Out of scope: meaning: ``role``, ``timers``, ``counters`` and ``extra`` are the protocol's own words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

from dethrone.harness.core.clock import MS, Clocks
from dethrone.harness.core.machine import CoreStatus, LogEnd, Witnessed


class Persisted(msgspec.Struct, frozen=True, kw_only=True):
    """What was last seen to be durably stored, read off the disk by the shell and not taken from the core."""

    term: int | None = None
    voted_for: str | None = None
    raw: Mapping[str, Any] = {}


@runtime_checkable
class Grouped(Protocol):
    """A core with several consensus groups. ``status`` is the first one's share."""

    def statuses(self, now: Clocks) -> tuple[CoreStatus, ...]:
        """Every group's share of the record, the first one's first."""


class GroupRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The share of one consensus group."""

    group: str
    role: str
    term: int
    leader: str | None
    voted_for: str | None
    log_end: LogEnd
    commit: int
    hw: int | None
    persisted: Persisted
    timers: Mapping[str, int]
    """Timer name → ms left."""
    extra: Mapping[str, Any]


class Record(GroupRecord, frozen=True, kw_only=True, omit_defaults=True):
    """One observation of one node: of its only group, or of the first of several."""

    node: str
    system: str
    incarnation: int
    held: int
    """Effects that wait for the disk at this moment. Not 0: what this record shows may not survive a crash."""
    started_at: int
    """Wall-clock ms at which this process began."""
    mono_ms: int
    wall_ms: int
    mono_ns: int
    wall_ns: int
    counters: Mapping[str, int]
    """The core's, and the shell's own under ``shell_…``."""
    groups: tuple[GroupRecord, ...] = ()
    """Every group, where there are several."""


def persisted_of(witnessed: Witnessed) -> Persisted:
    """The durable part of the record from a witness' ``persisted``."""
    voted_for = witnessed.data.get("voted_for")
    return Persisted(term=witnessed.term, voted_for=voted_for, raw=witnessed.data)


def make_record(
    statuses: Sequence[CoreStatus],
    *,
    stored: Mapping[str, Persisted],
    node: str,
    system: str,
    incarnation: int,
    held: int,
    started_at: int,
    now: Clocks,
    counters: Mapping[str, int],
) -> Record:
    """Join the core's share of the record, one for each group, with the shell's. ``stored``: what is, by group."""
    shares = [_share(status, stored.get(status.group, Persisted())) for status in statuses]
    return Record(
        **shares[0],
        node=node,
        system=system,
        incarnation=incarnation,
        held=held,
        started_at=started_at,
        mono_ms=now.mono // MS,
        wall_ms=now.wall // MS,
        mono_ns=now.mono,
        wall_ns=now.wall,
        counters={**statuses[0].counters, **{f"shell_{name}": value for name, value in counters.items()}},
        groups=tuple(GroupRecord(**share) for share in shares) if len(shares) > 1 else (),
    )


def _share(status: CoreStatus, persisted: Persisted) -> dict[str, Any]:
    return {
        "group": status.group,
        "role": status.role,
        "term": status.term,
        "leader": status.leader,
        "voted_for": status.voted_for,
        "log_end": status.log_end,
        "commit": status.commit,
        "hw": status.hw,
        "persisted": persisted,
        "timers": status.timers,
        "extra": status.extra,
    }
