"""The contract of a protocol core: a state machine without input, output, clocks or randomness of its own.

One core runs in a real process (`dethrone.clusters.node`) and in virtual time. Its effects are ORDERED, and a crash may
fall after every prefix of them. Meaning of each effect for the shell that carries it out:

* ``Send``, ``Reply``, ``Note`` happen in the order in which they were appended.
* ``Disk`` starts a batch; batches are carried out one after another, in order; ``DiskDone(token, error)`` comes back
  as an event. A batch without ``Fsync`` is not durable.
* ``Await(token)`` holds back every LATER ``Send``, ``Reply`` and ``Note`` of this node, in order, until that batch is
  done, while the core continues to handle events. If the batch fails, the effects held behind it are dropped.
* ``SetTimer`` replaces the timer of that name; ``at=None`` cancels it. ``Fired`` comes at or after ``at``.
* ``Halt`` ends the node process on purpose (an unusable disk, an unreadable file): excused, never a violation.

A core never mutates a body that it has sent, and never keeps one that it was handed.
Source: design of the project ("core effects are ordered, with disk barriers").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from dethrone.harness.core.clock import Clocks, Ns
from dethrone.harness.core.rng import Rng

# --- events -----------------------------------------------------------------------------------------------------


class Message(msgspec.Struct, frozen=True, gc=False):
    """A peer's message, decoded. ``src`` is the sender's node name as the transport knows it."""

    src: str
    body: Any
    id: int | None = None
    """On request/response transports (HTTP): a request that expects ``Send(..., answers=id)``; None otherwise."""


class Fired(msgspec.Struct, frozen=True, gc=False):
    """The timer of this name is due."""

    timer: str


class Request(msgspec.Struct, frozen=True, gc=False):
    """A client's request, decoded. ``id`` is unique within the process and is echoed by ``Reply``."""

    id: int
    body: Any


class DiskDone(msgspec.Struct, frozen=True, gc=False):
    """The batch ``token`` was carried out; ``error`` says why it was not (None: it was)."""

    token: int
    error: str | None = None


class SendFailed(msgspec.Struct, frozen=True, gc=False):
    """A message was certainly not answered (transport error or answer-less time-out). Only for transports that know.

    A one-way transport knows it only of messages that never left (given up before a connection was there).
    """

    to: str
    body: Any
    error: str


CoreEvent = Message | Fired | Request | DiskDone | SendFailed


# --- disk operations --------------------------------------------------------------------------------------------


class Write(msgspec.Struct, frozen=True, gc=False):
    """Write ``data`` at ``offset`` of ``path`` (created if absent). ``offset=None``: append.

    ``truncate``: cut the file right behind the written data.
    """

    path: str
    data: bytes
    offset: int | None = None
    truncate: bool = False


class Fsync(msgspec.Struct, frozen=True, gc=False):
    """Make the file's content, and its directory entry, survive a power loss."""

    path: str


