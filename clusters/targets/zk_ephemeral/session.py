"""A broker's session with the coordination service: pings, calls one at a time, watch events, what it knows of its end.

Guarantees: calls are answered in order, each once; a lost one is sent again under its number; a watch event is handled
once. The client learns that its session expired only when it reaches the service again; until then, after two thirds of
the timeout without contact, it only knows itself disconnected. Out of scope: the purpose of the calls.

Source: docs/sources.md, zk-ephemeral: ZooKeeper's programmer's guide, for sessions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from dethrone.clusters.targets.kit.core import FAR, KitNode
from dethrone.clusters.targets.zk_ephemeral import messages as m
from dethrone.clusters.targets.zk_ephemeral.rules import Rules
from dethrone.harness.core.clock import Ns

PING, CONTACT, CALL = "ping", "contact", "call"
CONNECTING, CONNECTED, DISCONNECTED, EXPIRED, CLOSED = "CONNECTING", "CONNECTED", "DISCONNECTED", "EXPIRED", "CLOSED"
_NEVER: Ns = -(1 << 62)

Then = Callable[[m.Answer], None]


class Told(NamedTuple):
    """Who hears what of a session: (id) of its end, (path, kind) of a watched change."""

    opened: Callable[[], None]
    disconnected: Callable[[], None]
    reconnected: Callable[[], None]
    expired: Callable[[int], None]
    watch: Callable[[str, str], None]
    watches_lost: Callable[[], None]


class Session:
    """See the module. ``contact``: when the service was last heard."""

    def __init__(self, owner: KitNode, service: str, rules: Rules, timeout: Ns, told: Told) -> None:
        self.owner, self.told = owner, told
        self.service = service
        self.rules = rules
        self.timeout = timeout
        self.id: int | None = None
        self.state = CONNECTING
        self.nonce = 0
        self.contact: Ns = _NEVER
        self.start = 0
        self.seen = 0
        self.waiting_events: dict[int, m.WatchFired] = {}
        self.xid = 0
        self.queue: deque[tuple[m.Operation, Then]] = deque()
        self.current: m.Call | None = None
        self.then: Then | None = None

    # --- doing ----------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Ask for a new session."""
        self.nonce = self.owner.rng.below(1 << 52)
        self.id = None
        self.start = self.seen = self.xid = 0
        self.waiting_events.clear()
        self._send(m.Connect(self.timeout, self.nonce))
        self._arm_ping()

    def call(self, op: m.Operation, then: Then) -> None:
        """Carry out ``op`` after all earlier calls, then call ``then``. Dropped when the session ends."""
        if self.id is None:
            return
        self.queue.append((op, then))
        self._next()

    def close(self) -> None:
        """Give the session up cleanly: one message, nothing awaited."""
        if self.id is not None:
            self._send(m.Call(self.id, self.xid + 1, m.CloseSession(), self.seen, self.start))
        self._forget(CLOSED)

    # --- hearing --------------------------------------------------------------------------------------------------

    def on_connected(self, body: m.Connected) -> None:
        """The session that was asked for."""
        if self.id is not None or body.nonce != self.nonce or self.state == CLOSED:
            return
        self.id, self.start, self.state = body.session, body.start, CONNECTED
        self._heard()
        self.told.opened()

    def on_pong(self, body: m.Pong) -> None:
        """The session lives."""
        if body.session == self.id:
            self._heard(body.start)

    def on_answer(self, body: m.Answer) -> None:
        """The answer to the call under way."""
        if body.session != self.id:
            return
        self._heard(body.start)
        call, then = self.current, self.then
        if call is None or then is None or body.xid != call.xid:
            return
        self.current = self.then = None
        self.owner.timer(CALL, None)
        then(body)
        self._next()

    def on_watch_fired(self, body: m.WatchFired) -> None:
        """A watch event; those that come early wait for their turn."""
        if body.session != self.id:
            return
        self._heard(body.start)
        if body.start != self.start or body.n <= self.seen:
            return
        self.waiting_events[body.n] = body
        while (event := self.waiting_events.pop(self.seen + 1, None)) is not None:
            self.seen += 1
            self.told.watch(event.path, event.kind)

    def on_expired(self, body: m.SessionExpired) -> None:
        """The service no longer knows this session."""
        session = self.id
        if session is None or body.session != session:
            return
        self._forget(EXPIRED)
        self.told.expired(session)
        self.open()

    # --- time -----------------------------------------------------------------------------------------------------

    def on_ping_timer(self) -> None:
        """Report that this client lives, or ask again for a session."""
        if self.state == CLOSED:
            return
        if self.id is None:
            self._send(m.Connect(self.timeout, self.nonce))
        else:
            self._send(m.Ping(self.id, self.seen, self.start))
        self._arm_ping()

    def on_contact_timer(self) -> None:
        """Nothing was heard for too long, or the timer was early."""
        if self.owner.mono >= self.owner.overdue_at:
            self.overdue()
        elif self.owner.overdue_at < FAR:
            self.owner.timer(CONTACT, self.owner.overdue_at - self.owner.mono)

    def overdue(self) -> None:
        """Two thirds of the timeout went by in silence."""
        self.owner.overdue_at = FAR
        if self.state == CONNECTED:
            self.state = DISCONNECTED
            self.told.disconnected()

    def on_call_timer(self) -> None:
        """No answer yet: the same call again."""
        if self.current is not None:
            self._send(self.current)
            self._arm_call()

    # --- inside ---------------------------------------------------------------------------------------------------

    def _heard(self, start: int = 0) -> None:
        now = self.owner.mono
        self.contact = now
        if self.owner.overdue_at == FAR:
            self.owner.timer(CONTACT, self.rules.disconnect_after())
        self.owner.overdue_at = now + self.rules.disconnect_after()
        if self.state == DISCONNECTED:
            self.state = CONNECTED
            self.told.reconnected()
        if start > self.start:
            self.start = start
            self.seen = 0  # the service restarts the numbers of events, and the watches are gone
            self.waiting_events.clear()
            self.told.watches_lost()

    def _next(self) -> None:
        if self.current is not None or not self.queue:
            return
        op, then = self.queue.popleft()
        self.xid += 1
        self.current, self.then = m.Call(self.id or 0, self.xid, op, self.seen, self.start), then
        self._send(self.current)
        self._arm_call()

    def _forget(self, state: str) -> None:
        self.state = state
        self.id = None
        self.queue.clear()
        self.current = self.then = None
        self.owner.overdue_at = FAR
        self.owner.timer(CALL, None)

    def _arm_ping(self) -> None:
        self.owner.timer(PING, self.rules.ping_interval())

    def _arm_call(self) -> None:
        self.owner.timer(CALL, self.rules.knobs.call_retry)

    def _send(self, body: Any) -> None:
        self.owner.send(self.service, body)
