"""The shell of a core: what an event is, before a protocol's own handlers see it.

    class RaftCore(KitCore[Node]):
        MESSAGES = {AppendEntries: on_append, …}
        TIMERS = {ELECTION: on_election_timer, …}

Guarantees: deterministic; a message and a timer cost a lookup and their handler; an unreadable file halts the node at
its start; after ``Halt`` nothing happens any more. A protocol gives ``load``, ``on_request`` and what it needs of the
other steps. Out of scope: every rule, and what a disk batch makes durable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from dethrone.clusters.targets.client_api import Failed, Ok
from dethrone.clusters.targets.kit.files import Unreadable
from dethrone.clusters.targets.kit.machine import Refusal
from dethrone.harness.core.clock import Clocks, Ns
from dethrone.harness.core.machine import (
    CoreEvent,
    CoreStatus,
    Disk,
    DiskDone,
    DiskImage,
    DiskOp,
    Effect,
    Fired,
    Glance,
    Halt,
    LogEnd,
    Message,
    Note,
    Reply,
    Request,
    Send,
    SendFailed,
    SetTimer,
)
from dethrone.harness.core.rng import Rng

FAR: Ns = 1 << 62
"""Later than any deadline."""


class KitNode:
    """What every handler works on. ``mono``, ``wall``, ``rng`` and ``out`` are those of the event being handled.

    ``term``, ``role``: those of its trace events; a protocol without terms says 0.
    """

    term: int = 0
    role: str = ""

    __slots__ = ("counters", "expected", "halted", "mono", "out", "overdue_at", "rng", "token", "unsettled", "wall")

    def __init__(self) -> None:
        self.mono: Ns = 0
        self.wall: Ns = 0
        self.rng = Rng(0)
        self.out: list[Effect] = []
        self.halted = False
        self.token = 0
        self.overdue_at: Ns = FAR
        """From when on ``KitCore.late`` comes before any event."""
        self.unsettled = True
        """Whether ``KitCore.settle`` follows on an event; a core that knows when it has nothing to do says so here."""
        self.counters: dict[str, int] = {}
        self.expected: dict[str, Any] = {}
        """Peer → what it says while the cluster is steady (``machine.Steady``), until anything else happens."""

    def send(self, to: str, body: Any) -> None:
        """Append a message to a peer."""
        self.out.append(Send(to, body))

    def reply(self, request: int, body: Any) -> None:
        """Append an answer to a client."""
        self.out.append(Reply(request, body))

    def note(self, name: str, data: Mapping[str, Any]) -> None:
        """Append a trace event with the present term and role."""
        self.out.append(Note(name, self.term, self.role, data))

    def answer(self, request: int, result: Any, index: int, term: int) -> None:
        """Append a client's answer: what the state machine made of its command, as entry ``index`` of the log."""
        if isinstance(result, Refusal):
            self.reply(request, Failed(result.why))
        else:
            self.note("write_acked", {"index": index, "term": term})
            self.reply(request, Ok(result, index, term))

    def count(self, name: str) -> None:
        """One more of these; shown in ``status``."""
        self.counters[name] = self.counters.get(name, 0) + 1

    def halt(self, reason: str) -> None:
        """Stop for good."""
        self.halted = True
        self.out.append(Halt(reason))

    def timer(self, name: str, after: Ns | None) -> None:
        """Have it ring after so long; None: not at all."""
        self.out.append(SetTimer(name, None if after is None else self.mono + after))

    def batch(self, ops: tuple[DiskOp, ...]) -> int:
        """Append a disk batch without a barrier; its token."""
        self.token += 1
        self.out.append(Disk(self.token, ops))
        return self.token


def status_of(main: Glance, **more: Any) -> CoreStatus:
    """The observer record with these main fields."""
    role, term, leader, voted_for, end, commit = main
    return CoreStatus(role, term, leader, voted_for, LogEnd(*end), commit, **more)


N = TypeVar("N", bound=KitNode)