class Rename(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Atomically replace ``dst`` by ``src``. ``sync``: its directory is synced, so that it survives a power loss."""

    src: str
    dst: str
    sync: bool = True


class Unlink(msgspec.Struct, frozen=True, gc=False):
    """Remove ``path``; absent is fine."""

    path: str


DiskOp = Write | Fsync | Rename | Unlink


# --- effects ----------------------------------------------------------------------------------------------------


class Send(msgspec.Struct, frozen=True, gc=False):
    """Send ``body`` to the peer ``to``. It may be lost, late, doubled or overtaken.

    ``answers``: on request/response transports (HTTP) the ``Message.id`` of the request that this answers; None for
    one-way transports and for requests.
    """

    to: str
    body: Any
    answers: int | None = None


class Reply(msgspec.Struct, frozen=True, gc=False):
    """Answer the client's request ``id``. Exactly one a request; none if the process dies first."""

    id: int
    body: Any


class Disk(msgspec.Struct, frozen=True, gc=False):
    """Carry out ``ops`` in order as one batch; ``DiskDone(token)`` follows. Paths are relative to the node's data."""

    token: int
    ops: tuple[DiskOp, ...]


class Await(msgspec.Struct, frozen=True, gc=False):
    """Hold back later sends, replies and notes until the batch ``token`` is done."""

    token: int


class SetTimer(msgspec.Struct, frozen=True, gc=False):
    """(Re)arm the timer ``name`` for the moment ``at`` (ns of that clock); ``at=None`` cancels it."""

    name: str
    at: Ns | None
    clock: Literal["mono", "wall"] = "mono"


class Note(msgspec.Struct, frozen=True, gc=False):
    """A trace event of the protocol's own vocabulary (its specification's "events to log").

    ``term`` and ``role`` are the node's at this moment; ``data`` holds JSON values only.
    """

    name: str
    term: int
    role: str
    data: Mapping[str, Any] = {}


class Halt(msgspec.Struct, frozen=True, gc=False):
    """Stop this node process on purpose and say why."""

    reason: str


Effect = Send | Reply | Disk | Await | SetTimer | Note | Halt


class LogEnd(msgspec.Struct, frozen=True, gc=False):
    """The last entry of a node's log; (0, 0) when empty. Compared as (term, index)."""

    term: int = 0
    index: int = 0


class CoreStatus(msgspec.Struct, frozen=True, gc=False):
    """What a core says of itself, atomically: the core's share of the common observer record.

    ``voted_for`` and ``leader`` are None when there is none. ``extra`` is the protocol's own, JSON values only.
    ``timers`` maps a timer's name to the ms left.
    """

    role: str
    term: int
    leader: str | None
    voted_for: str | None
    log_end: LogEnd
    commit: int
    group: str = ""
    hw: int | None = None
    timers: Mapping[str, int] = {}
    counters: Mapping[str, int] = {}
    extra: Mapping[str, Any] = {}


Unreadable = Literal["unreadable"]
DiskImage = Mapping[str, "bytes | Unreadable"]
"""What a node finds at its start: path → content, or the word ``unreadable``."""


class Core(Protocol):
    """One node of one protocol. Deterministic: the same calls give the same effects."""

    def boot(self, disk: DiskImage, now: Clocks, rng: Rng, out: list[Effect]) -> None:
        """Start from what the disk holds; append effects to ``out``."""

    def handle(self, event: CoreEvent, now: Clocks, rng: Rng, out: list[Effect]) -> None:
        """Handle one event; append effects to ``out``."""

    def status(self, now: Clocks) -> CoreStatus:
        """What the node would answer to ``status`` now. No side effect, in any role."""


Glance = tuple[str, int, "str | None", "str | None", tuple[int, int], int]
"""role, term, leader, voted_for, log end as (term, index), commit: as ``CoreStatus`` has them."""


@runtime_checkable
class Glancing(Protocol):
    """A core that can report the main fields of its status at less cost: an observer polls them often."""

    def glance(self) -> Glance:
        """The same as ``status`` says of these."""


@runtime_checkable
class Direct(Protocol):
    """A core that takes messages and timers without an event and clocks made for each: they are most of a run.

    Draws come from the generator that ``boot`` was given.
    """

    def hear(self, src: str, body: Any, mono: Ns, wall: Ns, out: list[Effect]) -> None:
        """The same as ``handle`` does of ``Message(src, body)`` and ``Clocks(mono, wall)``."""

    def ring(self, timer: str, mono: Ns, wall: Ns, out: list[Effect]) -> None:
        """The same as ``handle`` does of ``Fired(timer)`` and these clocks."""


NOTHING = "nothing"
"""Of `Steady.answer`: the message was handled, and nothing is sent back."""

Renewed = tuple[Ns, Sequence[tuple[str, Any]]]
"""When the timer that rang is due again, later on the monotonic clock; and then messages leave, each to its peer."""


@runtime_checkable
class Steady(Protocol):
    """A core that handles what a steady cluster does over and over without an effect made for it: most of a run.

    Both do all that ``hear`` or ``ring`` would do, if that is no more than what they return, and leave what the core
    says of itself (``Glance``) as it is; None: they did nothing.
    """

    def answer(self, src: str, body: Any, mono: Ns, wall: Ns) -> Any:
        """Of a peer's message of a type that the target's witness does not hear: what goes back, or `NOTHING`."""

    def renew(self, timer: str, mono: Ns, wall: Ns) -> Renewed | None:
        """Of a timer that is due: it is set again."""


SHUTDOWN = "shutdown"


@runtime_checkable
class Graceful(Protocol):
    """A core that learns of a graceful stop (SIGTERM) from ``Fired(SHUTDOWN)``, a timer that it never sets itself.

    What it sends then leaves the node if disk and network take it in time; then the process ends. A frozen or killed
    process sends nothing.
    """

    graceful: bool


class Witnessed(msgspec.Struct, frozen=True, gc=False):
    """What the shell saw this node do, regardless of what its core says. ``name`` is one of these.

    ``vote`` (term, candidate) · ``elected`` (term, voters) · ``acked`` (term, index: acknowledged to a leader that it
    stores up to here) · ``log_append`` (from, entries [[index, term, hash] …]) · ``log_truncate`` (from) · ``log_kept``
    (count, hash: a new incarnation finds its first entries as they were shown; see ``log_marks``) · ``commit``
    (index, as it was sent to others) · ``persisted`` (term, voted_for: what is durably stored) · ``found`` (term,
    voted_for, file: what a new incarnation finds stored; file is ``read``, ``absent`` or ``unreadable``, the latter two
    with term 0; no ``voted_for`` where what is stored under that name is not only a vote) · ``answered`` (term: the
    first answer of that term, if none of the above reports it) · ``config`` (term, index, voters, learners: an entry of
    the stored log that names the members from there on).
    """

    name: str
    term: int
    data: Mapping[str, Any] = {}


class Witness(Protocol):
    """Reads votes, elections, acknowledgements and log ends off the wire and the disk, out of a variant's reach.

    Each call returns what became true by it. ``sent`` is called just BEFORE the bytes leave, ``synced`` after a batch
    was carried out.
    """

    def booted(self, disk: DiskImage) -> list[Witnessed]:
        """A new incarnation starts from this disk."""

    def sent(self, to: str, body: Any) -> list[Witnessed]:
        """This message is about to leave."""

    def received(self, src: str, body: Any) -> list[Witnessed]:
        """This message is about to be handled."""

    def synced(self, ops: tuple[DiskOp, ...]) -> list[Witnessed]:
        """This batch was carried out."""


class Target(Protocol):
    """A protocol of ours as the shells (real process and simulator) meet it. One object a protocol, no state."""

    name: str
    transport: Literal["tcp", "http"]
    message_type: Any
    """The (tagged union) type of peer messages; JSON on the wire through msgspec."""
    request_type: Any
    """The (tagged union) type of client requests."""
    reply_type: Any
    """The (tagged union) type of client replies."""

    def knobs(self, settings: Mapping[str, str], *, profile: str | None = None) -> Any:
        """Typed knobs from words. Raises ConfigError for an unknown knob (nearest name), value or combination."""

    def core(self, *, node: str, members: tuple[str, ...], knobs: Any, variant: str | None) -> Core:
        """A fresh core. ``variant`` names a planted bug or a harmless variant; None is the honest build."""

    def witness(self, *, node: str, members: tuple[str, ...]) -> Witness:
        """A fresh witness for that node."""

    def variants(self) -> Mapping[str, str]:
        """Variant name → one sentence that says what it does wrong."""
