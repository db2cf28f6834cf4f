"""The messages between Paxos nodes, and the values that they decide on.

Every message carries its instance; the transport names its sender. Instances 1, 2, 3 … are the clients': values
proposed for a numbered instance, and the commands of the log, share them. Instance −k decides who leads epoch k, where
an election is configured. Guarantees: PREPARE carries no value; immutable. Out of scope: the wire.

Source: docs/sources.md, paxos: "Paxos Made Simple", 2.2-2.3. ``Ask``, ``Told``, ``Ping``, ``Pong``, ``Heartbeat`` are
ours: for a restarted learner, for "is a majority reachable", and for the election on top.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from dethrone.clusters.targets.client_api import Append, Cas, Get, Put

LogRequest = Append | Put | Cas | Get

# --- values -----------------------------------------------------------------------------------------------------


class Given(msgspec.Struct, frozen=True, gc=False, tag="value"):
    """What a client proposed for a numbered instance."""

    value: Any


class Command(msgspec.Struct, frozen=True, gc=False, tag="command"):
    """An entry of the log. ``origin`` and ``number`` name it: no two commands of a run share them."""

    origin: str
    number: int
    request: LogRequest


class Leader(msgspec.Struct, frozen=True, gc=False, tag="leader"):
    """A contender's own name, proposed for an epoch."""

    node: str


Value = Given | Command | Leader
Kind = Literal["value", "command", "leader"]


def kind_of(value: Value) -> Kind:
    """Which of the three a value is."""
    if isinstance(value, Given):
        return "value"
    return "leader" if isinstance(value, Leader) else "command"


def shown(value: Value | None) -> Any:
    """A value as plain JSON, for clients and traces."""
    if value is None:
        return None
    if isinstance(value, Given):
        return value.value
    return value.node if isinstance(value, Leader) else msgspec.to_builtins(value)


# --- messages ---------------------------------------------------------------------------------------------------


class Numbered(msgspec.Struct, frozen=True, gc=False):
    """What belongs to the proposal with the number ``id`` in one instance."""

    instance: int
    id: int


class Prepare(Numbered, frozen=True, tag="prepare"):
    """Phase 1a: promise me this number. No value."""


class Promise(Numbered, frozen=True, tag="promise"):
    """Phase 1b: promised; with the latest proposal accepted here, if there is one (``accepted_id`` 0: none)."""

    accepted_id: int = 0
    accepted_value: Value | None = None


class Nack(Numbered, frozen=True, tag="nack"):
    """The number ``id`` is refused, in either phase. ``max_id``: the number that is promised here, as a hint."""

    max_id: int


class Propose(Numbered, frozen=True, tag="propose"):
    """Phase 2a: accept this value under the number that was promised."""

    value: Value


class Accepted(Numbered, frozen=True, tag="accepted"):
    """Phase 2b: accepted; to the proposer and every learner."""

    value: Value


class Ask(msgspec.Struct, frozen=True, gc=False, tag="ask"):
    """A learner asks an acceptor what it has accepted in the instances ``first`` … ``last``."""

    first: int
    last: int


class Told(msgspec.Struct, frozen=True, gc=False, tag="told"):
    """The answer: one entry an instance in which something was accepted."""

    first: int
    last: int
    accepted: tuple[Accepted, ...]


class Ping(msgspec.Struct, frozen=True, gc=False, tag="ping"):
    """Are you there?"""


class Pong(msgspec.Struct, frozen=True, gc=False, tag="pong"):
    """I am."""


class Heartbeat(msgspec.Struct, frozen=True, gc=False, tag="heartbeat"):
    """The sender leads this epoch."""

    epoch: int


PaxosMessage = Prepare | Promise | Nack | Propose | Accepted | Ask | Told | Ping | Pong | Heartbeat
