"""Messages of the bully target. A node's id is its place among the members, so no message carries it.

Guarantees: frozen values. Out of scope: what they cause (``core``, ``classic``, ``mongo``, ``replication``).
"""

from __future__ import annotations

import msgspec

from dethrone.clusters.targets.zk_ephemeral.messages import Record


class OfRound(msgspec.Struct, frozen=True, gc=False):
    """What belongs to one election: the ``round`` of the node that holds it."""

    round: int


class Election(OfRound, frozen=True, tag="election"):
    """A lower id holds an election."""


class Okay(OfRound, frozen=True, tag="ok"):
    """A higher id takes that election over."""


class Coordinator(OfRound, frozen=True, tag="coordinator"):
    """The sender leads since ``reign`` (wall-clock ns)."""

    reign: int


class Heartbeat(msgspec.Struct, frozen=True, gc=False, tag="heartbeat"):
    """What a node is. ``term``: 0, or with ``local_term`` its round; ``reign``: since when it leads, 0: it does not."""

    role: str
    coordinator: str | None
    optime: int
    reign: int
    term: int


class Fresh(OfRound, frozen=True, tag="fresh"):
    """``mongo``: would the receiver object to a candidate whose log ends at ``optime``?"""

    optime: int


class Freshness(OfRound, frozen=True, tag="freshness"):
    """The answer."""

    optime: int
    fresher: bool
    veto: str


class Elect(OfRound, frozen=True, tag="elect"):
    """``mongo``: the sender asks for a vote."""


class Ballot(OfRound, frozen=True, tag="ballot"):
    """The answer: 1, 0 (the lease names another), or a veto, which is far below 0."""

    vote: int


class Entries(msgspec.Struct, frozen=True, gc=False, tag="entries"):
    """Records after (``index``, ``optime``); the sender's log ends at ``end``. ``number`` orders those of one reign."""

    reign: int
    number: int
    index: int
    optime: int
    records: tuple[Record, ...]
    end: int
    commit: int


class Stored(msgspec.Struct, frozen=True, gc=False, tag="stored"):
    """The log agrees up to ``index`` and is durable so far; not ``fits``: it may agree from (``index``, ``optime``)."""

    reign: int
    index: int
    optime: int
    fits: bool


BullyMessage = Election | Okay | Coordinator | Heartbeat | Fresh | Freshness | Elect | Ballot | Entries | Stored
