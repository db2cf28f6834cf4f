"""The coordination service: sessions, a tree of nodes with compare-and-set, one-shot watches. One process.

Guarantees: every change is on disk before any answer or notification leaves; calls of one session are carried out in
the order of their numbers, each once; a watch event is sent again with each ping until the client has seen it; a
session that is silent for its timeout on the server's clock ends, with its ephemeral nodes. After a restart each known
session gets a fresh full timeout, and all watches are gone (clients see the new start and set them again). Out of
scope: replication: a replicated service would need its own majority for every write.

Source: docs/sources.md, zk-ephemeral: ZooKeeper's programmer's guide, for sessions and watches.
"""

from __future__ import annotations

from typing import Any, ClassVar

from dethrone.clusters.targets.client_api import NotLeader, Refused
from dethrone.clusters.targets.kit.core import FAR, KitCore, KitNode, status_of
from dethrone.clusters.targets.kit.files import append_ops, cut_ops
from dethrone.clusters.targets.zk_ephemeral import messages as m
from dethrone.clusters.targets.zk_ephemeral.knobs import ZkKnobs
from dethrone.clusters.targets.zk_ephemeral.rules import Rules
from dethrone.clusters.targets.zk_ephemeral.tree import (
    TREE,
    Change,
    Ended,
    Opened,
    Removed,
    Started,
    Stored,
    Tree,
    encode,
    load,
)
from dethrone.harness.core.clock import MS, Clocks, Ns
from dethrone.harness.core.machine import Await, CoreStatus, DiskDone, DiskImage, Glance, SendFailed, SetTimer

ROLE = "COORDINATOR"
EXPIRY = "expiry"
_EVENTS_MAX = 1000
"""Unseen watch events of one session; a client that misses this many re-reads everything at its next connection."""


class _Live:
    """What the service remembers of a session while it runs."""

    def __init__(self, heard: Ns, xid: int) -> None:
        self.heard = heard
        self.xid = xid
        self.answer: m.Answer | None = None
        self.events: list[m.WatchFired] = []
        self.n = 0


