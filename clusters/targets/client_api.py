"""What clients may ask of a protocol target, and the answers they may get: one vocabulary for all targets.

The state machine behind it is a replicated log of commands on keys. Guarantees: an answer ``Failed`` or ``NotLeader``
certainly had no effect; ``Unknown`` may have had one, now or later. Out of scope: the wire (u32 length + JSON).
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class Append(msgspec.Struct, frozen=True, gc=False, tag="append"):
    """Append ``value`` to the list ``key``; the answer's value is the entry's log index (None where there is none)."""

    key: str
    value: int | str


class Put(msgspec.Struct, frozen=True, gc=False, tag="put"):
    """Set register ``key``."""

    key: str
    value: Any


class Cas(msgspec.Struct, frozen=True, gc=False, tag="cas"):
    """Set register ``key`` to ``to`` if it holds ``old``; the answer's value says whether it did (bool)."""

    key: str
    old: Any
    to: Any


class Get(msgspec.Struct, frozen=True, gc=False, tag="get"):
    """Read ``key``: a list for appended keys, the value for registers. ``mode``: a read mode of the target, or ""."""

    key: str
    mode: str = ""


class Acquire(msgspec.Struct, frozen=True, gc=False, tag="acquire"):
    """Take the lock ``key`` for ``owner`` for ``ttl_ms``; the answer's value is the fencing token (a log index)."""

    key: str
    owner: str
    ttl_ms: int


class Renew(msgspec.Struct, frozen=True, gc=False, tag="renew"):
    """Keep a lock held."""

    key: str
    owner: str
    ttl_ms: int


class Release(msgspec.Struct, frozen=True, gc=False, tag="release"):
    """Give a lock back."""

    key: str
    owner: str


class Holder(msgspec.Struct, frozen=True, gc=False, tag="holder"):
    """Who holds the lock ``key``: the answer's value is [owner, fencing token], or None. A read: no effect."""

    key: str
    mode: str = ""


class Use(msgspec.Struct, frozen=True, gc=False, tag="use"):
    """Change what the lock ``key`` guards, showing a fencing token; the answer's value is the token.

    The guard knows tokens only, not the lock: it refuses one that is lower than the highest it accepted.
    """

    key: str
    token: int


class Txn(msgspec.Struct, frozen=True, gc=False, tag="txn"):
    """Steps on lists that take effect at one moment, in this order: ``["append", key, value]``, ``["r", key, null]``.

    The answer's value is the steps, with the list that each read found in place of its null.
    """

    steps: tuple[tuple[Literal["append", "r"], str, Any], ...]


class ChangeConfig(msgspec.Struct, frozen=True, gc=False, tag="change_config"):
    """Add or remove one voter (exactly one of the two is given)."""

    add: str | None = None
    remove: str | None = None


class Transfer(msgspec.Struct, frozen=True, gc=False, tag="transfer"):
    """Hand leadership to ``target``."""

    target: str


class Propose(msgspec.Struct, frozen=True, gc=False, tag="propose"):
    """Propose ``value`` (not null) for the instance; the answer's value is the decided one, its own or another's."""

    instance: int
    value: Any


class Learn(msgspec.Struct, frozen=True, gc=False, tag="learn"):
    """What was decided in the instance, as far as this node can learn it; the answer's value is null if it cannot."""

    instance: int


ClientRequest = Append | Put | Cas | Get | Acquire | Renew | Release | Holder | ChangeConfig | Transfer

InstanceRequest = Propose | Learn
"""Served by targets that decide values instance by instance, in addition to the other requests or instead of them."""


StateRequest = Txn | Use
"""Served, in addition to the other requests, by targets whose state machine knows transactions and guards."""


class Ok(msgspec.Struct, frozen=True, gc=False, tag="ok"):
    """Done, and visible to later reads. ``index``/``term`` name the log entry where there is one."""

    value: Any = None
    index: int | None = None
    term: int | None = None


class NotLeader(msgspec.Struct, frozen=True, gc=False, tag="not_leader"):
    """Certainly not done here; ``leader`` is a hint (None: unknown)."""

    leader: str | None = None


class Unknown(msgspec.Struct, frozen=True, gc=False, tag="unknown"):
    """May or may not take effect."""

    why: str = ""


class Failed(msgspec.Struct, frozen=True, gc=False, tag="failed"):
    """Certainly had no effect and never will."""

    why: str = ""


class Refused(msgspec.Struct, frozen=True, gc=False, tag="refused"):
    """Not served by this target or not in this state; certainly no effect."""

    why: str = ""


ClientReply = Ok | NotLeader | Unknown | Failed | Refused