class KitCore(Generic[N]):
    """One node as the shells use it; see ``dethrone.harness.core.machine.Core``. A broker is its own ``node``."""

    node: N

    MESSAGES: ClassVar[Mapping[type, Callable[[Any, str, Any], None]]] = {}
    TIMERS: ClassVar[Mapping[str, Callable[[Any], None]]] = {}
    REQUESTS: ClassVar[tuple[Callable[[Any, int, Any], None], ...]] = ()
    """The one handler of clients' requests, unless ``on_request`` is the core's own."""
    SHOWN: ClassVar[tuple[Callable[[Any], Glance], Callable[[Any], Mapping[str, Any]]]]
    """What a node says of itself: the main fields, and the other ones of the observer record but its counters."""
    ILLEGAL: ClassVar[tuple[type[Exception], ...]] = ()
    """Raised by a handler that would break the protocol's own rules: the node halts."""

    _heard: ClassVar[Mapping[type, Callable[[Any, str, Any], None]]] = {}
    _rung: ClassVar[Mapping[str, Callable[[Any], None]]] = {}
    """What goes straight to its handler: everything, where a core does nothing of its own in ``hears`` or ``rings``."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._heard = cls.MESSAGES if cls.hears is KitCore.hears else {}
        cls._rung = cls.TIMERS if cls.rings is KitCore.rings else {}

    # --- what a protocol gives ------------------------------------------------------------------------------------

    def load(self, disk: DiskImage) -> None:
        """Start from what the disk holds; `Unreadable` if this node must not."""
        raise NotImplementedError

    def on_request(self, request: int, body: Any) -> None:
        """Handle a client's request."""
        for handler in self.REQUESTS:
            handler(self.node, request, body)

    def violation(self, data: dict[str, Any]) -> None:
        """Trace what no node of this protocol does."""
        self.node.note("violation", data)

    def disk_done(self, done: DiskDone) -> None:
        """A batch succeeded or failed."""

    def send_failed(self, event: SendFailed) -> None:
        """Nothing, where every loss is handled by time alone."""

    def late(self, timer: str) -> None:
        """The moment ``node.overdue_at`` has passed; ``timer``: the one that rings, "" if another event came."""

    def hears(self, src: str, body: Any) -> None:
        """Hand a message to its handler."""
        handler = self.MESSAGES.get(type(body))
        if handler is None:
            self.violation({"what": "unknown message", "from": src})
        else:
            handler(self.node, src, body)

    def rings(self, timer: str) -> None:
        """Hand a timer to its handler."""
        on_timer = self.TIMERS.get(timer)
        if on_timer is not None:
            on_timer(self.node)

    def settle(self) -> None:
        """The last step of every event, if its node is ``unsettled``."""

    # --- what the shells call -------------------------------------------------------------------------------------

    def status(self, now: Clocks) -> CoreStatus:
        """The observer record as of ``now``, without side effects."""
        n = self.node
        n.mono, n.wall = now.mono, now.wall
        main, more = self.SHOWN
        return status_of(main(n), counters=dict(n.counters), **more(n))

    def glance(self) -> Glance:
        """Its main fields."""
        return self.SHOWN[0](self.node)

    def boot(self, disk: DiskImage, now: Clocks, rng: Rng, out: list[Effect]) -> None:
        """Start from what the disk holds; an unreadable file halts the node."""
        n = self.node
        n.mono, n.wall, n.rng, n.out = now.mono, now.wall, rng, out
        try:
            self.load(disk)
        except Unreadable as error:
            n.halt(f"unreadable: {error}")
        if n.unsettled and not n.halted:
            self.settle()

    def hear(self, src: str, body: Any, mono: Ns, wall: Ns, out: list[Effect]) -> None:
        """Handle a peer's message."""
        n = self.node
        if n.halted:
            return
        n.mono = mono
        n.wall = wall
        n.out = out
        n.expected.clear()
        if mono >= n.overdue_at:
            self.late("")
        try:
            handler = self._heard.get(type(body))
            if handler is None:
                self.hears(src, body)
            else:
                handler(n, src, body)
        except self.ILLEGAL as error:
            self._illegal(error)
            return
        if n.unsettled:
            self.settle()

    def ring(self, timer: str, mono: Ns, wall: Ns, out: list[Effect]) -> None:
        """Handle a timer that is due."""
        n = self.node
        if n.halted:
            return
        n.mono = mono
        n.wall = wall
        n.out = out
        n.expected.clear()
        if mono >= n.overdue_at:
            self.late(timer)
        try:
            on_timer = self._rung.get(timer)
            if on_timer is None:
                self.rings(timer)
            else:
                on_timer(n)
        except self.ILLEGAL as error:
            self._illegal(error)
            return
        if n.unsettled:
            self.settle()

    def handle(self, event: CoreEvent, now: Clocks, rng: Rng, out: list[Effect]) -> None:
        """Handle one event."""
        n = self.node
        n.rng = rng
        if type(event) is Message:
            self.hear(event.src, event.body, now.mono, now.wall, out)
            return
        if type(event) is Fired:
            self.ring(event.timer, now.mono, now.wall, out)
            return
        if n.halted:
            return
        n.mono, n.wall, n.out = now.mono, now.wall, out
        n.expected.clear()
        if n.mono >= n.overdue_at:
            self.late("")
        try:
            if isinstance(event, DiskDone):
                self.disk_done(event)
            elif isinstance(event, Request):
                self.on_request(event.id, event.body)
            elif isinstance(event, SendFailed):
                self.send_failed(event)
        except self.ILLEGAL as error:
            self._illegal(error)
            return
        if n.unsettled:
            self.settle()

    def _illegal(self, error: Exception) -> None:
        self.violation({"what": str(error)})
        self.node.halt(str(error))