class ServiceCore(KitNode, KitCore["ServiceCore"]):
    """See the module."""

    role = ROLE

    def __init__(self, node: str, knobs: ZkKnobs, rules: Rules) -> None:
        super().__init__()
        self.node = self
        self.me = node
        self.knobs = knobs
        self.rules = rules
        self.tree = Tree()
        self.live: dict[int, _Live] = {}
        self.watches: dict[str, dict[int, None]] = {}
        self.attempts: dict[str, list[str]] = {}
        """Ephemeral path → who tried to create it since it was last deleted."""
        self.changes: list[Change] = []
        self.end = 0
        self.shows_from = 0
        """Where among the effects of this event those begin that may show its changes."""
        self.due: Ns = FAR
        self.now: Ns = 0
        self.on_wall = knobs.service_clock == "wall"

    # --- core -----------------------------------------------------------------------------------------------------

    def load(self, disk: DiskImage) -> None:
        """Load the tree; every known session gets a fresh full timeout."""
        self.now = self.wall if self.on_wall else self.mono
        self.tree, self.end, torn = self.rules.load_tree(lambda: load(disk))
        if torn:
            self.out.append(Await(self.batch(cut_ops(TREE, self.end))))
        self.shows_from = len(self.out)
        for session, known in self.tree.sessions.items():
            self.live[session] = _Live(self.now, known.xid)
        self._change(Started(self.tree.starts + 1))
        self.note("start", {"start": self.tree.starts, "sessions": len(self.live), "nodes": len(self.tree.nodes)})
        self._arm()

    def _look(self) -> None:
        """What is overdue ends before anything that waited in a queue is handled."""
        self.now = self.wall if self.on_wall else self.mono
        if self.now >= self.due:
            self._expire()

    def hears(self, src: str, body: Any) -> None:
        """Handle a message."""
        self._look()
        super().hears(src, body)

    def rings(self, timer: str) -> None:
        """A timer is due: sessions that are overdue end."""
        del timer
        self._look()

    def disk_done(self, done: DiskDone) -> None:
        """A batch succeeded or failed."""
        self._look()
        if done.error is not None:
            self.note("persist_failed", {"file": TREE, "error": done.error})
            if self.rules.on_persist_error(TREE) == "halt":
                self.halt(f"{TREE}: {done.error}")

    def send_failed(self, event: SendFailed) -> None:
        """A session ends by time alone."""
        del event
        self._look()

    def status(self, now: Clocks) -> CoreStatus:
        """Owners, partition states, sessions with age, watches. It has no term, no leader and no followers."""
        clock = now.wall if self.on_wall else now.mono
        nodes = self.tree.nodes
        return status_of(
            self.glance(),
            counters=dict(self.counters),
            extra={
                "start": self.tree.starts,
                "nodes": {
                    path: {"data": node.data, "version": node.version, "owner": node.owner}
                    for path, node in nodes.items()
                },
                "sessions": {
                    str(session): {"client": known.client, "age_ms": (clock - self.live[session].heard) // MS}
                    for session, known in self.tree.sessions.items()
                },
                "watches": sum(len(watchers) for watchers in self.watches.values()),
                "attempts": {path: list(names) for path, names in self.attempts.items()},
            },
        )

    def glance(self) -> Glance:
        """Nothing of this ever changes."""
        return ROLE, 0, None, None, (0, 0), 0

    # --- messages -------------------------------------------------------------------------------------------------

    def _on_connect(self, src: str, body: m.Connect) -> None:
        for session, known in self.tree.sessions.items():
            if known.client == src and known.nonce == body.nonce:
                self.live[session].heard = self.now
                break
        else:
            session = self.tree.session_last + 1
            self._change(Opened(session, src, body.timeout_ns, body.nonce))
            self.live[session] = _Live(self.now, 0)
            self.note("session_open", {"session": session, "client": src, "timeout_ms": body.timeout_ns // MS})
            self._arm()
        self.send(src, m.Connected(session, body.nonce, self.tree.starts))

    def _on_ping(self, src: str, body: m.Ping) -> None:
        live = self.live.get(body.session)
        if live is None:
            self.send(src, m.SessionExpired(body.session))
            return
        live.heard = self.now
        self.send(src, m.Pong(body.session, self.tree.starts))
        if live.events:
            self._seen(live, body)
            for event in live.events:
                self.send(src, event)

    def _on_call(self, src: str, body: m.Call) -> None:
        live = self.live.get(body.session)
        if live is None:
            self.send(src, m.SessionExpired(body.session))
            return
        live.heard = self.now
        self._seen(live, body)
        if body.xid < live.xid:
            return
        if body.xid == live.xid and live.answer is not None:
            self.send(src, live.answer)
            return
        live.xid = body.xid
        live.answer = self._answer(src, body)
        self.send(src, live.answer)

    def _answer(self, src: str, call: m.Call) -> m.Answer:
        """Carry out one call. Events of watches that it fires are sent before its answer."""
        op = call.op
        if isinstance(op, m.CloseSession):
            self._end(call.session, "close")
            return self._told(call, m.OK)
        node = self.tree.nodes.get(op.path)
        if isinstance(op, m.Exists | m.GetNode):
            if op.watch and (node is not None or isinstance(op, m.Exists)):
                self.watches.setdefault(op.path, {})[call.session] = None
            return self._told(call, m.OK if node is not None else m.NO_NODE)
        if isinstance(op, m.Create):
            if op.ephemeral:
                self.attempts.setdefault(op.path, []).append(src)
            if not self.rules.may_create(exists=node is not None, path=op.path):
                self.count("create_refused")
                self.note("create_refused", {"path": op.path, "by": src, "owner": self._client(node)})
                return self._told(call, m.NODE_EXISTS)
            owner = call.session if op.ephemeral else 0
            self._change(Stored(op.path, op.data, 0, owner, call.session, call.xid))
            if op.ephemeral:
                self.count("create_ok")
                self.note("ephemeral_created", {"path": op.path, "owner": src, "session": call.session})
            self._fire(op.path, m.NODE_CREATED)
            return self._told(call, m.OK)
        if node is None:
            return m.Answer(call.session, call.xid, m.NO_NODE, self.tree.starts)
        if not self.rules.version_matches(op.version, node.version):
            return self._told(call, m.BAD_VERSION)
        if isinstance(op, m.SetNode):
            self._change(Stored(op.path, op.data, node.version + 1, node.owner, call.session, call.xid))
            self._fire(op.path, m.NODE_DATA_CHANGED)
        else:
            self._change(Removed(op.path, call.session, call.xid))
            self._deleted(op.path, "delete", ephemeral=node.owner != 0)
        return self._told(call, m.OK)

    def _told(self, call: m.Call, code: str) -> m.Answer:
        path = getattr(call.op, "path", "")
        node = self.tree.nodes.get(path)
        if node is None:
            return m.Answer(call.session, call.xid, code, self.tree.starts)
        return m.Answer(call.session, call.xid, code, self.tree.starts, node.data, node.version, node.owner)

    MESSAGES: ClassVar = {m.Ping: _on_ping, m.Call: _on_call, m.Connect: _on_connect}

    def on_request(self, request: int, body: Any) -> None:
        """Clients belong to brokers; the owner of the leader node is the best hint there is."""
        del body
        self._look()
        node = self.tree.nodes.get(m.LEADER_PATH)
        owner: Any = node.data.get("id") if node is not None and isinstance(node.data, dict) else None
        self.reply(request, NotLeader(owner) if isinstance(owner, str) else Refused("the coordination service"))

    # --- sessions and watches -------------------------------------------------------------------------------------

    def _expire(self) -> None:
        for session, known in list(self.tree.sessions.items()):
            silence = self.now - self.live[session].heard
            if silence >= known.timeout_ns:
                told = {"session": session, "client": known.client, "silence_ms": silence // MS}
                self.note("session_expired", told)
                self.count("sessions_expired")
                self._end(session, "expiry")
        self._arm()

    def _end(self, session: int, why: str) -> None:
        gone = self.tree.owned(session)
        self._change(Ended(session, why))
        self.live.pop(session, None)
        for watchers in self.watches.values():
            watchers.pop(session, None)
        if why == "close":
            self.note("session_closed", {"session": session})
        for path in gone:
            self._deleted(path, why, ephemeral=True)

    def _deleted(self, path: str, why: str, *, ephemeral: bool) -> None:
        if ephemeral:
            self.note("ephemeral_deleted", {"path": path, "why": why, "attempts": self.attempts.pop(path, [])})
        self._fire(path, m.NODE_DELETED)

    def _fire(self, path: str, kind: str) -> None:
        watchers = self.watches.pop(path, None)
        if not watchers:
            return
        for session in watchers:
            live, known = self.live.get(session), self.tree.sessions.get(session)
            if live is None or known is None:
                continue
            live.n += 1
            event = m.WatchFired(session, live.n, path, kind, self.tree.starts)
            if len(live.events) < _EVENTS_MAX:
                live.events.append(event)
            self.count("watches_fired")
            self.note("watch_fired", {"path": path, "kind": kind, "client": known.client})
            self.send(known.client, event)

    def _seen(self, live: _Live, body: m.Ping | m.Call) -> None:
        if live.events and body.start == self.tree.starts and live.events[0].n <= body.seen:
            live.events = [event for event in live.events if event.n > body.seen]

    def _client(self, node: Any) -> str | None:
        known = self.tree.sessions.get(node.owner) if node is not None else None
        return known.client if known is not None else None

    def _arm(self) -> None:
        """The earliest moment at which a session can expire; pings move it back only when it is reached."""
        sessions = self.tree.sessions
        due = min((self.live[session].heard + known.timeout_ns for session, known in sessions.items()), default=FAR)
        if due != self.due:
            self.due = due
            at = None if due == FAR else due
            self.out.append(SetTimer(EXPIRY, at, "wall" if self.on_wall else "mono"))

    # --- effects --------------------------------------------------------------------------------------------------

    def _change(self, change: Change) -> None:
        self.tree.apply(change)
        if self.rules.stores(change):
            self.changes.append(change)

    def settle(self) -> None:
        """One batch for all changes of this event, then everything that shows them."""
        at, self.shows_from = self.shows_from, 0
        if not self.changes:
            return
        data = encode(self.changes)
        self.changes.clear()
        ops = append_ops(TREE, data, self.rules.appends_at(self.end), sync=self.rules.syncs(TREE))
        self.end += len(data)
        token = self.batch(ops)
        if self.rules.answers_after_persist:
            self.out[at:at] = (self.out.pop(), Await(token))
